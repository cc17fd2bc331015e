//! The barrier: a record of its own in the stream, which says "what lies before me belongs to this checkpoint".
//!
//! The algorithm is a property of the barrier (design D3), so it can change between two checkpoints of a running job.

use crate::ids::{AttemptId, CheckpointId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the subtasks take their cuts. Ordered so that within one id a mode only rises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Method one: the whole job stands still until the checkpoint is durable.
    StopTheWorld,
    /// Method two (Carbone et al., arXiv 1506.08603): a channel is held from its barrier to the last barrier.
    Aligned,
    /// Method three: nothing is held; a restore processes some records again.
    AtLeastOnce,
    /// Aligned until a time-out, then unaligned (Flink's "aligned checkpoint timeout", FLINK-19681 and FLINK-23041).
    AlignedThenUnaligned,
    /// The cut is taken when the first barrier enters a queue; records in flight become part of it (FLIP-76).
    Unaligned,
}

impl Mode {
    /// All modes, in order.
    pub const ALL: [Mode; 5] =
        [Mode::StopTheWorld, Mode::Aligned, Mode::AtLeastOnce, Mode::AlignedThenUnaligned, Mode::Unaligned];

    /// Whether a barrier of this mode already counts when it enters a queue, not only at its head.
    #[must_use]
    pub fn acts_on_arrival(self) -> bool {
        matches!(self, Mode::AlignedThenUnaligned | Mode::Unaligned)
    }

    /// The mode of a checkpoint of some kind in a job of this mode. A savepoint is its user's, to be restored into another shape
    /// of the job: it holds no records in flight, so it is aligned where the job is not. Any other is as the job is; a final
    /// one that was asked for must not wait for what is queued either.
    #[must_use]
    pub fn of_kind(self, kind: Kind) -> Mode {
        if kind == Kind::Savepoint && self.acts_on_arrival() { Mode::Aligned } else { self }
    }

    /// Whether nothing is processed anywhere from the cuts to the record.
    #[must_use]
    pub fn stops_the_job(self) -> bool {
        self == Mode::StopTheWorld
    }

    /// Whether a restore from such a checkpoint yields the state of an undisturbed run.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self != Mode::AtLeastOnce
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::StopTheWorld => "stop-the-world",
            Mode::Aligned => "aligned",
            Mode::AtLeastOnce => "at-least-once",
            Mode::AlignedThenUnaligned => "aligned-then-unaligned",
            Mode::Unaligned => "unaligned",
        })
    }
}

/// What a checkpoint is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Taken for recovery, owned and deleted by the engine.
    Checkpoint,
    /// Owned by the user: always full, never a base.
    Savepoint,
    /// The last one of a job, after which it ends: all sources are at their end, or a stop was asked for.
    Final,
}

/// The marker itself. It is broadcast on all outputs, overtakes nothing in a channel and is not overtaken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Barrier {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The attempt that triggered it; everything of another attempt is dropped.
    pub attempt: AttemptId,
    /// How to take the cut.
    pub mode: Mode,
    /// What it is for.
    pub kind: Kind,
    /// The completed checkpoint that an increment builds on; `None` asks for a full snapshot.
    pub base: Option<CheckpointId>,
    /// When the coordinator triggered it, in milliseconds of its clock.
    pub triggered_at: u64,
}
