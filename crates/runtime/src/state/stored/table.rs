//! The erased face of stored state, written once: what the kinds differ in is how one stored entry is applied.

use super::rows::Rows;
use crate::key::{Key, Shape};
use crate::segment::{Block, BlockKind, Declaration, SegmentOut};
use crate::state::entries::EntryReader;
use crate::state::heap::checked_place;
use crate::state::versioned::Progress;
use crate::state::{StateError, Table};
use flott_checkpoint::{CheckpointId, Kind};
use std::any::Any;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;
use std::sync::Arc;

/// A kind of stored state.
pub(super) trait StoredKind {
    /// The job's key.
    type User: Key;

    fn rows(&self) -> &Rows;
    fn rows_mut(&mut self) -> &mut Rows;

    /// Applies one stored entry, of which hash and key have been read.
    fn apply(
        &mut self,
        kind: BlockKind,
        hash: u64,
        key: Self::User,
        reader: &mut EntryReader<'_>,
    ) -> Result<(), StateError>;
}

/// A kind of state, as its subtask sees it.
pub(super) struct Face<T>(pub(super) T);

/// Held by the handles and, erased, by the subtask.
pub(super) type Shared<T> = Rc<RefCell<Face<T>>>;

impl<T> Deref for Face<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Face<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: StoredKind> Table for Face<T> {
    fn declaration(&self) -> Declaration {
        self.rows().declaration()
    }

    fn expect(&mut self, stored: &Declaration) -> Result<(), StateError> {
        self.rows_mut().expect(stored)
    }

    fn restore(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), StateError> {
        let name = Arc::clone(&self.rows().name);
        for run in block.runs() {
            let (group, entries) = run.map_err(|error| StateError::Segment((*name).clone(), error))?;
            if !self.rows().keys.owns(group) || !groups.contains(&group.0) {
                continue;
            }
            let mut reader = EntryReader::new(entries, &name, group);
            let mut first = true;
            while !reader.is_empty() {
                let key: T::User = reader.value()?;
                if std::mem::take(&mut first) {
                    self.rows_mut().check_shape(Shape::of(&key))?;
                }
                let hash = checked_place(&self.rows().keys, &name, group, &key)?;
                self.apply(block.kind, hash, key, &mut reader)?;
            }
        }
        Ok(())
    }

    fn restore_copy(&mut self, block: &Block) -> Result<(), StateError> {
        let name = Arc::clone(&self.rows().name);
        let Some((hash, own)) = self.rows().keys.own_key() else { return Ok(()) };
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
        self.rows_mut().start(restored);
    }

    fn cut(&mut self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Option<CheckpointId> {
        self.rows_mut().cut(id, base, kind)
    }

    fn scan(&mut self, id: CheckpointId, budget: usize, out: &mut dyn SegmentOut) -> Result<Progress, StateError> {
        self.rows_mut().scan(id, budget, out)
    }

    fn buffered(&self) -> usize {
        self.rows().buffered()
    }

    fn abort(&mut self, id: CheckpointId) {
        self.rows_mut().abort(id);
    }

    fn completed(&mut self, id: CheckpointId) {
        self.rows_mut().completed(id);
    }

    fn len(&self) -> usize {
        self.rows().len
    }

    /// What it holds in memory itself; the store has a budget of its own.
    fn memory(&self) -> usize {
        self.rows().buffered()
    }
}
