//! The erased face of all tables, written once: what the kinds of state differ in is how one stored entry is applied, and what
//! the backends differ in is how entries are kept and snapshotted.

use super::declared::Declared;
use super::entries::EntryReader;
use super::heap::checked_place;
use super::versioned::Progress;
use super::{Block, Declaration, SegmentOut, StateError, Table};
use crate::key::{Key, KeySpace, Shape};
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
        let name = Arc::clone(&self.snapshots().declared().name);
        for run in block.runs() {
            let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
            if !self.snapshots().space().owns(group) || !groups.contains(&group.0) {
                continue;
            }
            let mut reader = EntryReader::new(entries, &name, group);
            let mut first = true;
            while !reader.is_empty() {
                let key: T::User = reader.value()?;
                if std::mem::take(&mut first) {
                    self.snapshots_mut().declared_mut().check_shape(Shape::of(&key))?;
                }
                let hash = checked_place(self.snapshots().space(), &name, group, &key)?;
                self.apply(block.kind, hash, key, &mut reader)?;
            }
        }
        Ok(())
    }

    fn restore_copy(&mut self, block: &Block) -> Result<(), StateError> {
        let name = Arc::clone(&self.snapshots().declared().name);
        let Some((hash, own)) = self.snapshots().space().own_key() else { return Ok(()) };
        for run in block.runs() {
            let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
            let mut reader = EntryReader::new(entries, &name, group);
            while !reader.is_empty() {
                // The writer's own key says nothing here.
                let _: u64 = reader.value()?;
                let key = (&own as &dyn Any).downcast_ref::<T::User>().cloned();
                let key = key.ok_or_else(|| reader.decode("a copy under a key that is no number"))?;
                self.apply(block.kind, hash, key, &mut reader)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, restored: Option<CheckpointId>) {
        self.snapshots_mut().start(restored);
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
