//! A map per key, in a store: its entries lie side by side behind their key, each by itself.

use super::cache::Cache;
use super::failure::Failure;
use super::rows::{Row, Rows};
use crate::key::{Key, KeySpace, Shape, hash_key};
use crate::segment::{BlockKind, StateKind, StateName};
use crate::state::entries::EntryReader;
use crate::state::face::KeyedTable;
use crate::state::map::skim_entry;
use crate::state::{MapState, SharedTable, StateError, Value};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// So many entries are removed at a time when a map is cleared.
const CLEAR_BATCH: usize = 1024;

struct MapTable<T> {
    rows: Rows,
    of: PhantomData<fn() -> T>,
}

/// A map per key, in a store. Cheap to clone: clones share one table.
pub struct StoredMap<K, M, V> {
    table: Rc<RefCell<MapTable<(K, M, V)>>>,
}

impl<K, M, V> Clone for StoredMap<K, M, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, M: Key, V: Value> StoredMap<K, M, V> {
    pub(super) fn new(
        store: Rc<Cache>,
        (name, copies): (Arc<StateName>, bool),
        keys: KeySpace,
        failure: Failure,
    ) -> Result<(Self, SharedTable), StateError> {
        let kind = if copies { StateKind::Broadcast } else { StateKind::Map };
        let rows = Rows::new(store, name, kind, keys, failure)?;
        let table = Rc::new(RefCell::new(MapTable { rows, of: PhantomData }));
        let erased: SharedTable = Rc::<RefCell<MapTable<(K, M, V)>>>::clone(&table);
        Ok((Self { table }, erased))
    }

    /// What failed first in the state of this subtask.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.table.borrow().rows.failure.clone()
    }

    /// As [`MapState::read`], but a failure is kept aside and the value is absent.
    pub fn peek<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> R {
        let loaded = self.table.borrow().load(hash, key, field);
        let (_, found) = self.failure().or_default(loaded);
        look(found.as_ref().map(|(_, value)| value))
    }

    /// As [`MapState::update`], but a failure is kept aside.
    pub fn fold<R>(
        &self,
        hash: u64,
        key: &K,
        field: &M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        let loaded = self.table.borrow().load(hash, key, field);
        let (entry, found) = self.failure().or_default(loaded);
        let (old, value) = found.unzip();
        let mut value = value.unwrap_or_else(init);
        let changed = change(&mut value);
        if self.failure().get().is_none() {
            let stored = self.table.borrow_mut().store((key, field, &value), &entry, old.as_ref());
            self.failure().or_default(stored);
        }
        changed
    }
}

/// An entry's identity, and the row and the value if it is there.
type Loaded<V> = (Vec<u8>, Option<(Row, V)>);

impl<K: Key, M: Key, V: Value> MapTable<(K, M, V)> {
    fn entry(&self, hash: u64, key: &K, field: &M) -> Result<Vec<u8>, StateError> {
        // Stored, a float would do; but the same job must run on the heap.
        hash_key(hash, field).map_err(|error| StateError::Key((*self.rows.declared.name).clone(), error))?;
        let mut entry = self.rows.entry(hash, key)?;
        self.rows.encode(&mut entry, field)?;
        Ok(entry)
    }

    fn load(&self, hash: u64, key: &K, field: &M) -> Result<Loaded<V>, StateError> {
        let entry = self.entry(hash, key, field)?;
        let Some(row) = self.rows.get(&entry)? else { return Ok((entry, None)) };
        let value = self.rows.decode(hash, &row.content)?;
        Ok((entry, Some((row, value))))
    }

    fn store(&mut self, (key, field, value): (&K, &M, &V), entry: &[u8], old: Option<&Row>) -> Result<(), StateError> {
        let mut content = Vec::new();
        self.rows.encode(&mut content, value)?;
        if self.rows.wants_shapes() {
            let of_value = Shape::Map(Box::new((Shape::of(field), Shape::of(value))));
            self.rows.merge_shapes(Shape::of(key), of_value);
        }
        self.rows.put(entry, old, &content, Vec::new())
    }
}

impl<K: Key, M: Key, V: Value> MapState<K, M, V> for StoredMap<K, M, V> {
    fn read<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        let (_, found) = self.table.borrow().load(hash, key, field)?;
        Ok(look(found.as_ref().map(|(_, value)| value)))
    }

    fn update<R>(
        &mut self,
        hash: u64,
        key: &K,
        field: M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let (entry, found) = self.table.borrow().load(hash, key, &field)?;
        let (old, value) = found.unzip();
        let mut value = value.unwrap_or_else(init);
        let changed = change(&mut value);
        self.table.borrow_mut().store((key, &field, &value), &entry, old.as_ref())?;
        Ok(changed)
    }

    fn put(&mut self, hash: u64, key: &K, field: M, value: V) -> Result<(), StateError> {
        let mut table = self.table.borrow_mut();
        let entry = table.entry(hash, key, &field)?;
        let old = table.rows.get(&entry)?;
        table.store((key, &field, &value), &entry, old.as_ref())
    }

    fn remove(&mut self, hash: u64, key: &K, field: &M) -> Result<Option<V>, StateError> {
        let mut table = self.table.borrow_mut();
        let (entry, found) = table.load(hash, key, field)?;
        let Some((row, value)) = found else { return Ok(None) };
        table.rows.remove(&entry, &row, 1, Vec::new())?;
        Ok(Some(value))
    }

    fn for_each(&self, hash: u64, key: &K, mut look: impl FnMut(&M, &V)) -> Result<(), StateError> {
        let table = self.table.borrow();
        let prefix = table.rows.entry(hash, key)?;
        table.rows.visit(&prefix, &[], &mut |field, row| {
            let (field, value) = (table.rows.decode(hash, field)?, table.rows.decode(hash, &row.content)?);
            look(&field, &value);
            Ok(true)
        })
    }

    fn is_empty(&self, hash: u64, key: &K) -> Result<bool, StateError> {
        let table = self.table.borrow();
        let prefix = table.rows.entry(hash, key)?;
        let mut empty = true;
        table.rows.visit(&prefix, &[], &mut |_, _| {
            empty = false;
            Ok(false)
        })?;
        Ok(empty)
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<(), StateError> {
        let mut table = self.table.borrow_mut();
        let prefix = table.rows.entry(hash, key)?;
        loop {
            let mut batch = Vec::new();
            table.rows.visit(&prefix, &[], &mut |field, row| {
                batch.push(([prefix.as_slice(), field].concat(), row));
                Ok(batch.len() < CLEAR_BATCH)
            })?;
            batch.iter().try_for_each(|(entry, row)| table.rows.remove(entry, row, 1, Vec::new()))?;
            if batch.len() < CLEAR_BATCH {
                return Ok(());
            }
        }
    }
}

impl<K: Key, M: Key, V: Value> KeyedTable for MapTable<(K, M, V)> {
    type User = K;
    type Snapshots = Rows;

    fn snapshots(&self) -> &Rows {
        &self.rows
    }

    fn snapshots_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let field: M = reader.value()?;
        let entry = self.entry(hash, &key, &field)?;
        if kind == BlockKind::Puts && self.rows.is_new() {
            return self.rows.load(&entry, reader.raw::<V>()?.0, None);
        }
        let old = self.rows.get(&entry)?;
        if kind == BlockKind::Deletes {
            return old.map_or(Ok(()), |old| self.rows.remove(&entry, &old, 1, Vec::new()));
        }
        let (content, _) = reader.raw::<V>()?;
        self.rows.put(&entry, old.as_ref(), content, Vec::new())
    }

    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        skim_entry::<M, V>(kind, reader)
    }

    fn value_type() -> Shape {
        Shape::Map(Box::new((Shape::of_type::<M>(), Shape::of_type::<V>())))
    }
}
