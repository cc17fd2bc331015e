//! Hands on the records that a function likes. Keeps nothing.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use std::sync::Arc;

/// Drops the records for which the function says no.
pub struct Filter<T, F> {
    f: Arc<F>,
    mark: Mark,
    next: Next<T>,
}

impl<T, F> Filter<T, F> {
    /// A filter before the rest of the chain.
    pub fn new(f: Arc<F>, mark: Mark, next: Next<T>) -> Filter<T, F> {
        Filter { f, mark, next }
    }
}

impl<T, F: Fn(&T) -> bool> Operator<T> for Filter<T, F> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        if (self.f)(&record) { self.next.on_record(record, at, cx) } else { Ok(()) }
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
