//! Floor 0 of flott: the rules of consistent checkpoints, pure.
//!
//! Events go in, actions come out. Nothing here does I/O, reads a clock, starts a thread or draws randomness, so every
//! schedule can be enumerated and the model checker and the simulator run exactly what production runs.
//!
//! # The five modes
//!
//! A subtask tells its [`Arrivals`] what happens to barriers and executes the [`Action`]s that come back. Behind that
//! door each algorithm is one short file under `modes/`:
//!
//! | [`Mode`] | a channel after its barrier | the cut is taken at | the barrier goes on | in-flight records | who waits, and until when |
//! |---|---|---|---|---|---|
//! | stop the world | blocked | the last barrier | in order | none: queues are empty at the cut | the whole subtask is paused until the checkpoint is durable or aborted |
//! | aligned | blocked, its credits run out | the last barrier | in order | none | that channel, until the last barrier |
//! | at least once | open | the last barrier | in order | none; replays over-count | nobody |
//! | unaligned | open | the first barrier, when it enters a queue | in order, obeyed when it enters a queue | captured as channel state | nobody |
//! | aligned, then unaligned | blocked | the last barrier, or the time-out | in order | captured after the time-out | that channel, at most until the time-out |
//!
//! A protocol never sees a record; an operator never sees a barrier. `tests/schedules` runs all of them through every
//! schedule of small jobs, with aborts, crashes and late mail.

#![forbid(unsafe_code)]

mod append;
mod arrivals;
mod barrier;
mod channels;
mod collection;
mod contest;
mod coordinator;
pub mod fallback;
pub mod guarantee;
mod ids;
mod lite;
mod log;
mod message;
mod modes;
mod options;
mod pending;
mod resolutions;
mod restart;
mod retention;
mod round;
mod survey;

pub use append::{Append, AppendAction, AppendEvent, AppendOutcome, CreateOutcome};
pub use arrivals::{Action, Actions, Arrivals, Event};
pub use barrier::{Barrier, Kind, Mode};
pub use collection::{Batch, CollectAction, CollectEvent, Collection};
pub use contest::{Claim, Contest, ContestAction, ContestError, ContestEvent, ContestOptions, Elsewhere, Restore};
pub use coordinator::{Coordinator, Origin, Outstanding};
pub use guarantee::Guarantee;
pub use ids::{AttemptId, Channel, CheckpointId, KeyGroup, Slot, SubtaskId};
pub use lite::{LiteSet, lite_map};
pub use log::{CheckpointEntry, EntryError, Incarnation, LOG_FORMAT, LogEntry, MAX_ENTRY_BYTES, Savepoint, StartEntry};
pub use message::{
    AbortReason, Ack, Action as CoordinatorAction, Completed, Dropped, Event as CoordinatorEvent, JobFailure, Outcome,
    Part, RequestId, Tried,
};
pub use options::{OptionError, Options, check_interval};
pub use restart::{Restart, RestartOptions, Verdict};
pub use retention::{InUse, Recorded, Retention, retain};
