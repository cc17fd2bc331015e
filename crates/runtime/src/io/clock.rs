//! The production clock: what [`Time`] is outside of tests.
//!
//! It reads the wall clock once and the monotone clock ever after, so it never goes back within a process, whatever is done
//! to the system's time. It never sleeps.

use crate::time::{Clock, Time};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(test)]
mod tests;

/// Microseconds since the Unix epoch, never going back.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    began: Duration,
    at: Instant,
}

impl SystemClock {
    /// A clock that agrees with the system's at this moment. All threads of a process should share one (it is `Copy`).
    #[must_use]
    #[allow(clippy::disallowed_methods)] // this is the place where time comes from
    pub fn new() -> SystemClock {
        // A system whose clock stands before 1970 counts from 1970.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        SystemClock { began, at: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let now = self.began.saturating_add(self.at.elapsed());
        Time(u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
    }
}
