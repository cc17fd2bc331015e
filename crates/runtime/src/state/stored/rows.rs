//! The entries of one state as bytes, snapshotted while they are written: what all stored state is made of.
//!
//! It is the heap's way (`versioned.rs`) over a store: every entry carries the epoch of its last write, a cut only remembers
//! the epoch, a scan goes over the entries in small steps, and a write to an entry that a scan still needs saves the old
//! value first. An increment is scanned over a log of changed keys. So a cut asks nothing of the store, and segments,
//! chains and restores are those of the heap.

use super::cache::Cache;
use super::change_log::{ChangeLog, ENTRY, EXTRA, REMOVED, WRITTEN, logged, split_logged};
use super::failure::Failure;
use super::list::Lengths;
use super::load::Load;
use super::open_cut::{OpenCut, Stage};
use crate::key::{KeySpace, Shape};
use crate::segment::{SegmentOut, StateKind, StateName};
use crate::state::StateError;
use crate::state::declared::Declared;
use crate::state::entries::{BlockSink, write_value};
use crate::state::face::Snapshotted;
use crate::state::store::{Change, Space, StoreError};
use crate::state::versioned::{Cut, EntrySink, Epoch, Progress, RESTORED};
use flott_checkpoint::{CheckpointId, Kind};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Each so many writes the types are looked at: shapes have holes that later entries may fill.
const LOOK_AT_SHAPES: u64 = 1024;

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Of its last write.
    pub(super) epoch: Epoch,
    pub(super) content: Vec<u8>,
}

/// Sees what follows a prefix, and the row; false ends the visit.
pub(super) type LookAt<'a> = &'a mut dyn FnMut(&[u8], Row) -> Result<bool, StateError>;

/// A key and what belongs to it.
type Piece = (Vec<u8>, Vec<u8>);

pub(super) struct Rows {
    store: Rc<Cache>,
    space: Space,
    pub(super) declared: Declared,
    pub(super) keys: KeySpace,
    pub(super) failure: Failure,
    epoch: Epoch,
    /// Entries; for lists their elements.
    pub(super) len: usize,
    writes: u64,
    log: ChangeLog,
    /// What is restored comes from a full part.
    full: bool,
    /// Entries of it, and what the kind keeps besides, that are not in the store yet.
    load: [Load; 2],
    /// How often some were handed over.
    loads: usize,
    /// Checkpoints that a later one may name as its base, and their cut epochs.
    known: BTreeMap<CheckpointId, Epoch>,
    open: Vec<OpenCut>,
    /// A key and a value on their way to the store: memory that is used again.
    key: Cell<Vec<u8>>,
    value: Vec<u8>,
}

impl Rows {
    pub(super) fn new(
        store: Rc<Cache>,
        name: Arc<StateName>,
        kind: StateKind,
        keys: KeySpace,
        failure: Failure,
    ) -> Result<Self, StateError> {
        let made = store.create(&name).map_err(|StoreError(text)| StateError::Backend((*name).clone(), text));
        let declared = Declared::new(name, kind);
        let (known, open) = (BTreeMap::new(), Vec::new());
        let (log, epoch) = (ChangeLog::new(), RESTORED);
        let (len, writes, space) = (0, 0, made?);
        let (full, load, loads) = (false, Default::default(), 0);
        let (key, value) = (Cell::default(), Vec::new());
        Ok(Self {
            store,
            space,
            declared,
            keys,
            failure,
            epoch,
            len,
            writes,
            log,
            full,
            load,
            loads,
            known,
            open,
            key,
            value,
        })
    }

    pub(super) fn failed(&self) -> impl Fn(StoreError) -> StateError + use<> {
        let name = Arc::clone(&self.declared.name);
        move |StoreError(text)| StateError::Backend((*name).clone(), text)
    }

    pub(super) fn encode<T: serde::Serialize>(&self, out: &mut Vec<u8>, value: &T) -> Result<(), StateError> {
        write_value(out, value).map_err(|error| StateError::Encode((*self.declared.name).clone(), error.to_string()))
    }

    pub(super) fn decode<T: serde::de::DeserializeOwned>(&self, hash: u64, bytes: &[u8]) -> Result<T, StateError> {
        rmp_serde::from_slice(bytes).map_err(|error| self.undecodable(hash, &error.to_string()))
    }

    pub(super) fn undecodable(&self, hash: u64, what: &str) -> StateError {
        StateError::Decode((*self.declared.name).clone(), self.keys.group(hash), what.to_owned())
    }

    /// The identity of an entry begins with the key group and the key.
    pub(super) fn entry<K: serde::Serialize>(&self, hash: u64, key: &K) -> Result<Vec<u8>, StateError> {
        let group = self.keys.group(hash);
        debug_assert!(self.keys.owns(group), "a record came to a worker that owns its key group");
        let mut entry = Vec::with_capacity(32);
        entry.extend_from_slice(&group.0.to_be_bytes());
        self.encode(&mut entry, key)?;
        Ok(entry)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn get(&self, entry: &[u8]) -> Result<Option<Row>, StateError> {
        self.look_up(entry, false)
    }

    fn look_up(&self, entry: &[u8], once: bool) -> Result<Option<Row>, StateError> {
        let look = |found: Option<&[u8]>| found.map(|bytes| self.row(bytes)).transpose();
        let mut key = self.key.take();
        set_to(&mut key, &[&[ENTRY], entry]);
        let found = self.store.get(self.space, &key, once, look);
        self.key.set(key);
        found.map_err(self.failed())?
    }

    fn row(&self, bytes: &[u8]) -> Result<Row, StateError> {
        let damaged =
            || StateError::Backend((*self.declared.name).clone(), "the store gave back a cut-off entry".to_owned());
        let (epoch, content) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        Ok(Row { epoch: Epoch::from_le_bytes(*epoch), content: content.to_vec() })
    }

    /// Whether what is restored now has no older self, and so can be [loaded](Rows::load).
    pub(super) fn is_new(&self) -> bool {
        self.full && self.epoch == RESTORED
    }

    /// Takes an entry that is new, and a key without a value that the kind keeps besides.
    pub(super) fn load(&mut self, entry: &[u8], content: &[u8], beside: Option<&[u8]>) -> Result<(), StateError> {
        debug_assert!(self.is_new(), "only a full part is loaded");
        let [entries, extra] = &mut self.load;
        entries.add([&[ENTRY], entry], [&RESTORED.to_le_bytes(), content]);
        beside.into_iter().for_each(|key| extra.add([&[EXTRA], key], [&[], &[]]));
        if self.load.iter().any(Load::is_full) { self.flush_load() } else { Ok(()) }
    }

    fn flush_load(&mut self) -> Result<(), StateError> {
        let failed = self.failed();
        let [entries, extra] = &mut self.load;
        let loaded = entries.flush(&self.store, self.space).map_err(&failed)?;
        extra.flush(&self.store, self.space).map_err(&failed)?;
        self.len += loaded;
        self.loads += usize::from(loaded > 0);
        Ok(())
    }

    /// The full part is over. In several hand-overs an entry may have been twice, which only a look at all of them tells.
    fn end_load(&mut self) -> Result<(), StateError> {
        self.flush_load()?;
        if std::mem::take(&mut self.loads) > 1 {
            let mut count = 0;
            self.visit(&[], &[], &mut |_, _| {
                count += 1;
                Ok(true)
            })?;
            self.len = count;
        }
        Ok(())
    }

    /// Writes an entry that was `old` until now, with what belongs to it.
    pub(super) fn put(
        &mut self,
        entry: &[u8],
        old: Option<&Row>,
        content: &[u8],
        mut beside: Vec<Change>,
    ) -> Result<(), StateError> {
        if !self.declared.kind.is_list() {
            self.len += usize::from(old.is_none());
            old.into_iter().try_for_each(|old| self.save(entry, old))?;
        }
        if self.log.is_on(self.epoch) && old.is_none_or(|old| old.epoch != self.epoch) {
            beside.extend(self.log.add(WRITTEN, self.epoch, entry, &self.store));
        }
        self.writes += 1;
        let (mut key, mut value) = (self.key.take(), std::mem::take(&mut self.value));
        set_to(&mut key, &[&[ENTRY], entry]);
        set_to(&mut value, &[&self.epoch.to_le_bytes(), content]);
        let written = if beside.is_empty() {
            self.store.put(self.space, &key, &value)
        } else {
            beside.push(Change::Put(key.clone(), value.clone()));
            self.store.write(self.space, beside)
        };
        (self.key, self.value) = (Cell::new(key), value);
        written.map_err(self.failed())?;
        self.log.give_up(self.epoch, self.len);
        Ok(())
    }

    /// Removes an entry that is there as `old`, with what belongs to it. Of a list, `elements` go with it.
    pub(super) fn remove(
        &mut self,
        entry: &[u8],
        old: &Row,
        elements: usize,
        mut beside: Vec<Change>,
    ) -> Result<(), StateError> {
        self.save(entry, old)?;
        self.len -= elements;
        beside.push(Change::Delete(in_area(ENTRY, entry)));
        if self.log.is_on(self.epoch) {
            beside.extend(self.log.add(REMOVED, self.epoch, entry, &self.store));
        }
        self.store.write(self.space, beside).map_err(self.failed())?;
        self.log.give_up(self.epoch, self.len);
        Ok(())
    }

    /// Whether the types of this write should be looked at.
    pub(super) fn wants_shapes(&self) -> bool {
        self.writes.is_multiple_of(LOOK_AT_SHAPES)
    }

    pub(super) fn merge_shapes(&mut self, key: Shape, value: Shape) {
        self.declared.merge(key, value);
    }

    /// Entries whose identity begins with `prefix` and is not below `from`: what follows the prefix, and the content.
    pub(super) fn visit(&self, prefix: &[u8], from: &[u8], look: LookAt<'_>) -> Result<(), StateError> {
        let start = in_area(ENTRY, if from.is_empty() { prefix } else { from });
        let mut found = Ok(true);
        let mut take = |key: &[u8], value: &[u8]| {
            let rest = key.get(1 + prefix.len()..).unwrap_or_default();
            found = self.row(value).and_then(|row| look(rest, row));
            found == Ok(true)
        };
        let end = after(&in_area(ENTRY, prefix));
        self.store.visit(self.space, (&start, &end), false, &mut take).map_err(self.failed())?;
        found.map(drop)
    }

    /// As [`Rows::visit`], over what a kind keeps besides; keys are shown without their area.
    pub(super) fn visit_extra(
        &self,
        from: &[u8],
        prefix: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StateError> {
        let (start, end) = (in_area(EXTRA, from), after(&in_area(EXTRA, prefix)));
        let mut take = |key: &[u8], value: &[u8]| look(key.get(1..).unwrap_or_default(), value);
        self.store.visit(self.space, (&start, &end), false, &mut take).map_err(self.failed())
    }

    /// The epoch of the last write of this entry that a cut holds, if it holds any.
    fn held(&self, cut: Cut, row: &Row) -> Option<Epoch> {
        match self.declared.kind {
            StateKind::List | StateKind::SplitList => Lengths::decode(&row.content).held(cut),
            _ => cut.covers(row.epoch).then_some(row.epoch),
        }
    }

    /// Must run before an entry changes or goes away.
    fn save(&mut self, entry: &[u8], row: &Row) -> Result<(), StateError> {
        if row.epoch == self.epoch && !self.declared.kind.is_list() {
            return Ok(());
        }
        for index in 0..self.open.len() {
            let Some(open) = self.open.get(index) else { break };
            let needed = self.held(open.cut, row).is_some_and(|written| open.still_needs(entry, written));
            if needed {
                self.emit(index, entry, row, true)?;
            }
        }
        Ok(())
    }

    /// Writes what a cut holds of an entry; how many stored entries that is.
    fn emit(&mut self, index: usize, entry: &[u8], row: &Row, early: bool) -> Result<usize, StateError> {
        let Some(cut) = self.open.get(index).map(|open| open.cut) else { return Ok(0) };
        let Some((group, identity)) = entry.split_first_chunk::<2>() else { return Ok(0) };
        let group = u16::from_be_bytes(*group);
        if !self.declared.kind.is_list() {
            let Some(open) = self.open.get_mut(index) else { return Ok(0) };
            open.sink.put(group, &identity.to_vec(), &row.content, early);
            return Ok(1);
        }
        let pieces = self.pieces(entry, identity, Lengths::decode(&row.content).appended(cut))?;
        let Some(open) = self.open.get_mut(index) else { return Ok(0) };
        pieces.iter().for_each(|(key, value)| open.sink.put(group, key, value, early));
        Ok(pieces.len())
    }

    /// Elements of a list as a segment holds them: key and position, then the element.
    fn pieces(&self, entry: &[u8], key: &[u8], wanted: std::ops::Range<u32>) -> Result<Vec<Piece>, StateError> {
        let mut pieces = Vec::new();
        let mut position = wanted.start;
        let from = [entry, &wanted.start.to_be_bytes()].concat();
        let mut failed = Ok(());
        self.visit_extra(&from, entry, &mut |_, element| {
            if position >= wanted.end {
                return false;
            }
            let mut key = key.to_vec();
            failed = self.encode(&mut key, &position);
            pieces.push((key, element.to_vec()));
            position += 1;
            failed.is_ok()
        })?;
        failed?;
        if position < wanted.end {
            let text = format!("the store has lost elements of a list, from number {position} on");
            return Err(StateError::Backend((*self.declared.name).clone(), text));
        }
        Ok(pieces)
    }

    fn scan_open(&mut self, index: usize, mut budget: usize) -> Result<(), StateError> {
        while let Some(open) = self.open.get(index).filter(|open| open.stage != Stage::Done) {
            if budget == 0 {
                return Ok(());
            }
            let (stage, from, until) = (open.stage, open.from.clone(), open.until());
            let seen = self.next(stage, (&from, &until), budget).map_err(self.failed())?;
            let exhausted = seen.len() < budget;
            budget -= seen.len();
            let last = seen.last().map(|(key, _)| [key.as_slice(), &[0]].concat());
            for (key, value) in &seen {
                let more = self.scan_one(index, stage, key, value)?;
                budget = budget.saturating_sub(more.saturating_sub(1));
            }
            let Some(open) = self.open.get_mut(index) else { return Ok(()) };
            match last {
                _ if exhausted => open.enter(open.next_stage()),
                Some(last) => open.from = last,
                None => {}
            }
        }
        Ok(())
    }

    /// The first `most` keys of a stage from one on and below another, and what the store has for them.
    fn next(&mut self, stage: Stage, range: (&[u8], &[u8]), most: usize) -> Result<Vec<Piece>, StoreError> {
        let mut seen = Vec::new();
        if stage == Stage::All {
            let mut look = |key: &[u8], value: &[u8]| {
                seen.push((key.to_vec(), value.to_vec()));
                seen.len() < most
            };
            self.store.visit(self.space, range, true, &mut look)?;
        } else {
            let changes = self.log.read((&self.store, self.space), range, most)?;
            seen.extend(changes.into_iter().map(|key| (key, Vec::new())));
        }
        Ok(seen)
    }

    /// What a cut holds of one key that its scan has come to; how many stored entries that is.
    fn scan_one(&mut self, index: usize, stage: Stage, key: &[u8], value: &[u8]) -> Result<usize, StateError> {
        let Some(cut) = self.open.get(index).map(|open| open.cut) else { return Ok(0) };
        if stage == Stage::All {
            let (row, entry) = (self.row(value)?, key.get(1..).unwrap_or_default());
            return if self.held(cut, &row).is_some() { self.emit(index, entry, &row, false) } else { Ok(0) };
        }
        let Some((epoch, entry)) = split_logged(key) else { return Ok(0) };
        if stage == Stage::Removed {
            let Some((group, identity)) = entry.split_first_chunk::<2>() else { return Ok(0) };
            let Some(open) = self.open.get_mut(index) else { return Ok(0) };
            open.sink.delete(u16::from_be_bytes(*group), &identity.to_vec());
            return Ok(1);
        }
        // A key written in several epochs of the increment is taken at the last of them.
        match self.look_up(entry, true)? {
            Some(row) if self.held(cut, &row) == Some(epoch) => self.emit(index, entry, &row, false),
            _ => Ok(0),
        }
    }

    /// The oldest epoch whose end anybody may still ask for.
    pub(super) fn oldest_needed(&self) -> Epoch {
        let open = self.open.iter().map(|open| open.cut.base.unwrap_or(open.cut.epoch));
        open.fold(self.log.oldest_base(), Epoch::min)
    }

    fn trim(&mut self) -> Result<(), StateError> {
        let still_read = self.open.iter().filter_map(|open| open.cut.base).min();
        let Some((after, until)) = self.log.trim(still_read, &self.store) else { return Ok(()) };
        let failed = self.failed();
        [WRITTEN, REMOVED].into_iter().try_for_each(|area| {
            let (from, until) =
                (logged(area, after.saturating_add(1), &[]), logged(area, until.saturating_add(1), &[]));
            self.store.remove_range(self.space, &from, &until).map_err(&failed)
        })
    }
}

impl Snapshotted for Rows {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn declared_mut(&mut self) -> &mut Declared {
        &mut self.declared
    }

    fn space(&self) -> &KeySpace {
        &self.keys
    }

    fn restoring(&mut self, full: bool) {
        if self.full && !full {
            let flushed = self.end_load();
            self.failure.or_default(flushed);
        }
        self.full = full;
    }

    fn start(&mut self, restored: Option<CheckpointId>) {
        assert_eq!(self.epoch, RESTORED, "a state is started once, after its restore");
        self.restoring(false);
        self.load = Default::default();
        self.epoch = RESTORED + 1;
        self.known.extend(restored.map(|id| (id, RESTORED)));
    }

    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId> {
        assert!(self.epoch != RESTORED, "a state is started before its first cut");
        let base = base.filter(|_| kind != Kind::Savepoint);
        let known = base.and_then(|base| self.known.get(&base).copied());
        let cut = Cut { epoch: self.epoch, base: known.filter(|base| *base >= self.log.oldest_base()) };
        self.log.seal(self.epoch);
        self.epoch = self.epoch.checked_add(1).expect("136 years at one checkpoint a second");
        self.open.push(OpenCut::new(id, cut, BlockSink::new(Arc::clone(&self.declared.name))));
        if kind != Kind::Savepoint {
            self.known.insert(id, cut.epoch);
        }
        cut.base.and(base)
    }

    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError> {
        let Some(index) = self.open.iter().position(|open| open.id == id) else { return Ok(Progress::Done) };
        let scanned = match self.failure.get() {
            Some(failed) => Err(failed),
            None => self.scan_open(index, budget),
        };
        let flushed = scanned.and_then(|()| self.open.get_mut(index).map_or(Ok(()), |open| open.sink.flush(out)));
        if let Err(error) = flushed {
            self.abort(id);
            return Err(error);
        }
        if self.open.get(index).is_some_and(|open| open.stage != Stage::Done) {
            return Ok(Progress::More);
        }
        self.open.remove(index).sink.finish(out)?;
        self.trim()?;
        Ok(Progress::Done)
    }

    fn buffered(&self) -> usize {
        self.open.iter().map(|open| open.sink.buffered()).sum()
    }

    fn abort(&mut self, id: CheckpointId) {
        self.open.retain(|open| open.id != id);
        self.known.remove(&id);
    }

    fn completed(&mut self, id: CheckpointId) {
        if let Some(epoch) = self.known.get(&id) {
            self.log.forget_until(*epoch);
            self.known = self.known.split_off(&id);
            let trimmed = self.trim();
            self.failure.or_default(trimmed);
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    /// What it holds in memory itself; the store has a budget of its own.
    fn memory(&self) -> usize {
        self.buffered()
    }
}

fn set_to(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    bytes.clear();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

/// A key of a space.
pub(super) fn in_area(area: u8, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(area);
    bytes.extend_from_slice(key);
    bytes
}

/// The first key behind all that begin with `prefix`, which begins with an area.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("areas are small numbers")
}
