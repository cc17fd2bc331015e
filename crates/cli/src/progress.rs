//! How far a command is: a bar on a terminal, otherwise a line now and then. On stderr.

use flott_runtime::io::clock::SystemClock;
use flott_runtime::time::{Clock, Time};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Where nobody looks at a bar, a line comes so often.
const EACH: Duration = Duration::from_secs(10);

/// Counts bytes, and shows how many there are of how many.
pub struct Meter {
    what: &'static str,
    bar: Option<ProgressBar>,
    done: u64,
    total: u64,
    clock: SystemClock,
    told: Time,
}

impl Meter {
    /// For a command that has so many bytes before it, as far as is known.
    pub fn new(what: &'static str, total: u64) -> Meter {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.with_prefix(what).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let clock = SystemClock::new();
        Meter { what, bar, done: 0, total, clock, told: clock.now() }
    }

    /// So many bytes more.
    pub fn add(&mut self, bytes: u64) {
        self.set(self.done + bytes, self.total);
    }

    /// So many bytes of so many.
    pub fn set(&mut self, done: u64, total: u64) {
        (self.done, self.total) = (done, total.max(done));
        match &self.bar {
            Some(bar) => {
                bar.set_length(self.total);
                bar.set_position(done);
            }
            None => {
                let now = self.clock.now();
                if now.since(self.told) >= EACH {
                    self.told = now;
                    let (done, total) = (crate::output::bytes(done), crate::output::bytes(self.total));
                    eprintln!("{}: {done} of {total}", self.what);
                }
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
