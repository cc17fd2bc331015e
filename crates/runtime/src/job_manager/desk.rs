//! What outlives a single attempt: the settings, the plan, the numbers already given out. And the pen with which every
//! phase writes into the outbox.

use super::{JobEvent, JobSettings, ManagerOutbox};
use crate::attempt::World;
use crate::control::{Order, ToWorker};
use crate::error::Error;
use crate::io::{StorageRequest, Ticket};
use crate::plan::Plan;
use crate::time::Time;
use flott_checkpoint::{AttemptId, Dropped, Incarnation, Options, RequestId, Restart, RestartOptions};
use std::sync::Arc;
use std::time::Duration;

/// A source of fresh random numbers: the operating system's in production, a seeded one in tests. Keys are hashed with
/// one of them, so a generator whose next number can be guessed from the last one is not good enough for production.
pub type Entropy = Box<dyn FnMut() -> u64 + Send>;

/// What outlives an attempt.
pub(super) struct Desk {
    pub(super) settings: JobSettings,
    pub(super) plan: Arc<Plan>,
    pub(super) world: World,
    pub(super) restarts: Restart,
    /// The nonces of all Starts this process has tried, once it has owned the log.
    pub(super) past: Vec<u64>,
    /// The user asked to stop, and has not got it yet.
    pub(super) stop_wanted: bool,
    /// The final checkpoint is to be copied elsewhere.
    pub(super) savepoint_at_end: bool,
    /// The sources are to end where they are.
    pub(super) drain_wanted: bool,
    /// Messages that the coordinators of older attempts ignored, and that of the newest one.
    pub(super) dropped: (Dropped, Dropped),
    entropy: Entropy,
    next_ticket: u64,
}

impl Desk {
    pub(super) fn new(settings: JobSettings, plan: Arc<Plan>, world: World, entropy: Entropy) -> Desk {
        let restarts = Restart::new(settings.restart.clone())
            .or_else(|_| Restart::new(RestartOptions::default()))
            .expect("the defaults make sense; what does not is refused at the beginning");
        Desk {
            settings,
            plan,
            world,
            restarts,
            past: Vec::new(),
            stop_wanted: false,
            savepoint_at_end: false,
            drain_wanted: false,
            dropped: Default::default(),
            entropy,
            next_ticket: 0,
        }
    }

    pub(super) fn random(&mut self) -> u64 {
        (self.entropy)()
    }

    /// What the coordinators so far have ignored counts on.
    pub(super) fn new_coordinator(&mut self) {
        self.dropped = (self.dropped(), Dropped::default());
    }

    /// Messages that were ignored in all attempts.
    pub(super) fn dropped(&self) -> Dropped {
        let (before, now) = self.dropped;
        Dropped {
            late: before.late + now.late,
            foreign: before.foreign + now.foreign,
            repeated: before.repeated + now.repeated,
        }
    }

    /// An incarnation, in case one begins.
    pub(super) fn fresh_incarnation(&mut self) -> Incarnation {
        Incarnation { id: self.random(), key_seed: self.random(), key_groups: self.settings.key_groups }
    }
}

/// One event being handled: the desk, the time, the outbox.
pub(super) struct Cx<'a> {
    pub(super) desk: &'a mut Desk,
    pub(super) now: Time,
    pub(super) out: &'a mut ManagerOutbox,
}

impl Cx<'_> {
    /// Asks the storage; the answer comes with the ticket.
    pub(super) fn ask(&mut self, request: StorageRequest) -> Ticket {
        self.desk.next_ticket += 1;
        let ticket = Ticket(self.desk.next_ticket);
        self.out.storage.push((ticket, request));
        ticket
    }

    pub(super) fn tell(&mut self, event: JobEvent) {
        self.out.events.push(event);
    }

    /// How the next checkpoints are taken has been changed.
    pub(super) fn tell_change(&mut self) {
        let Options { mode, interval, .. } = self.desk.settings.coordinator;
        self.tell(JobEvent::Changed { mode, interval });
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.tell(JobEvent::Warning(text.into()));
    }

    /// A request gets no checkpoint: whoever asked is told, and so is everybody else.
    pub(super) fn refuse(&mut self, request: RequestId, reason: &str) {
        let error = Error::failed(format!("no checkpoint was taken: {reason}"));
        self.warn(error.to_string());
        self.out.answers.push((request, Err(error)));
    }

    pub(super) fn mail(&mut self, worker: u16, attempt: AttemptId, order: Order) {
        self.out.mail.push((worker, ToWorker { attempt, order }));
    }

    /// How long an unanswered message or an unknown outcome waits before it is repeated.
    pub(super) fn repeat(&self) -> Duration {
        self.desk.settings.coordinator.repeat
    }
}

/// The earlier of two moments, if there is any.
pub(super) fn earliest(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().min()
}
