//! A source and a sink of your own.
//!
//! The source counts: each of its splits gives out the multiples of a number. Its position is the last number it gave
//! out, so a reader that is opened at a position goes on exactly there; exactly-once rests on that. The sink shows its
//! output at once, so the job as a whole is at least once, and says so.
//!
//! ```sh
//! cargo run --release --example custom_source -- --checkpoint-dir /tmp/multiples
//! ```

use flott::connector::{
    BoxedReader, CheckpointId, Committer, Next, Sealed, Sink, SinkContext, SinkWriter, Source, SourceContext,
    SplitReader, Stdout, Time,
};
use flott::prelude::*;
use std::sync::Arc;

/// Gives out the multiples of some numbers, each number a split.
struct Multiples {
    of: Vec<u64>,
    below: u64,
}

impl Source for Multiples {
    type Item = u64;
    /// The last multiple that was given out; 0 at the beginning.
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        // The name of a split must be the same in every run: checkpoints keep positions under it.
        Ok(self.of.iter().map(|number| format!("multiples of {number}")).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        let number = split.strip_prefix("multiples of ").and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| Error::unusable(format!("this source has no split `{split}`")))?;
        Ok(Box::new(Reader { number, last: from.unwrap_or(0), below: self.below }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

struct Reader {
    number: u64,
    last: u64,
    below: u64,
}

impl SplitReader for Reader {
    type Item = u64;
    type Position = u64;

    /// Must not block: a reader that has to wait answers `Pending` and wakes its worker later.
    fn next(&mut self, _: Time) -> Result<Next<u64>> {
        let next = self.last + self.number;
        if next >= self.below {
            return Ok(Next::End);
        }
        self.last = next;
        Ok(Next::Record(next, None))
    }

    fn position(&self) -> u64 {
        self.last
    }

    fn describe(&self) -> String {
        format!("multiple {} of {}", self.last, self.number)
    }
}

/// Prints a line for every record, at once.
struct Shout;

impl Sink<(u64, u64)> for Shout {
    type Writer = ShoutWriter;

    fn open(&self, cx: &SinkContext) -> Result<ShoutWriter> {
        Ok(ShoutWriter { stdout: Arc::clone(&cx.stdout) })
    }

    /// A sink whose output becomes visible by commits has one.
    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

struct ShoutWriter {
    stdout: Arc<dyn Stdout>,
}

impl SinkWriter<(u64, u64)> for ShoutWriter {
    fn write(&mut self, (digit, sum): (u64, u64), _: Time) -> Result<()> {
        self.stdout.write(&format!("the multiples that end with {digit} add up to {sum}\n"));
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}

fn main() -> flott::Result<()> {
    flott::main("multiples", |job| {
        job.source("multiples", Multiples { of: vec![3, 5], below: 100 })
            .key_by(|number| number % 10)
            .fold("sum", 0u64, |sum, number| *sum += number)
            .sink("out", Shout);
    })
}
