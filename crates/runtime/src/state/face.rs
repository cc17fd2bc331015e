//! The erased face of heap tables, written once: what the kinds of state differ in is how one stored entry is applied.

use super::entries::{BlockSink, EntryFormat, EntryReader};
use super::heap::{Snapshots, checked_place};
use super::versioned::{EntrySink, Progress, TableKey};
use super::{Block, Declaration, SegmentOut, StateError, Table};
use crate::key::{Key, Shape};
use crate::segment::BlockKind;
use flott_checkpoint::{CheckpointId, Kind};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// A kind of heap state.
pub(super) trait HeapKind {
    /// The job's key.
    type User: Key;
    /// What tells an entry of the table from all others.
    type Key: TableKey;
    /// The rest of it.
    type Value;
    /// How both are written.
    type Format: EntryFormat<Self::Key, Self::Value>;

    fn snapshots(&self) -> &Snapshots<Self::Key, Self::Value, Self::Format>;
    fn snapshots_mut(&mut self) -> &mut Snapshots<Self::Key, Self::Value, Self::Format>;

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

    fn entries(&self) -> usize
    where
        BlockSink<Self::Format>: EntrySink<Self::Key, Self::Value>,
    {
        self.snapshots().entries.len()
    }

    /// Bytes besides those of the table.
    fn derived_memory(&self) -> usize {
        0
    }
}

impl<T: HeapKind> Table for T
where
    BlockSink<T::Format>: EntrySink<T::Key, T::Value>,
{
    fn declaration(&self) -> Declaration {
        self.snapshots().declaration()
    }

    fn expect(&mut self, stored: &Declaration) -> Result<(), StateError> {
        self.snapshots_mut().expect(stored)
    }

    fn restore(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError> {
        let name = Arc::clone(&self.snapshots().name);
        for run in block.runs() {
            let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
            if !self.snapshots().space.owns(group) || !groups.contains(&group.0) {
                continue;
            }
            let mut reader = EntryReader::new(entries, &name, group);
            let mut first = true;
            while !reader.is_empty() {
                let key: T::User = reader.value()?;
                if std::mem::take(&mut first) {
                    self.snapshots_mut().check_shape(Shape::of(&key))?;
                }
                let hash = checked_place(&self.snapshots().space, &name, group, &key)?;
                self.apply(block.kind, hash, key, &mut reader)?;
            }
        }
        Ok(())
    }

    fn restore_copy(&mut self, block: &Block) -> Result<(), StateError> {
        let name = Arc::clone(&self.snapshots().name);
        let Some((hash, own)) = self.snapshots().space.own_key() else { return Ok(()) };
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
