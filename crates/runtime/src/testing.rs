//! For tests of the engine, its adapters and its users' jobs: the deterministic host, and one conformance suite per trait.
//!
//! Only with the feature `testing`; production builds have none of it.

mod deterministic;
mod random;
pub mod storage_suite;

pub use deterministic::{DeterministicHost, Turn, VirtualClock};
pub use random::Random;
