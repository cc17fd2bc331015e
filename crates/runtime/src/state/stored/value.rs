//! One value per key, in a store: read, decoded, encoded and written at each change.

use super::cache::Cache;
use super::failure::Failure;
use super::rows::{Row, Rows};
use crate::key::{Key, KeySpace, Shape};
use crate::segment::{BlockKind, StateKind, StateName};
use crate::state::entries::EntryReader;
use crate::state::face::KeyedTable;
use crate::state::heap::skim_value;
use crate::state::{SharedTable, StateError, Value, ValueState};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A sweep visits at least so many entries at once: to find where it goes on costs more than to go on.
const SWEEP_BATCH: usize = 1024;

struct ValueTable<K> {
    rows: Rows,
    /// Where the sweep goes on, and what it may visit and has not.
    sweep_from: Vec<u8>,
    sweep_budget: usize,
    of: PhantomData<fn() -> K>,
}

/// A value per key, in a store. Cheap to clone: clones share one table.
pub struct StoredValue<K, V> {
    table: Rc<RefCell<ValueTable<(K, V)>>>,
}

impl<K, V> Clone for StoredValue<K, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, V: Value> StoredValue<K, V> {
    pub(super) fn new(
        store: Rc<Cache>,
        name: Arc<StateName>,
        keys: KeySpace,
        failure: Failure,
    ) -> Result<(Self, SharedTable), StateError> {
        let rows = Rows::new(store, name, StateKind::Value, keys, failure)?;
        let table = ValueTable { rows, sweep_from: Vec::new(), sweep_budget: 0, of: PhantomData };
        let table = Rc::new(RefCell::new(table));
        let erased: SharedTable = Rc::<RefCell<ValueTable<(K, V)>>>::clone(&table);
        Ok((Self { table }, erased))
    }

    /// What failed first in the state of this subtask.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.table.borrow().rows.failure.clone()
    }

    /// As [`ValueState::read`], but a failure is kept aside and the value is absent.
    pub fn peek<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> R {
        let loaded = self.get(hash, key);
        let value = self.failure().or_default(loaded);
        look(value.as_ref())
    }

    /// As [`ValueState::update`], but a failure is kept aside.
    pub fn fold<R>(&self, hash: u64, key: &K, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        let loaded = self.table.borrow().load::<V>(hash, key);
        let (entry, found) = self.failure().or_default(loaded);
        let (old, value) = found.unzip();
        let mut value = value.unwrap_or_else(init);
        let changed = change(&mut value);
        if self.failure().get().is_none() {
            let stored = self.table.borrow_mut().store((key, &value), &entry, old.as_ref());
            self.failure().or_default(stored);
        }
        changed
    }

    /// Goes on looking for values that are `gone` and removes them, `budget` entries on average. Failures are kept aside.
    pub fn sweep(&self, budget: usize, gone: impl Fn(&V) -> bool) {
        let swept = self.table.borrow_mut().sweep(budget, gone);
        self.failure().or_default(swept);
    }
}

/// An entry's identity, and the row and the value if it is there.
type Loaded<V> = (Vec<u8>, Option<(Row, V)>);

impl<K: Key, V: Value> ValueTable<(K, V)> {
    fn load<T: Value>(&self, hash: u64, key: &K) -> Result<Loaded<T>, StateError> {
        let entry = self.rows.entry(hash, key)?;
        let Some(row) = self.rows.get(&entry)? else { return Ok((entry, None)) };
        let value = self.rows.decode(hash, &row.content)?;
        Ok((entry, Some((row, value))))
    }

    fn store(&mut self, (key, value): (&K, &V), entry: &[u8], old: Option<&Row>) -> Result<(), StateError> {
        let mut content = Vec::new();
        self.rows.encode(&mut content, value)?;
        if self.rows.wants_shapes() {
            self.rows.merge_shapes(Shape::of(key), Shape::of(value));
        }
        self.rows.put(entry, old, &content, Vec::new())
    }

    fn sweep(&mut self, budget: usize, gone: impl Fn(&V) -> bool) -> Result<(), StateError> {
        self.sweep_budget += budget;
        if self.sweep_budget < SWEEP_BATCH {
            return Ok(());
        }
        let mut left = std::mem::take(&mut self.sweep_budget);
        let mut found = Vec::new();
        let mut from = std::mem::take(&mut self.sweep_from);
        self.rows.visit(&[], &from.clone(), &mut |entry, row| {
            left -= 1;
            from = [entry, &[0]].concat();
            let value: V = self.rows.decode(0, &row.content)?;
            if gone(&value) {
                found.push((entry.to_vec(), row));
            }
            Ok(left > 0)
        })?;
        if left == 0 {
            self.sweep_from = from;
        }
        found.iter().try_for_each(|(entry, row)| self.rows.remove(entry, row, 1, Vec::new()))
    }
}

impl<K: Key, V: Value> ValueState<K, V> for StoredValue<K, V> {
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        let (_, found) = self.table.borrow().load::<V>(hash, key)?;
        Ok(look(found.as_ref().map(|(_, value)| value)))
    }

    fn update<R>(
        &mut self,
        hash: u64,
        key: K,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let (entry, found) = self.table.borrow().load::<V>(hash, &key)?;
        let (old, value) = found.unzip();
        let mut value = value.unwrap_or_else(init);
        let changed = change(&mut value);
        self.table.borrow_mut().store((&key, &value), &entry, old.as_ref())?;
        Ok(changed)
    }

    fn put(&mut self, hash: u64, key: K, value: V) -> Result<(), StateError> {
        let mut table = self.table.borrow_mut();
        let entry = table.rows.entry(hash, &key)?;
        let old = table.rows.get(&entry)?;
        table.store((&key, &value), &entry, old.as_ref())
    }

    fn remove(&mut self, hash: u64, key: &K) -> Result<Option<V>, StateError> {
        let mut table = self.table.borrow_mut();
        let (entry, found) = table.load::<V>(hash, key)?;
        let Some((row, value)) = found else { return Ok(None) };
        table.rows.remove(&entry, &row, 1, Vec::new())?;
        Ok(Some(value))
    }
}

impl<K: Key, V: Value> KeyedTable for ValueTable<(K, V)> {
    type User = K;
    type Snapshots = Rows;

    fn snapshots(&self) -> &Rows {
        &self.rows
    }

    fn snapshots_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let entry = self.rows.entry(hash, &key)?;
        if kind == BlockKind::Puts && self.rows.is_new() {
            return self.rows.load(&entry, reader.raw::<V>()?.0, None);
        }
        let old = self.rows.get(&entry)?;
        if kind == BlockKind::Deletes {
            return old.map_or(Ok(()), |old| self.rows.remove(&entry, &old, 1, Vec::new()));
        }
        // Decoded, so that what does not fit is refused before the first record; kept as it is.
        let (content, _) = reader.raw::<V>()?;
        self.rows.put(&entry, old.as_ref(), content, Vec::new())
    }

    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        skim_value::<V>(kind, reader)
    }

    fn value_type() -> Shape {
        Shape::of_type::<V>()
    }
}
