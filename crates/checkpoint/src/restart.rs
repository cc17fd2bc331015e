//! When a failed job is started again inside its process, and when it is not any more.
//!
//! Delays grow so that a lasting fault does not burn the machine; what counts as hope is a completed checkpoint.
//! It waits for nothing itself.

use crate::options::OptionError;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Options of the restart strategy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RestartOptions {
    /// The first delay. Default: 50 ms; each further one is twice as long.
    pub first: Duration,
    /// The longest delay. Default: 60 s.
    pub longest: Duration,
    /// After so long without a failure the delay begins anew. Default: 10 min.
    pub reset_after: Duration,
    /// The job ends at this many failures without a completed checkpoint in between. Default: 10; 1: never started again.
    pub failures: u32,
}

impl Default for RestartOptions {
    fn default() -> RestartOptions {
        RestartOptions {
            first: Duration::from_millis(50),
            longest: Duration::from_secs(60),
            reset_after: Duration::from_secs(600),
            failures: 10,
        }
    }
}

impl RestartOptions {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn validate(&self) -> Result<(), OptionError> {
        let error = |option, message: &str| Err(OptionError { option, message: message.to_owned() });
        if self.first < Duration::from_millis(1) {
            return error("first restart delay", "is less than 1 ms: a lasting failure would keep the machine busy");
        }
        if self.longest < self.first {
            return error("longest restart delay", "is shorter than the first one");
        }
        if self.failures == 0 {
            return error(
                "restart failures",
                "is 0: even the first failure is one; 1 means that the job is never started again",
            );
        }
        Ok(())
    }
}

/// What to do after a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Start again after so many milliseconds.
    RestartAfter(u64),
    /// End the job (exit 1).
    GiveUp {
        /// Failures since the last completed checkpoint.
        failures: u32,
    },
}

/// Counts the failures of one process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Restart {
    options: RestartOptions,
    delay: u64,
    failures: u32,
    total: u64,
    last_failure: Option<u64>,
}

impl Restart {
    /// No failure yet.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: RestartOptions) -> Result<Restart, OptionError> {
        options.validate()?;
        let delay = millis(options.first);
        Ok(Restart { options, delay, failures: 0, total: 0, last_failure: None })
    }

    /// A checkpoint was completed: the job gets forward.
    pub fn on_checkpoint(&mut self) {
        self.failures = 0;
    }

    /// The attempt failed at `now`, in milliseconds.
    pub fn on_failure(&mut self, now: u64) -> Verdict {
        let calm = self.last_failure.is_some_and(|at| now.saturating_sub(at) >= millis(self.options.reset_after));
        if calm {
            self.delay = millis(self.options.first);
        }
        self.last_failure = Some(now);
        self.total = self.total.saturating_add(1);
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.options.failures {
            return Verdict::GiveUp { failures: self.failures };
        }
        let delay = self.delay;
        self.delay = delay.saturating_mul(2).min(millis(self.options.longest));
        Verdict::RestartAfter(delay)
    }

    /// Failures of this process so far, for the progress line.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
