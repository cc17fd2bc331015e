//! One snapshot in progress: what it covers and how far its scan is.

use super::deletions::Log;
use super::dirty::{DirtyMap, RANGE};
use super::saved::{Position, Saved};
use super::{Cut, Entry, EntrySink, Epoch};
use hashbrown::HashTable;

pub(super) struct Handle<K, V, S> {
    pub(super) cut: Cut,
    /// Everything before (group, bucket) has been emitted.
    pub(super) group: usize,
    pub(super) bucket: usize,
    /// The current group has been started over because its entries moved.
    restarted: bool,
    /// Deletion logs not yet emitted, and how much of the last one is.
    logs: Vec<Log<K>>,
    deleted: usize,
    /// What writes saved and the scan has not emitted yet.
    pub(super) saved: Saved<K, V>,
    pub(super) sink: S,
}

impl<K: Clone, V: Clone, S: EntrySink<K, V>> Handle<K, V, S> {
    pub(super) fn new(cut: Cut, logs: Vec<Log<K>>, saved: Saved<K, V>, sink: S) -> Self {
        Self { cut, group: 0, bucket: 0, restarted: false, logs, deleted: 0, saved, sink }
    }

    /// Whether the entry at this place, last written in `epoch`, is still to be emitted.
    pub(super) fn still_needs(&self, group: usize, bucket: usize, epoch: Epoch, value: &V) -> bool {
        S::covers(self.cut, epoch, value) && (group, bucket) >= (self.group, self.bucket)
    }

    pub(super) fn next_group(&mut self) {
        (self.group, self.bucket, self.restarted) = (self.group + 1, 0, false);
    }

    /// Keeps an entry as it was at the cut, which is about to change. Whoever writes waits for no encoding while there is room.
    #[inline]
    pub(super) fn save(&mut self, position: Position, key: &K, value: &V) {
        if !self.saved.push(position, key, value) {
            self.sink.put(position.group, key, value, true);
        }
    }

    /// Takes as many at a time as the walk visits, so that a scan of the smallest budget gets on as fast.
    pub(super) fn emit_saved(&mut self, budget: &mut usize) {
        while *budget > 0 && !self.saved.is_empty() {
            for (group, key, value) in std::iter::from_fn(|| self.saved.pop()).take(RANGE) {
                self.sink.put(group, &key, &value, true);
                *budget = budget.saturating_sub(S::cost(self.cut, &value).max(1));
            }
        }
    }

    pub(super) fn emit_deletions(&mut self, budget: &mut usize) {
        while let Some(log) = self.logs.last() {
            let batch = log.get(self.deleted..).unwrap_or_default().iter().take(*budget);
            let emitted = batch.map(|(group, key)| self.sink.delete(*group, key)).count();
            *budget -= emitted;
            self.deleted += emitted;
            if self.deleted < log.len() {
                return;
            }
            self.logs.pop();
            self.deleted = 0;
        }
    }

    /// Emits what this handle covers in its current group, from the cursor on.
    pub(super) fn walk(
        &mut self,
        table: &HashTable<Entry<K, V>>,
        dirty: &DirtyMap,
        first_group: u16,
        budget: &mut usize,
    ) {
        let buckets = table.num_buckets();
        let group = first_group + self.group as u16;
        while self.bucket < buckets && *budget > 0 {
            let range = self.bucket..buckets.min(self.bucket + RANGE);
            self.bucket = range.end;
            *budget -= 1;
            if dirty.is_range_clean(range.start, self.cut.base) {
                continue;
            }
            *budget = budget.saturating_sub(range.len());
            for Entry { key, value, epoch } in range.filter_map(|bucket| table.get_bucket(bucket)) {
                if S::covers(self.cut, *epoch, value) {
                    // The visit of the bucket has paid for one.
                    *budget = budget.saturating_sub(S::cost(self.cut, value).saturating_sub(1));
                    self.sink.put(group, key, value, false);
                }
            }
        }
        if self.bucket >= buckets {
            self.next_group();
        }
    }

    /// The entries of a group may be about to move. A scan of it starts over: what it meets again is identical, or was
    /// written since and is skipped. Only once: with restarts alone, churn could starve the scan and swell the segment.
    #[cold]
    pub(super) fn before_move(
        &mut self,
        group: usize,
        first_group: u16,
        table: &HashTable<Entry<K, V>>,
        dirty: &DirtyMap,
    ) {
        if self.group != group || self.bucket == 0 {
            return;
        }
        if self.restarted {
            let mut unlimited = usize::MAX;
            self.walk(table, dirty, first_group, &mut unlimited);
        } else {
            (self.bucket, self.restarted) = (0, true);
        }
    }
}
