//! The erased face of all tables, written once: what the kinds of state differ in is how one stored entry is applied, and what
//! the backends differ in is how entries are kept and snapshotted.

use super::declared::Declared;
use super::entries::EntryReader;
use super::heap::checked_place;
use super::versioned::Progress;
use super::{Block, Declaration, Misfit, SegmentOut, Share, StateError, Table};
use crate::key::{Key, KeySpace, Shape, owner};
use crate::segment::BlockKind;
use flott_checkpoint::{CheckpointId, Kind};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The entries of one state and their cuts, as a backend keeps them. Its functions are those of [`Table`].
pub(super) trait Snapshotted {
    fn declared(&self) -> &Declared;
    fn declared_mut(&mut self) -> &mut Declared;
    fn space(&self) -> &KeySpace;
    fn restoring(&mut self, full: bool) {
        let _ = full;
    }
    fn start(&mut self, restored: Option<CheckpointId>);
    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId>;
    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError>;
    fn buffered(&self) -> usize;
    fn abort(&mut self, id: CheckpointId);
    fn completed(&mut self, id: CheckpointId);
    fn len(&self) -> usize;
    fn memory(&self) -> usize;
}

/// A kind of state in a backend.
pub(super) trait KeyedTable {
    /// The job's key.
    type User: Key;
    /// How its entries are kept.
    type Snapshots: Snapshotted;

    fn snapshots(&self) -> &Self::Snapshots;
    fn snapshots_mut(&mut self) -> &mut Self::Snapshots;

    /// Applies one stored entry, of which hash and key have been read.
    fn apply(
        &mut self,
        kind: BlockKind,
        hash: u64,
        key: Self::User,
        reader: &mut EntryReader<'_>,
    ) -> Result<(), StateError>;

    /// Reads what follows the key of one stored entry, and keeps nothing.
    fn skim(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError>;

    /// The shape of the values that the job declares.
    fn value_type() -> Shape;

    /// Applies one stored entry that `writer` wrote under a key of its own; `hash` and `key` are this worker's.
    fn apply_foreign(
        &mut self,
        kind: BlockKind,
        (_writer, _share): (u32, &Share),
        (hash, key): (u64, Self::User),
        reader: &mut EntryReader<'_>,
    ) -> Result<(), StateError> {
        self.apply(kind, hash, key, reader)
    }

    /// All blocks are applied.
    fn restored(&mut self) {}

    /// The restore is over.
    fn started(&mut self) {}

    fn entries(&self) -> usize {
        self.snapshots().len()
    }

    /// Bytes besides those of the table.
    fn derived_memory(&self) -> usize {
        0
    }
}

impl<T: KeyedTable> Table for T {
    fn declaration(&self) -> Declaration {
        self.snapshots().declared().declaration()
    }

    fn expect(&mut self, stored: &Declaration) -> Result<(), StateError> {
        self.snapshots_mut().declared_mut().expect(stored)
    }

    fn restoring(&mut self, full: bool) {
        self.snapshots_mut().restoring(full);
    }

    fn restore(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError> {
        each_entry(self, block, groups, |table, hash, key, reader| table.apply(block.kind, hash, key, reader))
    }

    fn check(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError> {
        each_entry(self, block, groups, |_, _, _, reader| T::skim(block.kind, reader))
    }

    fn restore_foreign(&mut self, block: &Block, share: &Share) -> Result<(), StateError> {
        let name = Arc::clone(&self.snapshots().declared().name);
        self.snapshots_mut().declared_mut().foreign = true;
        let Some((hash, own)) = self.snapshots().space().own_key() else { return Ok(()) };
        let (seed, key_groups) = (self.snapshots().space().seed, self.snapshots().space().groups);
        for run in block.runs() {
            let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
            let writer = owner(group, key_groups, share.before.into());
            let of_writer = KeySpace::of_worker(seed, key_groups, share.before.into(), writer).own_key();
            let mut reader = EntryReader::new(entries, &name, group);
            while !reader.is_empty() {
                let place = reader.place();
                // Under any other key the job would never have seen it.
                let stored: u64 = reader.value()?;
                if of_writer.is_none_or(|(_, key)| key != stored) {
                    return Err(
                        reader.decode(&format!("an entry of worker {writer} under {stored}, which is not its own key"))
                    );
                }
                let key = (&own as &dyn Any).downcast_ref::<T::User>().cloned();
                let key = key.ok_or_else(|| reader.decode("an entry of a worker under a key that is no number"))?;
                let applied = self.apply_foreign(block.kind, (writer, share), (hash, key), &mut reader);
                applied.map_err(|error| explain(self, error, &reader, place))?;
            }
        }
        Ok(())
    }

    fn start(&mut self, restored: Option<CheckpointId>) {
        self.restored();
        let base = restored.filter(|_| !self.snapshots().declared().foreign);
        self.snapshots_mut().start(base);
        self.started();
    }

    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId> {
        self.snapshots_mut().cut(id, base, kind)
    }

    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError> {
        self.snapshots_mut().scan(id, budget, out)
    }

    fn buffered(&self) -> usize {
        self.snapshots().buffered()
    }

    fn abort(&mut self, id: CheckpointId) {
        self.snapshots_mut().abort(id);
    }

    fn completed(&mut self, id: CheckpointId) {
        self.snapshots_mut().completed(id);
    }

    fn len(&self) -> usize {
        self.entries()
    }

    fn memory(&self) -> usize {
        self.snapshots().memory() + self.derived_memory()
    }
}

/// Hands over the entries of some key groups in a block, of which hash and key have been read and checked.
fn each_entry<T: KeyedTable>(
    table: &mut T,
    block: &Block,
    groups: &Range<u16>,
    mut take: impl FnMut(&mut T, u64, T::User, &mut EntryReader<'_>) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let name = Arc::clone(&table.snapshots().declared().name);
    for run in block.runs() {
        let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
        if !table.snapshots().space().owns(group) || !groups.contains(&group.0) {
            continue;
        }
        let mut reader = EntryReader::new(entries, &name, group);
        let mut first = true;
        while !reader.is_empty() {
            let place = reader.place();
            let key: T::User = reader.value().map_err(|error| explain(table, error, &reader, place))?;
            if std::mem::take(&mut first) {
                table.snapshots_mut().declared_mut().check_shape(Shape::of(&key))?;
            }
            let hash = checked_place(table.snapshots().space(), &name, group, &key)?;
            take(table, hash, key, &mut reader).map_err(|error| explain(table, error, &reader, place))?;
        }
    }
    Ok(())
}

/// Of an entry whose bytes are those that were written: what it is, and what it should be.
fn explain<T: KeyedTable>(table: &T, error: StateError, reader: &EntryReader<'_>, place: usize) -> StateError {
    let StateError::Decode(name, group, cause) = error else { return error };
    let stored = table.snapshots().declared().restored_value.to_string();
    let (key, declared) = (reader.shown(place), T::value_type().to_string());
    StateError::Misfit(Box::new(Misfit { name, group, key, stored, declared, cause }))
}
