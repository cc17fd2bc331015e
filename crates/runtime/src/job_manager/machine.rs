//! From one phase to the next: contest, plan, run, and what follows a failure.
//!
//! It alone decides that the job is over. Each phase says what it has come to; nothing here knows how.

use super::chronicle::Chronicle;
use super::contesting::{self, Contested, Contesting};
use super::desk::{Cx, Desk, Entropy};
use super::doubt::{Doubt, Owner};
use super::gatherer::Gatherer;
use super::planning::{Planned, Planning};
use super::running::{End, Running};
use super::settings::JobSettings;
use super::{Command, JobEvent, ManagerEvent, ManagerOutbox, Outcome};
use crate::attempt::World;
use crate::error::{Error, ErrorKind};
use crate::io::{StorageReply, Ticket};
use crate::plan::Plan;
use crate::time::Time;
use flott_checkpoint::{AttemptId, Claim, CoordinatorEvent, Dropped, Elsewhere, Mode, Restore, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// How long the end of the job waits for its history to be written.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Runs one job, from winning the log to the last commit. See the head of the module.
pub struct JobManager {
    desk: Desk,
    phase: Phase,
    /// The claim of the running attempt.
    claim: Option<Box<Claim>>,
    /// Attempts so far without a log, where nobody counts them.
    uncounted: u64,
    chronicle: Chronicle,
    gatherer: Gatherer,
}

enum Phase {
    /// Before `Begin`.
    Idle,
    Contesting(Contesting),
    Planning(Planning),
    Running(Box<Running>),
    /// The workers were told to stop; nothing is done before they are gone.
    Ending {
        attempt: AttemptId,
        then: Then,
    },
    /// Something seems to be damaged: who owns the job?
    Doubting {
        doubt: Doubt,
        then: Then,
    },
    /// Between a failure and the restart.
    Waiting {
        until: Time,
    },
    /// The outcome is known; the history is still being written.
    Parting {
        outcome: Outcome,
        until: Time,
    },
    Over,
}

/// What follows when the workers are gone.
enum Then {
    /// The restart strategy decides.
    Failed(Error),
    /// The restored checkpoint cannot be used (R2).
    FallBack(Error),
    Finish(Outcome),
}

impl JobManager {
    /// A job manager that has not begun. `entropy` gives nonces, the names of incarnations and the seed of key hashes.
    #[must_use]
    pub fn new(settings: JobSettings, plan: Arc<Plan>, world: World, entropy: Entropy) -> JobManager {
        JobManager {
            desk: Desk::new(settings, plan, world, entropy),
            phase: Phase::Idle,
            claim: None,
            uncounted: 0,
            chronicle: Chronicle::default(),
            gatherer: Gatherer::default(),
        }
    }

    /// Begins with this savepoint, instead of what the settings say. Before `Begin`.
    pub fn begin_with(&mut self, elsewhere: Elsewhere) {
        self.desk.settings.restore = Restore::Savepoint(Box::new(elsewhere));
    }

    /// Messages about checkpoints that were ignored in this process, because they were late, foreign or repeated.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.desk.dropped()
    }

    /// Takes an event and says what to do about it. After `done` nothing is done any more.
    pub fn on(&mut self, now: Time, event: ManagerEvent, outbox: &mut ManagerOutbox) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        self.take(now, event, outbox);
        self.on_time(now, outbox);
        self.part(now, outbox);
        outbox.wake_at = self.due().or(outbox.wake_at);
    }

    fn take(&mut self, now: Time, event: ManagerEvent, outbox: &mut ManagerOutbox) {
        match event {
            ManagerEvent::Begin => self.begin(now, outbox),
            ManagerEvent::Storage(ticket, reply) => self.on_storage(ticket, reply, now, outbox),
            ManagerEvent::Worker(mail) => {
                if let Phase::Running(running) = &mut self.phase {
                    running.on_mail(mail, &mut Cx { desk: &mut self.desk, now, out: outbox });
                }
            }
            ManagerEvent::AttemptEnded { attempt, error } => self.on_attempt_ended(attempt, error, now, outbox),
            ManagerEvent::Tick => {}
            ManagerEvent::Command(command) => self.on_command(command, now, outbox),
        }
        self.follow_up(now, outbox);
    }

    /// What the running attempt leaves behind: history, garbage, its end.
    fn follow_up(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        let Phase::Running(running) = &mut self.phase else { return };
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        let notes = std::mem::take(&mut running.notes);
        for note in &notes {
            self.chronicle.write(note, running.attempt.workers, &mut cx);
            self.gatherer.hold(note);
        }
        if Gatherer::is_due(&notes) || std::mem::take(&mut running.just_opened) {
            self.gatherer.collect(running, &mut cx);
        }
        self.gatherer.go_on(running, &mut cx);
        if running.end.is_some() {
            running.stop_locating(&mut cx);
        }
        if let Some(end) = running.end.take() {
            let attempt = running.attempt.id;
            self.end_attempt(attempt, end, now, outbox);
        }
    }

    fn end_attempt(&mut self, attempt: AttemptId, end: End, now: Time, outbox: &mut ManagerOutbox) {
        let then = match end {
            End::Done(outcome) => return self.finish(outcome, now),
            End::Failed { error, restoring: true } if error.kind() == ErrorKind::Unusable && !error.is_misfit() => {
                Then::FallBack(error)
            }
            End::Failed { error, .. } => Then::Failed(error),
            End::Abandoned => Then::Finish(Outcome::Stopped { checkpoint: None }),
        };
        outbox.stop_attempt = Some(attempt);
        self.phase = Phase::Ending { attempt, then };
    }

    // ---- from phase to phase ----

    fn begin(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        match self.desk.settings.validate(&self.desk.plan) {
            Err(error) => self.finish(Outcome::Failed(error), now),
            Ok(()) => self.start(self.desk.settings.restore.clone(), now, outbox),
        }
    }

    /// A new attempt.
    fn start(&mut self, restore: Restore, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        if cx.desk.settings.checkpoints {
            let (contesting, contested) = Contesting::begin(restore, &mut cx);
            self.phase = Phase::Contesting(contesting);
            self.on_contested(contested, now, outbox);
        } else {
            self.uncounted += 1;
            let planned = super::planning::without_log(AttemptId(self.uncounted), &mut cx);
            self.on_planned(planned, now, outbox);
        }
    }

    fn on_contested(&mut self, contested: Contested, now: Time, outbox: &mut ManagerOutbox) {
        match contested {
            Contested::Going => {}
            Contested::Lost(error) => self.on_failure(error, now, outbox),
            Contested::Owned(claim) => {
                let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
                self.gatherer.owned(&claim);
                self.chronicle.look_back(&claim, &mut cx);
                let (planning, planned) = Planning::begin(claim.clone(), &mut cx);
                self.claim = Some(claim);
                self.phase = Phase::Planning(planning);
                self.on_planned(planned, now, outbox);
            }
        }
    }

    fn on_planned(&mut self, planned: Planned, now: Time, outbox: &mut ManagerOutbox) {
        match planned {
            Planned::Going => {}
            Planned::Failed(error) => self.on_failure(error, now, outbox),
            Planned::Damaged(error) => self.on_damaged(error, now, outbox),
            Planned::Ready(ready) => {
                let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
                let running = Running::begin(ready.attempt, ready.lineage, &mut cx);
                self.phase = Phase::Running(Box::new(running));
            }
        }
    }

    /// The checkpoint that this attempt restores cannot be used.
    fn on_damaged(&mut self, error: Error, now: Time, outbox: &mut ManagerOutbox) {
        self.doubt(Then::FallBack(error), now, outbox);
    }

    /// Something seems to be damaged. Not so if a newer attempt owns the job.
    fn doubt(&mut self, then: Then, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        match &self.claim {
            Some(claim) => self.phase = Phase::Doubting { doubt: Doubt::begin(claim.attempt, &mut cx), then },
            None => self.damage_stands(then, now, outbox),
        }
    }

    fn on_doubted(&mut self, owner: Option<Owner>, now: Time, outbox: &mut ManagerOutbox) {
        match (owner, std::mem::replace(&mut self.phase, Phase::Over)) {
            (Some(Owner::Ourselves), Phase::Doubting { then, .. }) => self.damage_stands(then, now, outbox),
            (Some(Owner::Newer(by)), _) => {
                let error = super::fenced(format!("fenced: attempt {by} owns the job now"));
                self.finish(Outcome::Failed(error), now);
            }
            (_, phase) => self.phase = phase,
        }
    }

    fn damage_stands(&mut self, then: Then, now: Time, outbox: &mut ManagerOutbox) {
        match then {
            Then::FallBack(error) => self.fall_back(error, now, outbox),
            Then::Failed(error) => self.finish(Outcome::Failed(error), now),
            Then::Finish(outcome) => self.finish(outcome, now),
        }
    }

    /// An older checkpoint, or the end (R2).
    fn fall_back(&mut self, error: Error, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        let Some(claim) = &self.claim else { return self.finish(Outcome::Failed(error), now) };
        match contesting::older_checkpoint(claim, &error, &cx.desk.plan, &cx.desk.settings) {
            Ok((restore, warning)) => {
                cx.warn(warning);
                self.start(restore, now, outbox);
            }
            Err(error) => self.finish(Outcome::Failed(error), now),
        }
    }

    /// An attempt failed, or could not begin.
    fn on_failure(&mut self, error: Error, now: Time, outbox: &mut ManagerOutbox) {
        match error.kind() {
            ErrorKind::Failed => {}
            ErrorKind::Invalid => {
                let hint = "a restart would meet it again, so there is none: correct it and start the job again";
                return self.finish(Outcome::Failed(error.hint(hint)), now);
            }
            ErrorKind::OutputDamaged => return self.doubt(Then::Failed(error), now, outbox),
            _ => return self.finish(Outcome::Failed(error), now),
        }
        if !self.desk.settings.checkpoints {
            let hint = "checkpoints are off, so there is nothing to restart from: --checkpoint-dir turns them on";
            return self.finish(Outcome::Failed(error.hint(hint)), now);
        }
        match self.desk.restarts.on_failure(now.millis()) {
            Verdict::RestartAfter(millis) => {
                // The final checkpoint needs an attempt: not later than necessary.
                let delay = if self.desk.stop_wanted { Duration::ZERO } else { Duration::from_millis(millis) };
                outbox.events.push(JobEvent::Restart { restarts: self.desk.restarts.total(), delay, error });
                self.phase = Phase::Waiting { until: now.after(delay) };
            }
            Verdict::GiveUp { failures } => {
                let hint =
                    format!("{failures} failures without a completed checkpoint in between: not restarted again");
                self.finish(Outcome::Failed(error.hint(hint)), now);
            }
        }
    }

    fn on_attempt_ended(&mut self, ended: AttemptId, error: Option<Error>, now: Time, outbox: &mut ManagerOutbox) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Ending { attempt, then } if attempt == ended => match then {
                Then::Failed(error) => self.on_failure(error, now, outbox),
                Then::FallBack(error) => self.on_damaged(error, now, outbox),
                Then::Finish(outcome) => self.finish(outcome, now),
            },
            Phase::Running(mut running) if running.attempt.id == ended => {
                running.on_workers_gone(error, &mut Cx { desk: &mut self.desk, now, out: outbox });
                self.phase = Phase::Running(running);
                self.follow_up(now, outbox);
                // They are gone already: there is nothing to wait for.
                outbox.stop_attempt = None;
                if matches!(&self.phase, Phase::Ending { .. }) {
                    self.on_attempt_ended(ended, None, now, outbox);
                }
            }
            phase => self.phase = phase,
        }
    }

    fn finish(&mut self, outcome: Outcome, now: Time) {
        self.phase = Phase::Parting { outcome, until: now.after(LAST_WORDS) };
    }

    /// The very end: when the history is written, or takes too long.
    fn part(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        if let Phase::Parting { outcome, until } = &self.phase
            && (self.chronicle.is_quiet() || *until <= now)
        {
            outbox.done = Some(outcome.clone());
            self.phase = Phase::Over;
        }
    }

    // ---- events ----

    fn on_storage(&mut self, ticket: Ticket, reply: StorageReply, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        match &mut self.phase {
            Phase::Contesting(contesting) if contesting.waits_for(ticket) => {
                let contested = contesting.on_storage(reply, &mut cx);
                self.on_contested(contested, now, outbox);
            }
            Phase::Planning(planning) if planning.waits_for(ticket) => {
                let planned = planning.on_storage(reply, &mut cx);
                self.on_planned(planned, now, outbox);
            }
            Phase::Running(running) if running.waits_for(ticket) => running.on_storage(reply, &mut cx),
            Phase::Doubting { doubt, .. } if doubt.waits_for(ticket) => {
                let owner = doubt.on_storage(reply, &mut cx);
                self.on_doubted(owner, now, outbox);
            }
            _ if self.chronicle.waits_for(ticket) => self.chronicle.on_storage(ticket, &reply, &mut cx),
            _ => self.gatherer.hear(ticket, reply),
        }
    }

    fn on_time(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        match &mut self.phase {
            Phase::Contesting(contesting) => contesting.on_time(&mut cx),
            Phase::Running(running) => {
                running.on_time(&mut cx);
                self.follow_up(now, outbox);
            }
            Phase::Waiting { until } if *until <= now => {
                // `--restore` shapes the first Start that is won (L3); from then on the head decides.
                let won = !self.desk.past.is_empty();
                let restore = if won { Restore::Latest } else { self.desk.settings.restore.clone() };
                self.start(restore, now, outbox);
            }
            _ => {}
        }
    }

    fn due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Contesting(contesting) => contesting.due(),
            Phase::Running(running) => running.due(),
            Phase::Waiting { until } | Phase::Parting { until, .. } => Some(*until),
            Phase::Idle | Phase::Planning(_) | Phase::Ending { .. } | Phase::Doubting { .. } | Phase::Over => None,
        }
    }

    fn on_command(&mut self, command: Command, now: Time, outbox: &mut ManagerOutbox) {
        let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
        let running = match &mut self.phase {
            Phase::Running(running) => Some(&mut **running),
            _ => None,
        };
        match command {
            Command::Stop => self.stop(now, outbox),
            Command::EndWithSavepoint { drain } => {
                cx.desk.savepoint_at_end = true;
                cx.desk.drain_wanted |= drain;
                running.into_iter().for_each(|running| running.end_with_savepoint(&mut cx));
                if !drain {
                    self.stop(now, outbox);
                }
            }
            Command::Release(id) => self.gatherer.release(id),
            Command::Cancel => self.cancel(now, outbox),
            Command::Checkpoint { request, .. } | Command::Savepoint { request } => match running {
                Some(running) => {
                    let event = match command {
                        Command::Checkpoint { full, .. } => CoordinatorEvent::Trigger { request, full },
                        _ => CoordinatorEvent::Savepoint { request },
                    };
                    running.trigger(request, event, &mut cx);
                }
                None => cx.refuse(request, "the job is not running at the moment"),
            },
            Command::Locate { request } => match running {
                Some(running) => running.locate(request, &mut cx),
                None => cx.out.located.push((request, None)),
            },
            Command::Set { mode, interval } => Self::set(mode, interval, running, &mut cx),
        }
    }

    fn set(mode: Option<Mode>, interval: Option<Duration>, mut running: Option<&mut Running>, cx: &mut Cx<'_>) {
        if let Some(Err(error)) = mode.map(|mode| super::planning::allows_mode(mode, cx)) {
            return cx.warn(error.to_string());
        }
        if let Some(Err(error)) = interval.map(flott_checkpoint::check_interval) {
            return cx.warn(error.to_string());
        }
        if let Some(mode) = mode {
            cx.desk.settings.coordinator.mode = mode;
            running.iter_mut().for_each(|running| running.set_mode(mode));
        }
        if let Some(interval) = interval {
            cx.desk.settings.coordinator.interval = Some(interval);
            running.iter_mut().for_each(|running| running.set_interval(interval, cx));
        }
        if mode.is_some() || interval.is_some() {
            cx.tell_change();
        }
    }

    fn stop(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        self.desk.stop_wanted = true;
        match &mut self.phase {
            Phase::Running(running) => running.stop(&mut Cx { desk: &mut self.desk, now, out: outbox }),
            Phase::Idle => self.finish(Outcome::Stopped { checkpoint: None }, now),
            // The final checkpoint needs an attempt: not later than necessary.
            Phase::Waiting { until } => *until = now,
            _ => {}
        }
    }

    fn cancel(&mut self, now: Time, outbox: &mut ManagerOutbox) {
        match &mut self.phase {
            Phase::Running(running) => {
                let attempt = running.attempt.id;
                let mut cx = Cx { desk: &mut self.desk, now, out: outbox };
                // What is committed already cannot be cancelled.
                let outcome = running.outcome().unwrap_or(Outcome::Cancelled);
                running.fail(Error::failed("the job was cancelled"), &mut cx);
                running.end = None;
                self.follow_up(now, outbox);
                outbox.stop_attempt = Some(attempt);
                self.phase = Phase::Ending { attempt, then: Then::Finish(outcome) };
            }
            // It is decided already how the job ends.
            Phase::Ending { then: Then::Finish(_), .. } => {}
            Phase::Ending { then, .. } => *then = Then::Finish(Outcome::Cancelled),
            Phase::Parting { .. } | Phase::Over => {}
            _ => self.finish(Outcome::Cancelled, now),
        }
    }
}
