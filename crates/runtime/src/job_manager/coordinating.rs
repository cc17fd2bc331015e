//! What the coordinator of floor 0 is told and what it wants done: mail per subtask becomes mail per worker, a complete set of
//! parts goes to the recorder, the end of the job goes to whoever waits for it.

use super::desk::Cx;
use super::recorder::{Recorded, Recorder};
use super::running::{End, Note, Running, Stage, source_subtasks, subtasks};
use super::{JobEvent, Outcome};
use crate::control::{Order, SubtaskPart};
use crate::error::{Error, Result};
use crate::manifest::blob_bytes;
use crate::time::Time;
use flott_checkpoint::{
    Ack, CheckpointId, Completed, Coordinator, CoordinatorAction as Action, CoordinatorEvent as Event, JobFailure,
    LiteSet, Mode, Outcome as Ended, RequestId, SubtaskId, Tried,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

type Events = VecDeque<Event<SubtaskPart>>;

impl Running {
    pub(super) fn new_coordinator(&self, cx: &mut Cx<'_>) -> Result<Coordinator<SubtaskPart>> {
        let mut options = cx.desk.settings.coordinator.clone();
        if !cx.desk.settings.checkpoints {
            options.interval = None;
        }
        let (all, sources) = (subtasks(&self.attempt), source_subtasks(&self.attempt));
        let mut coordinator = Coordinator::new(options, self.lineage.origin.clone(), all, sources, cx.now.millis())
            .map_err(|errors| {
                let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Error::refused(reasons.join("; "))
            })?;
        if self.lineage.chain.is_too_long() {
            coordinator.request_full();
        }
        cx.desk.new_coordinator();
        Ok(coordinator)
    }

    /// Tells the coordinator something, and does what it wants, until it wants nothing more.
    pub(super) fn coordinate(&mut self, event: Event<SubtaskPart>, cx: &mut Cx<'_>) {
        let mut events = Events::from([event]);
        while let Some(event) = events.pop_front() {
            let Stage::Open(open) = &mut self.stage else { return };
            let actions = open.coordinator.on(cx.now.millis(), event);
            cx.desk.dropped.1 = open.coordinator.dropped();
            let mut sent = Sent::default();
            for action in actions {
                self.obey(action, &mut sent, &mut events, cx);
            }
        }
    }

    fn obey(&mut self, action: Action<SubtaskPart>, sent: &mut Sent, events: &mut Events, cx: &mut Cx<'_>) {
        let attempt = self.attempt.id;
        match action {
            Action::SendTrigger { to, barrier } => {
                if sent.triggers.insert(to.index) {
                    cx.mail(to.index, attempt, Order::Trigger(barrier));
                }
            }
            Action::SendResolved { to, id, completed } => {
                if sent.resolved.insert((to.index, id, completed)) {
                    cx.mail(to.index, attempt, Order::Resolved { id, completed });
                }
            }
            Action::Record(completed) => self.record(*completed, events, cx),
            Action::Note(tried) => self.note(*tried, cx),
            Action::Answer { request, result: Ok(id) } => cx.out.answers.push((request, Ok(id))),
            Action::Answer { request, result: Err(reason) } => cx.refuse(request, &reason),
            Action::FailJob(failure) => self.end_with(failure_of(failure)),
            Action::Close { id, finished } => {
                let checkpoint = cx.desk.settings.checkpoints.then_some(id);
                let outcome = match finished {
                    true => Outcome::Finished { checkpoint, before: false },
                    false => Outcome::Stopped { checkpoint },
                };
                self.close(outcome, cx);
            }
            Action::WakeAt(millis) => {
                if let Stage::Open(open) = &mut self.stage {
                    open.wake = Some(Time::of_millis(millis));
                }
            }
        }
    }

    fn record(&mut self, completed: Completed<SubtaskPart>, events: &mut Events, cx: &mut Cx<'_>) {
        let id = completed.barrier.id;
        let completed = Arc::new(completed);
        if cx.desk.settings.checkpoints {
            self.recorder = Some(Recorder::begin(completed, &self.lineage, &self.attempt, cx));
        } else {
            // Nothing is kept: the one checkpoint there is decides that the output is committed.
            events.push_back(Event::Recorded { id });
        }
    }

    /// What became of the record under way.
    pub(super) fn on_recorded(&mut self, recorded: Recorded, cx: &mut Cx<'_>) {
        let Some(id) = self.recorder.as_ref().map(|recorder| recorder.completed().barrier.id) else { return };
        let event = match recorded {
            Recorded::Going => return,
            Recorded::Lost(error) => {
                self.fail(error, cx);
                self.recorder = None;
                return;
            }
            Recorded::InLog(slot) => {
                if let Some(recorder) = &self.recorder {
                    self.lineage.recorded(slot, recorder.completed(), recorder.checksum());
                }
                cx.desk.restarts.on_checkpoint();
                Event::Recorded { id }
            }
            Recorded::NotWritten(reason) => Event::RecordFailed { id, reason },
            Recorded::Unsettled => Event::Unsettled { id },
            Recorded::Fenced(by) => Event::Fenced { by },
        };
        if self.lineage.chain.is_too_long()
            && let Stage::Open(open) = &mut self.stage
        {
            open.coordinator.request_full();
        }
        self.coordinate(event, cx);
        self.recorder = None;
    }

    fn note(&mut self, mut tried: Tried, cx: &mut Cx<'_>) {
        let id = tried.barrier.id;
        let completed = self.recorder.as_ref().map(|recorder| recorder.completed().clone());
        let completed = completed.filter(|completed| completed.barrier.id == id);
        if let (Ended::Completed { bytes, .. }, Some(completed)) = (&mut tried.outcome, &completed) {
            // Subtasks of a worker share a segment; each of them has acked the whole of it.
            *bytes = blob_bytes(completed.parts.iter().map(|ack| &ack.part));
        }
        if cx.desk.settings.checkpoints {
            let note = Note { tried, completed };
            let tried = &note.tried;
            cx.tell(match &tried.outcome {
                Ended::Completed { bytes, .. } => JobEvent::Completed {
                    id,
                    mode: tried.barrier.mode,
                    duration: Duration::from_millis(tried.ended_at.saturating_sub(tried.barrier.triggered_at)),
                    bytes: *bytes,
                    phases: note.phases(),
                },
                Ended::Aborted(reason) => JobEvent::Aborted { id, reason: reason.to_string() },
                Ended::Unknown { reason } => JobEvent::Aborted { id, reason: reason.clone() },
            });
            self.notes.push(note);
        }
    }

    /// The attempt fails; what was pending goes into the history with this reason.
    pub(super) fn fail(&mut self, error: Error, cx: &mut Cx<'_>) {
        let restoring = matches!(self.stage, Stage::Restoring);
        let reason = error.to_string();
        if self.end.is_none() {
            self.end = Some(End::Failed { error, restoring });
        }
        self.coordinate(Event::AttemptFailed { reason }, cx);
    }

    fn end_with(&mut self, error: Error) {
        // The first reason is the real one: what follows from it comes later.
        if self.end.is_none() {
            self.end = Some(End::Failed { error, restoring: false });
        }
    }

    // ---- reports of subtasks ----

    pub(super) fn on_acked(&mut self, worker: u16, id: CheckpointId, part: SubtaskPart, cx: &mut Cx<'_>) {
        if part.subtask.index != worker {
            return;
        }
        let ack = Ack {
            subtask: part.subtask,
            attempt: self.attempt.id,
            id,
            base: part.base,
            finished: part.finished,
            bytes: part.segment.as_ref().map_or(0, |segment| segment.length),
            part,
        };
        self.coordinate(Event::Acked(ack), cx);
    }

    pub(super) fn on_resolved(&mut self, id: CheckpointId, subtask: SubtaskId, cx: &mut Cx<'_>) {
        let attempt = self.attempt.id;
        self.coordinate(Event::ResolvedAcked { subtask, attempt, id }, cx);
        // A subtask without a committing sink has nothing to commit, and says nothing about it.
        let recorded = match &self.stage {
            Stage::Open(open) => open.coordinator.newest() >= Some(id),
            Stage::Restoring | Stage::Closing { .. } => false,
        };
        if recorded && !self.committing.contains(&subtask.vertex) {
            self.coordinate(Event::CommitDone { subtask, attempt, id }, cx);
        }
    }

    // ---- the user ----

    pub(super) fn stop(&mut self, cx: &mut Cx<'_>) {
        if !cx.desk.settings.checkpoints {
            if !matches!(self.stage, Stage::Closing { .. }) {
                self.end = Some(End::Abandoned);
            }
            return;
        }
        // While it restores, the wish waits for the coordinator.
        self.coordinate(Event::Stop, cx);
    }

    /// A checkpoint by hand: the event asks for it, in the name of the request.
    pub(super) fn trigger(&mut self, request: RequestId, event: Event<SubtaskPart>, cx: &mut Cx<'_>) {
        if !cx.desk.settings.checkpoints {
            cx.refuse(request, "checkpoints are off, for there is no checkpoint directory");
        } else if !matches!(self.stage, Stage::Open(_)) {
            cx.refuse(request, "the job is not running at the moment");
        } else {
            self.coordinate(event, cx);
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        if let Stage::Open(open) = &mut self.stage {
            open.coordinator.set_mode(mode);
        }
    }

    pub(super) fn set_interval(&mut self, interval: Duration, cx: &mut Cx<'_>) {
        if let Stage::Open(open) = &mut self.stage
            && let Err(error) = open.coordinator.set_interval(Some(interval))
        {
            cx.warn(error.to_string());
        }
        self.coordinate(Event::Tick, cx);
    }
}

/// What has been mailed in answer to one event: one mail per worker, however many of its subtasks it is for.
#[derive(Default)]
struct Sent {
    triggers: LiteSet<u16>,
    resolved: LiteSet<(u16, CheckpointId, bool)>,
}

fn failure_of(failure: JobFailure) -> Error {
    match &failure {
        JobFailure::Fenced { .. } => super::fenced(failure.to_string()),
        _ => Error::failed(failure.to_string()),
    }
}
