//! The commands of `flott`, the operators' binary, as a library: the binary parses the command line, examples call them too.
//!
//! Results go to stdout, everything else to stderr.

#![forbid(unsafe_code)]

pub mod checkpoints;
pub mod compare;
mod conversion;
pub mod json;
pub mod output;
pub mod progress;
pub mod reading;
pub mod remote;
pub mod state;
pub mod waterfall;
