//! One record in, one record out. Keeps nothing.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use std::sync::Arc;

/// Applies a function to every record.
pub struct Map<U, F> {
    f: Arc<F>,
    mark: Mark,
    next: Next<U>,
}

impl<U, F> Map<U, F> {
    /// A map before the rest of the chain.
    pub fn new(f: Arc<F>, mark: Mark, next: Next<U>) -> Map<U, F> {
        Map { f, mark, next }
    }
}

impl<T, U, F: Fn(T) -> U> Operator<T> for Map<U, F> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        let mapped = (self.f)(record);
        self.next.on_record(mapped, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
