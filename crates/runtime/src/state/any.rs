//! The state of a job as its operators hold it: on the heap, or in a store. Which it is is known when the job starts.
//!
//! Without the feature `stored` there is one variant each, and nothing of it is left once it is compiled. What user code
//! calls cannot fail: a failure of a store is kept aside ([`Failure`]) and ends the attempt.

use super::heap::{HeapBackend, HeapValue, SweepCursor};
#[cfg(feature = "stored")]
use super::stored::{Failure, StoredBackend, StoredList, StoredMap, StoredTimers, StoredValue};
use super::{
    DueTimer, HeapList, HeapMap, HeapTimers, ListDeclaration, ListState, MapDeclaration, MapState, SharedTable,
    StateBackend, StateError, TimerDeclaration, TimerState, Value, ValueDeclaration, ValueState,
};
use crate::key::Key;

const HEAP: &str = "heap state does not fail";
/// A user key that cannot be hashed is refused when the job starts, unless a variant of an enum hides it.
const HASHABLE: &str = "a user key of a map can be hashed: it holds no float and no map";

macro_rules! each {
    ($on:expr, $state:ident => $do:expr) => {
        match $on {
            Self::Heap($state) => $do,
            #[cfg(feature = "stored")]
            Self::Stored($state) => $do,
        }
    };
}

macro_rules! handle {
    ($(#[$doc:meta])* $any:ident<$($of:ident),+> $heap:ident $stored:ident) => {
        $(#[$doc])*
        pub enum $any<$($of),+> {
            /// On the heap.
            Heap($heap<$($of),+>),
            /// In a store.
            #[cfg(feature = "stored")]
            Stored($stored<$($of),+>),
        }

        impl<$($of),+> Clone for $any<$($of),+> {
            fn clone(&self) -> Self {
                match self {
                    Self::Heap(state) => Self::Heap(state.clone()),
                    #[cfg(feature = "stored")]
                    Self::Stored(state) => Self::Stored(state.clone()),
                }
            }
        }
    };
}

handle!(
    /// One value per key. Cheap to clone: clones share one table.
    AnyValue<K, V> HeapValue StoredValue
);
handle!(
    /// A map per key. Cheap to clone: clones share one table.
    AnyMap<K, M, V> HeapMap StoredMap
);
handle!(
    /// A list per key. Cheap to clone: clones share one table.
    AnyList<K, V> HeapList StoredList
);
handle!(
    /// Timers per key. Cheap to clone: clones share one table.
    AnyTimers<K> HeapTimers StoredTimers
);

/// The state of one subtask.
pub enum AnyBackend {
    /// On the heap.
    Heap(HeapBackend),
    /// In a store.
    #[cfg(feature = "stored")]
    Stored(StoredBackend),
}

macro_rules! declare {
    ($backend:expr, $any:ident, $kind:ident, $declaration:expr) => {
        match $backend {
            Self::Heap(backend) => backend.$kind($declaration).map($any::Heap),
            #[cfg(feature = "stored")]
            Self::Stored(backend) => backend.$kind($declaration).map($any::Stored),
        }
    };
}

impl AnyBackend {
    /// What failed first, of what user code was not told.
    #[must_use]
    pub fn failure(&self) -> AnyFailure {
        match self {
            Self::Heap(_) => AnyFailure::default(),
            #[cfg(feature = "stored")]
            Self::Stored(backend) => AnyFailure(Some(backend.failure())),
        }
    }
}

/// What failed in the state of a subtask: nothing ever, on the heap.
#[derive(Clone, Debug, Default)]
#[cfg(feature = "stored")]
pub struct AnyFailure(Option<Failure>);

/// What failed in the state of a subtask: nothing ever, on the heap.
#[derive(Clone, Debug, Default)]
#[cfg(not(feature = "stored"))]
pub struct AnyFailure(());

impl AnyFailure {
    /// What failed first.
    ///
    /// # Errors
    /// That, so that the attempt ends with it.
    #[inline]
    pub fn check(&self) -> Result<(), StateError> {
        #[cfg(feature = "stored")]
        if let Some(error) = self.0.as_ref().and_then(Failure::get) {
            return Err(error);
        }
        Ok(())
    }
}

impl StateBackend for AnyBackend {
    type Value<K: Key, V: Value> = AnyValue<K, V>;
    type Timers<K: Key> = AnyTimers<K>;
    type Map<K: Key, M: Key, V: Value> = AnyMap<K, M, V>;
    type List<K: Key, V: Value> = AnyList<K, V>;

    fn value<K: Key, V: Value>(&mut self, declaration: ValueDeclaration) -> Result<AnyValue<K, V>, StateError> {
        declare!(self, AnyValue, value, declaration)
    }

    fn timers<K: Key>(&mut self, declaration: TimerDeclaration) -> Result<AnyTimers<K>, StateError> {
        declare!(self, AnyTimers, timers, declaration)
    }

    fn map<K: Key, M: Key, V: Value>(&mut self, declaration: MapDeclaration) -> Result<AnyMap<K, M, V>, StateError> {
        declare!(self, AnyMap, map, declaration)
    }

    fn list<K: Key, V: Value>(&mut self, declaration: ListDeclaration) -> Result<AnyList<K, V>, StateError> {
        declare!(self, AnyList, list, declaration)
    }

    fn tables(&self) -> &[SharedTable] {
        each!(self, backend => backend.tables())
    }
}

impl<K: Key, V: Value> AnyValue<K, V> {
    /// Looks at the value.
    #[inline]
    pub fn peek<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> R {
        match self {
            Self::Heap(state) => state.read(hash, key, look).expect(HEAP),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.peek(hash, key, look),
        }
    }

    /// Changes the value, made by `init` if there is none.
    #[inline]
    pub fn fold<R>(&self, hash: u64, key: &K, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        match self {
            Self::Heap(state) => state.fold(hash, key.clone(), init, change),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.fold(hash, key, init, change),
        }
    }

    /// Sets the value.
    #[inline]
    pub fn set(&mut self, hash: u64, key: &K, value: V) {
        match self {
            Self::Heap(state) => state.put(hash, key.clone(), value).expect(HEAP),
            #[cfg(feature = "stored")]
            Self::Stored(state) => {
                let put = state.put(hash, key.clone(), value);
                state.failure().or_default(put);
            }
        }
    }

    /// Removes the value.
    pub fn clear(&mut self, hash: u64, key: &K) {
        match self {
            Self::Heap(state) => drop(state.remove(hash, key).expect(HEAP)),
            #[cfg(feature = "stored")]
            Self::Stored(state) => {
                let removed = state.remove(hash, key);
                drop(state.failure().or_default(removed));
            }
        }
    }

    /// Goes on looking for values that are `gone` and removes them; see [`HeapValue::sweep`].
    pub fn sweep(&self, cursor: &mut SweepCursor, budget: usize, gone: impl Fn(&V) -> bool) {
        match self {
            Self::Heap(state) => state.sweep(cursor, budget, gone),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.sweep(budget, gone),
        }
    }
}

impl<K: Key, V: Value> ValueState<K, V> for AnyValue<K, V> {
    #[inline]
    fn look_ahead(&self, hashes: impl Iterator<Item = u64>) {
        each!(self, state => state.look_ahead(hashes));
    }

    #[inline]
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        each!(self, state => state.read(hash, key, look))
    }

    #[inline]
    fn update<R>(
        &mut self,
        hash: u64,
        key: K,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        each!(self, state => state.update(hash, key, init, change))
    }

    #[inline]
    fn put(&mut self, hash: u64, key: K, value: V) -> Result<(), StateError> {
        each!(self, state => state.put(hash, key, value))
    }

    fn remove(&mut self, hash: u64, key: &K) -> Result<Option<V>, StateError> {
        each!(self, state => state.remove(hash, key))
    }
}

impl<K: Key, M: Key, V: Value> AnyMap<K, M, V> {
    /// Looks at the value of a user key.
    pub fn peek<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> R {
        match self {
            Self::Heap(state) => state.read(hash, key, field, look).expect(HASHABLE),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.peek(hash, key, field, look),
        }
    }

    /// Changes the value of a user key, made by `init` if there is none.
    pub fn fold<R>(
        &mut self,
        hash: u64,
        key: &K,
        field: M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        match self {
            Self::Heap(state) => state.update(hash, key, field, init, change).expect(HASHABLE),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.fold(hash, key, &field, init, change),
        }
    }

    /// The result of a call, or what stands for a failure that is kept aside.
    pub fn settle<T: Default>(&self, result: Result<T, StateError>) -> T {
        match self {
            Self::Heap(_) => result.expect(HASHABLE),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.failure().or_default(result),
        }
    }
}

impl<K: Key, M: Key, V: Value> MapState<K, M, V> for AnyMap<K, M, V> {
    fn read<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        each!(self, state => state.read(hash, key, field, look))
    }

    fn update<R>(
        &mut self,
        hash: u64,
        key: &K,
        field: M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        each!(self, state => state.update(hash, key, field, init, change))
    }

    fn put(&mut self, hash: u64, key: &K, field: M, value: V) -> Result<(), StateError> {
        each!(self, state => state.put(hash, key, field, value))
    }

    fn remove(&mut self, hash: u64, key: &K, field: &M) -> Result<Option<V>, StateError> {
        each!(self, state => state.remove(hash, key, field))
    }

    fn for_each(&self, hash: u64, key: &K, look: impl FnMut(&M, &V)) -> Result<(), StateError> {
        each!(self, state => state.for_each(hash, key, look))
    }

    fn is_empty(&self, hash: u64, key: &K) -> Result<bool, StateError> {
        each!(self, state => state.is_empty(hash, key))
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<(), StateError> {
        each!(self, state => state.clear(hash, key))
    }
}

impl<K: Key, V: Value> AnyList<K, V> {
    /// Looks at all elements, in their order.
    pub fn peek<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> R {
        match self {
            Self::Heap(state) => state.read(hash, key, look).expect(HEAP),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.peek(hash, key, look),
        }
    }

    /// The result of a call, or what stands for a failure that is kept aside.
    pub fn settle<T: Default>(&self, result: Result<T, StateError>) -> T {
        match self {
            Self::Heap(_) => result.expect(HEAP),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.failure().or_default(result),
        }
    }
}

impl<K: Key, V: Value> ListState<K, V> for AnyList<K, V> {
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> Result<R, StateError> {
        each!(self, state => state.read(hash, key, look))
    }

    fn append(&mut self, hash: u64, key: K, item: V) -> Result<(), StateError> {
        each!(self, state => state.append(hash, key, item))
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<Vec<V>, StateError> {
        each!(self, state => state.clear(hash, key))
    }
}

impl<K: Key> AnyTimers<K> {
    /// The result of a call, or what stands for a failure that is kept aside.
    pub fn settle<T: Default>(&self, result: Result<T, StateError>) -> T {
        match self {
            Self::Heap(_) => result.expect(HEAP),
            #[cfg(feature = "stored")]
            Self::Stored(state) => state.failure().or_default(result),
        }
    }
}

impl<K: Key> TimerState<K> for AnyTimers<K> {
    fn register(&mut self, hash: u64, key: K, time: i64) -> Result<bool, StateError> {
        each!(self, state => state.register(hash, key, time))
    }

    fn delete(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError> {
        each!(self, state => state.delete(hash, key, time))
    }

    fn pop_due(&mut self, now: i64) -> Result<Option<DueTimer<K>>, StateError> {
        each!(self, state => state.pop_due(now))
    }

    fn next_time(&mut self) -> Option<i64> {
        each!(self, state => state.next_time())
    }
}
