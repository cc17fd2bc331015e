//! A hash table that can be snapshotted while it is written: what all heap state is made of.
//!
//! Every entry carries the epoch of its last write. A cut only remembers the epoch, so it takes the same time at any
//! size; a scan then walks the buckets in small steps, and a write to an entry that a scan still needs saves the old
//! value first. There is one write path: nothing here clears, drains, retains, reserves or shrinks, because a table
//! that moves its entries behind the back of a scan loses some of them.

mod deletions;
mod dirty;
mod guard;
mod handle;
mod saved;
#[cfg(test)]
mod tests;

pub(crate) use guard::Guard;

use deletions::Deletions;
use dirty::DirtyMap;
use handle::Handle;
use hashbrown::HashTable;
use prefetch_index::prefetch_index;
use saved::{Position, ROOM, Saved};
use std::ops::Range;
use std::slice::from_ref;

/// Counts the cuts of a table. `u32` lasts 136 years at one per second.
pub(crate) type Epoch = u32;

/// The epoch of restored entries; as a base it means "the checkpoint that was restored".
pub(crate) const RESTORED: Epoch = 0;

/// What the table needs of its keys.
pub(crate) trait TableKey: Eq + Clone {
    /// The hash that chooses the bucket; asked for again whenever a group grows.
    fn bucket_hash(&self, seed: u64) -> u64;

    /// Whether both are one key.
    #[inline]
    fn is(&self, other: &Self) -> bool {
        self == other
    }
}

/// Where a snapshot goes. Puts and deletes come in any order: a reader applies all deletes of a segment first.
pub(crate) trait EntrySink<K, V> {
    /// An entry as it was at the cut. `early` ones are saved by a write, before the scan came to their group.
    fn put(&mut self, group: u16, key: &K, value: &V, early: bool);
    /// A key removed between the base and the cut; it may be among the puts as well.
    fn delete(&mut self, group: u16, key: &K);

    /// Whether a cut holds something of an entry whose last write was in `epoch`.
    #[inline]
    fn covers(cut: Cut, epoch: Epoch, _: &V) -> bool {
        cut.covers(epoch)
    }

    /// What putting such an entry costs of a scan's budget, beyond the visit: about one for each stored entry.
    #[inline]
    fn cost(_: Cut, _: &V) -> usize {
        1
    }
}

/// Names a handle by its epoch. `base` is the one really used: None (full) if the one asked for cannot be served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) epoch: Epoch,
    pub(crate) base: Option<Epoch>,
}

impl Cut {
    /// No base means no lower bound: a full snapshot takes epoch 0 too.
    #[inline]
    pub(crate) fn covers(self, epoch: Epoch) -> bool {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::FullSkipsRestored) && epoch == RESTORED {
            return false;
        }
        epoch <= self.epoch && self.base.is_none_or(|base| epoch > base)
    }
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget ran out first.
    More,
    /// Everything of this cut has been handed over.
    Done,
}

pub(crate) struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    epoch: Epoch,
}

/// One key group.
struct Group<K, V> {
    table: HashTable<Entry<K, V>>,
    dirty: DirtyMap,
}

/// A key group and the hash inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The group, counted over the whole job.
    pub(crate) group: u16,
    pub(crate) bucket_hash: u64,
}

pub(crate) struct Versioned<K, V, S> {
    groups: Box<[Group<K, V>]>,
    first_group: u16,
    handles: Vec<Handle<K, V, S>>,
    deletions: Deletions<K>,
    epoch: Epoch,
    len: usize,
    seed: u64,
    /// Bytes of old values that may wait for one scan.
    room: usize,
}

impl<K: TableKey, V: Clone, S: EntrySink<K, V>> Versioned<K, V, S> {
    /// An empty table in epoch 0: what is written until `start` is restored state.
    pub(crate) fn new(owned: Range<u16>, seed: u64) -> Self {
        let group = |_| Group { table: HashTable::new(), dirty: DirtyMap::new() };
        let (first_group, groups) = (owned.start, owned.map(group).collect());
        let deletions = Deletions::new(RESTORED);
        Self { groups, first_group, handles: Vec::new(), deletions, epoch: RESTORED, len: 0, seed, room: ROOM }
    }

    /// Ends the restore: later writes belong to a live epoch.
    pub(crate) fn start(&mut self) {
        assert_eq!(self.epoch, RESTORED, "a table is started once, after its restore");
        self.epoch = RESTORED + 1;
    }

    pub(crate) fn is_started(&self) -> bool {
        self.epoch != RESTORED
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every entry, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<K, V>> {
        self.groups.iter().flat_map(|group| group.table.iter())
    }

    /// A hash routed to the wrong worker is a bug of the exchange, and its state would be lost at the next restore.
    #[inline]
    fn index(&self, group: u16) -> usize {
        usize::from(group.wrapping_sub(self.first_group))
    }

    #[inline]
    pub(crate) fn find(&self, place: Place, is: impl FnMut(&Entry<K, V>) -> bool) -> Option<&Entry<K, V>> {
        let group =
            self.groups.get(self.index(place.group)).expect("a record came to a worker that owns its key group");
        group.table.find(place.bucket_hash, is)
    }

    /// Has the entries that may be the one of this hash brought into the cache, their first and their last line, and waits for
    /// none.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        let Some(group) = self.groups.get(self.index(place.group)) else { return };
        group.table.find(place.bucket_hash, |entry| {
            prefetch_index(from_ref(entry), 0);
            // The smallest field lies last.
            prefetch_index(from_ref(&entry.epoch), 0);
            false
        });
    }

    /// Reading through the guard is free; its first mutable use is the write.
    #[inline]
    pub(crate) fn guard(&mut self, place: Place, is: impl FnMut(&Entry<K, V>) -> bool) -> Option<Guard<'_, K, V, S>> {
        let index = self.index(place.group);
        let group = self.groups.get_mut(index).expect("a record came to a worker that owns its key group");
        let found = group.table.find_entry(place.bucket_hash, is).ok()?;
        let position = Position { index, group: place.group };
        Some(Guard { found, position, dirty: &mut group.dirty, handles: &mut self.handles, epoch: self.epoch })
    }

    /// The value of `key`, for writing, made by `init` if there is none; and whether there was none. One look-up.
    #[inline]
    pub(crate) fn slot(&mut self, place: Place, key: K, init: impl FnOnce() -> V) -> (&mut V, bool) {
        let index = self.index(place.group);
        let group = self.groups.get_mut(index).expect("a record came to a worker that owns its key group");
        match group.table.find_entry(place.bucket_hash, |entry| entry.key.is(&key)) {
            Ok(found) if found.get().epoch == self.epoch => (&mut found.into_mut().value, false),
            Ok(found) => {
                let position = Position { index, group: place.group };
                let guard =
                    Guard { found, position, dirty: &mut group.dirty, handles: &mut self.handles, epoch: self.epoch };
                (guard.into_mut(), false)
            }
            Err(absent) => {
                let at = (index, place);
                let entry = Entry { key, value: init(), epoch: self.epoch };
                self.len += 1;
                let value = insert(absent.into_table(), &mut group.dirty, &mut self.handles, at, (entry, self.seed));
                (value, true)
            }
        }
    }

    /// As [`Versioned::slot`], for a value that only grows: what a scan still needs of it stays where it is, so nothing is
    /// saved. The value must remember by epoch how far it had grown, and the sink's `covers` must ask it. Besides the value
    /// come the current epoch, and the oldest one whose end anybody may still ask for.
    pub(crate) fn grow(&mut self, place: Place, key: K, init: impl FnOnce() -> V) -> (&mut V, Epoch, Epoch) {
        let index = self.index(place.group);
        let (epoch, oldest) = (self.epoch, self.oldest_needed());
        let group = self.groups.get_mut(index).expect("a record came to a worker that owns its key group");
        match group.table.find_entry(place.bucket_hash, |entry| entry.key.is(&key)) {
            Ok(found) => {
                let bucket = found.bucket_index();
                let entry = found.into_mut();
                if entry.epoch != epoch {
                    entry.epoch = epoch;
                    group.dirty.mark(bucket, epoch);
                }
                (&mut entry.value, epoch, oldest)
            }
            Err(absent) => {
                let at = (index, place);
                let entry = Entry { key, value: init(), epoch };
                self.len += 1;
                let value = insert(absent.into_table(), &mut group.dirty, &mut self.handles, at, (entry, self.seed));
                (value, epoch, oldest)
            }
        }
    }

    /// No open cut and no later one asks how an entry was at the end of an older epoch.
    fn oldest_needed(&self) -> Epoch {
        let open = self.handles.iter().map(|handle| handle.cut.base.unwrap_or(handle.cut.epoch));
        open.fold(self.deletions.oldest_base(), Epoch::min)
    }

    /// All entries with this hash, and perhaps others; in no particular order.
    pub(crate) fn with_hash(&self, place: Place) -> impl Iterator<Item = &Entry<K, V>> {
        let group =
            self.groups.get(self.index(place.group)).expect("a record came to a worker that owns its key group");
        group.table.iter_hash(place.bucket_hash)
    }

    pub(crate) fn remove(&mut self, place: Place, is: impl FnMut(&Entry<K, V>) -> bool) -> Option<(K, V)> {
        let mut guard = self.guard(place, is)?;
        guard.save_old();
        let (entry, _) = guard.found.remove();
        self.len -= 1;
        self.deletions.record(place.group, &entry.key, self.epoch, self.len);
        Some((entry.key, entry.value))
    }

    /// Goes on looking for entries that are `gone` and removes them, visiting about `budget` buckets from `cursor` on (group
    /// and bucket). It stops at the end of the table; the next call begins at its start.
    pub(crate) fn sweep(&mut self, cursor: &mut (usize, usize), mut budget: usize, gone: impl Fn(&V) -> bool) {
        while budget > 0 {
            let Some(group) = self.groups.get(cursor.0) else {
                *cursor = (0, 0);
                return;
            };
            let end = group.table.num_buckets().min(cursor.1.saturating_add(budget));
            let is_gone = |bucket: &usize| group.table.get_bucket(*bucket).is_some_and(|entry| gone(&entry.value));
            let found = (cursor.1..end).find(is_gone);
            let key = found.and_then(|bucket| group.table.get_bucket(bucket)).map(|entry| entry.key.clone());
            let next = found.map_or(end, |bucket| bucket + 1);
            budget = budget.saturating_sub(next.saturating_sub(cursor.1).max(1));
            let whole = next >= group.table.num_buckets();
            if let Some(key) = key {
                let group = self.first_group.wrapping_add(cursor.0 as u16);
                let place = Place { group, bucket_hash: key.bucket_hash(self.seed) };
                self.remove(place, |entry| entry.key.is(&key));
            }
            *cursor = if whole { (cursor.0 + 1, 0) } else { (cursor.0, next) };
        }
    }

    /// Freezes the current epoch for a new handle. `base` is the epoch of a completed cut, or 0.
    pub(crate) fn cut(&mut self, base: Option<Epoch>, sink: S) -> Cut {
        assert!(self.is_started(), "a table is started before its first cut");
        let epoch = self.epoch;
        self.epoch = epoch.checked_add(1).expect("136 years at one checkpoint a second");
        self.deletions.seal(epoch);
        let logs = base.and_then(|base| self.deletions.since(base));
        let cut = Cut { epoch, base: if logs.is_some() { base } else { None } };
        let saved = Saved::new(self.room, self.groups.len());
        self.handles.push(Handle::new(cut, logs.unwrap_or_default(), saved, sink));
        cut
    }

    /// Spends about `budget` (one for each bucket visited and each deletion) on one handle.
    pub(crate) fn scan(&mut self, cut: Epoch, mut budget: usize) -> Progress {
        let Some(handle) = self.handles.iter_mut().find(|handle| handle.cut.epoch == cut) else {
            return Progress::Done;
        };
        // First: while they wait they take memory, and those saved last are still in the cache.
        handle.emit_saved(&mut budget);
        if !handle.saved.is_empty() {
            return Progress::More;
        }
        handle.emit_deletions(&mut budget);
        while let Some(Group { table, dirty }) = self.groups.get(handle.group) {
            if budget == 0 {
                return Progress::More;
            }
            if dirty.is_clean(handle.cut.base) {
                handle.next_group();
            } else {
                handle.walk(table, dirty, self.first_group, &mut budget);
            }
        }
        Progress::Done
    }

    /// What a handle wrote and nobody took yet.
    pub(crate) fn sink(&mut self, cut: Epoch) -> Option<&mut S> {
        self.handles.iter_mut().find(|handle| handle.cut.epoch == cut).map(|handle| &mut handle.sink)
    }

    pub(crate) fn sinks(&self) -> impl Iterator<Item = &S> {
        self.handles.iter().map(|handle| &handle.sink)
    }

    /// Bytes of old values that writes saved and no scan has emitted yet.
    pub(crate) fn saved(&self) -> usize {
        self.handles.iter().map(|handle| handle.saved.memory()).sum()
    }

    /// Takes the sink of a handle whose scan is done.
    pub(crate) fn finish(&mut self, cut: Epoch) -> Option<S> {
        let done = |handle: &Handle<K, V, S>| handle.cut.epoch == cut && handle.group == self.groups.len();
        let index = self.handles.iter().position(done)?;
        Some(self.handles.swap_remove(index).sink)
    }

    /// Forgets a handle. Nothing else changes: the next cut just reaches back over this one.
    pub(crate) fn abort(&mut self, cut: Epoch) {
        self.handles.retain(|handle| handle.cut.epoch != cut);
    }

    /// The checkpoint cut at `base`, full or not, is in the log: no later cut will name an older base.
    pub(crate) fn completed(&mut self, base: Epoch) {
        self.deletions.forget_until(base);
    }

    /// Bytes held by tables, dirty ranges and deletion log; without what keys and values own elsewhere.
    pub(crate) fn memory(&self) -> usize {
        let groups = self.groups.iter().map(|group| group.table.allocation_size() + group.dirty.memory());
        groups.sum::<usize>() + self.deletions.memory()
    }
}

/// The only way into a table. Out of line: the hot path is the update of an entry that is there.
#[inline(never)]
fn insert<'a, K: TableKey, V: Clone, S: EntrySink<K, V>>(
    table: &'a mut HashTable<Entry<K, V>>,
    dirty: &mut DirtyMap,
    handles: &mut [Handle<K, V, S>],
    (index, place): (usize, Place),
    (entry, seed): (Entry<K, V>, u64),
) -> &'a mut V {
    let epoch = entry.epoch;
    // No room left without tombstones: the only state in which an insert may rehash, in place included.
    let may_move = table.len() == table.capacity();
    if may_move {
        let first_group = place.group.wrapping_sub(index as u16);
        handles.iter_mut().for_each(|handle| handle.before_move(index, first_group, table, dirty));
    }
    let inserted = table.insert_unique(place.bucket_hash, entry, |entry| {
        debug_assert!(may_move, "entries of a table moved without its scans being told");
        entry.key.bucket_hash(seed)
    });
    let bucket = inserted.bucket_index();
    let table = inserted.into_table();
    if may_move {
        dirty.mark_all(table.num_buckets(), epoch);
    }
    dirty.mark(bucket, epoch);
    &mut table.get_bucket_mut(bucket).expect("inserted above").value
}
