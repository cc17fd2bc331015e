//! A clock for the tests of the host.

use flott_runtime::time::{Clock, Time};
use flott_timely::TimelyHost;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The system's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the host's clock is a real one")]
    fn now(&self) -> Time {
        Time(0).after(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }
}

/// A host on that clock.
pub(crate) fn host() -> TimelyHost {
    TimelyHost::new(Arc::new(SystemClock))
}
