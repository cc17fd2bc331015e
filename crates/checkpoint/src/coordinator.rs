//! The checkpoint coordinator: when to trigger, when a checkpoint is complete, when to give up, when the job may end.
//!
//! The route of one checkpoint: `SendTrigger` to the sources, barriers through the job, one `Acked` from every subtask,
//! `Record` (manifest, then log slot), `Recorded`, `SendResolved` to every subtask, `CommitDone`. One is pending at a time
//! (D17); while it is being recorded nothing is aborted or triggered (L5); only what is in the log is ever resolved as
//! completed (C1); control messages are repeated until they are acknowledged (C2).
//!
//! It is pure: events and their time go in, actions come out. It never touches storage, a clock, or a subtask.

use crate::barrier::{Barrier, Kind, Mode};
use crate::guarantee::Guarantee;
use crate::ids::{AttemptId, CheckpointId, SubtaskId};
use crate::lite::{LiteSet, lite_map};
use crate::message::{AbortReason, Ack, Action, Cut, Dropped, Event, JobFailure, RequestId};
use crate::options::{OptionError, Options, check_interval};
use crate::pending::{Pending, Taken};
use crate::resolutions::Resolutions;
use litemap::LiteMap;
use std::collections::VecDeque;
use std::time::Duration;

mod outcome;
#[cfg(test)]
mod tests;

/// Requests by hand that may wait; more are refused.
const LONGEST_QUEUE: usize = 1000;

/// The most that lies between a failed final checkpoint and the next try, in milliseconds.
const FINAL_RETRY: u64 = 1000;

/// Where an attempt stands when it begins to run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The attempt.
    pub attempt: AttemptId,
    /// The id of its first checkpoint (L6).
    pub next_id: CheckpointId,
    /// The checkpoint that was restored: the parent of the first one.
    pub parent: Option<CheckpointId>,
    /// The checkpoint that the first one may build on: the restored one, or `None` if the first must be full (R3), and
    /// always `None` after a savepoint was restored.
    pub base: Option<CheckpointId>,
    /// The guarantee of the restored checkpoint; exactly once if nothing was restored (D13).
    pub inherited: Guarantee,
}

/// The coordinator of one attempt. `P` is what the driver needs of each part for the manifest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator<P> {
    options: Options,
    origin: Origin,
    /// Every subtask, and whether it has reached the end of its data.
    subtasks: LiteMap<SubtaskId, bool>,
    sources: LiteSet<SubtaskId>,
    now: u64,
    next_id: CheckpointId,
    parent: Option<CheckpointId>,
    base: Option<CheckpointId>,
    full_next: bool,
    /// The final checkpoint is to be as a savepoint.
    savepoint_at_end: bool,
    failures: u32,
    /// From when the interval counts: the last periodic trigger, or the start.
    last_trigger: u64,
    last_completion: Option<u64>,
    queue: VecDeque<Request>,
    pending: Option<Pending<P>>,
    /// When the triggers that were not taken are sent again.
    trigger_again: u64,
    resolutions: Resolutions,
    resolve_again: u64,
    ending: Ending,
    wake: Option<u64>,
    dropped: Dropped,
}

/// What a pending checkpoint waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outstanding {
    /// Its barrier.
    pub barrier: Barrier,
    /// Sources that have not taken the trigger.
    pub untaken: Vec<SubtaskId>,
    /// Subtasks whose parts are missing.
    pub missing: Vec<SubtaskId>,
    /// All parts are there; manifest and log slot are being written.
    pub recording: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Request {
    id: RequestId,
    kind: Kind,
    full: bool,
}

/// How far the job is from its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Ending {
    /// It is running.
    No,
    /// A final checkpoint is wanted, not before this time.
    Wanted { not_before: u64 },
    /// The final checkpoint is in the log; its output is being committed.
    Recorded { id: CheckpointId, finished: bool },
    /// Over: nothing is taken any more.
    Over,
}

impl<P> Coordinator<P> {
    /// The coordinator of an attempt whose subtasks are all running since `now`. The first periodic trigger comes after
    /// one interval.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(
        options: Options,
        origin: Origin,
        subtasks: impl IntoIterator<Item = SubtaskId>,
        sources: impl IntoIterator<Item = SubtaskId>,
        now: u64,
    ) -> Result<Coordinator<P>, Vec<OptionError>> {
        options.validate()?;
        let subtasks = lite_map(subtasks.into_iter().map(|subtask| (subtask, false)));
        Ok(Coordinator {
            sources: sources.into_iter().filter(|source| subtasks.contains_key(source)).collect(),
            now,
            next_id: origin.next_id,
            parent: origin.parent,
            base: origin.base,
            full_next: false,
            savepoint_at_end: false,
            failures: 0,
            last_trigger: now,
            last_completion: None,
            queue: VecDeque::new(),
            pending: None,
            trigger_again: 0,
            resolutions: Resolutions::new(subtasks.keys().copied()),
            resolve_again: 0,
            ending: Ending::No,
            wake: None,
            dropped: Dropped::default(),
            subtasks,
            options,
            origin,
        })
    }

    /// Takes an event at a time, in milliseconds of any clock that does not go backwards (if it does, it is taken to stand
    /// still), and says what to do.
    pub fn on(&mut self, now: u64, event: Event<P>) -> Vec<Action<P>> {
        let mut out = Vec::new();
        self.now = self.now.max(now);
        if self.ending == Ending::Over {
            self.refuse_after_the_end(event, &mut out);
            return out;
        }
        // A tick used the driver's timer up, perhaps a little too early.
        let timer_is_spent = matches!(event, Event::Tick);
        self.take(event, &mut out);
        self.expire(&mut out);
        self.want_final();
        self.trigger_next(&mut out);
        self.repeat(&mut out);
        self.ask_for_wake(timer_is_spent, &mut out);
        out
    }

    /// From the next trigger on, cuts are taken in this mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.options.mode = mode;
    }

    /// Changes the interval, counted from the last periodic trigger; `None` turns periodic checkpoints off. A `Tick` must follow.
    ///
    /// # Errors
    /// When the interval makes no sense; the old one stays.
    pub fn set_interval(&mut self, interval: Option<Duration>) -> Result<(), OptionError> {
        interval.map_or(Ok(()), check_interval)?;
        self.options.interval = interval;
        Ok(())
    }

    /// The next checkpoint has no base, nor have those after it until one that is full is completed: the chain is too long.
    pub fn request_full(&mut self) {
        self.full_next = true;
    }

    /// The options as they are now.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The pending checkpoint.
    #[must_use]
    pub fn pending(&self) -> Option<&Barrier> {
        self.pending.as_ref().map(|pending| &pending.barrier)
    }

    /// What the pending checkpoint waits for.
    #[must_use]
    pub fn outstanding(&self) -> Option<Outstanding> {
        self.pending.as_ref().map(|pending| Outstanding {
            barrier: pending.barrier,
            untaken: pending.untaken().collect(),
            missing: pending.missing().collect(),
            recording: pending.written.is_some(),
        })
    }

    /// What retention must spare for the pending checkpoint: its id and its base (G1).
    #[must_use]
    pub fn in_use(&self) -> Option<(CheckpointId, Option<CheckpointId>)> {
        self.pending().map(|barrier| (barrier.id, barrier.base))
    }

    /// The checkpoint recorded last in this line, or the restored one.
    #[must_use]
    pub fn newest(&self) -> Option<CheckpointId> {
        self.parent
    }

    /// How many checkpoints failed in a row.
    #[cfg(test)]
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Messages that were ignored.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Whether the final checkpoint is wanted, or recorded and being committed.
    #[cfg(test)]
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.ending, Ending::Wanted { .. } | Ending::Recorded { .. })
    }

    /// Whether nothing is taken any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ending == Ending::Over
    }

    fn take(&mut self, event: Event<P>, out: &mut Vec<Action<P>>) {
        match event {
            Event::Tick => {}
            Event::Trigger { request, full } => {
                self.enqueue(Request { id: request, kind: Kind::Checkpoint, full }, out)
            }
            Event::Savepoint { request } => {
                self.enqueue(Request { id: request, kind: Kind::Savepoint, full: true }, out)
            }
            Event::Stop => self.want_final_from(self.now),
            Event::EndWithSavepoint => self.savepoint_at_end = true,
            Event::TriggerTaken { subtask, attempt, id } => {
                if self.concerns_pending(subtask, attempt, id)
                    && let Some(pending) = &mut self.pending
                    && !pending.trigger_taken(subtask)
                {
                    self.dropped.repeated += 1;
                }
            }
            Event::Acked(ack) => self.acked(ack, out),
            Event::Declined { subtask, attempt, id, reason } => {
                if self.concerns_pending(subtask, attempt, id) {
                    self.abort(AbortReason::Declined { subtask, reason }, out);
                }
            }
            Event::Finished { subtask, attempt } => match self.subtasks.get_mut(&subtask) {
                Some(finished) if attempt == self.origin.attempt => *finished = true,
                _ => self.dropped.foreign += 1,
            },
            Event::Recorded { id } => self.recorded(id, out),
            Event::RecordFailed { id, reason } => {
                if self.is_recording(id) {
                    self.abort(AbortReason::RecordFailed { reason }, out);
                }
            }
            Event::Unsettled { id } => {
                if self.is_recording(id) {
                    self.fail(JobFailure::Unsettled { id }, out);
                }
            }
            Event::Fenced { by } => self.fail(JobFailure::Fenced { by }, out),
            Event::AttemptFailed { reason } => self.fail(JobFailure::Attempt { reason }, out),
            Event::ResolvedAcked { subtask, attempt, id } => {
                if self.is_ours(subtask, attempt) && !self.resolutions.heard(subtask, id) {
                    self.dropped.repeated += 1;
                }
            }
            Event::CommitDone { subtask, attempt, id } => self.committed(subtask, attempt, id, out),
        }
    }

    // ---- requests and triggers ----

    fn enqueue(&mut self, request: Request, out: &mut Vec<Action<P>>) {
        if matches!(self.ending, Ending::Recorded { .. }) {
            let reason = "the final checkpoint is already recorded, the job is ending".to_owned();
            out.push(Action::Answer { request: request.id, result: Err(reason) });
        } else if self.queue.len() >= LONGEST_QUEUE {
            let reason = format!("{LONGEST_QUEUE} requests are waiting already");
            out.push(Action::Answer { request: request.id, result: Err(reason) });
        } else if request.kind == Kind::Savepoint {
            // Savepoints come first, in the order in which they were asked for.
            let place = self.queue.iter().take_while(|waiting| waiting.kind == Kind::Savepoint).count();
            self.queue.insert(place, request);
        } else {
            self.queue.push_back(request);
        }
    }

    /// When every subtask is at its end, the final checkpoint is wanted at once (D18).
    fn want_final(&mut self) {
        if !self.subtasks.is_empty() && self.subtasks.values().all(|&finished| finished) {
            self.want_final_from(self.now);
        }
    }

    fn want_final_from(&mut self, not_before: u64) {
        if self.ending == Ending::No {
            self.ending = Ending::Wanted { not_before };
        }
    }

    fn trigger_next(&mut self, out: &mut Vec<Action<P>>) {
        if self.pending.is_some() {
            return;
        }
        let cut = |kind, full| Cut { mode: self.options.mode.of_kind(kind), kind, full };
        match self.ending {
            Ending::Recorded { .. } | Ending::Over => {}
            Ending::No | Ending::Wanted { .. } if self.next_request_is_served() => {
                if let Some(request) = self.queue.pop_front() {
                    self.trigger(cut(request.kind, request.full), Some(request.id), out);
                }
            }
            Ending::Wanted { not_before } if not_before <= self.now => {
                let like = if self.savepoint_at_end { Kind::Savepoint } else { Kind::Final };
                let mode = self.options.mode.of_kind(like);
                self.trigger(Cut { mode, kind: Kind::Final, full: self.savepoint_at_end }, None, out);
            }
            Ending::No if self.due().is_some_and(|due| due <= self.now) => {
                self.last_trigger = self.now;
                self.trigger(cut(Kind::Checkpoint, false), None, out);
            }
            Ending::No | Ending::Wanted { .. } => {}
        }
    }

    /// Once the final checkpoint is wanted, only savepoints still come before it: it serves the other requests too.
    fn next_request_is_served(&self) -> bool {
        self.queue.front().is_some_and(|request| self.ending == Ending::No || request.kind == Kind::Savepoint)
    }

    /// When the next periodic trigger is due: one interval after the last one, and the minimum pause after the last completion.
    /// A mode that stops the job leaves it at least as much time to run as it stood still.
    fn due(&self) -> Option<u64> {
        let interval = millis(self.options.interval?);
        let pause = self.last_completion.map_or(0, |at| {
            let stood_still = if self.options.mode.stops_the_job() { at.saturating_sub(self.last_trigger) } else { 0 };
            at.saturating_add(millis(self.options.min_pause).max(stood_still))
        });
        Some(self.last_trigger.saturating_add(interval).max(pause))
    }

    fn trigger(&mut self, cut: Cut, request: Option<RequestId>, out: &mut Vec<Action<P>>) {
        let full = cut.full || cut.kind == Kind::Savepoint || self.full_next;
        let barrier = Barrier {
            id: self.next_id,
            attempt: self.origin.attempt,
            mode: cut.mode,
            kind: cut.kind,
            base: if full { None } else { self.base },
            triggered_at: self.now,
        };
        self.next_id = CheckpointId(self.next_id.0.saturating_add(1));
        let subtasks: LiteSet<SubtaskId> = self.subtasks.keys().copied().collect();
        out.extend(self.sources.iter().map(|&to| Action::SendTrigger { to, barrier }));
        self.trigger_again = self.now.saturating_add(millis(self.options.repeat));
        self.pending = Some(Pending::new(barrier, request, self.sources.clone(), subtasks));
    }

    // ---- answers of the subtasks ----

    fn is_ours(&mut self, subtask: SubtaskId, attempt: AttemptId) -> bool {
        let ours = attempt == self.origin.attempt && self.subtasks.contains_key(&subtask);
        if !ours {
            self.dropped.foreign += 1;
        }
        ours
    }

    /// Whether a message is about the checkpoint that is still collecting parts; counts it if not.
    fn concerns_pending(&mut self, subtask: SubtaskId, attempt: AttemptId, id: CheckpointId) -> bool {
        if !self.is_ours(subtask, attempt) {
            return false;
        }
        match &self.pending {
            Some(pending) if pending.id() == id && pending.written.is_none() => return true,
            Some(pending) if pending.id() == id => self.dropped.repeated += 1,
            _ if id < self.origin.next_id || id >= self.next_id => self.dropped.foreign += 1,
            _ => self.dropped.late += 1,
        }
        false
    }

    fn acked(&mut self, ack: Ack<P>, out: &mut Vec<Action<P>>) {
        if !self.concerns_pending(ack.subtask, ack.attempt, ack.id) {
            return;
        }
        let (subtask, used, finished) = (ack.subtask, ack.base, ack.finished);
        let now = self.now;
        let Some(pending) = &mut self.pending else { return };
        let named = pending.barrier.base;
        match pending.take(ack, now) {
            Taken::Repeated => self.dropped.repeated += 1,
            Taken::WrongBase => self.abort(AbortReason::WrongBase { subtask, named, used }, out),
            taken => {
                if let Some(known) = self.subtasks.get_mut(&subtask) {
                    *known |= finished;
                }
                if taken == Taken::Last {
                    self.record(out);
                }
            }
        }
    }
}

/// Durations of the options in the unit of events; checked to be at most a year.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
