//! The coordinator, as far as subtasks can tell: trigger, acks, complete, abort.

use crate::subtask::Part;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode};
use std::rc::Rc;

#[derive(Clone, Hash)]
pub struct Pending {
    pub barrier: Barrier,
    pub parts: Vec<Option<Rc<Part>>>,
}

#[derive(Clone, Hash)]
pub struct Completed {
    pub id: CheckpointId,
    pub may_over_count: bool,
    /// In the order of the subtasks.
    pub parts: Vec<Rc<Part>>,
}

#[derive(Clone, Hash)]
pub struct Coordinator {
    pub attempt: AttemptId,
    pub last_id: CheckpointId,
    pub script_position: usize,
    pub pending: Vec<Pending>,
    /// The newest; kept only while a crash may still come.
    pub completed: Option<Completed>,
    /// The attempt was restored from a checkpoint that may over-count. No later mode makes up for that.
    pub may_over_count: bool,
    pub job_is_over: bool,
}

impl Coordinator {
    pub fn new() -> Coordinator {
        Coordinator {
            attempt: AttemptId(1),
            last_id: CheckpointId(0),
            script_position: 0,
            pending: vec![],
            completed: None,
            may_over_count: false,
            job_is_over: false,
        }
    }

    pub fn trigger(&mut self, mode: Mode, kind: Kind, subtasks: usize) -> Barrier {
        self.last_id.0 += 1;
        let barrier = Barrier { id: self.last_id, attempt: self.attempt, mode, kind, base: None, triggered_at: 0 };
        self.pending.push(Pending { barrier, parts: vec![None; subtasks] });
        barrier
    }

    /// Late acks are dropped.
    pub fn ack(&mut self, subtask: usize, part: Part) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.barrier.id == part.id) {
            pending.parts[subtask] = Some(Rc::new(part));
        }
    }

    pub fn fully_acked(&self) -> Option<CheckpointId> {
        let whole = self.pending.iter().find(|pending| pending.parts.iter().all(Option::is_some));
        whole.map(|pending| pending.barrier.id)
    }

    /// Completed or aborted: no longer pending.
    pub fn resolve(&mut self, id: CheckpointId) -> Option<Pending> {
        let position = self.pending.iter().position(|pending| pending.barrier.id == id)?;
        Some(self.pending.remove(position))
    }
}
