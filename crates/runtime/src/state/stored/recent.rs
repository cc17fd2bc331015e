//! Changed keys that are logged in memory, in the order in which the store would have them.
//!
//! Keys are added as they come and brought into order when they are first read, one key group at a time: an epoch is read only
//! after its end, when nothing is added to it any more.

use super::change_log::{logged, split_logged};
use crate::state::versioned::Epoch;
use std::collections::BTreeMap;
use std::ops::Range;

/// What one key takes besides its bytes: its place.
const BESIDE: usize = size_of::<Range<u32>>();

/// Changed keys of one key group, in one epoch.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    places: Vec<Range<u32>>,
    in_order: bool,
    /// Memory that was claimed for it.
    claimed: usize,
}

impl Keys {
    fn add(&mut self, entry: &[u8]) -> bool {
        let start = self.bytes.len();
        let Ok(end) = u32::try_from(start + entry.len()) else { return false };
        self.bytes.extend_from_slice(entry);
        self.places.push(start as u32..end);
        (self.in_order, self.claimed) = (false, self.claimed + Recent::size(entry));
        true
    }

    /// Those from `from` on, each once.
    fn from(&mut self, from: &[u8]) -> impl Iterator<Item = &[u8]> {
        let Self { bytes, places, in_order, .. } = self;
        let entry =
            |place: &Range<u32>| bytes.get(place.start as usize..place.end as usize).expect("a place that was filled");
        if !std::mem::replace(in_order, true) {
            places.sort_unstable_by(|one, other| entry(one).cmp(entry(other)));
            places.dedup_by(|one, other| entry(one) == entry(other));
        }
        let first = places.partition_point(|place| entry(place) < from);
        places.get(first..).unwrap_or_default().iter().map(entry)
    }
}

/// By area, epoch and key group.
type Place = (u8, Epoch, u16);

#[derive(Default)]
pub(super) struct Recent {
    keys: BTreeMap<Place, Keys>,
}

impl Recent {
    /// What a key takes of memory. What grows by doubling is three quarters full.
    pub(super) fn size(entry: &[u8]) -> usize {
        (entry.len() + BESIDE) * 4 / 3
    }

    /// Adds an entry; false if there are 4 GiB of its key group.
    pub(super) fn add(&mut self, area: u8, epoch: Epoch, entry: &[u8]) -> bool {
        self.keys.entry((area, epoch, group(entry))).or_default().add(entry)
    }

    /// The first `most` logged keys from `from` on and below `until`, which are of one area.
    pub(super) fn read(&mut self, from: &[u8], until: &[u8], most: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let (Some((area, (epoch, entry))), Some((end, _))) =
            (from.first().zip(split_logged(from)), split_logged(until))
        else {
            return found;
        };
        for ((_, in_epoch, _), keys) in self.keys.range_mut((*area, epoch, group(entry))..(*area, end, 0)) {
            let entry = if *in_epoch == epoch { entry } else { &[] };
            let left = most - found.len();
            found.extend(keys.from(entry).take(left).map(|entry| logged(*area, *in_epoch, entry)));
            if found.len() == most {
                break;
            }
        }
        found
    }

    /// Forgets epochs up to and with this one; how many bytes that frees.
    pub(super) fn forget_until(&mut self, epoch: Epoch) -> usize {
        let mut free = 0;
        self.keys.retain(|(_, of, _), keys| {
            let gone = *of <= epoch;
            free += if gone { keys.claimed } else { 0 };
            !gone
        });
        free
    }
}

fn group(entry: &[u8]) -> u16 {
    entry.first_chunk().map_or(0, |group| u16::from_be_bytes(*group))
}
