//! What a user can set about checkpoints, with the defaults and the limits within which the values make sense.
//!
//! Durations, not milliseconds, because users write them; the coordinator counts in milliseconds of its events.

use crate::barrier::Mode;
use std::fmt;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Nothing here is sensibly longer than a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Retaining more than this is a wrong unit, not a wish.
const MOST_RETAINED: u32 = 10_000;

/// Options of the checkpoint coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// How cuts are taken. Default: aligned.
    pub mode: Mode,
    /// Time from one trigger to the next; the first comes after one interval. `None`: only by hand. Default: 1 s.
    pub interval: Option<Duration>,
    /// A checkpoint that is not acked by all after this time is aborted, and counts as failed. Default: 10 min.
    pub timeout: Duration,
    /// The least time from the last completion to the next periodic trigger. Default: 0.
    pub min_pause: Duration,
    /// The job fails when more than so many checkpoints in a row fail. Default: 10.
    pub tolerable_failures: u32,
    /// How many completed checkpoints are kept. Default: 3.
    pub retained: u32,
    /// Control messages that are not acknowledged are repeated after this time (C2). Default: 1 s.
    pub repeat: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Aligned,
            interval: Some(Duration::from_secs(1)),
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            tolerable_failures: 10,
            retained: 3,
            repeat: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// Checks every value.
    ///
    /// # Errors
    /// One error for each value that makes no sense, in the order of the fields.
    pub fn validate(&self) -> Result<(), Vec<OptionError>> {
        let mut errors = Vec::new();
        errors.extend(self.interval.and_then(|interval| check_interval(interval).err()));
        errors.extend(check_duration("checkpoint timeout", self.timeout, "no checkpoint could ever complete").err());
        if self.min_pause > LONGEST {
            errors.push(OptionError::too_long("minimum pause", self.min_pause));
        }
        if self.retained == 0 {
            errors.push(OptionError {
                option: "retained checkpoints",
                message: "is 0: nothing would be left to restore from; keep at least 1".to_owned(),
            });
        }
        if self.retained > MOST_RETAINED {
            errors.push(OptionError {
                option: "retained checkpoints",
                message: format!("is {}: more than {MOST_RETAINED} is surely not meant", self.retained),
            });
        }
        errors.extend(check_duration("repeat", self.repeat, "control messages would be repeated without end").err());
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// Whether a checkpoint interval makes sense.
///
/// # Errors
/// When it is below a millisecond or beyond a year.
pub fn check_interval(interval: Duration) -> Result<(), OptionError> {
    check_duration(
        "checkpoint interval",
        interval,
        "the job would do nothing but checkpoints; leave it out to turn them off",
    )
}

fn check_duration(option: &'static str, value: Duration, zero_means: &str) -> Result<(), OptionError> {
    if value < Duration::from_millis(1) {
        return Err(OptionError { option, message: format!("is {value:?}, less than 1 ms: {zero_means}") });
    }
    if value > LONGEST { Err(OptionError::too_long(option, value)) } else { Ok(()) }
}

/// A value that makes no sense.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OptionError {
    /// The option, in words.
    pub option: &'static str,
    /// What is wrong with its value, and what to do.
    pub message: String,
}

impl OptionError {
    fn too_long(option: &'static str, value: Duration) -> OptionError {
        OptionError { option, message: format!("is {value:?}, more than a year: is the unit right?") }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.message)
    }
}

impl std::error::Error for OptionError {}
