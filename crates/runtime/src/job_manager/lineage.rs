//! Where an attempt comes from and how far it has got in the log: what the next checkpoint builds on, and what it is worth.

use super::Outcome;
use crate::control::SubtaskPart;
use crate::manifest::BaseEntry;
use flott_checkpoint::{CheckpointId, Completed, Kind, Origin, Slot};

/// A chain of increments is ended by a full checkpoint when it has so many links …
const MOST_LINKS: u32 = 20;
/// … or weighs so many times what a full one did.
const HEAVIEST_CHAIN: u64 = 2;

/// The line that an attempt continues.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    /// What the coordinator begins with.
    pub(super) origin: Origin,
    /// The slot of the next checkpoint (L4).
    pub(super) next_slot: Slot,
    /// The restored checkpoint says that the job is over (C3): what to tell the user once its tokens are committed.
    pub(super) finished: Option<Outcome>,
    /// The increments since the last full checkpoint.
    pub(super) chain: ChainLength,
    /// How a manifest names the newest checkpoint that can be built upon. Whether one is, the coordinator decides.
    pub(super) newest: Option<BaseEntry>,
}

/// How long and heavy a chain of increments is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ChainLength {
    /// Bytes of the full checkpoint at its bottom.
    pub(super) full_bytes: u64,
    /// Bytes of the increments on it.
    pub(super) increment_bytes: u64,
    /// How many increments there are.
    pub(super) links: u32,
}

impl ChainLength {
    /// The next checkpoint should be full.
    pub(super) fn is_too_long(self) -> bool {
        let heaviest = self.full_bytes.saturating_mul(HEAVIEST_CHAIN);
        self.links >= MOST_LINKS || (self.links > 0 && self.full_bytes.saturating_add(self.increment_bytes) > heaviest)
    }

    /// A checkpoint was added.
    pub(super) fn add(&mut self, full: bool, bytes: u64) {
        if full {
            *self = ChainLength { full_bytes: bytes, increment_bytes: 0, links: 0 };
        } else {
            self.links = self.links.saturating_add(1);
            self.increment_bytes = self.increment_bytes.saturating_add(bytes);
        }
    }
}

impl Lineage {
    /// How a manifest names the checkpoint that it builds on.
    ///
    /// # Panics
    /// If that is not the newest one: a bug, for one checkpoint is pending at a time.
    pub(super) fn manifest_of(&self, base: CheckpointId) -> BaseEntry {
        self.newest.filter(|newest| newest.id == base).expect("only the newest checkpoint is built upon")
    }

    /// A checkpoint of this attempt is in the log. Savepoints are never built upon.
    pub(super) fn recorded(&mut self, slot: Slot, completed: &Completed<SubtaskPart>, checksum: u64) {
        self.next_slot = Slot(slot.0.saturating_add(1));
        if completed.barrier.kind != Kind::Savepoint {
            self.chain.add(completed.full, completed.bytes());
            let (id, attempt) = (completed.barrier.id, completed.barrier.attempt);
            self.newest = Some(BaseEntry { id, attempt, checksum });
        }
    }
}
