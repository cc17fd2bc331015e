//! What differs between two checkpoints in one state, entry by entry.
//!
//! Both are walked side by side in canonical order, a few key groups at a time. That order is the same in both only with one
//! key seed and number of key groups: those of one line of incarnations, also over savepoints. Of a broadcast map each worker has a
//! copy under a key of its own: they are alike, so that of the first worker is compared, whatever its key is.

use super::{Below, Checkpoint, Entry, Merged, StateInfo, windows};
use crate::error::{Error, Result};
use crate::key::group_range;
use crate::segment::{StateKind, StateName};
use serde::Serialize;
use std::cmp::Ordering;
use std::ops::Range;

/// An entry that is not the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference<'a> {
    /// Only the second has it.
    Added(Entry<'a>),
    /// Only the first has it.
    Removed(Entry<'a>),
    /// Both have it, with other values; this is the second.
    Changed(Entry<'a>),
}

/// How much of a state differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StateChanges {
    /// Entries of the first.
    pub before: u64,
    /// Entries of the second.
    pub after: u64,
    /// Entries that only the second has.
    pub added: u64,
    /// Entries that only the first has.
    pub removed: u64,
    /// Entries with another value.
    pub changed: u64,
    /// Bytes of what was added and changed, as they are in the second, and of the keys that were removed; before compression.
    pub bytes: u64,
}

impl StateChanges {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.added == 0 && self.removed == 0 && self.changed == 0
    }
}

/// Walks a state of two checkpoints; it may be missing in one of them. `progress` is told the bytes that were read.
///
/// # Errors
/// `Refused` if the two cannot be compared, `Failed` if one cannot be read; and what `look` says.
pub async fn changes(
    before: (&Checkpoint, Option<&StateInfo>),
    after: (&Checkpoint, Option<&StateInfo>),
    progress: &mut dyn FnMut(u64),
    look: &mut dyn FnMut(Difference<'_>) -> Result<()>,
) -> Result<StateChanges> {
    let (first, second) = (before.0.manifest(), after.0.manifest());
    if first.key_seed != second.key_seed || first.key_groups != second.key_groups {
        let what = format!(
            "checkpoint {} and checkpoint {} divide their keys in different ways: they are of lives that began apart",
            first.id, second.id
        );
        return Err(Error::refused(what).hint("`flott state export` both, sort, and compare the texts"));
    }
    let copies = [before.1, after.1].into_iter().flatten().all(|info| info.shape.kind == StateKind::Broadcast);
    let place = if copies { place_in_copy } else { place };
    let mut counted = StateChanges::default();
    for groups in pieces(before, after, copies)? {
        let mut sides = [None, None];
        for ((side, (checkpoint, info)), groups) in sides.iter_mut().zip([before, after]).zip(groups) {
            if let Some(info) = info {
                *side = Some(checkpoint.merged(info, groups, progress).await?);
            }
        }
        let [one, other] = &sides;
        compare((one.as_ref(), other.as_ref()), place, &mut counted, look)?;
    }
    Ok(counted)
}

/// The key groups to look at together, in both checkpoints: of copies those of the first worker, which may be others in each.
fn pieces(
    before: (&Checkpoint, Option<&StateInfo>),
    after: (&Checkpoint, Option<&StateInfo>),
    copies: bool,
) -> Result<Vec<[Range<u16>; 2]>> {
    let key_groups = before.0.manifest().key_groups;
    if copies {
        return Ok(vec![[before.0, after.0].map(|of| group_range(key_groups, of.manifest().workers.into(), 0))]);
    }
    let (one, other) = (weights(before)?, weights(after)?);
    let total: Vec<u64> = one.iter().zip(&other).map(|(one, other)| one.saturating_add(*other)).collect();
    Ok(windows(&total, 0..key_groups).into_iter().map(|groups| [groups.clone(), groups]).collect())
}

fn weights((checkpoint, info): (&Checkpoint, Option<&StateInfo>)) -> Result<Vec<u64>> {
    let none = StateName::new("", "");
    checkpoint.weights(info.map_or(&none, |info| &info.name))
}

/// Where an entry stands in the order in which both are walked.
type Place<'a> = (u16, &'a [u8], Below<'a>);

fn compare(
    (one, other): (Option<&Merged>, Option<&Merged>),
    place: for<'a> fn(&Entry<'a>) -> Place<'a>,
    counted: &mut StateChanges,
    look: &mut dyn FnMut(Difference<'_>) -> Result<()>,
) -> Result<()> {
    let mut before = one.into_iter().flat_map(Merged::entries).peekable();
    let mut after = other.into_iter().flat_map(Merged::entries).peekable();
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => place(one).cmp(&place(other)),
        };
        let old = if order == Ordering::Greater { None } else { before.next() };
        let new = if order == Ordering::Less { None } else { after.next() };
        counted.before += u64::from(old.is_some());
        counted.after += u64::from(new.is_some());
        let difference = match (old, new) {
            (Some(old), None) => {
                counted.removed += 1;
                counted.bytes += old.key.len() as u64;
                Difference::Removed(old)
            }
            (None, Some(new)) => {
                counted.added += 1;
                counted.bytes += (new.key.len() + new.value.len()) as u64;
                Difference::Added(new)
            }
            (Some(old), Some(new)) if old.value != new.value => {
                counted.changed += 1;
                counted.bytes += (new.key.len() + new.value.len()) as u64;
                Difference::Changed(new)
            }
            _ => continue,
        };
        look(difference)?;
    }
}

fn place<'a>(entry: &Entry<'a>) -> Place<'a> {
    (entry.group, entry.key, entry.below)
}

/// The key of a copy says only whose it is.
fn place_in_copy<'a>(entry: &Entry<'a>) -> Place<'a> {
    (0, &[], entry.below)
}
