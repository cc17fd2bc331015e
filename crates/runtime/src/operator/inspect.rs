//! Shows every record to a function and hands it on unchanged.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use std::sync::Arc;

/// Calls a function with every record. What the function does outside is repeated after a restart.
pub struct Inspect<T, F> {
    f: Arc<F>,
    mark: Mark,
    next: Next<T>,
}

impl<T, F> Inspect<T, F> {
    /// An inspection before the rest of the chain.
    pub fn new(f: Arc<F>, mark: Mark, next: Next<T>) -> Inspect<T, F> {
        Inspect { f, mark, next }
    }
}

impl<T, F: Fn(&T)> Operator<T> for Inspect<T, F> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        (self.f)(&record);
        self.next.on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
