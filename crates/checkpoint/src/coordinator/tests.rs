//! Tests of the coordinator: each rule by itself, and all of them under random events.

use super::*;
use crate::message::{Completed, Outcome, Tried};

mod random;
mod rules;

pub(super) const ATTEMPT: AttemptId = AttemptId(4);

/// A coordinator with its actions sorted by kind: one source, one sink.
pub(super) struct Bench {
    pub(super) coordinator: Coordinator<u32>,
    pub(super) now: u64,
    pub(super) triggers: Vec<(SubtaskId, Barrier)>,
    pub(super) records: Vec<Completed<u32>>,
    pub(super) resolved: Vec<(SubtaskId, CheckpointId, bool)>,
    pub(super) notes: Vec<Tried>,
    pub(super) answers: Vec<(u64, Result<CheckpointId, String>)>,
    pub(super) failure: Option<JobFailure>,
    pub(super) closed: Option<(CheckpointId, bool)>,
    pub(super) wake: Option<u64>,
}

pub(super) const SOURCE: SubtaskId = SubtaskId { vertex: 0, index: 0 };
pub(super) const SINK: SubtaskId = SubtaskId { vertex: 1, index: 0 };
pub(super) const BOTH: [SubtaskId; 2] = [SOURCE, SINK];

pub(super) fn origin() -> Origin {
    Origin {
        attempt: ATTEMPT,
        next_id: CheckpointId(10),
        parent: Some(CheckpointId(9)),
        base: Some(CheckpointId(9)),
        inherited: Guarantee::ExactlyOnce,
    }
}

impl Bench {
    pub(super) fn new(options: Options) -> Bench {
        Bench::from(options, origin())
    }

    pub(super) fn from(options: Options, origin: Origin) -> Bench {
        let coordinator = Coordinator::new(options, origin, BOTH, [SOURCE], 0).expect("valid options");
        Bench {
            coordinator,
            now: 0,
            triggers: Vec::new(),
            records: Vec::new(),
            resolved: Vec::new(),
            notes: Vec::new(),
            answers: Vec::new(),
            failure: None,
            closed: None,
            wake: None,
        }
    }

    pub(super) fn on(&mut self, event: Event<u32>) {
        for action in self.coordinator.on(self.now, event) {
            match action {
                Action::SendTrigger { to, barrier } => self.triggers.push((to, barrier)),
                Action::Record(completed) => self.records.push(*completed),
                Action::SendResolved { to, id, completed } => self.resolved.push((to, id, completed)),
                Action::Note(tried) => self.notes.push(*tried),
                Action::Answer { request, result } => self.answers.push((request.0, result)),
                Action::FailJob(failure) => self.failure = Some(failure),
                Action::Close { id, finished } => self.closed = Some((id, finished)),
                Action::WakeAt(at) => self.wake = Some(at),
            }
        }
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.now = now;
        self.on(Event::Tick);
    }

    pub(super) fn barrier(&self) -> Barrier {
        *self.coordinator.pending().expect("a checkpoint is pending")
    }

    pub(super) fn ack(&mut self, subtask: SubtaskId) {
        let barrier = self.barrier();
        self.on(ack_of(subtask, barrier.id, barrier.base, false));
    }

    pub(super) fn ack_all(&mut self) {
        let barrier = self.barrier();
        for subtask in BOTH {
            self.on(ack_of(subtask, barrier.id, barrier.base, false));
        }
    }

    /// Acks, records and acknowledges the pending checkpoint.
    pub(super) fn complete(&mut self) -> CheckpointId {
        let id = self.barrier().id;
        self.ack_all();
        self.on(Event::Recorded { id });
        self.hear(id);
        id
    }

    pub(super) fn hear(&mut self, id: CheckpointId) {
        for subtask in BOTH {
            self.on(Event::ResolvedAcked { subtask, attempt: ATTEMPT, id });
        }
    }

    pub(super) fn decline(&mut self) {
        let id = self.barrier().id;
        self.on(Event::Declined { subtask: SINK, attempt: ATTEMPT, id, reason: "disk full".to_owned() });
        self.hear(id);
    }

    pub(super) fn last_outcome(&self) -> &Outcome {
        &self.notes.last().expect("something was tried").outcome
    }
}

pub(super) fn ack_of(subtask: SubtaskId, id: CheckpointId, base: Option<CheckpointId>, finished: bool) -> Event<u32> {
    let part = u32::from(subtask.vertex);
    Event::Acked(Ack { subtask, attempt: ATTEMPT, id, base, finished, bytes: 7, part })
}
