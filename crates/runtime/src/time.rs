//! The two times of the engine: the host's clock, and the event time that records carry.
//!
//! Nothing below the host reads a clock: [`Time`] arrives as an argument or through the [`Clock`] that the host hands in.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A moment of the host's clock: microseconds since the Unix epoch, never going back within one attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The moment so many milliseconds after the Unix epoch: floor 0 counts in those.
    #[must_use]
    pub fn of_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0 / 1_000
    }

    /// This moment plus a duration, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The host's clock, for those few places that look at it between two records.
pub trait Clock {
    /// Now.
    fn now(&self) -> Time;
}

/// Event time: milliseconds since the Unix epoch, as the record's producer says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// What a channel promises about event time: no later record is older than this, and whether it takes part at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Watermark {
    /// No record with an older timestamp follows; `None` before the first promise.
    pub at: Option<Timestamp>,
    /// The channel has nothing to say at present and does not hold others back.
    pub idle: bool,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
