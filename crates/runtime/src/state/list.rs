//! Lists on the heap: they only grow, until they are cleared, so a snapshot needs no copy of what is there already.
//!
//! A list remembers by epoch how long it was. An append therefore saves nothing for a scan that still needs the list as it
//! was: the scan finds that part of it where it is. An increment holds only what was appended after its base.

use super::entries::{EntryFormat, EntryReader, write_value};
use super::face::KeyedTable;
use super::heap::Snapshots;
use super::split::{Foreign, skim_element};
use super::versioned::{Cut, Epoch, Place, TableKey};
use super::{ListState, Share, SharedTable, StateError, StateKind, StateName, Value};
use crate::key::{Key, KeySpace, Shape};
use crate::segment::BlockKind;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The elements of one key; never none.
#[derive(Clone)]
struct Elements<V> {
    items: Vec<V>,
    /// Epochs in which elements were appended, oldest first, and the length after the last of them.
    lengths: SmallVec<[(Epoch, u32); 2]>,
}

impl<V> Elements<V> {
    fn new() -> Self {
        Self { items: Vec::new(), lengths: SmallVec::new() }
    }

    /// Nobody asks any more how long the list was before the end of `oldest`.
    fn push(&mut self, item: V, epoch: Epoch, oldest: Epoch) {
        self.items.push(item);
        let length = u32::try_from(self.items.len()).expect("a list has fewer than 2^32 elements");
        match self.lengths.last_mut() {
            Some((last, known)) if *last == epoch => *known = length,
            _ => {
                let passed = self.lengths.iter().filter(|(epoch, _)| *epoch <= oldest).count();
                self.lengths.drain(..passed.saturating_sub(1));
                self.lengths.push((epoch, length));
            }
        }
    }

    /// How many elements there were at the end of an epoch.
    fn length_at(&self, epoch: Epoch) -> usize {
        let last = self.lengths.iter().rev().find(|(appended, _)| *appended <= epoch);
        last.map_or(0, |(_, length)| *length as usize)
    }

    /// What was appended between the base and the cut.
    fn appended(&self, cut: Cut) -> Range<usize> {
        cut.base.map_or(0, |base| self.length_at(base))..self.length_at(cut.epoch)
    }
}

/// Key, position, element; a delete is the whole list.
struct ListFormat;

impl<K: Key, V: Value> EntryFormat<K, Elements<V>> for ListFormat {
    fn write_key(out: &mut Vec<u8>, key: &K) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, key)
    }

    /// Pieces are written instead.
    fn write_value(_: &mut Vec<u8>, _: &Elements<V>) -> Result<(), rmp_serde::encode::Error> {
        Ok(())
    }

    fn shapes(key: &K, value: &Elements<V>) -> (Shape, Shape) {
        (Shape::of(key), value.items.first().map_or(Shape::Unknown, |item| Shape::Sequence(Box::new(Shape::of(item)))))
    }

    /// The last write says nothing: a list that grew since the cut still holds what the cut needs.
    fn covers(cut: Cut, _: Epoch, value: &Elements<V>) -> bool {
        !value.appended(cut).is_empty()
    }

    fn pieces(cut: Cut, value: &Elements<V>) -> Range<usize> {
        value.appended(cut)
    }

    fn write_piece(
        out: &mut Vec<u8>,
        key: &K,
        value: &Elements<V>,
        piece: usize,
    ) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, key)?;
        write_value(out, &piece)?;
        write_value(out, value.items.get(piece).expect("a list only grows"))
    }
}

struct ListTable<K, V> {
    snapshots: Snapshots<K, Elements<V>, ListFormat>,
    /// Elements of all lists.
    elements: usize,
    /// Of a split list, while it is restored: what comes from other workers.
    foreign: Option<Foreign<K, V>>,
}

impl<K: Key, V: Value> ListTable<K, V> {
    fn place(&self, hash: u64) -> Place {
        Place { group: self.snapshots.space.group(hash).0, bucket_hash: hash }
    }

    fn items(&self, hash: u64, key: &K) -> &[V] {
        let found = self.snapshots.entries.find(self.place(hash), |entry| entry.key.is(key));
        found.map_or(&[], |entry| &entry.value.items)
    }

    fn append(&mut self, hash: u64, key: K, item: V) {
        let place = self.place(hash);
        let (list, epoch, oldest) = self.snapshots.entries.grow(place, key, Elements::new);
        list.push(item, epoch, oldest);
        self.elements += 1;
    }

    fn clear(&mut self, hash: u64, key: &K) -> Vec<V> {
        let place = self.place(hash);
        let removed = self.snapshots.entries.remove(place, |entry| entry.key.is(key));
        let items = removed.map(|(_, list)| list.items).unwrap_or_default();
        self.elements -= items.len();
        items
    }
}

impl<K: Key, V: Value> KeyedTable for ListTable<K, V> {
    type User = K;
    type Snapshots = Snapshots<K, Elements<V>, ListFormat>;

    fn snapshots(&self) -> &Snapshots<K, Elements<V>, ListFormat> {
        &self.snapshots
    }

    fn snapshots_mut(&mut self) -> &mut Snapshots<K, Elements<V>, ListFormat> {
        &mut self.snapshots
    }

    /// The elements of a list come in order, or again: a list is written from one place at a time, and always from the
    /// length that it had at the base.
    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        if kind == BlockKind::Deletes {
            drop(self.clear(hash, &key));
            return Ok(());
        }
        let position: usize = reader.value()?;
        let item: V = reader.value()?;
        let length = self.items(hash, &key).len();
        if position > length {
            return Err(reader.damaged(&format!("element {position} of a list of {length}")));
        }
        if position == length {
            self.append(hash, key, item);
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
            items.into_iter().for_each(|item| self.append(hash, key.clone(), item));
        }
    }

    fn entries(&self) -> usize {
        self.elements
    }

    /// Of the elements, without what they own elsewhere; their vectors may have room for twice as many.
    fn derived_memory(&self) -> usize {
        self.elements * size_of::<V>()
    }
}

/// A list per key, on the heap. Cheap to clone: clones share one table.
pub struct HeapList<K, V> {
    table: Rc<RefCell<ListTable<K, V>>>,
}

impl<K, V> Clone for HeapList<K, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, V: Value> HeapList<K, V> {
    pub(super) fn new(name: Arc<StateName>, split: bool, space: KeySpace) -> (Self, SharedTable) {
        let kind = if split { StateKind::SplitList } else { StateKind::List };
        let snapshots = Snapshots::new(name, kind, space);
        let table = Rc::new(RefCell::new(ListTable { snapshots, elements: 0, foreign: None }));
        let erased: SharedTable = Rc::<RefCell<ListTable<K, V>>>::clone(&table);
        (Self { table }, erased)
    }
}

impl<K: Key, V: Value> ListState<K, V> for HeapList<K, V> {
    fn read<R>(&self, hash: u64, key: &K, look: impl FnOnce(&[V]) -> R) -> Result<R, StateError> {
        Ok(look(self.table.borrow().items(hash, key)))
    }

    fn append(&mut self, hash: u64, key: K, item: V) -> Result<(), StateError> {
        self.table.borrow_mut().append(hash, key, item);
        Ok(())
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<Vec<V>, StateError> {
        Ok(self.table.borrow_mut().clear(hash, key))
    }
}
