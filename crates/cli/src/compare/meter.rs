//! What comes out of a comparison: the newest count of every key, and how late each record was.
//!
//! The sink shows its output at once. The last count of a key that it saw is the state of that key, also after a restore,
//! because every record behind the restored checkpoint comes again.

use super::flow::Flow;
use flott::Result;
use flott::connector::{CheckpointId, Committer, Sealed, Sink, SinkContext, SinkWriter, Time};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Keys there are.
pub(super) const KEYS: u64 = 100_000;

/// Latencies are collected by when records arrived, in slices of this many milliseconds.
pub(super) const SLICE_MS: u64 = 50;

/// So many latencies a writer keeps to itself.
const KEPT: usize = 4_096;

/// The key of a record: three of ten records have the first one, the others share the rest evenly.
pub(super) fn key(number: u64) -> u64 {
    let mixed = mix(number);
    if mixed % 10 < 3 { 0 } else { 1 + (mixed >> 8) % (KEYS - 1) }
}

/// Spreads numbers (the finalizer of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Records counted.
    pub(super) count: u64,
    /// The record that was counted last.
    pub(super) last: u64,
}

/// What the sink saw.
pub(super) struct Meter {
    flow: Arc<Flow>,
    counts: Vec<AtomicU64>,
    arrived: AtomicU64,
    slices: Mutex<Vec<Vec<u32>>>,
}

/// A comparison of final counts with those of an undisturbed run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    /// Records that are missing in the counts.
    pub(super) lost: u64,
    /// Records that were counted once more than they should.
    pub(super) over_counted: u64,
}

impl Meter {
    pub(super) fn new(flow: &Arc<Flow>) -> Arc<Meter> {
        let counts = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Meter { flow: Arc::clone(flow), counts, arrived: AtomicU64::new(0), slices: Mutex::default() })
    }

    /// Records that arrived, those that came again included.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Latencies in microseconds by the slice of time in which the records arrived.
    pub(super) fn take_slices(&self) -> Vec<Vec<u32>> {
        std::mem::take(&mut *self.slices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares the final counts with the oracle, which counts every record there is once.
    pub(super) fn judge(&self) -> Verdict {
        let mut expected = vec![0u64; self.counts.len()];
        for number in self.flow.numbers() {
            if let Some(count) = usize::try_from(key(number)).ok().and_then(|key| expected.get_mut(key)) {
                *count += 1;
            }
        }
        let pairs = expected.into_iter().zip(&self.counts);
        pairs.fold(Verdict::default(), |verdict, (expected, count)| {
            let count = count.load(Ordering::Relaxed);
            Verdict {
                lost: verdict.lost + expected.saturating_sub(count),
                over_counted: verdict.over_counted + count.saturating_sub(expected),
            }
        })
    }
}

/// The measuring sink.
pub(super) struct Measured(pub(super) Arc<Meter>);

impl Sink<(u64, Tally)> for Measured {
    type Writer = MeasuringWriter;

    fn open(&self, _: &SinkContext) -> Result<MeasuringWriter> {
        Ok(MeasuringWriter { meter: Arc::clone(&self.0), late: Vec::with_capacity(KEPT) })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

/// Measures what arrives in one subtask.
pub(super) struct MeasuringWriter {
    meter: Arc<Meter>,
    /// Slice and latency of records that are not handed over yet.
    late: Vec<(usize, u32)>,
}

impl MeasuringWriter {
    fn hand_over(&mut self) {
        let mut slices = self.meter.slices.lock().unwrap_or_else(PoisonError::into_inner);
        for (slice, micros) in self.late.drain(..) {
            if slices.len() <= slice {
                slices.resize_with(slice + 1, Vec::new);
            }
            if let Some(slice) = slices.get_mut(slice) {
                slice.push(micros);
            }
        }
    }
}

impl SinkWriter<(u64, Tally)> for MeasuringWriter {
    fn write(&mut self, (key, tally): (u64, Tally), _: Time) -> Result<()> {
        if let Some(count) = usize::try_from(key).ok().and_then(|key| self.meter.counts.get(key)) {
            count.store(tally.count, Ordering::Relaxed);
        }
        self.meter.arrived.fetch_add(1, Ordering::Relaxed);
        if let Some(due) = self.meter.flow.due(tally.last) {
            let now = self.meter.flow.elapsed();
            let slice = usize::try_from(millis(now) / SLICE_MS).unwrap_or(0);
            let late = u32::try_from(now.saturating_sub(due).as_micros()).unwrap_or(u32::MAX);
            self.late.push((slice, late));
            if self.late.len() >= KEPT {
                self.hand_over();
            }
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}

impl Drop for MeasuringWriter {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
