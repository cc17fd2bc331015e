//! One stream into two: what a function makes of a record goes one way or the other.
//!
//! It is how dead letters leave: a record that user code cannot use is kept with the reason, and handled as any other.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A record that could not be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter<T> {
    /// The record as it came.
    pub record: T,
    /// What user code said.
    pub error: String,
    /// The operator that could not use it.
    pub operator: String,
    /// Where its source had it, if the operator is a source: a file and a line, for example.
    #[serde(default)]
    pub position: Option<String>,
}

/// Hands on what is `Ok` to one consumer and what is `Err` to the other.
pub struct Part<U, L, F> {
    f: Arc<F>,
    mark: Mark,
    next: Next<U>,
    beside: Next<L>,
}

impl<U, L, F> Part<U, L, F> {
    /// A fork before the rest of the chain.
    pub fn new(f: Arc<F>, mark: Mark, next: Next<U>, beside: Next<L>) -> Part<U, L, F> {
        Part { f, mark, next, beside }
    }
}

impl<T, U, L, F: Fn(T) -> std::result::Result<U, L>> Operator<T> for Part<U, L, F> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        match (self.f)(record) {
            Ok(record) => self.next.on_record(record, at, cx),
            Err(record) => self.beside.on_record(record, at, cx),
        }
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)?;
        self.beside.on_signal(signal, cx)
    }
}
