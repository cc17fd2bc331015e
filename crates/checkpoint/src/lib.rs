//! Floor 0 of flott: the rules of consistent checkpoints, pure.
//!
//! Events go in, actions come out. Nothing here does I/O, reads a clock, starts a thread or draws randomness, so every
//! schedule can be enumerated and the model checker and the simulator run exactly what production runs.

#![forbid(unsafe_code)]

mod append;
mod barrier;
mod collection;
mod contest;
mod coordinator;
pub mod fallback;
pub mod guarantee;
mod ids;
mod log;
mod message;
mod options;
mod pending;
mod resolutions;
mod restart;
mod retention;
mod survey;

pub use append::{Append, AppendAction, AppendEvent, AppendOutcome, CreateOutcome};
pub use barrier::{Barrier, Kind, Mode};
pub use collection::{Batch, CollectAction, CollectEvent, Collection};
pub use contest::{Claim, Contest, ContestAction, ContestError, ContestEvent, ContestOptions, Restore};
pub use coordinator::{Coordinator, Origin};
pub use guarantee::Guarantee;
pub use ids::{AttemptId, Channel, CheckpointId, KeyGroup, Slot, SubtaskId};
pub use log::{CheckpointEntry, EntryError, Incarnation, LOG_FORMAT, LogEntry, MAX_ENTRY_BYTES, StartEntry};
pub use message::{AbortReason, Ack, Action, Completed, Dropped, Event, JobFailure, Outcome, Part, RequestId, Tried};
pub use options::{OptionError, Options, check_interval};
pub use restart::{Restart, RestartOptions, Verdict};
pub use retention::{InUse, Recorded, Retention, retain};
