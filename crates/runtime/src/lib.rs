//! Floor 1 of flott: one process. Subtasks, gates and outputs, operators, state, storage, the built-in connectors.
//!
//! Everything here is plain structs with non-blocking steps; a host (floor 2, or the deterministic one in `testing`)
//! gives them threads, a clock and a network.

#![forbid(unsafe_code)]

pub mod attempt;
pub mod collector;
pub mod connector;
pub mod control;
#[cfg(any(test, feature = "tools"))]
pub mod convert;
pub mod envelope;
pub mod error;
pub mod heartbeat;
pub mod heavy;
pub mod history;
pub mod host;
pub mod io;
pub mod job_manager;
pub mod key;
pub mod layout;
pub mod manifest;
mod messagepack;
pub mod meter;
#[cfg(feature = "mutations")]
pub mod mutation;
pub mod operator;
pub mod outbox;
pub mod packet;
pub mod pin;
pub mod plan;
pub mod record;
pub mod savepoint;
pub mod segment;
pub mod sink;
pub mod source;
pub mod state;
#[cfg(any(test, feature = "tools"))]
pub mod state_reader;
pub mod subtask;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
#[cfg(any(test, feature = "tools"))]
pub mod verify;
pub mod whereabouts;
pub mod worker;

pub use error::{Error, ErrorKind, Result};
