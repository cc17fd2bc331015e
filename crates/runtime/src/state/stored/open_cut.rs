//! One snapshot in progress: what it covers, and how far its scan is.

use super::change_log::{ENTRY, REMOVED, WRITTEN, logged};
use crate::key::Shape;
use crate::state::entries::{BlockSink, EntryFormat};
use crate::state::versioned::{Cut, Epoch};
use flott_checkpoint::CheckpointId;
use rmp_serde::encode::Error;

/// Entries are bytes already.
pub(super) struct Bytes;

impl EntryFormat<Vec<u8>, Vec<u8>> for Bytes {
    fn write_key(out: &mut Vec<u8>, key: &Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(key);
        Ok(())
    }

    fn write_value(out: &mut Vec<u8>, value: &Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(value);
        Ok(())
    }

    /// The handles know the types and look at them.
    fn shapes(_: &Vec<u8>, _: &Vec<u8>) -> (Shape, Shape) {
        (Shape::Unknown, Shape::Unknown)
    }
}

/// Which keys a scan goes over now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The removals of an increment.
    Removed,
    /// The written keys of an increment.
    Written,
    /// All entries.
    All,
    Done,
}

pub(super) struct OpenCut {
    pub(super) id: CheckpointId,
    pub(super) cut: Cut,
    pub(super) stage: Stage,
    /// Where the stage goes on: every key before this has been visited.
    pub(super) from: Vec<u8>,
    pub(super) sink: BlockSink<Bytes>,
}

impl OpenCut {
    pub(super) fn new(id: CheckpointId, cut: Cut, sink: BlockSink<Bytes>) -> Self {
        let mut open = Self { id, cut, stage: Stage::All, from: Vec::new(), sink };
        open.enter(if cut.base.is_some() { Stage::Removed } else { Stage::All });
        open
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        let first = self.cut.base.map_or(0, |base| base.saturating_add(1));
        self.from = match stage {
            Stage::Removed => logged(REMOVED, first, &[]),
            Stage::Written => logged(WRITTEN, first, &[]),
            Stage::All | Stage::Done => vec![ENTRY],
        };
    }

    /// The first key that no longer belongs to the stage.
    pub(super) fn until(&self) -> Vec<u8> {
        let end = self.cut.epoch.saturating_add(1);
        match self.stage {
            Stage::Removed => logged(REMOVED, end, &[]),
            Stage::Written => logged(WRITTEN, end, &[]),
            Stage::All | Stage::Done => vec![ENTRY + 1],
        }
    }

    pub(super) fn next_stage(&self) -> Stage {
        match self.stage {
            Stage::Removed => Stage::Written,
            Stage::Written | Stage::All | Stage::Done => Stage::Done,
        }
    }

    /// Whether an entry is still to be written: `written` is the epoch of its last write that the cut holds.
    pub(super) fn still_needs(&self, entry: &[u8], written: Epoch) -> bool {
        match self.stage {
            Stage::Removed => true,
            Stage::Written => logged(WRITTEN, written, entry) >= self.from,
            Stage::All => {
                let (area, rest) = self.from.split_first().map_or((ENTRY, &[] as &[u8]), |(area, rest)| (*area, rest));
                area == ENTRY && entry >= rest
            }
            Stage::Done => false,
        }
    }
}
