//! An attempt with workers: the two-step restore (R1), then the coordinator, then the end.
//!
//! Mail may be lost or doubled (C2). `Open` is repeated until the worker shows that it has opened, and given again to a
//! worker that still says `Restored`; `Close` is repeated until `Closed`. Triggers and resolutions are repeated by the
//! coordinator. This file reads the mail; what the coordinator wants is done in `coordinating`.

use super::desk::{Cx, earliest};
use super::lineage::Lineage;
use super::locating::Locating;
use super::recorder::Recorder;
use super::{JobEvent, Outcome};
use crate::attempt::Attempt;
use crate::control::{Order, Progress, Report, SubtaskPart, ToManager};
use crate::error::Error;
use crate::io::{StorageReply, Ticket};
use crate::plan::{Plan, Role};
use crate::time::Time;
use flott_checkpoint::{Completed, Coordinator, CoordinatorEvent as Event, LiteSet, SubtaskId, Tried};
use litemap::LiteMap;
use std::sync::Arc;

/// An attempt whose workers run.
pub(super) struct Running {
    pub(super) attempt: Arc<Attempt>,
    pub(super) lineage: Lineage,
    pub(super) stage: Stage,
    /// The checkpoint that is being written into the log.
    pub(super) recorder: Option<Recorder>,
    /// Checkpoints that ended, for the history.
    pub(super) notes: Vec<Note>,
    /// Step two of the restore has begun, and nobody has taken notice yet.
    pub(super) just_opened: bool,
    /// How it ended, once it has.
    pub(super) end: Option<End>,
    /// Vertices with a sink that commits; all others have nothing to commit.
    pub(super) committing: LiteSet<u16>,
    /// Who wants to know where the pending checkpoint is.
    pub(super) locating: Locating,
    sources: Vec<u16>,
    /// Sources that are not at their end.
    sources_left: LiteSet<SubtaskId>,
    /// Workers that hold the restored state.
    restored: LiteSet<u16>,
    progress: LiteMap<u16, Progress>,
}

/// How far an attempt is.
pub(super) enum Stage {
    /// Step one of R1.
    Restoring,
    /// Step two and all that follows.
    Open(Open),
    /// Everything is committed.
    Closing {
        /// What the user is told in the end.
        outcome: Outcome,
        /// Workers that have not said that they are done.
        unclosed: LiteSet<u16>,
        /// When they are told again.
        again: Time,
    },
}

/// The sources are open, or will be as soon as the mail arrives.
pub(super) struct Open {
    pub(super) coordinator: Box<Coordinator<SubtaskPart>>,
    /// When the coordinator wants to know the time.
    pub(super) wake: Option<Time>,
    /// Workers of which nothing shows yet that they have opened.
    unopened: LiteSet<u16>,
    /// When those are told again.
    again: Time,
    /// When sources that are to end are told again.
    drain_again: Option<Time>,
}

/// A checkpoint that ended, with what its manifest says if it got that far.
pub(super) struct Note {
    pub(super) tried: Tried,
    pub(super) completed: Option<Arc<Completed<SubtaskPart>>>,
}

/// How an attempt ends.
pub(super) enum End {
    /// As it should; its workers are gone or going.
    Done(Outcome),
    /// By an error: while it restored, or later.
    Failed {
        /// What happened.
        error: Error,
        /// Before any source opened: the checkpoint itself may be to blame (R2).
        restoring: bool,
    },
    /// A stop was asked for, and without a storage there is no final checkpoint.
    Abandoned,
}

impl Running {
    /// Starts the workers.
    pub(super) fn begin(attempt: Arc<Attempt>, lineage: Lineage, cx: &mut Cx<'_>) -> Running {
        cx.out.start = Some(attempt.clone());
        let (committing, sources) = (committing(&attempt.plan), sources(&attempt.plan));
        let sources_left = source_subtasks(&attempt).collect();
        Running {
            attempt,
            lineage,
            stage: Stage::Restoring,
            recorder: None,
            notes: Vec::new(),
            just_opened: false,
            end: None,
            committing,
            locating: Locating::default(),
            sources,
            sources_left,
            restored: LiteSet::new(),
            progress: LiteMap::new_vec(),
        }
    }

    /// How the job ends, once that can no longer change.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match &self.stage {
            Stage::Closing { outcome, .. } => Some(outcome.clone()),
            Stage::Restoring | Stage::Open(_) => None,
        }
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.waits_for(ticket))
    }

    pub(super) fn due(&self) -> Option<Time> {
        let own = match &self.stage {
            Stage::Open(open) => {
                let drain = open.drain_again.filter(|_| !self.sources_left.is_empty());
                earliest(earliest(open.wake, (!open.unopened.is_empty()).then_some(open.again)), drain)
            }
            Stage::Closing { again, .. } => Some(*again),
            Stage::Restoring => None,
        };
        let own = earliest(own, self.locating.due());
        earliest(own, self.recorder.as_ref().and_then(Recorder::due))
    }

    pub(super) fn on_time(&mut self, cx: &mut Cx<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.on_time(cx);
        }
        let (id, next) = (self.attempt.id, cx.now.after(cx.repeat()));
        match &mut self.stage {
            Stage::Open(open) if open.again <= cx.now => {
                open.unopened.iter().for_each(|&worker| cx.mail(worker, id, Order::Open));
                open.again = next;
            }
            Stage::Closing { unclosed, again, .. } if *again <= cx.now => {
                unclosed.iter().for_each(|&worker| cx.mail(worker, id, Order::Close));
                *again = next;
            }
            _ => {}
        }
        if let Stage::Open(open) = &self.stage
            && open.drain_again.is_some_and(|moment| moment <= cx.now)
        {
            self.drain(cx);
        }
        // Taken, not looked at: while a checkpoint is being recorded the coordinator asks for no other moment.
        if let Stage::Open(open) = &mut self.stage
            && open.wake.take_if(|wake| *wake <= cx.now).is_some()
        {
            self.coordinate(Event::Tick, cx);
        }
        self.locate_on_time(cx);
    }

    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) {
        let Some(recorder) = &mut self.recorder else { return };
        let recorded = recorder.on_storage(reply, cx);
        self.on_recorded(recorded, cx);
    }

    /// All workers are gone without having been told to go.
    pub(super) fn on_workers_gone(&mut self, error: Option<Error>, cx: &mut Cx<'_>) {
        match (&self.stage, error) {
            (Stage::Closing { outcome, .. }, error) => {
                if let Some(error) = error {
                    cx.warn(format!("a worker failed after its output was committed, nothing is lost: {error}"));
                }
                self.end = Some(End::Done(outcome.clone()));
            }
            (_, Some(error)) => self.fail(error, cx),
            (_, None) => self.fail(Error::failed("the workers ended before the job did"), cx),
        }
    }

    pub(super) fn on_mail(&mut self, mail: ToManager, cx: &mut Cx<'_>) {
        let ToManager { attempt, worker, report } = mail;
        if attempt != self.attempt.id || worker >= self.attempt.workers {
            return;
        }
        match report {
            Report::Restored => self.on_restored(worker, cx),
            Report::Progress(progress) => self.on_progress(worker, progress, cx),
            Report::Closed => self.on_closed(worker),
            Report::Failed(error) => self.on_failed(error, cx),
            Report::Triggered { id } => {
                for vertex in self.sources.clone() {
                    let subtask = SubtaskId { vertex, index: worker };
                    self.coordinate(Event::TriggerTaken { subtask, attempt, id }, cx);
                }
            }
            Report::Acked { id, part } => {
                // Sources that are at rest read nothing, but only open ones take part in a checkpoint.
                if part.subtask.index == worker && self.sources.contains(&part.subtask.vertex) {
                    self.has_opened(worker);
                }
                self.on_acked(worker, id, *part, cx);
            }
            Report::Declined { id, subtask, reason } => {
                self.coordinate(Event::Declined { subtask, attempt, id, reason }, cx);
            }
            Report::Finished { subtask } => {
                self.sources_left.remove(&subtask);
                if !self.sources_left.iter().any(|source| source.index == worker) {
                    self.has_opened(worker);
                }
                self.coordinate(Event::Finished { subtask, attempt }, cx);
            }
            Report::Located { id, standings } => self.on_located(worker, id, standings, cx),
            Report::Resolved { id, subtask } => self.on_resolved(id, subtask, cx),
            Report::Hindered { subtask, error } => {
                let error = error.at_subtask(subtask);
                cx.warn(format!("output cannot be committed for now, and is tried again: {error}"));
            }
            Report::Committed { id, subtask } => self.coordinate(Event::CommitDone { subtask, attempt, id }, cx),
        }
    }

    fn on_restored(&mut self, worker: u16, cx: &mut Cx<'_>) {
        let id = self.attempt.id;
        self.restored.insert(worker);
        match &self.stage {
            // It has not got what followed: say it again.
            Stage::Open(open) if open.unopened.contains(&worker) => cx.mail(worker, id, Order::Open),
            Stage::Closing { unclosed, .. } if unclosed.contains(&worker) => cx.mail(worker, id, Order::Close),
            Stage::Restoring if self.restored.len() == usize::from(self.attempt.workers) => self.all_restored(cx),
            _ => {}
        }
    }

    /// Step two of R1; or, if the restored checkpoint says that the job is finished, straight to the end (C3): its tokens are
    /// committed, for that is part of a restore.
    fn all_restored(&mut self, cx: &mut Cx<'_>) {
        let (attempt, workers) = (self.attempt.id, self.attempt.workers);
        cx.tell(match self.attempt.restore.as_ref() {
            Some(restore) => {
                let guarantee = self.lineage.origin.inherited;
                let rescaled_from = self.attempt.rescaled_from();
                JobEvent::Restored { attempt, checkpoint: restore.checkpoint, guarantee, workers, rescaled_from }
            }
            None => JobEvent::Started { attempt, workers },
        });
        if let Some(outcome) = self.lineage.finished.clone() {
            self.close(outcome, cx);
            return;
        }
        match self.new_coordinator(cx) {
            Ok(coordinator) => {
                (0..workers).for_each(|worker| cx.mail(worker, attempt, Order::Open));
                self.stage = Stage::Open(Open {
                    coordinator: Box::new(coordinator),
                    wake: None,
                    unopened: (0..workers).collect(),
                    again: cx.now.after(cx.repeat()),
                    drain_again: None,
                });
                self.just_opened = true;
                self.end_with_savepoint(cx);
                let first = if cx.desk.stop_wanted { Event::Stop } else { Event::Tick };
                self.coordinate(first, cx);
            }
            Err(error) => self.fail(error, cx),
        }
    }

    /// Obeys `Command::EndWithSavepoint`, if it was given.
    pub(super) fn end_with_savepoint(&mut self, cx: &mut Cx<'_>) {
        if cx.desk.savepoint_at_end {
            self.coordinate(Event::EndWithSavepoint, cx);
        }
        self.drain(cx);
    }

    /// Tells sources to end where they are, those that have not.
    fn drain(&mut self, cx: &mut Cx<'_>) {
        let Stage::Open(open) = &mut self.stage else { return };
        open.drain_again = cx.desk.drain_wanted.then(|| cx.now.after(cx.repeat()));
        if open.drain_again.is_some() {
            let undrained: LiteSet<u16> = self.sources_left.iter().map(|source| source.index).collect();
            undrained.into_iter().for_each(|worker| cx.mail(worker, self.attempt.id, Order::Drain));
        }
    }

    /// Tells all workers that they are done.
    pub(super) fn close(&mut self, outcome: Outcome, cx: &mut Cx<'_>) {
        let unclosed: LiteSet<u16> = (0..self.attempt.workers).collect();
        unclosed.iter().for_each(|&worker| cx.mail(worker, self.attempt.id, Order::Close));
        self.stage = Stage::Closing { outcome, unclosed, again: cx.now.after(cx.repeat()) };
    }

    fn on_closed(&mut self, worker: u16) {
        if let Stage::Closing { outcome, unclosed, .. } = &mut self.stage {
            unclosed.remove(&worker);
            if unclosed.is_empty() {
                self.end = Some(End::Done(outcome.clone()));
            }
        }
    }

    fn on_failed(&mut self, error: Error, cx: &mut Cx<'_>) {
        if let Stage::Closing { .. } = &self.stage {
            // What it leaves undone is not output: the host reports its end.
            cx.warn(format!("a worker failed after its output was committed, nothing is lost: {error}"));
            return;
        }
        self.fail(error, cx);
    }

    /// Something shows that this worker's sources are open.
    fn has_opened(&mut self, worker: u16) {
        if let Stage::Open(open) = &mut self.stage {
            open.unopened.remove(&worker);
        }
    }

    fn on_progress(&mut self, worker: u16, progress: Progress, cx: &mut Cx<'_>) {
        if progress.records_in > 0 {
            self.has_opened(worker);
        }
        self.progress.insert(worker, progress);
        let (records_in, records_out) = self.progress.values().fold((0u64, 0u64), |(read, written), worker| {
            (read.saturating_add(worker.records_in), written.saturating_add(worker.records_out))
        });
        cx.tell(JobEvent::Progress { records_in, records_out });
    }
}

/// The vertices that start with a source.
fn sources(plan: &Plan) -> Vec<u16> {
    (0u16..).zip(&plan.vertices).filter(|(_, vertex)| vertex.is_source).map(|(index, _)| index).collect()
}

/// The vertices with a sink whose output a commit makes visible.
fn committing(plan: &Plan) -> LiteSet<u16> {
    let commits = |role| matches!(role, Role::Sink { transactional: true });
    plan.operators.iter().filter(|operator| commits(operator.role)).map(|operator| operator.vertex).collect()
}

/// Every subtask of the attempt.
pub(super) fn subtasks(attempt: &Attempt) -> impl Iterator<Item = SubtaskId> + '_ {
    let vertices = 0u16..u16::try_from(attempt.plan.vertices.len()).unwrap_or(u16::MAX);
    vertices.flat_map(|vertex| (0..attempt.workers).map(move |index| SubtaskId { vertex, index }))
}

/// The subtasks that are sources.
pub(super) fn source_subtasks(attempt: &Attempt) -> impl Iterator<Item = SubtaskId> + '_ {
    let sources = sources(&attempt.plan).into_iter();
    sources.flat_map(|vertex| (0..attempt.workers).map(move |index| SubtaskId { vertex, index }))
}
