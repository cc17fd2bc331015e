//! The second half of the coordinator: how a checkpoint ends, and how the job ends.

use super::{Coordinator, Ending, FINAL_RETRY, millis};
use crate::barrier::Kind;
use crate::guarantee;
use crate::ids::{AttemptId, CheckpointId, SubtaskId};
use crate::message::{AbortReason, Action, Event, JobFailure, Outcome, Tried};

impl<P> Coordinator<P> {
    /// Every part is durable: manifest and slot may be written (C1).
    pub(super) fn record(&mut self, out: &mut Vec<Action<P>>) {
        let Some(pending) = &mut self.pending else { return };
        let guarantee = guarantee::of_checkpoint(pending.barrier.mode, self.origin.inherited);
        let completed = pending.complete(self.parent, guarantee, self.now);
        out.push(Action::Record(Box::new(completed)));
    }

    /// Whether the driver's answer is about the checkpoint that is being recorded.
    pub(super) fn is_recording(&mut self, id: CheckpointId) -> bool {
        let is = self.pending.as_ref().is_some_and(|pending| pending.id() == id && pending.written.is_some());
        if !is {
            self.dropped.late += 1;
        }
        is
    }

    pub(super) fn recorded(&mut self, id: CheckpointId, out: &mut Vec<Action<P>>) {
        if !self.is_recording(id) {
            return;
        }
        let Some(pending) = self.pending.take() else { return };
        let Some(written) = pending.written else { return };
        let barrier = pending.barrier;
        self.parent = Some(id);
        self.failures = 0;
        self.last_completion = Some(self.now);
        if barrier.kind != Kind::Savepoint {
            self.base = Some(id);
            self.full_next &= barrier.base.is_some();
        }
        if barrier.kind == Kind::Final {
            self.ending = Ending::Recorded { id, finished: written.finished };
            self.resolutions.resolve_last(id);
        } else {
            self.resolutions.resolve(id, true);
        }
        let outcome = Outcome::Completed { full: written.full, bytes: written.bytes, acked_at: written.acked_at };
        out.push(Action::Note(Box::new(Tried { barrier, ended_at: self.now, outcome })));
        self.send_resolutions(out);
        out.extend(pending.request.map(|request| Action::Answer { request, result: Ok(id) }));
        if barrier.kind == Kind::Final {
            self.answer_with_the_final(id, barrier.base.is_none(), out);
        }
    }

    /// Whoever waits for a checkpoint has got one; who wants it full has got it only if it is.
    fn answer_with_the_final(&mut self, id: CheckpointId, full: bool, out: &mut Vec<Action<P>>) {
        out.extend(self.queue.drain(..).map(|request| {
            let refused = || Err(format!("the job ends with checkpoint {id}, which is not full"));
            let result = if request.full && !full { refused() } else { Ok(id) };
            Action::Answer { request: request.id, result }
        }));
    }

    /// The pending checkpoint ends without having been recorded. Its id is never used again by this attempt.
    pub(super) fn abort(&mut self, reason: AbortReason, out: &mut Vec<Action<P>>) {
        let Some(pending) = self.pending.take() else { return };
        let (barrier, id) = (pending.barrier, pending.id());
        self.resolutions.resolve(id, false);
        let outcome = Outcome::Aborted(reason.clone());
        out.push(Action::Note(Box::new(Tried { barrier, ended_at: self.now, outcome })));
        self.send_resolutions(out);
        out.extend(
            pending.request.map(|request| Action::Answer { request, result: Err(format!("checkpoint {id} {reason}")) }),
        );
        if let Ending::Wanted { .. } = self.ending
            && barrier.kind == Kind::Final
        {
            let pause = self.options.interval.map_or(FINAL_RETRY, millis).min(FINAL_RETRY);
            self.ending = Ending::Wanted { not_before: self.now.saturating_add(pause) };
        }
        // A savepoint's failure is its user's affair: it must not bring the job down.
        if barrier.kind != Kind::Savepoint {
            self.failures = self.failures.saturating_add(1);
            if self.failures > self.options.tolerable_failures {
                self.fail(JobFailure::TooManyFailures { failures: self.failures, id, last: reason }, out);
            }
        }
    }

    /// The attempt ends. What is pending goes into the history, what is being recorded as unknown; nobody is told of it
    /// any more, for the subtasks end too.
    pub(super) fn fail(&mut self, failure: JobFailure, out: &mut Vec<Action<P>>) {
        if self.ending == Ending::Over {
            return;
        }
        self.ending = Ending::Over;
        let reason = failure.to_string();
        if let Some(pending) = self.pending.take() {
            let outcome = match pending.written {
                None => Outcome::Aborted(AbortReason::AttemptEnded { reason: reason.clone() }),
                Some(_) => Outcome::Unknown { reason: reason.clone() },
            };
            out.push(Action::Note(Box::new(Tried { barrier: pending.barrier, ended_at: self.now, outcome })));
            out.extend(pending.request.map(|request| Action::Answer { request, result: Err(reason.clone()) }));
        }
        self.refuse_queue(&reason, out);
        out.push(Action::FailJob(failure));
    }

    pub(super) fn committed(
        &mut self,
        subtask: SubtaskId,
        attempt: AttemptId,
        id: CheckpointId,
        out: &mut Vec<Action<P>>,
    ) {
        if !self.is_ours(subtask, attempt) {
            return;
        }
        if Some(id) > self.parent {
            self.dropped.foreign += 1;
            return;
        }
        if !self.resolutions.committed(subtask, id) {
            self.dropped.repeated += 1;
        }
        if let Ending::Recorded { id, finished } = self.ending
            && self.resolutions.all_committed()
        {
            self.ending = Ending::Over;
            self.refuse_queue("the job has ended", out);
            out.push(Action::Close { id, finished });
        }
    }

    fn refuse_queue(&mut self, reason: &str, out: &mut Vec<Action<P>>) {
        let refused = |id| Action::Answer { request: id, result: Err(reason.to_owned()) };
        out.extend(self.queue.drain(..).map(|request| refused(request.id)));
    }

    /// Nothing is taken any more; only requests by hand deserve an answer.
    pub(super) fn refuse_after_the_end(&mut self, event: Event<P>, out: &mut Vec<Action<P>>) {
        match event {
            Event::Trigger { request, .. } | Event::Savepoint { request } => {
                let result = Err("the attempt has ended".to_owned());
                out.push(Action::Answer { request, result });
            }
            _ => self.dropped.late += 1,
        }
    }

    // ---- time ----

    pub(super) fn expire(&mut self, out: &mut Vec<Action<P>>) {
        let Some(pending) = &self.pending else { return };
        if pending.written.is_some() || self.now < self.deadline(pending.barrier.triggered_at) {
            return;
        }
        let reason =
            AbortReason::Expired { untaken: pending.untaken().collect(), missing: pending.missing().collect() };
        self.abort(reason, out);
    }

    fn deadline(&self, triggered_at: u64) -> u64 {
        triggered_at.saturating_add(millis(self.options.timeout))
    }

    /// Sends again what was not acknowledged (C2).
    pub(super) fn repeat(&mut self, out: &mut Vec<Action<P>>) {
        if self.ending == Ending::Over {
            return;
        }
        if let Some(pending) = self.pending.as_ref().filter(|pending| pending.written.is_none())
            && self.trigger_again <= self.now
        {
            out.extend(pending.untaken().map(|to| Action::SendTrigger { to, barrier: pending.barrier }));
            self.trigger_again = self.now.saturating_add(millis(self.options.repeat));
        }
        if self.resolve_again <= self.now && !self.resolutions.is_empty() {
            self.send_resolutions(out);
        }
    }

    fn send_resolutions(&mut self, out: &mut Vec<Action<P>>) {
        let sends = self.resolutions.outstanding();
        out.extend(sends.map(|(to, id, completed)| Action::SendResolved { to, id, completed }));
        self.resolve_again = self.now.saturating_add(millis(self.options.repeat));
    }

    /// Asks for the next moment at which time alone changes something, if it is another one than before or `asked_anyway`.
    pub(super) fn ask_for_wake(&mut self, asked_anyway: bool, out: &mut Vec<Action<P>>) {
        if self.ending == Ending::Over {
            return;
        }
        let mut moments = Vec::new();
        match &self.pending {
            Some(pending) if pending.written.is_none() => {
                moments.push(self.deadline(pending.barrier.triggered_at));
                moments.extend(pending.untaken().next().map(|_| self.trigger_again));
            }
            Some(_) => {}
            None => match self.ending {
                Ending::No => moments.extend(self.due()),
                Ending::Wanted { not_before } => moments.push(not_before),
                Ending::Recorded { .. } | Ending::Over => {}
            },
        }
        if !self.resolutions.is_empty() {
            moments.push(self.resolve_again);
        }
        let wake = moments.into_iter().min();
        if wake != self.wake || asked_anyway {
            self.wake = wake;
            out.extend(wake.map(Action::WakeAt));
        }
    }
}
