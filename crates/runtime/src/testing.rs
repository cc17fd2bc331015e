//! For tests of the engine, its adapters and its users' jobs: the deterministic host, and one conformance suite per trait.
//!
//! Only with the feature `testing`; production builds have none of it.

mod deterministic;
pub mod host_suite;
mod random;
pub mod sample_job;
pub mod state_suite;
pub mod storage_suite;

pub use deterministic::{DeterministicHost, Turn, VirtualClock};
pub use random::Random;
