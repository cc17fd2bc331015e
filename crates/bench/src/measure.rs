//! Clocks and medians.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// CPU time of all threads of this process so far.
pub(crate) fn process_cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value that so many percent lie below.
pub(crate) fn percentile(values: &mut [f64], percent: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = ((values.len().saturating_sub(1)) as f64 * percent / 100.0).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// SplitMix64 of a number: well mixed and the same in every engine that is compared.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
