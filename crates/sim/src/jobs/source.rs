//! The source of all simulated jobs: numbered rows, at a steady pace.

use super::{Job, Row};
use flott_runtime::Result;
use flott_runtime::error::Error;
use flott_runtime::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
use flott_runtime::time::Time;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Gives out the rows of one source of a job.
pub struct Rows {
    /// The job.
    pub job: Arc<Job>,
    /// Which of its sources.
    pub source: u32,
}

impl Source for Rows {
    type Item = Row;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok(self.job.origins(self.source).map(|origin| origin.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<Row, u64>> {
        let origin = split.parse().map_err(|_| Error::unusable(format!("there is no split `{split}`")))?;
        let rows = self.job.rows_of(origin);
        Ok(Box::new(Reader { job: self.job.clone(), origin, next: from.unwrap_or(0), rows, last: None }))
    }

    fn is_bounded(&self) -> bool {
        self.job.bounded
    }
}

struct Reader {
    job: Arc<Job>,
    origin: u32,
    next: u64,
    rows: u64,
    last: Option<Time>,
}

impl SplitReader for Reader {
    type Item = Row;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<Row>> {
        if self.next == self.rows {
            return Ok(Next::End);
        }
        let due = self.last.map_or(now, |last| last.after(self.job.pause));
        if now < due {
            return Ok(Next::At(due));
        }
        if self.job.fails_next.swap(false, Ordering::Relaxed) {
            return Err(Error::failed("injected: a row cannot be read"));
        }
        self.last = Some(now);
        self.next += 1;
        Ok(Next::Record(self.job.row(self.origin, self.next - 1), None))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("split {}, row {}", self.origin, self.next)
    }
}
