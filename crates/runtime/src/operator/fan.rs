//! The end of a stream inside a chain: nobody, one consumer, or several, which get clones.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::time::Timestamp;

/// Joins the consumers of one stream to one.
#[must_use]
pub fn fan<T: Clone + 'static>(mut consumers: Vec<Next<T>>) -> Next<T> {
    match (consumers.pop(), consumers.is_empty()) {
        (None, _) => Box::new(Nobody),
        (Some(only), true) => only,
        (Some(last), false) => Box::new(Fan { all_but_last: consumers, last }),
    }
}

struct Nobody;

impl<T> Operator<T> for Nobody {
    fn on_record(&mut self, _: T, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    fn on_signal(&mut self, _: Signal, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }
}

struct Fan<T> {
    all_but_last: Vec<Next<T>>,
    last: Next<T>,
}

impl<T: Clone> Operator<T> for Fan<T> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        for consumer in &mut self.all_but_last {
            consumer.on_record(record.clone(), at, cx)?;
        }
        self.last.on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        for consumer in &mut self.all_but_last {
            consumer.on_signal(signal, cx)?;
        }
        self.last.on_signal(signal, cx)
    }
}
