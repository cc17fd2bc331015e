//! From what was seen to what is shown: one row of figures a mode.

use super::trial::{Subject, Taken, Trial};
use serde::Serialize;
use std::time::Duration;

/// The figures of one mode, as contract 7 names them.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The algorithm, or `none`.
    pub mode: String,
    /// Records that came through each second, when the source gives out all it can.
    pub records_per_s: f64,
    /// From when a record was due to when it was counted, at half of the load that the slowest mode can bear.
    pub latency_ms: Latency,
    /// The longest time for which a split gave out nothing, at full load.
    pub source_pause_ms_max: f64,
    /// From the first barrier of a subtask to its last one, at full load; of each checkpoint the slowest subtask.
    pub alignment_ms: Option<Spread>,
    /// From the trigger to the entry in the log, at full load.
    pub checkpoint_ms: Option<Spread>,
    /// Bytes of the largest checkpoint.
    pub checkpoint_bytes: Option<u64>,
    /// Records that are missing in the final counts.
    pub lost: u64,
    /// Records that were counted more than once.
    pub over_counted: u64,
}

/// Percentiles of a latency in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99 of 100 were not later.
    pub p99: f64,
    /// 999 of 1,000 were not later.
    pub p999: f64,
}

/// Median and 99th percentile in milliseconds; of a few checkpoints the latter is the longest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

/// The name of what is compared.
pub(super) fn name(subject: Subject) -> String {
    subject.map_or_else(|| "none".to_owned(), |mode| mode.to_string())
}

impl Figures {
    /// The figures of a mode from its run at full load and its run at half load.
    pub(super) fn of(subject: Subject, full: &Trial, half: &Trial) -> Figures {
        let spread = |of: fn(&Taken) -> Duration| {
            let mut times: Vec<Duration> = full.checkpoints.iter().map(of).collect();
            times.sort_unstable();
            let at = |share: f64| percentile(&times, share).map(in_millis);
            Some(Spread { p50: at(0.5)?, p99: at(0.99)? })
        };
        Figures {
            mode: name(subject),
            records_per_s: full.throughput().round(),
            latency_ms: latency(half),
            source_pause_ms_max: in_millis(full.longest_pause),
            alignment_ms: spread(|taken| taken.alignment),
            checkpoint_ms: spread(|taken| taken.took),
            checkpoint_bytes: full.checkpoints.iter().map(|taken| taken.bytes).max(),
            lost: full.verdict.lost,
            over_counted: full.verdict.over_counted,
        }
    }
}

fn in_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Latencies of the records that arrived between the warm-up and the crash.
fn latency(trial: &Trial) -> Latency {
    let mut micros: Vec<u32> = trial.before_crash().flatten().copied().collect();
    micros.sort_unstable();
    let at = |share: f64| percentile(&micros, share).map_or(0.0, |micros| f64::from(micros) / 1_000.0);
    Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
}

/// The smallest value that this share of the sorted values does not exceed (nearest rank).
pub(super) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests;
