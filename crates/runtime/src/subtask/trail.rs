//! The spans of one subtask's part of a checkpoint, for whoever listens by `tracing`.
//!
//! They are made at a cut and between the stages of a snapshot: never for a record and never for a step. When nobody listens
//! each is a look at one static number.

use super::Subtask;
use flott_checkpoint::{Barrier, CheckpointId};
use tracing::{Span, info_span};

/// The span of a part, and of the stage it is in. Dropping it closes both.
pub(super) struct Trail {
    part: Span,
    stage: Span,
}

impl Trail {
    /// From the cut on.
    pub(super) fn begin(subtask: &Subtask, barrier: Barrier) -> Trail {
        let vertex = subtask.attempt.plan.vertices.get(usize::from(subtask.id.vertex));
        let part = info_span!(
            target: "flott",
            "checkpoint",
            job = %subtask.attempt.plan.job,
            operator = vertex.map_or("", |vertex| vertex.name.as_str()),
            subtask = subtask.id.index,
            checkpoint = barrier.id.0,
            mode = %barrier.mode,
        );
        let stage = info_span!(target: "flott", parent: &part, "cut");
        Trail { part, stage }
    }

    /// The cut is over, and the tables are scanned.
    pub(super) fn scan(&mut self) {
        self.stage = info_span!(target: "flott", parent: &self.part, "snapshot");
    }

    /// The sinks prepare.
    pub(super) fn prepare(&mut self) {
        self.stage = info_span!(target: "flott", parent: &self.part, "prepare");
    }

    /// The segment is on its way to the storage.
    pub(super) fn upload(&mut self) {
        self.stage = info_span!(target: "flott", parent: &self.part, "upload");
    }

    /// The part is durable.
    pub(super) fn ack(&mut self) {
        self.stage = info_span!(target: "flott", parent: &self.part, "ack");
        tracing::debug!(target: "flott", parent: &self.part, "the part is durable");
    }

    /// The part is given up.
    pub(super) fn decline(&mut self, reason: &str) {
        self.stage = Span::none();
        tracing::info!(target: "flott", parent: &self.part, "the part is given up: {reason}");
    }
}

/// Whose sink it is, for the spans of its calls, which run elsewhere.
#[derive(Clone)]
pub(super) struct Whose {
    pub(super) job: String,
    pub(super) subtask: u16,
}

impl Whose {
    /// While output is made ready.
    pub(super) fn prepare(&self, operator: &str, id: CheckpointId) -> Span {
        let Whose { job, subtask } = self;
        info_span!(target: "flott", "prepare", %job, operator, subtask, checkpoint = id.0)
    }

    /// While output is committed.
    pub(super) fn commit(&self, operator: &str, id: CheckpointId) -> Span {
        let Whose { job, subtask } = self;
        info_span!(target: "flott", "commit", %job, operator, subtask, checkpoint = id.0)
    }
}
