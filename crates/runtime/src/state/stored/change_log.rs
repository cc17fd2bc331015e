//! Which keys were written and removed in which epoch: what makes an increment cost as much as its changes. It lies in memory
//! while there is room (`recent.rs`), else in the store beside the entries; here is how it is encoded, how much there is of it,
//! and how far back it reaches.

use super::cache::Cache;
use super::recent::Recent;
use crate::state::store::{Change, Space, StoreError};
use crate::state::versioned::{Epoch, RESTORED};
use std::collections::VecDeque;

/// The areas of a space: the first byte of each key.
pub(super) const ENTRY: u8 = 1;
pub(super) const WRITTEN: u8 = 2;
pub(super) const REMOVED: u8 = 3;
/// What a kind of state keeps besides: elements of lists, the order of timers.
pub(super) const EXTRA: u8 = 4;

/// Writes besides as many as there are entries that may be logged before a full snapshot is the cheaper one.
const SLACK: usize = 1024;

/// Removals and first writes of one epoch.
#[derive(Clone, Copy, Default)]
struct Count {
    epoch: Epoch,
    written: usize,
    removed: usize,
}

pub(super) struct ChangeLog {
    open: Count,
    sealed: VecDeque<Count>,
    /// Every change of a later epoch is logged: the oldest base that can be served.
    oldest_base: Epoch,
    /// Nothing of this epoch and before is logged any more.
    trimmed: Epoch,
    recent: Recent,
    /// Epochs of which some changes are logged in the store.
    in_store: VecDeque<Epoch>,
}

impl ChangeLog {
    pub(super) fn new() -> Self {
        let (open, sealed, in_store) = (Count::default(), VecDeque::new(), VecDeque::new());
        Self { open, sealed, oldest_base: RESTORED, trimmed: RESTORED, recent: Recent::default(), in_store }
    }

    pub(super) fn oldest_base(&self) -> Epoch {
        self.oldest_base
    }

    /// Whether changes of this epoch are worth logging: changes of a restore happened before the restored checkpoint.
    pub(super) fn is_on(&self, epoch: Epoch) -> bool {
        epoch != RESTORED && epoch != self.oldest_base
    }

    /// Logs a change of the current epoch. If there is no memory for it, the store must take what is returned.
    pub(super) fn add(&mut self, area: u8, epoch: Epoch, entry: &[u8], cache: &Cache) -> Option<Change> {
        *(if area == REMOVED { &mut self.open.removed } else { &mut self.open.written }) += 1;
        let size = Recent::size(entry);
        if cache.claim_log(size) {
            if self.recent.add(area, epoch, entry) {
                return None;
            }
            cache.release_log(size);
        }
        if self.in_store.back() != Some(&epoch) {
            self.in_store.push_back(epoch);
        }
        Some(Change::Put(logged(area, epoch, entry), Vec::new()))
    }

    /// The first `most` changes from `from` on and below `until`, which are of one area and of epochs that are over.
    pub(super) fn read(
        &mut self,
        (cache, space): (&Cache, Space),
        (from, until): (&[u8], &[u8]),
        most: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = self.recent.read(from, until, most);
        if !self.in_store.is_empty() {
            let mut stored = Vec::new();
            cache.visit(space, (from, until), true, &mut |key, _| {
                stored.push(key.to_vec());
                stored.len() < most
            })?;
            found.append(&mut stored);
            found.sort_unstable();
            found.dedup();
            found.truncate(most);
        }
        Ok(found)
    }

    /// Gives up what is logged if a full snapshot is cheaper than an increment over it.
    pub(super) fn give_up(&mut self, epoch: Epoch, entries: usize) {
        let all = self.sealed.iter().chain([&self.open]);
        let (written, removed) = all.fold((0, 0), |(w, r), count| (w + count.written, r + count.removed));
        if removed > entries || written > entries.saturating_mul(4) + SLACK {
            (self.open, self.oldest_base) = (Count::default(), epoch);
            self.sealed.clear();
        }
    }

    pub(super) fn seal(&mut self, epoch: Epoch) {
        let count = std::mem::take(&mut self.open);
        if count.written + count.removed > 0 {
            self.sealed.push_back(Count { epoch, ..count });
        }
    }

    /// Nobody will name an older base.
    pub(super) fn forget_until(&mut self, base: Epoch) {
        while self.sealed.front().is_some_and(|count| count.epoch <= base) {
            self.sealed.pop_front();
        }
        self.oldest_base = self.oldest_base.max(base);
    }

    /// Forgets what nobody reads any more, given what an open cut still reads. The epochs to remove from the store, if any: after
    /// the first, up to and with the second.
    pub(super) fn trim(&mut self, still_read: Option<Epoch>, cache: &Cache) -> Option<(Epoch, Epoch)> {
        let until = still_read.map_or(self.oldest_base, |base| base.min(self.oldest_base));
        if until <= self.trimmed {
            return None;
        }
        cache.release_log(self.recent.forget_until(until));
        let after = std::mem::replace(&mut self.trimmed, until);
        let of_store = self.in_store.iter().take_while(|epoch| **epoch <= until).count();
        self.in_store.drain(..of_store);
        (of_store > 0).then_some((after, until))
    }
}

/// The key of a change: area, epoch, then the identity of the entry with its key group in front.
pub(super) fn logged(area: u8, epoch: Epoch, entry: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + entry.len());
    key.push(area);
    key.extend_from_slice(&epoch.to_be_bytes());
    key.extend_from_slice(entry);
    key
}

/// The epoch and the entry of a change.
pub(super) fn split_logged(key: &[u8]) -> Option<(Epoch, &[u8])> {
    let (epoch, entry) = key.get(1..)?.split_first_chunk::<4>()?;
    Some((Epoch::from_be_bytes(*epoch), entry))
}
