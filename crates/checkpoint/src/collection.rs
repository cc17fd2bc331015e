//! How expendable checkpoints are deleted without ever hurting a newer attempt (rule G2).
//!
//! Before each batch the collector looks at the slot after its attempt's last one; if somebody else holds it, it stops for
//! good. A collector that was stopped and continued then deletes at most the one batch it had been about to delete, and
//! that batch is of a checkpoint that its own attempt, older than the live one, had already found expendable.
//! Newest checkpoint first, and of each slot first, then manifest, then blobs: what the log names is whole at any moment,
//! with all that it builds on, wherever a collector is killed or a pin comes in between.

use crate::ids::{AttemptId, CheckpointId, Slot};
use crate::lite::{LiteSet, lite_map};
use crate::retention::{Recorded, Retention};
use litemap::LiteMap;
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
    /// It could not be deleted: the rest of this checkpoint waits for the next collection, and while its slot is there, so
    /// does what it builds on.
    DeleteFailed,
}

/// One collection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Collection {
    batches: VecDeque<(CheckpointId, Batch)>,
    bases: LiteMap<CheckpointId, CheckpointId>,
    over: Option<CollectAction>,
}

impl Collection {
    /// Deletes what retention found expendable. Spared whatever it says: the highest slot (L7), and all that belongs to
    /// attempts above `own`.
    #[must_use]
    pub fn new(retention: &Retention, own: AttemptId, highest: Slot) -> Collection {
        let bases = lite_map(retention.expendable.iter().filter_map(|known| Some((known.id, known.base?))));
        let mut collection = Collection { batches: VecDeque::new(), bases, over: None };
        let may_go =
            |known: &Recorded| known.attempt <= own && known.slot < highest && !retention.needed.contains(&known.id);
        let mut expendable: Vec<&Recorded> = retention.expendable.iter().collect();
        // A base is older than what builds on it.
        expendable.sort_by_key(|known| std::cmp::Reverse(known.id));
        for known in &expendable {
            let (id, attempt) = (known.id, known.attempt);
            let batches = [Batch::Slot(known.slot), Batch::Manifest(id, attempt), Batch::Blobs(id, attempt)];
            collection.batches.extend(batches.map(|batch| (id, batch)));
        }
        expendable.into_iter().filter(|known| !may_go(known)).for_each(|known| collection.spare(known.id));
        collection
    }

    /// This checkpoint stays in the log: nothing of it and of what it builds on is deleted.
    fn spare(&mut self, id: CheckpointId) {
        let mut spared = LiteSet::new();
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| spared.insert(*id)) {
            next = self.bases.get(&id).copied();
        }
        self.batches.retain(|(id, _)| !spared.contains(id));
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
                Some(&(_, batch)) => CollectAction::Delete(batch),
                None => self.end(CollectAction::Done),
            },
            CollectEvent::Probed { foreign: true } | CollectEvent::ProbeFailed => self.end(CollectAction::Stopped),
            CollectEvent::Deleted => {
                self.batches.pop_front();
                self.next()
            }
            CollectEvent::DeleteFailed => {
                match self.batches.pop_front() {
                    Some((id, Batch::Slot(_))) => self.spare(id),
                    Some((failed, _)) => self.batches.retain(|(id, _)| *id != failed),
                    None => {}
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
