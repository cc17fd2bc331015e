//! One record in, any number out. The iterator is drained at once, so an endless one never returns.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use std::sync::Arc;

/// Hands on every item of what a function makes of a record; all carry its timestamp.
pub struct FlatMap<U, F> {
    f: Arc<F>,
    mark: Mark,
    next: Next<U>,
}

impl<U, F> FlatMap<U, F> {
    /// A flat map before the rest of the chain.
    pub fn new(f: Arc<F>, mark: Mark, next: Next<U>) -> FlatMap<U, F> {
        FlatMap { f, mark, next }
    }
}

impl<T, I: IntoIterator, F: Fn(T) -> I> Operator<T> for FlatMap<I::Item, F> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        for item in (self.f)(record) {
            self.next.on_record(item, at, cx)?;
            // The iterator is user code too.
            cx.enter(self.mark);
        }
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
