//! Control mail, the life of a checkpoint, and what a crash leaves.

use super::{Observed, World};
use crate::coordinator::Completed;
use crate::counts::Counts;
use crate::job::Job;
use crate::mutant::Mutant;
use crate::properties::{self, Violation};
use crate::shared::Shared;
use crate::subtask::{Item, Mail, Subtask};
use flott_checkpoint::{CheckpointId, Event, Kind, Mode};

impl World {
    pub(super) fn can_trigger(&self, job: &Job) -> bool {
        let coordinator = &self.coordinator;
        if coordinator.script_position < job.script.len() {
            return coordinator.pending.len() < job.max_pending;
        }
        let is_idle = coordinator.pending.is_empty() && self.subtasks.iter().all(|subtask| subtask.has_nothing_to_do());
        !coordinator.job_is_over && is_idle && self.subtasks[job.sink()].state.is_finished
    }

    /// The next checkpoint of the script, or the final one.
    pub(super) fn trigger(&mut self, job: &Job) -> Result<(), Violation> {
        let position = self.coordinator.script_position;
        let is_final = position == job.script.len();
        if is_final {
            properties::check_free(self)?;
        }
        let mode = job.script[position.min(job.script.len() - 1)];
        let kind = if is_final { Kind::Final } else { Kind::Checkpoint };
        let coordinator = self.coordinator();
        coordinator.script_position += usize::from(!is_final);
        let barrier = coordinator.trigger(mode, kind, job.subtasks());
        for source in 0..job.sources.len() {
            self.subtask(source).mail.push(Mail::Trigger(barrier));
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, job: &Job, index: usize, mail: Mail) -> Result<(), Violation> {
        match mail {
            Mail::Trigger(barrier) => self.arrive(job, index, 0, Item::Barrier(barrier)),
            Mail::Resolved { id, is_completed } => {
                let subtask = self.subtask(index);
                subtask.parts.retain(|part| part.id > id);
                let sealed = &mut subtask.state.sealed_epochs;
                if is_completed {
                    let (mine, later) = sealed.iter().partition(|epoch| epoch.0 <= id);
                    *sealed = later;
                    self.commit(mine);
                } else if job.is(Mutant::AbortDiscardsEpochs) {
                    sealed.retain(|epoch| epoch.0 != id);
                }
                self.tell(job, index, Event::Resolved { id })
            }
        }
    }

    pub(super) fn complete(&mut self, job: &Job, id: CheckpointId, observed: &mut Observed) -> Result<(), Violation> {
        let crash_may_come = self.crashes > 0;
        let coordinator = self.coordinator();
        let Some(complete) = coordinator.resolve(id) else { return Ok(()) };
        coordinator.pending.retain(|pending| pending.barrier.id > id);
        properties::check_cut(job, self, &complete, observed)?;
        properties::check_drained(self, &complete)?;
        let coordinator = self.coordinator();
        coordinator.job_is_over |= complete.barrier.kind == Kind::Final;
        let may_over_count = coordinator.may_over_count || complete.barrier.mode == Mode::AtLeastOnce;
        let parts = complete.parts.into_iter().flatten().collect();
        coordinator.completed = crash_may_come.then_some(Completed { id, may_over_count, parts });
        self.tell_all(id, true);
        Ok(())
    }

    pub(super) fn abort(&mut self, id: CheckpointId) {
        if self.coordinator().resolve(id).is_some() {
            self.tell_all(id, false);
        }
    }

    /// Whom it tells nothing new is left out: to ignore a message commutes with everything.
    fn tell_all(&mut self, id: CheckpointId, is_completed: bool) {
        for index in 0..self.subtasks.len() {
            if !self.subtasks[index].is_done_with(id) {
                self.subtask(index).mail.push(Mail::Resolved { id, is_completed });
            }
        }
    }

    /// Idempotent: a token names its epoch, and ids never repeat.
    fn commit(&mut self, epochs: Vec<(CheckpointId, Counts)>) {
        for (id, records) in epochs {
            if self.committed_tokens & (1 << id.0) == 0 {
                self.committed_tokens |= 1 << id.0;
                self.committed = self.committed + records;
            }
        }
    }

    /// A crash: everything inside the job is gone but the newest completed checkpoint.
    pub(super) fn restore(&mut self, job: &Job, observed: &mut Observed) {
        let completed = self.coordinator().completed.take();
        observed.restored |= completed.is_some();
        let coordinator = self.coordinator();
        coordinator.attempt.0 += 1;
        coordinator.pending.clear();
        coordinator.may_over_count = completed.as_ref().is_some_and(|completed| completed.may_over_count);
        let floor = completed.as_ref().map_or(CheckpointId(0), |completed| completed.id);
        self.subtasks = (0..job.subtasks()).map(|index| Shared::new(Subtask::new(job, index, floor))).collect();
        for (index, part) in completed.iter().flat_map(|completed| &completed.parts).enumerate() {
            let subtask = self.subtask(index);
            subtask.state = part.state.clone();
            subtask.state.sealed_epochs.clear();
            for (input, capture) in subtask.inputs.iter_mut().zip(&part.captures) {
                input.queue.clone_from(&capture.items);
            }
            self.commit(part.state.sealed_epochs.clone());
        }
        self.coordinator().completed = completed.filter(|_| self.crashes > 0);
        if !job.is(Mutant::RestoreTrustsTheReceiversEnd) {
            self.take_ends_from_the_senders(job);
        }
    }

    /// A channel has ended if its *sender* had: without alignment the receiver's part may have seen the end of data
    /// behind the barrier, and the sender will send the last records, and the end, again.
    fn take_ends_from_the_senders(&mut self, job: &Job) {
        for from in 0..job.subtasks() {
            let is_finished = self.subtasks[from].state.is_finished;
            for &(to, channel) in &job.outputs[from] {
                let is_queued = self.subtasks[to].inputs[channel].queue.contains(&Item::EndOfData);
                if !is_finished || is_queued {
                    let state = &mut self.subtask(to).state;
                    state.ended[channel] = false;
                    state.is_finished = false;
                }
            }
        }
    }
}
