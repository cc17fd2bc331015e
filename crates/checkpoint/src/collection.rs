//! How expendable checkpoints are deleted without ever hurting a newer attempt (rule G2).
//!
//! Before each batch the collector looks at the slot after its attempt's last one; if somebody else holds it, it stops for
//! good. A collector that was stopped and continued then deletes at most the one batch it had been about to delete, and
//! that batch is of a checkpoint that its own attempt, older than the live one, had already found expendable.
//! Slot first, then manifest, then blobs: what the log names is whole at any moment.

use crate::ids::{AttemptId, CheckpointId, Slot};
use crate::retention::{Recorded, Retention};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// What is deleted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Batch {
    /// The log slot: from now on nobody restores it.
    Slot(Slot),
    /// The manifest of this checkpoint and attempt.
    Manifest(CheckpointId, AttemptId),
    /// What that manifest named and no needed one names.
    Blobs(CheckpointId, AttemptId),
}

/// What the collector asks for next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectAction {
    /// Look at the slot after the attempt's own last entry.
    Probe,
    /// Delete this; what is gone already counts as deleted.
    Delete(Batch),
    /// Everything is deleted.
    Done,
    /// A newer attempt owns the log: nothing more is deleted, ever.
    Stopped,
}

/// What the collector is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectEvent {
    /// The answer to `Probe`: whether an entry is there that is not the attempt's own.
    Probed {
        /// It is.
        foreign: bool,
    },
    /// The answer to `Probe`: nobody knows.
    ProbeFailed,
    /// The batch is deleted.
    Deleted,
    /// It could not be deleted: the rest of this checkpoint waits for the next collection.
    DeleteFailed,
}

/// One collection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Collection {
    batches: VecDeque<Batch>,
    over: Option<CollectAction>,
}

impl Collection {
    /// Deletes what retention found expendable. Spared whatever it says: the highest slot (L7), and all that belongs to
    /// attempts above `own`.
    #[must_use]
    pub fn new(retention: &Retention, own: AttemptId, highest: Slot) -> Collection {
        let may_go =
            |known: &&Recorded| known.attempt <= own && known.slot < highest && !retention.needed.contains(&known.id);
        let batches = retention.expendable.iter().filter(may_go).flat_map(|known| {
            let (id, attempt) = (known.id, known.attempt);
            [Batch::Slot(known.slot), Batch::Manifest(id, attempt), Batch::Blobs(id, attempt)]
        });
        Collection { batches: batches.collect(), over: None }
    }

    /// The first request.
    pub fn begin(&mut self) -> CollectAction {
        self.next()
    }

    /// Takes the answer to the last request and gives the next one.
    pub fn on(&mut self, event: CollectEvent) -> CollectAction {
        if let Some(over) = self.over {
            return over;
        }
        match event {
            CollectEvent::Probed { foreign: false } => match self.batches.front() {
                Some(&batch) => CollectAction::Delete(batch),
                None => self.end(CollectAction::Done),
            },
            CollectEvent::Probed { foreign: true } | CollectEvent::ProbeFailed => self.end(CollectAction::Stopped),
            CollectEvent::Deleted => {
                self.batches.pop_front();
                self.next()
            }
            CollectEvent::DeleteFailed => {
                self.batches.pop_front();
                while self.batches.front().is_some_and(|batch| !matches!(batch, Batch::Slot(_))) {
                    self.batches.pop_front();
                }
                self.next()
            }
        }
    }

    fn next(&mut self) -> CollectAction {
        if self.batches.is_empty() { self.end(CollectAction::Done) } else { CollectAction::Probe }
    }

    fn end(&mut self, action: CollectAction) -> CollectAction {
        self.over = Some(action);
        action
    }
}
