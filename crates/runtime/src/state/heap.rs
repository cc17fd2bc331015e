//! State on the heap: the default backend, and its value state.
//!
//! The backend is the registry of one subtask's tables. [`Snapshots`] is what all kinds of heap state share: the map
//! from checkpoints to epochs, and the erased face.

use super::declared::Declared;
use super::entries::{BlockSink, EntryFormat, EntryReader, write_value};
use super::face::{KeyedTable, Snapshotted};
use super::versioned::{EntrySink, Epoch, Place, Progress, RESTORED, TableKey, Versioned};
use super::{
    HeapList, HeapMap, HeapTimers, ListDeclaration, MapDeclaration, SegmentOut, SharedTable, StateBackend, StateError,
    StateKind, StateName, TimerDeclaration, Value, ValueDeclaration, ValueState,
};
use crate::key::{Key, KeySpace, Shape, encode_key, hash_key};
use crate::segment::BlockKind;
use flott_checkpoint::{CheckpointId, Kind};
use litemap::LiteMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The heap state of one subtask.
pub struct HeapBackend {
    space: KeySpace,
    names: Vec<StateName>,
    tables: Vec<SharedTable>,
}

impl HeapBackend {
    /// A backend without states, for the key groups that `space` owns.
    #[must_use]
    pub fn new(space: KeySpace) -> Self {
        Self { space, names: Vec::new(), tables: Vec::new() }
    }

    fn claim(&mut self, name: StateName) -> Result<Arc<StateName>, StateError> {
        if self.names.contains(&name) {
            return Err(StateError::Duplicate(name));
        }
        self.names.push(name.clone());
        Ok(Arc::new(name))
    }
}

impl StateBackend for HeapBackend {
    type Value<K: Key, V: Value> = HeapValue<K, V>;
    type Timers<K: Key> = HeapTimers<K>;
    type Map<K: Key, M: Key, V: Value> = HeapMap<K, M, V>;
    type List<K: Key, V: Value> = HeapList<K, V>;

    fn value<K: Key, V: Value>(&mut self, declaration: ValueDeclaration) -> Result<HeapValue<K, V>, StateError> {
        let name = self.claim(declaration.name)?;
        let table = Rc::new(RefCell::new(ValueTable(Snapshots::new(name, StateKind::Value, self.space.clone()))));
        let erased: SharedTable = Rc::<RefCell<ValueTable<K, V>>>::clone(&table);
        self.tables.push(erased);
        Ok(HeapValue { table })
    }

    fn timers<K: Key>(&mut self, declaration: TimerDeclaration) -> Result<HeapTimers<K>, StateError> {
        let name = self.claim(declaration.name)?;
        let (timers, table) = HeapTimers::new(name, self.space.clone());
        self.tables.push(table);
        Ok(timers)
    }

    fn map<K: Key, M: Key, V: Value>(&mut self, declaration: MapDeclaration) -> Result<HeapMap<K, M, V>, StateError> {
        let name = self.claim(declaration.name)?;
        let (map, table) = HeapMap::new(name, declaration.copies, self.space.clone());
        self.tables.push(table);
        Ok(map)
    }

    fn list<K: Key, V: Value>(&mut self, declaration: ListDeclaration) -> Result<HeapList<K, V>, StateError> {
        let name = self.claim(declaration.name)?;
        let (list, table) = HeapList::new(name, declaration.split, self.space.clone());
        self.tables.push(table);
        Ok(list)
    }

    fn tables(&self) -> &[SharedTable] {
        &self.tables
    }
}

/// A versioned table with the names of its cuts.
pub(super) struct Snapshots<K, V, F> {
    pub(super) entries: Versioned<K, V, BlockSink<F>>,
    pub(super) space: KeySpace,
    pub(super) declared: Declared,
    /// Checkpoints that a later one may name as its base, and their cut epochs.
    known: LiteMap<CheckpointId, Epoch>,
    /// Cuts whose scan is not done.
    open: Vec<(CheckpointId, Epoch)>,
}

impl<K: TableKey, V: Clone, F: EntryFormat<K, V>> Snapshots<K, V, F>
where
    BlockSink<F>: EntrySink<K, V>,
{
    pub(super) fn new(name: Arc<StateName>, kind: StateKind, space: KeySpace) -> Self {
        let entries = Versioned::new(space.owned.clone(), space.seed);
        let (known, open) = (LiteMap::new_vec(), Vec::new());
        Self { entries, space, declared: Declared::new(name, kind), known, open }
    }

    fn epoch_of(&self, id: CheckpointId) -> Option<Epoch> {
        self.open.iter().find(|(open, _)| *open == id).map(|(_, epoch)| *epoch)
    }
}

impl<K: TableKey, V: Clone, F: EntryFormat<K, V>> Snapshotted for Snapshots<K, V, F>
where
    BlockSink<F>: EntrySink<K, V>,
{
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn declared_mut(&mut self) -> &mut Declared {
        &mut self.declared
    }

    fn space(&self) -> &KeySpace {
        &self.space
    }

    fn start(&mut self, restored: Option<CheckpointId>) {
        self.entries.start();
        if let Some(id) = restored {
            self.known.insert(id, RESTORED);
        }
    }

    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId> {
        let base = base.filter(|_| kind != Kind::Savepoint);
        let base_epoch = base.and_then(|base| self.known.get(&base).copied());
        let cut = self.entries.cut(base_epoch, BlockSink::new(Arc::clone(&self.declared.name)));
        self.entries.sink(cut.epoch).expect("just made").set_cut(cut);
        self.open.push((id, cut.epoch));
        if kind != Kind::Savepoint {
            self.known.insert(id, cut.epoch);
        }
        cut.base.and(base)
    }

    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError> {
        let Some(epoch) = self.epoch_of(id) else { return Ok(Progress::Done) };
        let progress = self.entries.scan(epoch, budget);
        if let Some(Err(error)) = self.entries.sink(epoch).map(|sink| sink.flush(out)) {
            self.abort(id);
            return Err(error);
        }
        if progress == Progress::Done
            && let Some(sink) = self.entries.finish(epoch)
        {
            self.open.retain(|(open, _)| *open != id);
            let (key_shape, value_shape) = sink.finish(out)?;
            self.declared.merge(key_shape, value_shape);
        }
        Ok(progress)
    }

    fn buffered(&self) -> usize {
        self.entries.sinks().map(BlockSink::buffered).sum::<usize>() + self.entries.saved()
    }

    fn abort(&mut self, id: CheckpointId) {
        if let Some(epoch) = self.epoch_of(id) {
            self.entries.abort(epoch);
        }
        self.open.retain(|(open, _)| *open != id);
        self.known.remove(&id);
    }

    fn completed(&mut self, id: CheckpointId) {
        if let Some(epoch) = self.known.get(&id) {
            self.entries.completed(*epoch);
            self.known.retain(|known, _| *known >= id);
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn memory(&self) -> usize {
        self.entries.memory() + self.buffered()
    }
}

/// Where a stored key lies; an error if that is not where it was found.
pub(super) fn checked_place<K: Key>(
    space: &KeySpace,
    name: &StateName,
    stored: flott_checkpoint::KeyGroup,
    key: &K,
) -> Result<u64, StateError> {
    let hash = hash_key(space.seed, key).map_err(|error| StateError::Key(name.clone(), error))?;
    let hashed = space.group(hash);
    if hashed == stored { Ok(hash) } else { Err(StateError::WrongGroup { name: name.clone(), stored, hashed }) }
}

impl<K: Key> TableKey for K {
    #[inline]
    fn bucket_hash(&self, seed: u64) -> u64 {
        hash_key(seed, self).expect("this key was hashed when it came in")
    }

    #[inline]
    fn is(&self, other: &Self) -> bool {
        let same = self == other;
        debug_assert_eq!(
            same,
            encode_key(self) == encode_key(other),
            "keys must be equal exactly if they serialize alike: check the Eq and Serialize of the key type"
        );
        same
    }
}

/// Key and value, both whole.
struct ValueFormat;

impl<K: Key, V: Value> EntryFormat<K, V> for ValueFormat {
    fn write_key(out: &mut Vec<u8>, key: &K) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, key)
    }

    fn write_value(out: &mut Vec<u8>, value: &V) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, value)
    }

    fn shapes(key: &K, value: &V) -> (Shape, Shape) {
        (Shape::of(key), Shape::of(value))
    }
}

type ValueEntries<K, V> = Snapshots<K, V, ValueFormat>;

struct ValueTable<K, V>(ValueEntries<K, V>);

impl<K: Key, V: Value> KeyedTable for ValueTable<K, V> {
    type User = K;
    type Snapshots = ValueEntries<K, V>;

    fn snapshots(&self) -> &ValueEntries<K, V> {
        &self.0
    }

    fn snapshots_mut(&mut self) -> &mut ValueEntries<K, V> {
        &mut self.0
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let place = self.place(hash);
        match kind {
            BlockKind::Deletes => drop(self.0.entries.remove(place, |entry| entry.key.is(&key))),
            BlockKind::Puts => put(&mut self.0.entries, place, key, reader.value()?),
        }
        Ok(())
    }

    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        skim_value::<V>(kind, reader)
    }

    fn value_type() -> Shape {
        Shape::of_type::<V>()
    }
}

/// What follows the key of a value, whatever keeps it.
pub(super) fn skim_value<V: Value>(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
    if kind == BlockKind::Puts { reader.value::<V>().map(drop) } else { Ok(()) }
}

/// Sets a value, with one look-up.
pub(super) fn put<K: TableKey, V: Clone, S: EntrySink<K, V>>(
    entries: &mut Versioned<K, V, S>,
    place: Place,
    key: K,
    value: V,
) {
    let mut value = Some(value);
    let (slot, _) = entries.slot(place, key, || value.take().expect("called at most once"));
    if let Some(value) = value {
        *slot = value;
    }
}

/// Where a sweep goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepCursor((usize, usize));

/// One value per key, on the heap. Cheap to clone: clones share one table.
pub struct HeapValue<K, V> {
    table: Rc<RefCell<ValueTable<K, V>>>,
}

impl<K, V> Clone for HeapValue<K, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, V: Value> HeapValue<K, V> {
    /// Changes the value, made by `init` if there is none. This is the hot path of a fold: one look-up, one compare.
    ///
    /// # Panics
    /// If `change` uses this state, or if the key belongs to another worker.
    #[inline]
    pub fn fold<R>(&self, hash: u64, key: K, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        let mut table = self.table.borrow_mut();
        let place = table.place(hash);
        change(table.0.entries.slot(place, key, init).0)
    }

    /// Goes on looking for values that are `gone` and removes them: about `budget` buckets from `cursor` on, which begins as
    /// its default. A removal is a write like any other.
    ///
    /// # Panics
    /// If `gone` uses this state.
    pub fn sweep(&self, cursor: &mut SweepCursor, budget: usize, gone: impl Fn(&V) -> bool) {
        self.table.borrow_mut().0.entries.sweep(&mut cursor.0, budget, gone);
    }

    /// The erased face of this state.
    #[must_use]
    pub fn table(&self) -> SharedTable {
        Rc::<RefCell<ValueTable<K, V>>>::clone(&self.table)
    }
}

impl<K: Key, V: Value> ValueTable<K, V> {
    #[inline]
    fn place(&self, hash: u64) -> Place {
        Place { group: self.0.space.group(hash).0, bucket_hash: hash }
    }
}

impl<K: Key, V: Value> ValueState<K, V> for HeapValue<K, V> {
    /// The look-ups of one record depend on each other, those of many do not: done together, their cache misses overlap.
    #[inline]
    fn look_ahead(&self, hashes: impl Iterator<Item = u64>) {
        let table = self.table.borrow();
        for hash in hashes {
            table.0.entries.prefetch(table.place(hash));
        }
    }

    #[inline]
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        let table = self.table.borrow();
        Ok(look(table.0.entries.find(table.place(hash), |entry| entry.key.is(key)).map(|entry| &entry.value)))
    }

    #[inline]
    fn update<R>(
        &mut self,
        hash: u64,
        key: K,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        Ok(self.fold(hash, key, init, change))
    }

    #[inline]
    fn put(&mut self, hash: u64, key: K, value: V) -> Result<(), StateError> {
        let mut table = self.table.borrow_mut();
        let place = table.place(hash);
        put(&mut table.0.entries, place, key, value);
        Ok(())
    }

    fn remove(&mut self, hash: u64, key: &K) -> Result<Option<V>, StateError> {
        let mut table = self.table.borrow_mut();
        let place = table.place(hash);
        Ok(table.0.entries.remove(place, |entry| entry.key.is(key)).map(|(_, value)| value))
    }
}
