//! Floor 2 of flott: the production host, on timely dataflow.
//!
//! Timely gives the mesh of channels between workers, the scheduling of each worker with parking and timers, and the
//! detection that all are done. What runs on it is one operator per worker (`shell`), which hosts a whole
//! `flott_runtime::worker::Worker`: the job's own graph lives in floor 1, so every host runs the same code. Time is `()`:
//! barriers and watermarks travel as packets, timely's frontiers say only that everything is over.
//!
//! No timely type leaves this crate, and no panic of user code reaches timely.

#![forbid(unsafe_code)]

mod envelope;
mod fate;
mod host;
mod panics;
mod shell;
mod wake;

#[cfg(test)]
mod tests;

pub use host::TimelyHost;

/// Whether a panic in user code ends only the attempt, so that the job can restart inside the process. False in a program
/// built with `panic = "abort"`: there a panic ends the process, and only a supervisor outside can start it again.
pub const PANICS_END_ONLY_THE_ATTEMPT: bool = cfg!(panic = "unwind");
