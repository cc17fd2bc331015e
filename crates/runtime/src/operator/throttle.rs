//! So many records a second, over all subtasks of the operator in this process.
//!
//! A record that is there is never kept back: it passes and is paid for afterwards, by a subtask that takes no further
//! record until then. So nothing is buffered, and the average holds.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::time::{Time, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// How far ahead of the clock records may be let through, in nanoseconds: a step that stopped after every record would
/// limit the rate by itself.
const SLACK: u64 = 1_000_000;

/// The account that all subtasks share.
#[derive(Debug)]
pub struct Bucket {
    /// Nanoseconds that one record is worth.
    price: u64,
    /// The moment up to which everything is paid for, in nanoseconds of the host's clock.
    paid_until: AtomicU64,
}

impl Bucket {
    /// An account for so many records a second, 1 to 1,000,000,000; anything else is brought into that range.
    #[must_use]
    pub fn per_second(records: u64) -> Bucket {
        Bucket { price: 1_000_000_000 / records.clamp(1, 1_000_000_000), paid_until: AtomicU64::new(0) }
    }

    /// Takes one record at a time; the moment before which its subtask should take no other.
    pub fn take(&self, now: Time) -> Option<Time> {
        let now = now.0.saturating_mul(1_000);
        let mut paid = self.paid_until.load(Ordering::Relaxed);
        loop {
            let next = paid.max(now).saturating_add(self.price);
            match self.paid_until.compare_exchange_weak(paid, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return (next > now.saturating_add(SLACK)).then_some(Time(next.div_ceil(1_000))),
                Err(newer) => paid = newer,
            }
        }
    }
}

/// Holds the subtask when the account is overdrawn.
pub struct Throttle<T> {
    bucket: Arc<Bucket>,
    next: Next<T>,
}

impl<T> Throttle<T> {
    /// A throttle before the rest of the chain.
    pub fn new(bucket: Arc<Bucket>, next: Next<T>) -> Throttle<T> {
        Throttle { bucket, next }
    }
}

impl<T> Operator<T> for Throttle<T> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        if let Some(moment) = self.bucket.take(cx.now) {
            cx.hold_until(moment);
        }
        self.next.on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
