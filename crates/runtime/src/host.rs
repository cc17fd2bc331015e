//! The seam to the hosts: what a host gives to the workers of an attempt, and what it needs from whoever serves them.
//!
//! A host runs [`crate::worker::Worker`]s: it carries their packets, brings their mail, wakes them, and hands what they ask
//! for to an [`Io`]. It never looks into a packet, a report or an answer.

use crate::attempt::Attempt;
use crate::control::ToManager;
use crate::error::Error;
use crate::io::{BlockingCall, StorageRequest, Ticket};
use crate::source::Waker;
use crate::worker::Mail;
use flott_checkpoint::AttemptId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Serves what leaves the workers' outboxes. Called on the workers' threads: must not block, and answers by mail.
pub trait Io: Send + Sync {
    /// A worker says something to the job manager.
    fn report(&self, report: ToManager);

    /// A worker asks the checkpoint storage. The requests for one path are served in the order of these calls.
    fn storage(&self, reply_to: Mailbox, ticket: Ticket, request: StorageRequest);

    /// A worker wants a call made that may block, off its thread.
    fn call(&self, reply_to: Mailbox, ticket: Ticket, call: BlockingCall);

    /// All workers of an attempt are gone: the last call for it, made exactly once. `error` says why if the host itself knows
    /// (a panic, a worker that cannot be built, a packet that cannot be read); it is `None` after `Close` and after
    /// [`RunningAttempt::stop`]. May come before [`Host::start`] has returned.
    fn ended(&self, attempt: AttemptId, error: Option<Error>);
}

/// How a host reaches whoever serves its workers.
pub type HostPorts = Arc<dyn Io>;

/// Runs attempts, one at a time or several.
pub trait Host {
    /// Starts all workers of an attempt and returns at once. Failures, even that of the very start, come by [`Io::ended`].
    fn start(&self, attempt: Arc<Attempt>, ports: HostPorts) -> RunningAttempt;
}

/// A started attempt. Dropping it neither stops nor awaits anything.
pub struct RunningAttempt {
    attempt: AttemptId,
    mailboxes: Vec<Mailbox>,
    stop: Arc<dyn Fn() + Send + Sync>,
    join: Box<dyn FnOnce() + Send>,
}

impl RunningAttempt {
    /// For hosts: the mailboxes by worker, what `stop` does (from any thread, any number of times), and what waits until the
    /// host holds nothing of the attempt any more.
    pub fn new(
        attempt: AttemptId,
        mailboxes: Vec<Mailbox>,
        stop: Arc<dyn Fn() + Send + Sync>,
        join: Box<dyn FnOnce() + Send>,
    ) -> RunningAttempt {
        RunningAttempt { attempt, mailboxes, stop, join }
    }

    /// Which attempt.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Where mail for a worker goes; `None` if there is no such worker.
    #[must_use]
    pub fn mailbox(&self, worker: u16) -> Option<&Mailbox> {
        self.mailboxes.get(usize::from(worker))
    }

    /// Every worker drops what it has, at the end of its present step, whatever it waits for. A step that never returns (a
    /// user function that loops) cannot be stopped.
    pub fn stop(&self) {
        (self.stop)();
    }

    /// Waits until [`Io::ended`] was called and the host's threads for this attempt are gone. Never call it from an [`Io`].
    pub fn join(self) {
        (self.join)();
    }
}

impl fmt::Debug for RunningAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAttempt")
            .field("attempt", &self.attempt)
            .field("workers", &self.mailboxes.len())
            .finish()
    }
}

/// The way to one worker, from any thread. Mail for a worker that is gone is dropped.
#[derive(Clone)]
pub struct Mailbox {
    queue: Arc<Queue>,
    wake: Waker,
}

/// Mail that was not taken yet; `None` once the worker is gone.
type Queue = Mutex<Option<VecDeque<Mail>>>;

impl Mailbox {
    /// A mailbox and the worker's end of it; `wake` is called after each push.
    #[must_use]
    pub fn new(wake: Waker) -> (Mailbox, Inbox) {
        let queue = Arc::new(Mutex::new(Some(VecDeque::new())));
        (Mailbox { queue: queue.clone(), wake }, Inbox { queue })
    }

    /// Leaves mail and wakes the worker.
    pub fn push(&self, mail: Mail) {
        let is_open = lock(&self.queue).as_mut().map(|queue| queue.push_back(mail)).is_some();
        if is_open {
            (self.wake)();
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}

/// The worker's end of its mailbox. Dropping it closes the mailbox.
pub struct Inbox {
    queue: Arc<Queue>,
}

impl Inbox {
    /// All mail that has come since the last time, oldest first.
    #[must_use]
    pub fn take(&self) -> VecDeque<Mail> {
        lock(&self.queue).as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Dropped outside the lock: an answer may own whatever it likes.
        let rest = lock(&self.queue).take();
        drop(rest);
    }
}

/// A queue is whole between any two operations, so a panic elsewhere does not spoil it.
fn lock(queue: &Queue) -> MutexGuard<'_, Option<VecDeque<Mail>>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
