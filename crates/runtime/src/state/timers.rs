//! Timers on the heap: one entry per key and time in a versioned table, plus a queue in the order of time.
//!
//! Only the table is in a snapshot. The queue is derived from it, holds no keys, and may hold timers that are gone:
//! they are skipped when they come up, and it is rebuilt when more than half of it is stale.

use super::entries::{EntryFormat, EntryReader, write_value};
use super::face::KeyedTable;
use super::heap::{Snapshots, put};
use super::versioned::{Entry, Place, TableKey};
use super::{DueTimer, SharedTable, StateError, StateKind, StateName, TimerState};
use crate::key::{Key, KeySpace, Shape, hash_key};
use crate::segment::BlockKind;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Stale timers that the queue may hold before it is rebuilt, besides as many as there are live ones.
const STALE: usize = 64;

/// A timer's identity.
#[derive(Clone, PartialEq, Eq)]
struct Timer<K> {
    key: K,
    time: i64,
}

/// The bucket depends on the time as well: one key may have many timers.
fn bucket_hash(hash: u64, time: i64) -> u64 {
    xxh3_64_with_seed(&time.to_le_bytes(), hash)
}

impl<K: Key> TableKey for Timer<K> {
    fn bucket_hash(&self, seed: u64) -> u64 {
        bucket_hash(hash_key(seed, &self.key).expect("this key was hashed when it came in"), self.time)
    }
}

/// Key and time; there is no value.
struct TimerFormat;

impl<K: Key> EntryFormat<Timer<K>, ()> for TimerFormat {
    fn write_key(out: &mut Vec<u8>, timer: &Timer<K>) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, &timer.key)?;
        write_value(out, &timer.time)
    }

    fn write_value(_: &mut Vec<u8>, (): &()) -> Result<(), rmp_serde::encode::Error> {
        Ok(())
    }

    fn shapes(timer: &Timer<K>, (): &()) -> (Shape, Shape) {
        (Shape::of(&timer.key), Shape::Leaf("unit"))
    }
}

struct TimerTable<K> {
    snapshots: Snapshots<Timer<K>, (), TimerFormat>,
    /// Time and hash of the key, earliest first.
    queue: BinaryHeap<Reverse<(i64, u64)>>,
}

impl<K: Key> TimerTable<K> {
    fn place(&self, hash: u64, time: i64) -> Place {
        Place { group: self.snapshots.space.group(hash).0, bucket_hash: bucket_hash(hash, time) }
    }

    fn register(&mut self, hash: u64, key: K, time: i64) -> bool {
        let place = self.place(hash, time);
        let (_, new) = self.snapshots.entries.slot(place, Timer { key, time }, || ());
        if new {
            self.queue.push(Reverse((time, hash)));
            self.drop_stale();
        }
        new
    }

    fn delete(&mut self, hash: u64, key: &K, time: i64) -> bool {
        let place = self.place(hash, time);
        let is = |entry: &Entry<Timer<K>, ()>| entry.key.time == time && entry.key.key.is(key);
        self.snapshots.entries.remove(place, is).is_some()
    }

    fn drop_stale(&mut self) {
        if self.queue.len() > 2 * self.snapshots.entries.len() + STALE {
            self.rebuild_queue();
        }
    }

    fn rebuild_queue(&mut self) {
        let seed = self.snapshots.space.seed;
        let hash = |key: &K| hash_key(seed, key).expect("this key was hashed when it came in");
        let entries = self.snapshots.entries.entries();
        self.queue = entries.map(|entry| Reverse((entry.key.time, hash(&entry.key.key)))).collect();
    }

    fn pop_due(&mut self, now: i64) -> Option<DueTimer<K>> {
        loop {
            let Reverse((time, hash)) = *self.queue.peek()?;
            if time > now {
                return None;
            }
            self.queue.pop();
            let (place, seed) = (self.place(hash, time), self.snapshots.space.seed);
            // Two keys of equal hash are two entries and two places in the queue, whichever comes first.
            let is = |entry: &Entry<Timer<K>, ()>| entry.key.time == time && hash_key(seed, &entry.key.key) == Ok(hash);
            if let Some((Timer { key, time }, ())) = self.snapshots.entries.remove(place, is) {
                return Some(DueTimer { time, hash, key });
            }
        }
    }

    fn next_time(&mut self) -> Option<i64> {
        loop {
            let Reverse((time, hash)) = *self.queue.peek()?;
            let (place, seed) = (self.place(hash, time), self.snapshots.space.seed);
            let is = |entry: &Entry<Timer<K>, ()>| entry.key.time == time && hash_key(seed, &entry.key.key) == Ok(hash);
            if self.snapshots.entries.find(place, is).is_some() {
                return Some(time);
            }
            self.queue.pop();
        }
    }
}

impl<K: Key> KeyedTable for TimerTable<K> {
    type User = K;
    type Snapshots = Snapshots<Timer<K>, (), TimerFormat>;

    fn snapshots(&self) -> &Snapshots<Timer<K>, (), TimerFormat> {
        &self.snapshots
    }

    fn snapshots_mut(&mut self) -> &mut Snapshots<Timer<K>, (), TimerFormat> {
        &mut self.snapshots
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let time: i64 = reader.value()?;
        match kind {
            BlockKind::Deletes => drop(self.delete(hash, &key, time)),
            BlockKind::Puts => {
                let place = self.place(hash, time);
                put(&mut self.snapshots.entries, place, Timer { key, time }, ());
            }
        }
        Ok(())
    }

    fn skim(_: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        reader.value::<i64>().map(drop)
    }

    fn value_type() -> Shape {
        Shape::of_type::<()>()
    }

    fn started(&mut self) {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::TimersAsleep) {
            return;
        }
        self.rebuild_queue();
    }

    fn derived_memory(&self) -> usize {
        self.queue.capacity() * size_of::<(i64, u64)>()
    }
}

/// Timers on the heap. Cheap to clone: clones share one table.
pub struct HeapTimers<K> {
    table: Rc<RefCell<TimerTable<K>>>,
}

impl<K> Clone for HeapTimers<K> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key> HeapTimers<K> {
    pub(super) fn new(name: Arc<StateName>, space: KeySpace) -> (Self, SharedTable) {
        let snapshots = Snapshots::new(name, StateKind::Timers, space);
        let table = Rc::new(RefCell::new(TimerTable { snapshots, queue: BinaryHeap::new() }));
        let erased: SharedTable = Rc::<RefCell<TimerTable<K>>>::clone(&table);
        (Self { table }, erased)
    }
}

impl<K: Key> TimerState<K> for HeapTimers<K> {
    fn register(&mut self, hash: u64, key: K, time: i64) -> Result<bool, StateError> {
        Ok(self.table.borrow_mut().register(hash, key, time))
    }

    fn delete(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError> {
        Ok(self.table.borrow_mut().delete(hash, key, time))
    }

    fn pop_due(&mut self, now: i64) -> Result<Option<DueTimer<K>>, StateError> {
        Ok(self.table.borrow_mut().pop_due(now))
    }

    fn next_time(&mut self) -> Option<i64> {
        self.table.borrow_mut().next_time()
    }
}
