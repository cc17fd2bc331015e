//! Floor 0 of flott: the rules of consistent checkpoints, pure.
//!
//! Events go in, actions come out. Nothing here does I/O, reads a clock, starts a thread or draws randomness, so every
//! schedule can be enumerated and the model checker and the simulator run exactly what production runs.

#![forbid(unsafe_code)]

mod barrier;
mod ids;

pub use barrier::{Barrier, Kind, Mode};
pub use ids::{AttemptId, Channel, CheckpointId, KeyGroup, Slot, SubtaskId};
