//! The job manager: wins the log, starts attempts, drives the coordinator, records checkpoints, restarts after failures.
//!
//! It is a state machine like the rules it drives: [`JobManager::on`] takes an event with the time and fills an outbox.
//! The host's I/O runtime serves it in production, the simulator in tests. It never touches storage, clock or threads itself.
//!
//! The phases of an attempt, each in its file: `contesting` (win a Start), `planning` (read and check what is restored),
//! `running` (two-step restore, coordinator, end). `machine` goes from one to the next and decides what follows a failure.

mod chronicle;
mod contesting;
mod coordinating;
mod desk;
mod doubt;
mod dry_run;
mod gatherer;
mod lineage;
mod locating;
mod log_calls;
mod machine;
mod planning;
mod promises;
mod record;
mod recorder;
mod running;
mod settings;
mod shape;
#[cfg(test)]
mod tests;

pub use desk::Entropy;
pub use dry_run::{Looked, adopted_by, check_restore, instead_of_damaged, look_at_claim, looking_attempt, restored_by};
pub use machine::JobManager;
pub use promises::{check_required, promises};
pub use settings::JobSettings;

use crate::attempt::Attempt;
use crate::control::{ToManager, ToWorker};
use crate::error::{Error, Result};
use crate::history::Phases;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::time::Time;
use crate::whereabouts::Whereabouts;
use flott_checkpoint::{AttemptId, CheckpointId, Guarantee, Mode, RequestId};
use std::sync::Arc;
use std::time::Duration;

/// What happens to a job manager.
#[derive(Debug)]
pub enum ManagerEvent {
    /// Begin: win a Start, restore, run.
    Begin,
    /// An answer of the storage.
    Storage(Ticket, StorageReply),
    /// Mail from a worker.
    Worker(ToManager),
    /// All workers of an attempt are gone; with the error that ended it, if the host knows one (a panic).
    AttemptEnded {
        /// Which attempt.
        attempt: AttemptId,
        /// Why, if not because it was done or told to stop.
        error: Option<Error>,
    },
    /// The moment that was asked for has come.
    Tick,
    /// The user wants something.
    Command(Command),
}

/// What a user can ask of a running job.
#[derive(Debug, Clone)]
pub enum Command {
    /// Stop with a final checkpoint, without draining.
    Stop,
    /// Let the final checkpoint be one that can be copied elsewhere: full, and with nothing in flight. Without `drain` the job
    /// stops now, as with `Stop`; with it the sources end where they are, everything that they gave out goes through to its
    /// end, and the job is finished.
    EndWithSavepoint {
        /// Sources end, instead of being stopped.
        drain: bool,
    },
    /// A savepoint that was taken in this process has been copied, or will not be: it is kept no longer than any checkpoint.
    Release(CheckpointId),
    /// Stop at once: no checkpoint.
    Cancel,
    /// Take a checkpoint now; a full one if asked for. Answered in [`ManagerOutbox::answers`].
    Checkpoint {
        /// No base.
        full: bool,
        /// Whom to answer.
        request: RequestId,
    },
    /// Take a savepoint as soon as nothing is pending. Answered in [`ManagerOutbox::answers`]; it is kept until it is released
    /// ([`Command::Release`]) or the process ends.
    Savepoint {
        /// Whom to answer.
        request: RequestId,
    },
    /// Find out where the pending checkpoint is. Answered in [`ManagerOutbox::located`].
    Locate {
        /// Whom to answer.
        request: RequestId,
    },
    /// Take the next checkpoints in another mode, at another interval, or both. If one of them cannot be, neither is changed.
    Set {
        /// How.
        mode: Option<Mode>,
        /// From one trigger to the next.
        interval: Option<Duration>,
    },
}

/// What a job manager wants done.
#[derive(Default)]
pub struct ManagerOutbox {
    /// Requests to the checkpoint storage.
    pub storage: Vec<(Ticket, StorageRequest)>,
    /// Start the workers of this attempt; only when none runs.
    pub start: Option<Arc<Attempt>>,
    /// Stop the workers of the running attempt, whatever they do; answered by `AttemptEnded`.
    pub stop_attempt: Option<AttemptId>,
    /// Mail for workers.
    pub mail: Vec<(u16, ToWorker)>,
    /// What a user wants to know.
    pub events: Vec<JobEvent>,
    /// Which checkpoint a request was given, once that is complete; or why it is given none.
    pub answers: Vec<(RequestId, Result<CheckpointId>)>,
    /// Where the pending checkpoint is, for whoever asked.
    pub located: Vec<(RequestId, Located)>,
    /// Send a `Tick` at this moment, instead of any earlier wish.
    pub wake_at: Option<Time>,
    /// The job is over.
    pub done: Option<Outcome>,
}

/// Where the pending checkpoint is; `None` if none is pending.
pub type Located = Option<Arc<Whereabouts>>;

/// How a job ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// All input is processed and committed.
    Finished {
        /// The final checkpoint; `None` with checkpoints off.
        checkpoint: Option<CheckpointId>,
        /// It had finished before this process began (C3).
        before: bool,
    },
    /// Stopped as asked, with a final checkpoint.
    Stopped {
        /// The final checkpoint.
        checkpoint: Option<CheckpointId>,
    },
    /// Stopped at once, as asked.
    Cancelled,
    /// The error says what the exit code is.
    Failed(Error),
}

/// What a user is told while a job runs.
#[derive(Debug, Clone)]
pub enum JobEvent {
    /// An attempt began with nothing restored.
    Started {
        /// Its number.
        attempt: AttemptId,
        /// Its workers.
        workers: u16,
    },
    /// An attempt began with a restored checkpoint.
    Restored {
        /// Its number.
        attempt: AttemptId,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What that is worth: nothing that builds on it is worth more (D13).
        guarantee: Guarantee,
        /// Its workers.
        workers: u16,
        /// How many workers took the checkpoint, if that was another number.
        rescaled_from: Option<u16>,
    },
    /// The next checkpoints are taken in another way, as asked.
    Changed {
        /// Their mode from now on.
        mode: Mode,
        /// The time between two of them from now on.
        interval: Option<Duration>,
    },
    /// A checkpoint is recorded.
    Completed {
        /// The checkpoint.
        id: CheckpointId,
        /// How it was taken.
        mode: Mode,
        /// From trigger to record.
        duration: Duration,
        /// Bytes written for it.
        bytes: u64,
        /// Where the time went.
        phases: Phases,
    },
    /// A checkpoint will not be recorded.
    Aborted {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: String,
    },
    /// A checkpoint has been pending for long: where it is. Comes again while it is.
    Delayed(Arc<Whereabouts>),
    /// The job restarts.
    Restart {
        /// How many times in this process so far.
        restarts: u64,
        /// After this time.
        delay: Duration,
        /// Why.
        error: Error,
    },
    /// Something that the user should know and that stops nothing.
    Warning(String),
    /// Records so far, over all workers of this attempt.
    Progress {
        /// Records that sources gave out.
        records_in: u64,
        /// Records that sinks took.
        records_out: u64,
    },
}

/// A newer attempt owns the job.
fn fenced(message: String) -> Error {
    Error::fenced(message).hint("this process ends and does not restart the job; the newer one goes on with it")
}
