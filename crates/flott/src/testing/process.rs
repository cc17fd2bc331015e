//! One process of a test: a job manager and a deterministic host, turn by turn, until the end or a crash.

use super::Crash;
use super::objects::Objects;
use crate::run::Shared;
use flott_checkpoint::{AttemptId, CheckpointId, Elsewhere};
use flott_runtime::attempt::{Attempt, World};
use flott_runtime::control::ToManager;
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::io::Files;
use flott_runtime::io::threads::OsThreads;
use flott_runtime::job_manager::{Command, JobEvent, JobManager, JobSettings, ManagerEvent, ManagerOutbox, Outcome};
use flott_runtime::plan::Plan;
use flott_runtime::state::store::Stores;
use flott_runtime::testing::{DeterministicHost, Random, Turn, VirtualClock};
use flott_runtime::time::{Clock, Time};
use flott_runtime::worker::Mail;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A turn takes between this and ten times as long.
const SHORTEST_TURN: Duration = Duration::from_micros(10);

pub(super) struct Process<'a> {
    manager: JobManager,
    clock: VirtualClock,
    began: Time,
    heartbeats: Heartbeats,
    events: VecDeque<ManagerEvent>,
    running: Option<(AttemptId, DeterministicHost)>,
    wake_at: Option<Time>,
    turns: u64,
    lived: Lived,
    shared: &'a Shared,
}

/// What a process did.
#[derive(Default)]
pub(super) struct Lived {
    /// `None`: it crashed.
    pub(super) outcome: Option<Outcome>,
    pub(super) completed: u64,
    pub(super) restored: Vec<CheckpointId>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Process<'a> {
    pub(super) fn new(
        settings: JobSettings,
        plan: Arc<Plan>,
        (files, stores): (Arc<dyn Files>, Option<Arc<dyn Stores>>),
        clock: VirtualClock,
        shared: &'a Shared,
    ) -> Process<'a> {
        let heartbeats = Heartbeats::default();
        let world = World {
            files,
            threads: Arc::new(OsThreads),
            stdout: Arc::new(|_: &str| ()),
            heartbeats: heartbeats.clone(),
            stores,
        };
        // Nonces must differ between processes and between tests' runs alike; which they are changes nothing.
        let mut next = Random::new(clock.now().0.wrapping_add(1));
        let manager = JobManager::new(settings, plan, world, Box::new(move || next.draw()));
        Process {
            manager,
            began: clock.now(),
            clock,
            heartbeats,
            events: VecDeque::from([ManagerEvent::Begin]),
            running: None,
            wake_at: None,
            turns: 0,
            lived: Lived::default(),
            shared,
        }
    }

    /// Begins from a savepoint.
    pub(super) fn begin_with(&mut self, from: Elsewhere) {
        self.manager.begin_with(from);
    }

    /// Runs until the end or the crash. At a moment `leaves` it is stopped with a savepoint.
    pub(super) fn live(
        mut self,
        crash: Option<Crash>,
        mut leaves: Option<u64>,
        objects: &mut Objects,
        random: &mut Random,
    ) -> Lived {
        while self.lived.outcome.is_none() {
            if crash.is_some_and(|crash| self.is_time_for(crash)) {
                objects.crash();
                break;
            }
            if leaves.take_if(|count| *count <= self.lived.completed).is_some() {
                self.events.push_back(ManagerEvent::Command(Command::EndWithSavepoint { drain: false }));
            }
            match self.events.pop_front() {
                Some(event) => self.manage(event, objects),
                None => self.turn(objects, random),
            }
        }
        self.lived
    }

    fn is_time_for(&self, crash: Crash) -> bool {
        match crash {
            Crash::AtTurn(turns) => self.turns >= turns,
            Crash::At(moment) => self.clock.now().since(self.began) >= moment,
            Crash::AfterCheckpoint(count) => self.lived.completed >= count,
        }
    }

    fn manage(&mut self, event: ManagerEvent, objects: &mut Objects) {
        let mut outbox = ManagerOutbox::default();
        self.manager.on(self.clock.now(), event, &mut outbox);
        self.wake_at = outbox.wake_at.or(self.wake_at);
        for event in outbox.events {
            self.shared.on_event(&event);
            match event {
                JobEvent::Completed { .. } => self.lived.completed += 1,
                JobEvent::Restored { checkpoint, .. } => self.lived.restored.push(checkpoint),
                JobEvent::Warning(warning) => self.lived.warnings.push(warning),
                JobEvent::Aborted { id, reason } => {
                    self.lived.warnings.push(format!("checkpoint {id} was given up: {reason}"));
                }
                JobEvent::Restart { error, .. } => self.lived.warnings.push(format!("restart: {error}")),
                JobEvent::Started { .. }
                | JobEvent::Changed { .. }
                | JobEvent::Delayed(_)
                | JobEvent::Progress { .. } => {}
            }
        }
        for (ticket, request) in outbox.storage {
            self.events.push_back(ManagerEvent::Storage(ticket, objects.serve(request)));
        }
        if let Some(attempt) = outbox.start {
            self.start(&attempt);
        }
        if let Some((_, host)) = &mut self.running {
            outbox.mail.into_iter().for_each(|(worker, order)| host.mail(worker, Mail::Order(order)));
        }
        if let Some(attempt) = outbox.stop_attempt {
            self.end(attempt, None);
        }
        self.lived.outcome = outbox.done;
    }

    fn start(&mut self, attempt: &Arc<Attempt>) {
        match DeterministicHost::start(attempt, self.clock.clone()) {
            Ok(host) => self.running = Some((attempt.id, host)),
            Err(error) => self.end(attempt.id, Some(error)),
        }
    }

    fn end(&mut self, attempt: AttemptId, error: Option<Error>) {
        self.running = None;
        self.events.push_back(ManagerEvent::AttemptEnded { attempt, error });
    }

    /// Lets the workers do one thing; if they have nothing to do, time passes.
    fn turn(&mut self, objects: &mut Objects, random: &mut Random) {
        self.turns += 1;
        self.clock.advance(SHORTEST_TURN * u32::try_from(1 + random.below(10)).unwrap_or(1));
        if self.wake_at.is_some_and(|moment| moment <= self.clock.now()) {
            self.wake_at = None;
            self.events.push_back(ManagerEvent::Tick);
            return;
        }
        match self.try_turn(random) {
            Ok(Some((attempt, turn))) => self.obey(attempt, turn, objects),
            Ok(None) => self.pass_time(),
            Err((attempt, error)) => self.end(attempt, Some(error)),
        }
    }

    fn try_turn(&mut self, random: &mut Random) -> Result<Option<(AttemptId, Turn)>, (AttemptId, Error)> {
        let Some((attempt, host)) = &mut self.running else { return Ok(None) };
        let attempt = *attempt;
        match catch_unwind(AssertUnwindSafe(|| host.turn(random))) {
            Ok(turn) => Ok(turn.map(|turn| (attempt, turn))),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();

                let blamed = self.heartbeats.blame(Error::failed(format!("a worker panicked: {text}")));
                Err((attempt, blamed))
            }
        }
    }

    fn obey(&mut self, attempt: AttemptId, turn: Turn, objects: &mut Objects) {
        let Turn { worker, reports, storage, calls, .. } = turn;
        let (Some(worker), Some((_, host))) = (worker, &mut self.running) else { return };
        for (ticket, request) in storage {
            host.mail(worker, Mail::Storage(ticket, objects.serve(request)));
        }
        for (ticket, call) in calls {
            host.mail(worker, Mail::Call(ticket, (call.0)()));
        }
        let is_done = host.is_done();
        let reports = reports.into_iter().map(|report| ManagerEvent::Worker(ToManager { attempt, worker, report }));
        self.events.extend(reports);
        if is_done {
            self.end(attempt, None);
        }
    }

    fn pass_time(&mut self) {
        let next = self.running.as_ref().and_then(|(_, host)| host.next_moment());
        let moment = [next, self.wake_at].into_iter().flatten().min();
        let moment = moment.expect("a job goes on or ends; this one waits for nothing");
        self.clock.move_to(moment);
    }
}
