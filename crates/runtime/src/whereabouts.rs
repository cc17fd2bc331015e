//! Where a pending checkpoint is: which channel of which subtask has not delivered its barrier, and why.
//!
//! Asked for when somebody wants to know, or when a checkpoint takes long; nothing of it costs anything per record, and nothing is
//! decided by it.

use flott_checkpoint::{CheckpointId, Mode, SubtaskId};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Where one subtask stands with a pending checkpoint, in its own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Which subtask.
    pub subtask: SubtaskId,
    /// How far it is.
    pub stage: Stage,
    /// Why it takes no records at the moment, if it takes none.
    pub held: Option<Held>,
}

/// How far a subtask is with its part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Barriers are missing.
    Arriving(Vec<MissingBarrier>),
    /// The cut is taken, its state is being read.
    Scanning,
    /// Its sinks make their output of the epoch durable.
    Preparing,
    /// Its part is being written.
    Uploading,
    /// It has acked.
    Acked,
    /// It has nothing to do with it any more.
    Over,
}

/// A channel whose barrier was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingBarrier {
    /// The sender; `None` for the trigger of a source.
    pub from: Option<SubtaskId>,
    /// The barrier is in the queue of the channel.
    pub arrived: bool,
    /// Batches in the queue, before the barrier if that is there.
    pub batches: usize,
}

/// Why a subtask takes no records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// It restores, or waits for the others to have restored.
    NotOpen,
    /// The checkpoint itself has stopped it.
    Paused,
    /// A subtask behind it does not keep up: an output has no credit.
    Backpressure,
    /// A throttle holds it back.
    Throttle,
    /// A sink takes no more.
    Sink,
    /// The storage does not keep up with what is written for checkpoints.
    Storage,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Held::NotOpen => "it is not running yet",
            Held::Paused => "the checkpoint has stopped it",
            Held::Backpressure => "it is backpressured: what comes behind it does not keep up",
            Held::Throttle => "a throttle holds it back",
            Held::Sink => "its sink takes no more at the moment",
            Held::Storage => "the checkpoint storage does not keep up",
        })
    }
}

/// Where a pending checkpoint is, put together from all workers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Whereabouts {
    /// The checkpoint.
    pub id: CheckpointId,
    /// How it is taken.
    pub mode: Mode,
    /// Since its trigger; as JSON in milliseconds.
    #[serde(rename = "age_ms", serialize_with = "in_millis")]
    pub age: Duration,
    /// All parts are there, and it is being written into the log.
    pub recording: bool,
    /// Workers that do not answer.
    pub silent: Vec<SilentWorker>,
    /// What is missing, in the order of the plan.
    pub delays: Vec<Delay>,
}

fn in_millis<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1_000.0)
}

/// A worker that does not come to answering: it is in one step all the time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SilentWorker {
    /// Which.
    pub worker: u16,
    /// Whose code it runs, if it is in a step.
    pub operator: Option<String>,
    /// The record of its chain.
    pub record: u64,
}

/// What a checkpoint waits for at one subtask.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Delay {
    /// Which subtask.
    pub subtask: SubtaskId,
    /// Its chain.
    pub chain: String,
    /// The channel, by its sender; `None` if it is not about a channel.
    pub from: Option<SubtaskId>,
    /// Why.
    #[serde(flatten)]
    pub cause: Cause,
}

/// Why something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// A source has not been told.
    Untold,
    /// The barrier lies in the queue, or a trigger before the source, and has not been taken.
    Queued {
        /// Batches before it.
        batches: usize,
        /// Why the subtask takes nothing; `None`: it does, and will come to it.
        held: Option<Held>,
    },
    /// The sender itself has not come to the barrier; see there.
    Upstream,
    /// The sender has sent it.
    OnItsWay,
    /// The state is being read.
    Scanning,
    /// Sinks make their output durable.
    Preparing,
    /// The part is being written to the storage.
    Uploading,
    /// The ack is on its way.
    Acking,
}

impl fmt::Display for SilentWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SilentWorker { worker, operator, record } = self;
        match operator {
            Some(operator) => {
                write!(f, "worker {worker} does not answer: code of `{operator}` runs, on record {record} of its chain")
            }
            None => write!(f, "worker {worker} does not answer"),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.subtask, self.chain)?;
        let barrier = |f: &mut fmt::Formatter<'_>| match self.from {
            Some(from) => write!(f, "the barrier from {from}"),
            None => f.write_str("the trigger"),
        };
        match self.cause {
            Cause::Untold => f.write_str("the source has not taken the trigger"),
            Cause::Queued { batches, held } => {
                barrier(f)?;
                write!(f, " waits behind {batches} batches")?;
                held.map_or(Ok(()), |held| write!(f, "; {held}"))
            }
            Cause::Upstream => {
                barrier(f)?;
                f.write_str(" was not sent yet")
            }
            Cause::OnItsWay => {
                barrier(f)?;
                f.write_str(" is on its way")
            }
            Cause::Scanning => f.write_str("its state is being read"),
            Cause::Preparing => f.write_str("its sinks make their output durable"),
            Cause::Uploading => f.write_str("its part is being written to the storage"),
            Cause::Acking => f.write_str("its ack is on its way"),
        }
    }
}

impl Whereabouts {
    /// One line for each thing that is missing.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let recording = self.recording.then(|| "all parts are there; it is being written into the log".to_owned());
        let silent = self.silent.iter().map(ToString::to_string);
        recording.into_iter().chain(silent).chain(self.delays.iter().map(ToString::to_string)).collect()
    }
}
