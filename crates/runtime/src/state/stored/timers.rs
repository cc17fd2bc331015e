//! Timers in a store: one entry per key and time, and beside it one in the order of time. Only the former is in a
//! snapshot; a restore writes both.
//!
//! The earliest timer is remembered, so that whoever asks when to wake up reads nothing.

use super::cache::Cache;
use super::change_log::EXTRA;
use super::failure::Failure;
use super::rows::{Row, Rows, in_area};
use crate::key::{Key, KeySpace, Shape};
use crate::segment::{BlockKind, StateKind, StateName};
use crate::state::entries::EntryReader;
use crate::state::face::KeyedTable;
use crate::state::store::Change;
use crate::state::{DueTimer, SharedTable, StateError, TimerState};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What is known of the earliest timer, by its place in the order of time.
enum Head {
    /// This one, or none.
    Known(Option<Vec<u8>>),
    /// None before this place.
    NotBefore(Vec<u8>),
}

struct TimerTable<K> {
    rows: Rows,
    head: Head,
    of: PhantomData<fn() -> K>,
}

/// Timers in a store. Cheap to clone: clones share one table.
pub struct StoredTimers<K> {
    table: Rc<RefCell<TimerTable<K>>>,
}

impl<K> Clone for StoredTimers<K> {
    fn clone(&self) -> Self {
        Self { table: Rc::clone(&self.table) }
    }
}

/// Time and hash, so that they are ordered as numbers, then the entry.
fn place(time: i64, hash: u64, entry: &[u8]) -> Vec<u8> {
    let ordered = (time as u64) ^ (1 << 63);
    [&ordered.to_be_bytes(), &hash.to_be_bytes(), entry].concat()
}

fn split_place(place: &[u8]) -> Option<(i64, u64, &[u8])> {
    let (time, rest) = place.split_first_chunk::<8>()?;
    let (hash, entry) = rest.split_first_chunk::<8>()?;
    Some(((u64::from_be_bytes(*time) ^ (1 << 63)) as i64, u64::from_be_bytes(*hash), entry))
}

impl<K: Key> StoredTimers<K> {
    pub(super) fn new(
        store: Rc<Cache>,
        name: Arc<StateName>,
        keys: KeySpace,
        failure: Failure,
    ) -> Result<(Self, SharedTable), StateError> {
        let rows = Rows::new(store, name, StateKind::Timers, keys, failure)?;
        let table = Rc::new(RefCell::new(TimerTable { rows, head: Head::Known(None), of: PhantomData }));
        let erased: SharedTable = Rc::<RefCell<TimerTable<K>>>::clone(&table);
        Ok((Self { table }, erased))
    }

    /// What failed first in the state of this subtask.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.table.borrow().rows.failure.clone()
    }
}

impl<K: Key> TimerTable<K> {
    fn entry(&self, hash: u64, key: &K, time: i64) -> Result<Vec<u8>, StateError> {
        let mut entry = self.rows.entry(hash, key)?;
        self.rows.encode(&mut entry, &time)?;
        Ok(entry)
    }

    fn register(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError> {
        let entry = self.entry(hash, key, time)?;
        if self.rows.get(&entry)?.is_some() {
            return Ok(false);
        }
        if self.rows.wants_shapes() {
            self.rows.merge_shapes(Shape::of(key), Shape::Leaf("unit"));
        }
        let place = place(time, hash, &entry);
        self.rows.put(&entry, None, &[], vec![Change::Put(in_area(EXTRA, &place), Vec::new())])?;
        self.came(place);
        Ok(true)
    }

    /// A timer is there that was not.
    fn came(&mut self, place: Vec<u8>) {
        match &mut self.head {
            Head::Known(Some(head)) if *head <= place => {}
            Head::Known(head) => *head = Some(place),
            Head::NotBefore(low) if *low <= place => {}
            Head::NotBefore(_) => self.head = Head::Known(Some(place)),
        }
    }

    fn delete(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError> {
        let entry = self.entry(hash, key, time)?;
        let Some(row) = self.rows.get(&entry)? else { return Ok(false) };
        self.take(&entry, &row, place(time, hash, &entry))?;
        Ok(true)
    }

    fn take(&mut self, entry: &[u8], row: &Row, place: Vec<u8>) -> Result<(), StateError> {
        self.rows.remove(entry, row, 1, vec![Change::Delete(in_area(EXTRA, &place))])?;
        if matches!(&self.head, Head::Known(Some(head)) if *head == place) {
            self.head = Head::NotBefore(place);
        }
        Ok(())
    }

    /// The place of the earliest timer.
    fn head(&mut self) -> Result<Option<&Vec<u8>>, StateError> {
        if let Head::NotBefore(low) = &self.head {
            let mut found = None;
            self.rows.visit_extra(low, &[], &mut |place, _| {
                found = Some(place.to_vec());
                false
            })?;
            self.head = Head::Known(found);
        }
        match &self.head {
            Head::Known(head) => Ok(head.as_ref()),
            Head::NotBefore(_) => Ok(None),
        }
    }

    fn pop_due(&mut self, now: i64) -> Result<Option<DueTimer<K>>, StateError> {
        let Some(head) = self.head()?.cloned() else { return Ok(None) };
        let Some((time, hash, entry)) = split_place(&head) else {
            return Err(self.rows.undecodable(0, "the place of a timer is cut off"));
        };
        if time > now {
            return Ok(None);
        }
        let key: K =
            EntryReader::new(entry.get(2..).unwrap_or_default(), &self.rows.declared.name, self.rows.keys.group(hash))
                .value()?;
        let row = self.rows.get(entry)?;
        let row = row.ok_or_else(|| self.rows.undecodable(hash, "the store has lost a timer"))?;
        self.take(entry, &row, head.clone())?;
        Ok(Some(DueTimer { time, hash, key }))
    }

    fn next_time(&mut self) -> Result<Option<i64>, StateError> {
        Ok(self.head()?.and_then(|place| split_place(place)).map(|(time, ..)| time))
    }
}

impl<K: Key> TimerState<K> for StoredTimers<K> {
    fn register(&mut self, hash: u64, key: K, time: i64) -> Result<bool, StateError> {
        self.table.borrow_mut().register(hash, &key, time)
    }

    fn delete(&mut self, hash: u64, key: &K, time: i64) -> Result<bool, StateError> {
        self.table.borrow_mut().delete(hash, key, time)
    }

    fn pop_due(&mut self, now: i64) -> Result<Option<DueTimer<K>>, StateError> {
        self.table.borrow_mut().pop_due(now)
    }

    /// A failure is kept aside.
    fn next_time(&mut self) -> Option<i64> {
        let next = self.table.borrow_mut().next_time();
        self.failure().or_default(next)
    }
}

impl<K: Key> KeyedTable for TimerTable<K> {
    type User = K;
    type Snapshots = Rows;

    fn snapshots(&self) -> &Rows {
        &self.rows
    }

    fn snapshots_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn apply(&mut self, kind: BlockKind, hash: u64, key: K, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        let time: i64 = reader.value()?;
        if kind == BlockKind::Puts && self.rows.is_new() {
            let entry = self.entry(hash, &key, time)?;
            let place = place(time, hash, &entry);
            self.rows.load(&entry, &[], Some(&place))?;
            self.came(place);
            return Ok(());
        }
        match kind {
            BlockKind::Deletes => self.delete(hash, &key, time).map(drop),
            BlockKind::Puts => self.register(hash, &key, time).map(drop),
        }
    }

    fn skim(_: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
        reader.value::<i64>().map(drop)
    }

    fn value_type() -> Shape {
        Shape::of_type::<()>()
    }
}
