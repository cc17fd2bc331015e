//! The seeded simulator: the production coordinator, job manager, step loop, scan, sinks, collector and recovery, on a virtual
//! clock, with faults at every call and message, crashes at every moment, and zombies.
//!
//! A run is a function of its seed. It passes if no invariant of [`invariants`] is broken, if the job comes to its end once
//! nothing fails any more, and if its output and its state are those of an undisturbed run ([`oracle`]). [`campaign`] runs
//! many seeds, sees that every pair of call and fault was hit, and that every [`mutation`] of the rules is caught.
//!
//! ```text
//! cargo run -p flott-sim -- --seeds 200
//! cargo run -p flott-sim -- --seed 17           with a trace
//! cargo run -p flott-sim -- --seeds 200 --mutate no-fence
//! ```

#![forbid(unsafe_code)]

pub mod aftermath;
pub mod campaign;
pub mod checkpoints;
pub mod disk;
pub mod faults;
pub mod happening;
pub mod incidents;
pub mod invariants;
pub mod jobs;
pub mod mutation;
pub mod oracle;
pub mod process;
pub mod setup;
pub mod storage;
pub mod world;
