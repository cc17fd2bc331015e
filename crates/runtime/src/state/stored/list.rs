//! A list per key, in a store: each element lies by itself, so an append reads no more than how long the list is.
//!
//! As on the heap, a list remembers by epoch how long it was, and an increment holds what was appended after its base.

use super::cache::Cache;
use super::change_log::EXTRA;
use super::failure::Failure;
use super::rows::{Row, Rows, in_area};
use crate::key::{Key, KeySpace, Shape};
use crate::segment::{BlockKind, StateKind, StateName};
use crate::state::entries::EntryReader;
use crate::state::face::KeyedTable;
use crate::state::split::{Foreign, skim_element};
use crate::state::store::Change;
use crate::state::versioned::{Cut, Epoch};
use crate::state::{ListState, Share, SharedTable, StateError, Value};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The content of a list's own entry: epochs in which elements were appended, oldest first, and the length after the last
/// of them, each two numbers of four bytes, little endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths(Vec<(Epoch, u32)>);

impl Lengths {
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let (pairs, _) = bytes.as_chunks::<8>();
        let pair = |[a, b, c, d, e, f, g, h]: &[u8; 8]| {
            (Epoch::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]))
        };
        Self(pairs.iter().map(pair).collect())
    }

    fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(epoch, length)| [epoch.to_le_bytes(), length.to_le_bytes()]).flatten().collect()
    }

    fn now(&self) -> u32 {
        self.0.last().map_or(0, |(_, length)| *length)
    }

    /// Nobody asks any more how long the list was before the end of `oldest`.
    fn push(&mut self, epoch: Epoch, oldest: Epoch) {
        let length = self.now().checked_add(1).expect("a list has fewer than 2^32 elements");
        match self.0.last_mut() {
            Some((last, known)) if *last == epoch => *known = length,
            _ => {
                let passed = self.0.iter().filter(|(epoch, _)| *epoch <= oldest).count();
                self.0.drain(..passed.saturating_sub(1));
                self.0.push((epoch, length));
            }
        }
    }

    fn at(&self, epoch: Epoch) -> Option<(Epoch, u32)> {
        self.0.iter().rev().find(|(appended, _)| *appended <= epoch).copied()
    }

    /// What was appended between the base and the cut.
    pub(super) fn appended(&self, cut: Cut) -> Range<u32> {
        let length = |epoch| self.at(epoch).map_or(0, |(_, length)| length);
        cut.base.map_or(0, length)..length(cut.epoch)
    }

    /// The last epoch of which a cut holds something, if it holds anything.
    pub(super) fn held(&self, cut: Cut) -> Option<Epoch> {
        if self.appended(cut).is_empty() { None } else { self.at(cut.epoch).map(|(epoch, _)| epoch) }
    }
}

struct ListTable<K, V> {
    rows: Rows,
    /// Of a split list, while it is restored: what comes from other workers.
    foreign: Option<Foreign<K, V>>,
}

/// A list per key, in a store. Cheap to clone: clones share one table.
pub struct StoredList<K, V> {
    table: Rc<RefCell<ListTable<K, V>>>,
}

impl<K, V> Clone for StoredList<K, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, V: Value> StoredList<K, V> {
    pub(super) fn new(
        store: Rc<Cache>,
        (name, split): (Arc<StateName>, bool),
        keys: KeySpace,
        failure: Failure,
    ) -> Result<(Self, SharedTable), StateError> {
        let kind = if split { StateKind::SplitList } else { StateKind::List };
        let rows = Rows::new(store, name, kind, keys, failure)?;
        let table = Rc::new(RefCell::new(ListTable { rows, foreign: None }));
        let erased: SharedTable = Rc::<RefCell<ListTable<K, V>>>::clone(&table);
        Ok((Self { table }, erased))
    }

    /// What failed first in the state of this subtask.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.table.borrow().rows.failure.clone()
    }

    /// As [`ListState::read`], but a failure is kept aside and the list is empty.
    pub fn peek<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> R {
        let items = self.table.borrow().items(hash, key);
        let items = self.failure().or_default(items);
        look(&items)
    }
}

impl<K: Key, V: Value> ListTable<K, V> {
    fn items(&self, hash: u64, key: &K) -> Result<Vec<V>, StateError> {
        let entry = self.rows.entry(hash, key)?;
        let Some(row) = self.rows.get(&entry)? else { return Ok(Vec::new()) };
        let mut items = Vec::new();
        let mut failed = Ok(());
        self.rows.visit_extra(&entry, &entry, &mut |_, element| {
            match self.rows.decode(hash, element) {
                Ok(item) => items.push(item),
                Err(error) => failed = Err(error),
            }
            failed.is_ok()
        })?;
        failed?;
        let known = Lengths::decode(&row.content).now();
        if items.len() != known as usize {
            return Err(self.rows.undecodable(hash, &format!("{} elements of a list of {known}", items.len())));
        }
        Ok(items)
    }

    fn push(&mut self, entry: &[u8], old: Option<&Row>, element: Vec<u8>) -> Result<(), StateError> {
        let mut lengths = old.map_or_else(Lengths::default, |row| Lengths::decode(&row.content));
        let place = element_key(entry, lengths.now());
        lengths.push(self.rows.epoch(), self.rows.oldest_needed());
        self.rows.put(entry, old, &lengths.encode(), vec![Change::Put(place, element)])?;
        self.rows.len += 1;
        Ok(())
    }

    fn append(&mut self, hash: u64, key: &K, item: &V) -> Result<(), StateError> {
        let entry = self.rows.entry(hash, key)?;
        let old = self.rows.get(&entry)?;
        let mut element = Vec::new();
        self.rows.encode(&mut element, item)?;
        if self.rows.wants_shapes() {
            self.rows.merge_shapes(Shape::of(key), Shape::Sequence(Box::new(Shape::of(item))));
        }
        self.push(&entry, old.as_ref(), element)
    }

    fn remove(&mut self, hash: u64, key: &K) -> Result<(), StateError> {
        let entry = self.rows.entry(hash, key)?;
        let Some(row) = self.rows.get(&entry)? else { return Ok(()) };
        let elements = Lengths::decode(&row.content).now();
        let beside = (0..elements).map(|position| Change::Delete(element_key(&entry, position)));
        self.rows.remove(&entry, &row, elements as usize, beside.collect())
    }
}

fn element_key(entry: &[u8], position: u32) -> Vec<u8> {
    in_area(EXTRA, &[entry, &position.to_be_bytes()].concat())
}

impl<K: Key, V: Value> ListState<K, V> for StoredList<K, V> {
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> Result<R, StateError> {
        let items = self.table.borrow().items(hash, key)?;
        Ok(look(&items))
    }

    fn append(&mut self, hash: u64, key: K, item: V) -> Result<(), StateError> {
        self.table.borrow_mut().append(hash, &key, &item)
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<Vec<V>, StateError> {
        let mut table = self.table.borrow_mut();
        let items = table.items(hash, key)?;
        table.remove(hash, key)?;
        Ok(items)
    }
}

impl<K: Key, V: Value> KeyedTable for ListTable<K, V> {
    type User = K;
    type Snapshots = Rows;

    fn snapshots(&self) -> &Rows {
        &self.rows
    }

    fn snapshots_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    /// The elements of a list come in order, or again; see the heap's.
    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        if kind == BlockKind::Deletes {
            return self.remove(hash, &key);
        }
        let position: u32 = reader.value()?;
        let (element, _) = reader.raw::<V>()?;
        let entry = self.rows.entry(hash, &key)?;
        let old = self.rows.get(&entry)?;
        let length = old.as_ref().map_or(0, |row| Lengths::decode(&row.content).now());
        if position > length {
            return Err(reader.damaged(&format!("element {position} of a list of {length}")));
        }
        if position == length {
            self.push(&entry, old.as_ref(), element.to_vec())?;
        }
        Ok(())
    }

    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        skim_element::<V>(kind, reader)
    }

    fn value_type() -> Shape {
        Shape::Sequence(Box::new(Shape::of_type::<V>()))
    }

    fn apply_foreign(
        &mut self,
        kind: BlockKind,
        (writer, share): (u32, &Share),
        (hash, key): (u64, K),
        reader: &mut EntryReader<'_>,
    ) -> Result<(), StateError> {
        self.foreign.get_or_insert_with(|| Foreign::under(hash, key)).apply(kind, writer, share, reader)
    }

    fn restored(&mut self) {
        if let Some((hash, key, items)) = self.foreign.take().map(Foreign::into_items) {
            let appended = items.iter().try_for_each(|item| self.append(hash, &key, item));
            self.rows.failure.or_default(appended);
        }
    }
}
