//! The progress line: `in 1.2M/s out 0.9M/s | checkpoint 42 ok 18 ms, 3 s ago | restarts 0`.

use crate::run::Status;
use flott_runtime::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a line is printed where lines stay.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// How often a line is renewed where it is overwritten.
const BETWEEN_FRAMES: Duration = Duration::from_millis(500);

/// Remembers what the last line was about.
#[derive(Default)]
pub(super) struct Progress {
    last: Option<(Time, u64, u64)>,
    /// When a checkpoint was last completed, and how long it took.
    completed: Option<(Time, Duration)>,
}

impl Progress {
    /// An attempt begins: it counts from zero.
    pub(super) fn begin(&mut self, now: Time) {
        self.last = Some((now, 0, 0));
    }

    pub(super) fn completed(&mut self, now: Time, duration: Duration) {
        self.completed = Some((now, duration));
    }

    /// The next line, if it is time for one.
    pub(super) fn line(&mut self, now: Time, status: &Status, overwritten: bool) -> Option<String> {
        let (then, records_in, records_out) = self.last?;
        let passed = now.since(then);
        if passed < if overwritten { BETWEEN_FRAMES } else { BETWEEN_LINES } {
            return None;
        }
        self.last = Some((now, status.records_in, status.records_out));
        let rate = |count: u64, before: u64| rate(count.saturating_sub(before), passed);
        let checkpoint = match (status.last_checkpoint, self.completed) {
            (Some(checkpoint), Some((at, duration))) => {
                let ago = now.since(at).as_secs();
                format!("checkpoint {} ok {} ms, {ago} s ago", checkpoint.id, duration.as_millis())
            }
            _ => "no checkpoint yet".to_owned(),
        };
        let counted = |name, counts: &BTreeMap<String, u64>| match counts.values().sum::<u64>() {
            0 => String::new(),
            count => format!(" | {name} {count}"),
        };
        let skipped = counted("skipped", &status.skipped);
        let dead_letters = counted("dead letters", &status.dead_letters);
        Some(format!(
            "in {}/s out {}/s | {checkpoint} | restarts {}{skipped}{dead_letters}",
            rate(status.records_in, records_in),
            rate(status.records_out, records_out),
            status.restarts
        ))
    }
}

/// Records a second, with one decimal and a unit.
fn rate(records: u64, passed: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "it is shown with two digits")]
    let rate = records as f64 / passed.as_secs_f64().max(f64::MIN_POSITIVE);
    if rate >= 1e6 {
        format!("{:.1}M", rate / 1e6)
    } else if rate >= 1e3 {
        format!("{:.1}k", rate / 1e3)
    } else {
        format!("{rate:.0}")
    }
}
