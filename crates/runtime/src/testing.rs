//! For tests of the engine, its adapters and its users' jobs: the deterministic host, a file system in memory, and one
//! conformance suite per trait.
//!
//! Only with the feature `testing`; production builds have none of it.

pub mod connector_contexts;
mod crash_point;
mod deterministic;
pub mod hindered_files;
pub mod host_suite;
pub mod memory_files;
pub mod memory_store;
mod random;
pub mod sample_job;
pub mod sink_suite;
pub mod source_suite;
pub mod state_suite;
pub mod stateful_job;
pub mod storage_suite;

pub use crash_point::CrashPoint;
pub use deterministic::{DeterministicHost, Turn, VirtualClock};
pub use random::Random;
