//! One snapshot in progress: what it covers and how far its scan is.

use super::deletions::Log;
use super::dirty::{DirtyMap, RANGE};
use super::{Cut, Entry, EntrySink, Epoch};
use hashbrown::HashTable;

pub(super) struct Handle<K, S> {
    pub(super) cut: Cut,
    /// Everything before (group, bucket) has been emitted.
    pub(super) group: usize,
    pub(super) bucket: usize,
    /// The current group has been started over because its entries moved.
    restarted: bool,
    /// Deletion logs not yet emitted, and how much of the last one is.
    logs: Vec<Log<K>>,
    deleted: usize,
    pub(super) sink: S,
}

impl<K, S> Handle<K, S> {
    pub(super) fn new(cut: Cut, logs: Vec<Log<K>>, sink: S) -> Self {
        Self { cut, group: 0, bucket: 0, restarted: false, logs, deleted: 0, sink }
    }

    /// Whether the entry at this place, last written in `epoch`, is still to be emitted.
    pub(super) fn still_needs<V>(&self, group: usize, bucket: usize, epoch: Epoch, value: &V) -> bool
    where
        S: EntrySink<K, V>,
    {
        S::covers(self.cut, epoch, value) && (group, bucket) >= (self.group, self.bucket)
    }

    pub(super) fn next_group(&mut self) {
        (self.group, self.bucket, self.restarted) = (self.group + 1, 0, false);
    }

    pub(super) fn emit_deletions<V>(&mut self, budget: &mut usize)
    where
        S: EntrySink<K, V>,
    {
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
    pub(super) fn walk<V>(
        &mut self,
        table: &HashTable<Entry<K, V>>,
        dirty: &DirtyMap,
        first_group: u16,
        budget: &mut usize,
    ) where
        S: EntrySink<K, V>,
    {
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
    pub(super) fn before_move<V>(
        &mut self,
        group: usize,
        first_group: u16,
        table: &HashTable<Entry<K, V>>,
        dirty: &DirtyMap,
    ) where
        S: EntrySink<K, V>,
    {
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
