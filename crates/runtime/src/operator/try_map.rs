//! A map that may fail: the policy is the operator's, so user code needs no panic.

use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to a record for which user code returns an error, or that a source cannot read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OnError {
    /// The attempt ends with the error. After an error of user code the job restarts from its last checkpoint; a record that
    /// cannot be read would be met again, and ends it.
    Fail,
    /// The record is left out and counted; the job's report names the operator and the number.
    Skip,
}

/// How many records an operator has skipped in this process, records that a restart made it see twice included.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The operator.
    pub operator: String,
    /// The number, over all subtasks.
    pub count: Arc<AtomicU64>,
}

/// Applies a fallible function to every record.
pub struct TryMap<U, F> {
    f: Arc<F>,
    on_error: OnError,
    skipped: Skipped,
    mark: Mark,
    next: Next<U>,
}

impl<U, F> TryMap<U, F> {
    /// A fallible map before the rest of the chain.
    pub fn new(f: Arc<F>, on_error: OnError, skipped: Skipped, mark: Mark, next: Next<U>) -> TryMap<U, F> {
        TryMap { f, on_error, skipped, mark, next }
    }

    #[cold]
    fn failed(&self, error: impl Display) -> Result<()> {
        match self.on_error {
            OnError::Fail => Err(Error::failed(error.to_string()).at_operator(&self.skipped.operator)),
            OnError::Skip => {
                self.skipped.count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

impl<T, U, E: Display, F: Fn(T) -> Result<U, E>> Operator<T> for TryMap<U, F> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        match (self.f)(record) {
            Ok(mapped) => self.next.on_record(mapped, at, cx),
            Err(error) => self.failed(error),
        }
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
