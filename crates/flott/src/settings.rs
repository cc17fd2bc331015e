//! What can be set about a run, from the builder, the environment and the command line alike.
//!
//! Only values and their limits; who overrules whom is in `over`, what they mean is the runner's business.

use flott_checkpoint::{CheckpointId, Mode, guarantee::Guarantee};
use flott_runtime::error::{Error, Result};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[cfg(test)]
mod tests;
