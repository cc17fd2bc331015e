//! Keyed state: what an operator declares and uses, and the face of it that a subtask snapshots and restores.
//!
//! A declared state has two faces over one table: the typed one ([`ValueState`], [`MapState`], [`ListState`],
//! [`TimerState`]), held by the operator
//! and monomorphic per backend so that the hot path is inlined, and the erased one ([`Table`]), held by the subtask. A
//! subtask cuts all its tables in the same step. Nothing here does I/O: blocks go out and come in by value.

mod any;
mod declared;
mod entries;
mod error;
mod face;
mod heap;
mod list;
mod map;
mod split;
pub mod store;
#[cfg(feature = "stored")]
mod stored;
#[cfg(test)]
mod tests;
mod timers;
mod versioned;

pub use any::{AnyBackend, AnyFailure, AnyList, AnyMap, AnyTimers, AnyValue};
pub use error::{Misfit, StateError};
pub use heap::{HeapBackend, HeapValue, SweepCursor};
pub use list::HeapList;
pub use map::HeapMap;
#[cfg(feature = "stored")]
pub use stored::{Failure, StoredBackend, StoredList, StoredMap, StoredTimers, StoredValue};
pub use timers::HeapTimers;
pub use versioned::Progress;

#[cfg(any(test, feature = "testing"))]
pub use crate::segment::SegmentBuffer;
pub use crate::segment::{Block, Declaration, SegmentOut, StateKind, StateName};

use crate::key::Key;
use flott_checkpoint::{CheckpointId, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// What can be a value: anything that serde can write and read back, in MessagePack with field names.
///
/// Fields may be added (with `#[serde(default)]`) and removed between two runs of a job. A `Vec<u8>` is written as an
/// array of numbers unless `serde_bytes` is used, which stores it as a byte string, several times faster.
pub trait Value: Serialize + DeserializeOwned + Clone + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> Value for T {}

/// Declares a value per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueDeclaration {
    /// Operator and state.
    pub name: StateName,
}

/// Declares timers per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerDeclaration {
    /// Operator and state.
    pub name: StateName,
}

/// Declares a map per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDeclaration {
    /// Operator and state.
    pub name: StateName,
    /// Every worker keeps the same under one key of its own: a restore on another number of workers has to hand out copies.
    pub copies: bool,
}

/// Declares a list per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDeclaration {
    /// Operator and state.
    pub name: StateName,
    /// Every worker keeps one under one key of its own: a restore on another number of workers divides the elements anew.
    pub split: bool,
}

/// Which worker takes over what was not divided by keys, and from how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many workers wrote it.
    pub before: u16,
    /// How many there are now.
    pub workers: u16,
    /// Which one of them this is.
    pub worker: u16,
}

impl Share {
    /// Whether this worker gets the element at a position in the list of a writer: they are dealt out in turn, each writer's from
    /// another worker on, so that many short lists are spread evenly too.
    #[must_use]
    pub fn takes(&self, writer: u32, position: usize) -> bool {
        (writer as usize + position) % usize::from(self.workers.max(1)) == usize::from(self.worker)
    }
}

/// A table, shared between an operator (typed) and the registry of its subtask (erased).
pub type SharedTable = Rc<RefCell<dyn Table>>;

/// Where the state of one subtask lives.
///
/// Kinds of state are associated types, so that another kind is one more of them, and each backend has its own
/// handles: the heap's are inlined, those of a byte-oriented store encode and decode at each call.
pub trait StateBackend {
    /// The handle of a value state.
    type Value<K: Key, V: Value>: ValueState<K, V>;
    /// The handle of a timer state.
    type Timers<K: Key>: TimerState<K>;
    /// The handle of a map state.
    type Map<K: Key, M: Key, V: Value>: MapState<K, M, V>;
    /// The handle of a list state.
    type List<K: Key, V: Value>: ListState<K, V>;

    /// Declares a value per key. All declarations come before the first restore or record.
    ///
    /// # Errors
    /// [`StateError::Duplicate`] if the name is taken.
    fn value<K: Key, V: Value>(&mut self, declaration: ValueDeclaration) -> Result<Self::Value<K, V>, StateError>;

    /// Declares timers per key.
    ///
    /// # Errors
    /// [`StateError::Duplicate`] if the name is taken.
    fn timers<K: Key>(&mut self, declaration: TimerDeclaration) -> Result<Self::Timers<K>, StateError>;

    /// Declares a map per key.
    ///
    /// # Errors
    /// [`StateError::Duplicate`] if the name is taken.
    fn map<K: Key, M: Key, V: Value>(&mut self, declaration: MapDeclaration) -> Result<Self::Map<K, M, V>, StateError>;

    /// Declares a list per key.
    ///
    /// # Errors
    /// [`StateError::Duplicate`] if the name is taken.
    fn list<K: Key, V: Value>(&mut self, declaration: ListDeclaration) -> Result<Self::List<K, V>, StateError>;

    /// All declared states, in the order of their declaration.
    fn tables(&self) -> &[SharedTable];
}

/// One value per key. `hash` is the key's hash, computed once by the sender of the record.
pub trait ValueState<K: Key, V: Value> {
    /// Keys with these hashes come next: a chance to have their entries in the cache by then. Changes nothing.
    fn look_ahead(&self, hashes: impl Iterator<Item = u64>) {
        let _ = hashes;
    }

    /// Looks at the value.
    ///
    /// # Errors
    /// [`StateError`] of a backend that can fail; the heap never does.
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError>;

    /// Changes the value, made by `init` if there is none. `change` must not use this state.
    ///
    /// # Errors
    /// As [`ValueState::read`].
    fn update<R>(
        &mut self,
        hash: u64,
        key: K,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError>;

    /// Sets the value.
    ///
    /// # Errors
    /// As [`ValueState::read`].
    fn put(&mut self, hash: u64, key: K, value: V) -> Result<(), StateError>;

    /// Removes and returns the value.
    ///
    /// # Errors
    /// As [`ValueState::read`].
    fn remove(&mut self, hash: u64, key: &K) -> Result<Option<V>, StateError>;

    /// A copy of the value.
    ///
    /// # Errors
    /// As [`ValueState::read`].
    fn get(&self, hash: u64, key: &K) -> Result<Option<V>, StateError> {
        self.read(hash, key, |value| value.cloned())
    }
}

/// A map per key, from user keys to values. The unit is one entry: changing it makes nothing else part of an increment.
pub trait MapState<K: Key, M: Key, V: Value> {
    /// Looks at the value of a user key.
    ///
    /// # Errors
    /// [`StateError::Key`] if the user key cannot be hashed (it holds a float or a map), or that of a backend that can fail.
    fn read<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError>;

    /// Changes the value of a user key, made by `init` if there is none. `change` must not use this state.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn update<R>(
        &mut self,
        hash: u64,
        key: &K,
        field: M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError>;

    /// Sets the value of a user key.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn put(&mut self, hash: u64, key: &K, field: M, value: V) -> Result<(), StateError>;

    /// Removes and returns the value of a user key.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn remove(&mut self, hash: u64, key: &K, field: &M) -> Result<Option<V>, StateError>;

    /// Shows all entries of a key, in an order that means nothing, and that a restore does not change unless it is one into another
    /// backend. `look` must not use this state.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn for_each(&self, hash: u64, key: &K, look: impl FnMut(&M, &V)) -> Result<(), StateError>;

    /// Whether a key has no entry.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn is_empty(&self, hash: u64, key: &K) -> Result<bool, StateError>;

    /// Removes all entries of a key.
    ///
    /// # Errors
    /// As [`MapState::read`].
    fn clear(&mut self, hash: u64, key: &K) -> Result<(), StateError>;
}

/// A list per key. It can be appended to and cleared; an increment holds only what was appended after its base.
pub trait ListState<K: Key, V: Value> {
    /// Looks at all elements, in their order.
    ///
    /// # Errors
    /// [`StateError`] of a backend that can fail; the heap never does.
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> Result<R, StateError>;

    /// Appends an element.
    ///
    /// # Errors
    /// As [`ListState::read`].
    fn append(&mut self, hash: u64, key: K, item: V) -> Result<(), StateError>;

    /// Removes all elements and returns them.
    ///
    /// # Errors
    /// As [`ListState::read`].
    fn clear(&mut self, hash: u64, key: &K) -> Result<Vec<V>, StateError>;
}

/// A timer that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTimer<K> {
    /// When it was due, in milliseconds.
    pub time: i64,
    /// The hash of its key.
    pub hash: u64,
    /// Its key.
    pub key: K,
}

/// Timers: at most one per key and time. Times are milliseconds, of whichever clock the operator uses.
pub trait TimerState<K: Key> {
    /// Registers a timer; false if it was there already.
    ///
    /// # Errors
    /// [`StateError`] of a backend that can fail; the heap never does.
    fn register(&mut self, hash: u64, key: K, time: i64) -> Result<bool, StateError>;

    /// Deletes a timer; false if there was none.
    ///
    /// # Errors
    /// As [`TimerState::register`].
    fn delete(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError>;

    /// Removes and returns the earliest timer with `time <= now`. Equal times come in the order of their hashes, so a
    /// restored job fires them in the same order.
    ///
    /// # Errors
    /// As [`TimerState::register`].
    fn pop_due(&mut self, now: i64) -> Result<Option<DueTimer<K>>, StateError>;

    /// The earliest time, to sleep until.
    fn next_time(&mut self) -> Option<i64>;
}

/// One declared state, as its subtask sees it. Life: restore blocks, start, then cuts and scans until the end.
///
/// Several cuts may be open at once. A cut takes the same time whatever the size of the table.
pub trait Table {
    /// Name, kind, and the shapes seen so far.
    fn declaration(&self) -> Declaration;

    /// Checks the shape that a checkpoint holds for this state, before its blocks are read.
    ///
    /// # Errors
    /// [`StateError::KeyShape`] or [`StateError::OtherKind`].
    fn expect(&mut self, stored: &Declaration) -> Result<(), StateError>;

    /// Says of the blocks that come next whether they are of a full part, so that nothing restored before has their entries.
    /// Without a word they may be any.
    fn restoring(&mut self, full: bool) {
        let _ = full;
    }

    /// Applies the entries of `groups` in a decoded block, those of this worker. The order of blocks is that of
    /// [`crate::segment::restore_plan`].
    ///
    /// # Errors
    /// [`StateError`] if an entry is not one of this state, or lies in the wrong key group.
    fn restore(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError>;

    /// Decodes the entries that [`Table::restore`] would apply, and keeps nothing of them.
    ///
    /// # Errors
    /// As [`Table::restore`].
    fn check(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError>;

    /// Applies this worker's share of a decoded block that was written by any of another number of workers, to a state that
    /// is not divided by keys: it goes under this worker's [own key](crate::key::KeySpace::own_key). Of a copy the share is all of it;
    /// of a split list it is every so manieth element.
    ///
    /// # Errors
    /// As [`Table::restore`]; or if this state is divided by keys.
    fn restore_foreign(&mut self, block: &Block, share: &Share) -> Result<(), StateError>;

    /// Ends the restore. `restored` can be the base of the first increment.
    fn start(&mut self, restored: Option<CheckpointId>);

    /// Takes the cut of a checkpoint and returns the base it really used: `None`, which makes this state's part full,
    /// if `base` is unknown here or too long ago. A savepoint is full and never becomes a base.
    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId>;

    /// Goes on with a cut: visits about `budget` entries and hands over finished blocks. An id without an open cut is
    /// done. Besides the budget, one call may compress one block ([`crate::segment::TARGET_BLOCK`]) per full one.
    ///
    /// # Errors
    /// [`StateError::Encode`] if a value could not be serialized: the checkpoint must be declined and aborted, here and
    /// in all other tables of the subtask. The state itself is whole.
    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError>;

    /// Bytes that open cuts hold and that no call of `scan` has handed over yet. Add them to
    /// [`SegmentOut::buffered`]: updates of entries that a scan still needs make them grow.
    fn buffered(&self) -> usize;

    /// Forgets an aborted or expired checkpoint. Ids that never came are ignored.
    fn abort(&mut self, id: CheckpointId);

    /// A checkpoint is in the log: no later one will name an older base. Ids that never came are ignored.
    fn completed(&mut self, id: CheckpointId);

    /// The number of entries.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the table takes, without what keys and values own outside it.
    fn memory(&self) -> usize;
}
