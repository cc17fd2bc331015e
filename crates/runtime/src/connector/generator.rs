//! Makes records up: as many as asked for, at a rate, the same ones each time.
//!
//! Record `i` depends on the seed and `i` alone, so every attempt, and every number of splits, gives out the same records.

use super::file_source::TimestampOf;
use super::random::Random;
use crate::error::{Error, Result};
use crate::record::Record;
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
use crate::time::{Time, Timestamp};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

type Make<T> = Arc<dyn Fn(u64, &mut Random) -> T + Send + Sync>;

/// A source of made-up records. Replayable; bounded unless made by [`Generator::unbounded`].
///
/// Split `s` of `n` gives out records `s`, `s + n`, `s + 2n`, … in order.
#[derive(Clone)]
pub struct Generator<T> {
    count: u64,
    seed: u64,
    splits: u16,
    per_second: Option<f64>,
    make: Make<T>,
    timestamp: Option<TimestampOf<T>>,
}

impl<T: Record> Generator<T> {
    /// `count` records in all; `make` gets the index of each, from 0, and random numbers that depend on seed and index alone.
    pub fn new(count: u64, seed: u64, make: impl Fn(u64, &mut Random) -> T + Send + Sync + 'static) -> Generator<T> {
        Generator { count, seed, splits: 1, per_second: None, make: Arc::new(make), timestamp: None }
    }

    /// Records without end.
    pub fn unbounded(seed: u64, make: impl Fn(u64, &mut Random) -> T + Send + Sync + 'static) -> Generator<T> {
        Generator::new(u64::MAX, seed, make)
    }

    /// How many splits share the records; 1 if not set. More than subtasks is well.
    #[must_use]
    pub fn splits(mut self, splits: u16) -> Self {
        self.splits = splits.max(1);
        self
    }

    /// How many records a second all splits give out together. Counted from when a split is opened: what could not be given
    /// out in time is caught up with. As fast as they are taken if not set, or if it is not a positive number.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.per_second = (per_second > 0.0 && per_second.is_finite()).then_some(per_second);
        self
    }

    /// Takes the event time of each record from it.
    #[must_use]
    pub fn timestamp(mut self, of: impl Fn(&T) -> Timestamp + Send + Sync + 'static) -> Self {
        self.timestamp = Some(Arc::new(of));
        self
    }

    fn index_of(&self, split: &str) -> Result<u16> {
        split.parse().ok().filter(|index| *index < self.splits).ok_or_else(|| {
            Error::unusable(format!("the generator has {} splits, none of them is `{split}`", self.splits))
                .hint("give it as many splits as when the checkpoint was taken")
        })
    }
}

impl<T: Record> Source for Generator<T> {
    type Item = T;
    /// How many records the split gave out.
    type Position = u64;

    fn splits(&self, _cx: &SourceContext) -> Result<Vec<String>> {
        Ok((0..self.splits).map(|index| index.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, _cx: &SourceContext) -> Result<BoxedReader<T, u64>> {
        let index = self.index_of(split)?;
        let first = from.unwrap_or(0);
        Ok(Box::new(GeneratorReader { source: self.clone(), index, next: first, first, began: None }))
    }

    fn is_bounded(&self) -> bool {
        self.count != u64::MAX
    }
}

struct GeneratorReader<T> {
    source: Generator<T>,
    index: u16,
    /// The record that comes next, counted in this split.
    next: u64,
    /// The one that this reader began with.
    first: u64,
    began: Option<Time>,
}

impl<T> GeneratorReader<T> {
    /// When the next record is due.
    fn due(&mut self, now: Time) -> Option<Time> {
        let began = *self.began.get_or_insert(now);
        let interval = f64::from(self.source.splits) / self.source.per_second?;
        let elapsed = Duration::try_from_secs_f64((self.next - self.first) as f64 * interval).unwrap_or(Duration::MAX);
        Some(began.after(elapsed))
    }
}

impl<T: Record> SplitReader for GeneratorReader<T> {
    type Item = T;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<T>> {
        let record =
            self.next.checked_mul(u64::from(self.source.splits)).and_then(|n| n.checked_add(u64::from(self.index)));
        let Some(record) = record.filter(|record| *record < self.source.count) else { return Ok(Next::End) };
        if let Some(due) = self.due(now)
            && now < due
        {
            return Ok(Next::At(due));
        }
        self.next += 1;
        let record = (self.source.make)(record, &mut Random::for_record(self.source.seed, record));
        let timestamp = self.source.timestamp.as_ref().map(|of| of(&record));
        Ok(Next::Record(record, timestamp))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("generator split {}, record {}", self.index, self.next)
    }
}
