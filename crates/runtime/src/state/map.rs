//! Maps on the heap: one entry per key and user key in a versioned table, plus an index that finds the entries of a key.
//!
//! Only the table is in a snapshot. The index is derived from it, holds hashes and no keys, and is kept as it grows, so a
//! restore has to rebuild nothing.

use super::entries::{EntryFormat, EntryReader, write_value};
use super::face::KeyedTable;
use super::heap::Snapshots;
use super::versioned::{Entry, Place, TableKey};
use super::{MapState, SharedTable, StateError, StateKind, StateName, Value};
use crate::key::{Key, KeyError, KeySpace, Shape, hash_key};
use crate::segment::BlockKind;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What tells an entry from all others.
#[derive(Clone, PartialEq, Eq)]
struct MapKey<K, M> {
    key: K,
    field: M,
}

/// The bucket depends on the user key as well: one key may have many. The key's own hash is the seed.
fn bucket_hash<M: Key>(hash: u64, field: &M) -> Result<u64, KeyError> {
    hash_key(hash, field)
}

impl<K: Key, M: Key> TableKey for MapKey<K, M> {
    fn bucket_hash(&self, seed: u64) -> u64 {
        let hash = hash_key(seed, &self.key).expect("this key was hashed when it came in");
        bucket_hash(hash, &self.field).expect("this user key was hashed when it came in")
    }

    fn is(&self, other: &Self) -> bool {
        self.key.is(&other.key) && self.field.is(&other.field)
    }
}

/// Key, user key, value.
struct MapFormat;

impl<K: Key, M: Key, V: Value> EntryFormat<MapKey<K, M>, V> for MapFormat {
    fn write_key(out: &mut Vec<u8>, key: &MapKey<K, M>) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, &key.key)?;
        write_value(out, &key.field)
    }

    fn write_value(out: &mut Vec<u8>, value: &V) -> Result<(), rmp_serde::encode::Error> {
        write_value(out, value)
    }

    fn shapes(key: &MapKey<K, M>, value: &V) -> (Shape, Shape) {
        (Shape::of(&key.key), Shape::Map(Box::new((Shape::of(&key.field), Shape::of(value)))))
    }
}

struct MapTable<K, M, V> {
    snapshots: Snapshots<MapKey<K, M>, V, MapFormat>,
    /// Hash of the key and hash of the entry: how many entries have both, which is one unless hashes collide.
    index: BTreeMap<(u64, u64), u32>,
}

impl<K: Key, M: Key, V: Value> MapTable<K, M, V> {
    fn place(&self, hash: u64, field: &M) -> Result<Place, StateError> {
        let bucket_hash = bucket_hash(hash, field)
            .map_err(|error| StateError::Key((*self.snapshots.declared.name).clone(), error))?;
        Ok(self.at(hash, bucket_hash))
    }

    fn at(&self, hash: u64, bucket_hash: u64) -> Place {
        Place { group: self.snapshots.space.group(hash).0, bucket_hash }
    }

    fn find(&self, hash: u64, key: &K, field: &M) -> Result<Option<&V>, StateError> {
        let place = self.place(hash, field)?;
        let is = |entry: &Entry<MapKey<K, M>, V>| entry.key.field.is(field) && entry.key.key.is(key);
        Ok(self.snapshots.entries.find(place, is).map(|entry| &entry.value))
    }

    /// The value, for writing, made by `init` if there is none.
    fn slot(&mut self, hash: u64, key: &K, field: M, init: impl FnOnce() -> V) -> Result<&mut V, StateError> {
        let place = self.place(hash, &field)?;
        let (value, new) = self.snapshots.entries.slot(place, MapKey { key: key.clone(), field }, init);
        if new {
            *self.index.entry((hash, place.bucket_hash)).or_default() += 1;
        }
        Ok(value)
    }

    fn put(&mut self, hash: u64, key: &K, field: M, value: V) -> Result<(), StateError> {
        let mut value = Some(value);
        let slot = self.slot(hash, key, field, || value.take().expect("called at most once"))?;
        if let Some(value) = value {
            *slot = value;
        }
        Ok(())
    }

    fn remove(&mut self, hash: u64, key: &K, field: &M) -> Result<Option<V>, StateError> {
        let place = self.place(hash, field)?;
        let is = |entry: &Entry<MapKey<K, M>, V>| entry.key.field.is(field) && entry.key.key.is(key);
        let removed = self.snapshots.entries.remove(place, is);
        if removed.is_some() {
            self.forget(hash, place.bucket_hash);
        }
        Ok(removed.map(|(_, value)| value))
    }

    fn forget(&mut self, hash: u64, bucket_hash: u64) {
        let count = self.index.get_mut(&(hash, bucket_hash)).expect("every entry is in the index");
        *count -= 1;
        if *count == 0 {
            self.index.remove(&(hash, bucket_hash));
        }
    }

    /// The entries of a key, in the order of their hashes.
    fn entries_of<'a>(&'a self, hash: u64, key: &'a K) -> impl Iterator<Item = (&'a M, &'a V)> {
        let hashes = self.index.range((hash, 0)..=(hash, u64::MAX));
        hashes.flat_map(move |(&(_, bucket_hash), _)| {
            let same = self.snapshots.entries.with_hash(self.at(hash, bucket_hash));
            // Another entry of the group may have the same hash, or one that looks like it.
            let is = move |entry: &&Entry<MapKey<K, M>, V>| {
                entry.key.key.is(key) && self::bucket_hash(hash, &entry.key.field) == Ok(bucket_hash)
            };
            same.filter(is).map(|entry| (&entry.key.field, &entry.value))
        })
    }
}

impl<K: Key, M: Key, V: Value> KeyedTable for MapTable<K, M, V> {
    type User = K;
    type Snapshots = Snapshots<MapKey<K, M>, V, MapFormat>;

    fn snapshots(&self) -> &Snapshots<MapKey<K, M>, V, MapFormat> {
        &self.snapshots
    }

    fn snapshots_mut(&mut self) -> &mut Snapshots<MapKey<K, M>, V, MapFormat> {
        &mut self.snapshots
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let field: M = reader.value()?;
        match kind {
            BlockKind::Deletes => self.remove(hash, &key, &field).map(drop),
            BlockKind::Puts => {
                let value = reader.value()?;
                self.put(hash, &key, field, value)
            }
        }
    }

    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        skim_entry::<M, V>(kind, reader)
    }

    fn value_type() -> Shape {
        Shape::Map(Box::new((Shape::of_type::<M>(), Shape::of_type::<V>())))
    }

    fn derived_memory(&self) -> usize {
        // A node of a B-tree is two thirds full on average.
        self.index.len() * size_of::<((u64, u64), u32)>() * 3 / 2
    }
}

/// What follows the key of a map's entry, whatever keeps it.
pub(super) fn skim_entry<M: Key, V: Value>(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
    reader.value::<M>()?;
    if kind == BlockKind::Puts { reader.value::<V>().map(drop) } else { Ok(()) }
}

/// A map per key, on the heap. Cheap to clone: clones share one table.
pub struct HeapMap<K, M, V> {
    table: Rc<RefCell<MapTable<K, M, V>>>,
}

impl<K, M, V> Clone for HeapMap<K, M, V> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

impl<K: Key, M: Key, V: Value> HeapMap<K, M, V> {
    pub(super) fn new(name: Arc<StateName>, copies: bool, space: KeySpace) -> (Self, SharedTable) {
        let kind = if copies { StateKind::Broadcast } else { StateKind::Map };
        let snapshots = Snapshots::new(name, kind, space);
        let table = Rc::new(RefCell::new(MapTable { snapshots, index: BTreeMap::new() }));
        let erased: SharedTable = Rc::<RefCell<MapTable<K, M, V>>>::clone(&table);
        (Self { table }, erased)
    }
}

impl<K: Key, M: Key, V: Value> MapState<K, M, V> for HeapMap<K, M, V> {
    fn read<R>(&self, hash: u64, key: &K, field: &M, look: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        Ok(look(self.table.borrow().find(hash, key, field)?))
    }

    fn update<R>(
        &mut self,
        hash: u64,
        key: &K,
        field: M,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        Ok(change(self.table.borrow_mut().slot(hash, key, field, init)?))
    }

    fn put(&mut self, hash: u64, key: &K, field: M, value: V) -> Result<(), StateError> {
        self.table.borrow_mut().put(hash, key, field, value)
    }

    fn remove(&mut self, hash: u64, key: &K, field: &M) -> Result<Option<V>, StateError> {
        self.table.borrow_mut().remove(hash, key, field)
    }

    fn for_each(&self, hash: u64, key: &K, mut look: impl FnMut(&M, &V)) -> Result<(), StateError> {
        self.table.borrow().entries_of(hash, key).for_each(|(field, value)| look(field, value));
        Ok(())
    }

    fn is_empty(&self, hash: u64, key: &K) -> Result<bool, StateError> {
        Ok(self.table.borrow().entries_of(hash, key).next().is_none())
    }

    fn clear(&mut self, hash: u64, key: &K) -> Result<(), StateError> {
        let mut table = self.table.borrow_mut();
        let fields: Vec<M> = table.entries_of(hash, key).map(|(field, _)| field.clone()).collect();
        fields.iter().try_for_each(|field| table.remove(hash, key, field).map(drop))
    }
}
