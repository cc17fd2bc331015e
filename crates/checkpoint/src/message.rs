//! The words between the coordinator and its driver: what it is told, what it asks for, what it says about each checkpoint.
//!
//! Every message of a subtask names its attempt, so that whatever an older attempt still sends is seen and dropped (D6).

use crate::barrier::{Barrier, Kind, Mode};
use crate::guarantee::Guarantee;
use crate::ids::{AttemptId, CheckpointId, SubtaskId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A request by hand; the caller chooses the number and gets its answer under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// A subtask's part of a checkpoint is durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ack<P> {
    /// The subtask.
    pub subtask: SubtaskId,
    /// Its attempt.
    pub attempt: AttemptId,
    /// The checkpoint.
    pub id: CheckpointId,
    /// The checkpoint that the part builds on; `None`: it is full. A base that the subtask does not know makes it full.
    pub base: Option<CheckpointId>,
    /// The subtask has reached the end of its data (D18).
    pub finished: bool,
    /// What was written for this part, in bytes.
    pub bytes: u64,
    /// Whatever the driver puts into the manifest for this subtask.
    pub part: P,
}

/// What the coordinator is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event<P> {
    /// Nothing but the time.
    Tick,
    /// A checkpoint is asked for by hand. It ignores the minimum pause; behind a pending one it queues.
    Trigger {
        /// Under which the answer comes.
        request: RequestId,
        /// Without a base.
        full: bool,
    },
    /// A savepoint is asked for. It queues behind the pending one, before everything else.
    Savepoint {
        /// Under which the answer comes.
        request: RequestId,
    },
    /// The job shall end with a final checkpoint, without draining.
    Stop,
    /// Whenever the job ends, its final checkpoint is to be copied elsewhere: it has no base and holds no records in flight.
    /// Asks for no end.
    EndWithSavepoint,
    /// A source has put the barrier in front of its next record.
    TriggerTaken {
        /// The source.
        subtask: SubtaskId,
        /// Its attempt.
        attempt: AttemptId,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// A part is durable.
    Acked(Ack<P>),
    /// A subtask cannot contribute to this checkpoint.
    Declined {
        /// The subtask.
        subtask: SubtaskId,
        /// Its attempt.
        attempt: AttemptId,
        /// The checkpoint.
        id: CheckpointId,
        /// Why, for people.
        reason: String,
    },
    /// A subtask has reached the end of its data. It stays alive until the final checkpoint (D18).
    Finished {
        /// The subtask.
        subtask: SubtaskId,
        /// Its attempt.
        attempt: AttemptId,
    },
    /// The answer to `Record`: manifest and log slot are written.
    Recorded {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// The answer to `Record`: the manifest could not be written, and the log was not touched.
    RecordFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: String,
    },
    /// The answer to `Record`: nobody knows whether the slot is written (L5).
    Unsettled {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// A newer attempt owns the log (L4); may come at any time.
    Fenced {
        /// The newer attempt, if known.
        by: Option<AttemptId>,
    },
    /// `arrivals.on` took the resolution, and the subtask acts on it.
    ResolvedAcked {
        /// The subtask.
        subtask: SubtaskId,
        /// Its attempt.
        attempt: AttemptId,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// All tokens of epochs up to this one are committed. Subtasks without a sink say so at once.
    CommitDone {
        /// The subtask.
        subtask: SubtaskId,
        /// Its attempt.
        attempt: AttemptId,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// The attempt ends for a reason outside the coordinator (a panic, a lost worker).
    AttemptFailed {
        /// Why.
        reason: String,
    },
}

/// What the coordinator asks its driver to do. Actions are done in order; none may be left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action<P> {
    /// Give a source the trigger. Comes again until the source acknowledges it.
    SendTrigger {
        /// The source.
        to: SubtaskId,
        /// The barrier to put on its virtual channel.
        barrier: Barrier,
    },
    /// Write the manifest, then the log slot (C1), and answer with `Recorded`, `RecordFailed`, `Unsettled` or `Fenced`.
    Record(Box<Completed<P>>),
    /// Tell a subtask how a checkpoint ended. Comes again until it is acknowledged.
    SendResolved {
        /// The subtask, also one that never saw the barrier.
        to: SubtaskId,
        /// The checkpoint.
        id: CheckpointId,
        /// Whether it is in the log.
        completed: bool,
    },
    /// Write this into the history (D14). One for each checkpoint tried.
    Note(Box<Tried>),
    /// Answer a request by hand.
    Answer {
        /// Which.
        request: RequestId,
        /// The checkpoint, or why there is none.
        result: Result<CheckpointId, String>,
    },
    /// End the attempt. Nothing follows.
    FailJob(JobFailure),
    /// The final checkpoint is in the log and all its output is committed: close the channels, end the job. Nothing follows.
    Close {
        /// The final checkpoint.
        id: CheckpointId,
        /// All sources are at their end (C3); else the job was stopped and can go on from here.
        finished: bool,
    },
    /// Send a `Tick` at this time, in milliseconds. Replaces what was asked for before.
    WakeAt(u64),
}

/// A checkpoint of which every part is durable: what the manifest says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Completed<P> {
    /// Its barrier: id, attempt, mode, kind, the base asked for, and the time of the trigger.
    pub barrier: Barrier,
    /// The checkpoint recorded before it in this line.
    pub parent: Option<CheckpointId>,
    /// What it is worth (D13).
    pub guarantee: Guarantee,
    /// No part builds on another checkpoint.
    pub full: bool,
    /// It is the final one, and every part is finished (C3).
    pub finished: bool,
    /// When the last part was acked, in milliseconds.
    pub acked_at: u64,
    /// The parts, in the order of the subtasks.
    pub parts: Vec<Part<P>>,
}

impl<P> Completed<P> {
    /// All parts together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }
}

/// One subtask's part of a completed checkpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part<P> {
    /// The subtask.
    pub subtask: SubtaskId,
    /// The checkpoint it builds on.
    pub base: Option<CheckpointId>,
    /// The subtask had reached the end of its data.
    pub finished: bool,
    /// What was written, in bytes.
    pub bytes: u64,
    /// When it was acked, in milliseconds.
    pub acked_at: u64,
    /// What the subtask's driver sent along.
    pub part: P,
}

/// One line of the history: a checkpoint that was tried, and what became of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// Its barrier.
    pub barrier: Barrier,
    /// When it ended, in milliseconds.
    pub ended_at: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a checkpoint ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is in the log.
    Completed {
        /// No part builds on another checkpoint.
        full: bool,
        /// All parts together, in bytes.
        bytes: u64,
        /// When the last part was acked, in milliseconds.
        acked_at: u64,
    },
    /// It is not.
    Aborted(AbortReason),
    /// The attempt ended before anybody knew.
    Unknown {
        /// Why the attempt ended.
        reason: String,
    },
}

/// Why a checkpoint was aborted: who, at which step, and what happened.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbortReason {
    /// A subtask could not contribute.
    Declined {
        /// Which.
        subtask: SubtaskId,
        /// Its words.
        reason: String,
    },
    /// The timeout passed.
    Expired {
        /// Sources that never took the trigger.
        untaken: Vec<SubtaskId>,
        /// Subtasks that did not ack.
        missing: Vec<SubtaskId>,
    },
    /// A part builds on a checkpoint that the barrier did not name.
    WrongBase {
        /// Whose.
        subtask: SubtaskId,
        /// What the barrier named.
        named: Option<CheckpointId>,
        /// What the part builds on.
        used: Option<CheckpointId>,
    },
    /// The manifest could not be written.
    RecordFailed {
        /// Why.
        reason: String,
    },
    /// The attempt ended first.
    AttemptEnded {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbortReason::Declined { subtask, reason } => write!(f, "declined by subtask {subtask}: {reason}"),
            AbortReason::Expired { untaken, missing } if untaken.is_empty() => {
                write!(f, "expired: no ack from subtasks {}", List(missing))
            }
            AbortReason::Expired { untaken, missing } => write!(
                f,
                "expired: sources {} never took the trigger, no ack from subtasks {}",
                List(untaken),
                List(missing)
            ),
            AbortReason::WrongBase { subtask, named, used } => write!(
                f,
                "subtask {subtask} built on {}, but the barrier named {}",
                used.map_or("nothing".to_owned(), |id| format!("checkpoint {id}")),
                named.map_or("nothing".to_owned(), |id| format!("checkpoint {id}"))
            ),
            AbortReason::RecordFailed { reason } => write!(f, "the manifest could not be written: {reason}"),
            AbortReason::AttemptEnded { reason } => write!(f, "the attempt ended first: {reason}"),
        }
    }
}

struct List<'a>(&'a [SubtaskId]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, subtask) in self.0.iter().enumerate() {
            write!(f, "{}{subtask}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Why the coordinator ends the attempt.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum JobFailure {
    /// More checkpoints in a row failed than are tolerated. The restart strategy decides what comes next.
    TooManyFailures {
        /// How many.
        failures: u32,
        /// The last one.
        id: CheckpointId,
        /// Why the last one failed.
        last: AbortReason,
    },
    /// A newer attempt owns the log: exit 3, no restart in this process (L4).
    Fenced {
        /// The newer attempt, if known.
        by: Option<AttemptId>,
    },
    /// The outcome of an append stayed unknown: the attempt ends, a new Start settles it (L5).
    Unsettled {
        /// The checkpoint in question.
        id: CheckpointId,
    },
    /// Something outside the coordinator failed.
    Attempt {
        /// What.
        reason: String,
    },
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobFailure::TooManyFailures { failures, id, last } => {
                write!(f, "{failures} checkpoints in a row failed, the last one ({id}) because: {last}")
            }
            JobFailure::Fenced { by: Some(by) } => write!(f, "fenced: attempt {by} owns the job now"),
            JobFailure::Fenced { by: None } => f.write_str("fenced: a newer attempt owns the job now"),
            JobFailure::Unsettled { id } => {
                write!(f, "the storage never said whether checkpoint {id} was recorded; a new attempt will find out")
            }
            JobFailure::Attempt { reason } => f.write_str(reason),
        }
    }
}

/// Messages that were ignored, by the reason for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Dropped {
    /// About a checkpoint that is already resolved.
    pub late: u64,
    /// Of another attempt, of an unknown subtask, or about a checkpoint that was never triggered.
    pub foreign: u64,
    /// Said before.
    pub repeated: u64,
}

/// The mode and kind of a trigger, before it has an id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Cut {
    pub(crate) mode: Mode,
    pub(crate) kind: Kind,
    pub(crate) full: bool,
}
