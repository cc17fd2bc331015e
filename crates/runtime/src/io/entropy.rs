//! Randomness that nobody can guess: nonces of log entries, incarnations, the seed of key hashes.
//!
//! It is drawn by whoever hosts a job and handed in as arguments; nothing that decides draws it itself.

use crate::error::{Error, Result};

/// A fresh random number from the operating system.
///
/// # Errors
/// If the system has no source of randomness.
pub fn random_u64() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::failed(format!("the system gives no random numbers: {error}")))
}
