//! The production readers of files as sources of simulated jobs: JSON lines, gzip, a watched directory.
//!
//! The files lie in the simulated file system, whose calls fail now and then; those of a watched directory come while the job
//! runs. Around the readers is only what a simulated run needs: a pace, and an end of what is watched.

use super::{Input, Job, Row};
use flate2::Compression;
use flate2::write::GzEncoder;
use flott_runtime::Result;
use flott_runtime::connector::{FilePosition, WatchPosition};
use flott_runtime::error::Error;
use flott_runtime::operator::part::DeadLetter;
use flott_runtime::operator::{Context, Next as NextOperator, Operator, Signal};
use flott_runtime::source::{BoxedReader, DeadLetters, Next, Source, SourceContext, SplitReader};
use flott_runtime::time::{Time, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// When everything is there, a share is at its end if two looks at the directory showed nothing new.
const TWO_LOOKS: Duration = Duration::from_secs(2);

/// The files of a source, as a pattern.
#[must_use]
pub fn pattern(source: u32) -> String {
    format!("in/{source}/*")
}

/// The file of a split.
#[must_use]
pub fn path(job: &Job, origin: u32) -> String {
    let zipped = if matches!(job.input, Input::Files { gzip: true, .. }) { ".gz" } else { "" };
    format!("in/{}/{origin}.jsonl{zipped}", origin / 1_000)
}

/// The lines of a split.
#[must_use]
pub fn lines(job: &Job, origin: u32) -> Vec<u8> {
    let line = |serial| {
        if job.is_broken(serial) {
            return format!("broken {origin} {serial}\n");
        }
        let json = serde_json::to_string(&job.row(origin, serial)).expect("a row is no riddle");
        format!("{json}\n")
    };
    (0..job.rows_of(origin)).map(line).collect::<String>().into_bytes()
}

/// What is in the file of a split. Compressed ones have two members.
#[must_use]
pub fn content(job: &Job, origin: u32) -> Vec<u8> {
    let lines = lines(job, origin);
    if !matches!(job.input, Input::Files { gzip: true, .. }) {
        return lines;
    }
    let (first, second) = lines.split_at(lines.len() / 2);
    let member = |bytes: &[u8]| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("memory does not fail")
    };
    [member(first), member(second)].concat()
}

/// What a stored position of a split says: the origins that it is about, and how many rows of each were read.
#[must_use]
pub fn rows_read(job: &Job, split: &str, position: &Value) -> Vec<(u32, u64)> {
    let of_file = |name: &str, offset: u64| {
        let origin = origin_of(name)?;
        Some((origin, rows_before(job, origin, offset)))
    };
    match job.input {
        Input::Made => split.parse().map(|origin| (origin, position.as_u64().unwrap_or(0))).into_iter().collect(),
        Input::Files { watched: None, .. } => {
            FilePosition::deserialize(position).ok().and_then(|at| of_file(split, at.offset)).into_iter().collect()
        }
        Input::Files { .. } => {
            let WatchPosition { read, reading } = WatchPosition::deserialize(position).unwrap_or_default();
            let read = read.into_keys().filter_map(|name| origin_of(&name));
            let reading = reading.and_then(|(name, at)| of_file(&name, at.offset));
            read.map(|origin| (origin, job.rows_of(origin))).chain(reading).collect()
        }
    }
}

fn origin_of(name: &str) -> Option<u32> {
    name.split('.').next()?.parse().ok()
}

/// How many rows of a split lie before a byte of its lines.
fn rows_before(job: &Job, origin: u32, offset: u64) -> u64 {
    let lines = lines(job, origin);
    let before = lines.get(..usize::try_from(offset).unwrap_or(usize::MAX)).unwrap_or(&lines);
    before.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A source of files, at the pace of the job.
pub struct Paced<S> {
    /// The job.
    pub job: Arc<Job>,
    /// The production source.
    pub source: S,
}

impl<S: Source<Item = Row>> Source for Paced<S> {
    type Item = Row;
    type Position = S::Position;

    fn splits(&self, cx: &SourceContext) -> Result<Vec<String>> {
        self.source.splits(cx)
    }

    fn open(
        &self,
        split: &str,
        from: Option<S::Position>,
        cx: &SourceContext,
    ) -> Result<BoxedReader<Row, S::Position>> {
        let inner = self.source.open(split, from, cx)?;
        Ok(Box::new(Reader { job: Arc::clone(&self.job), inner, last: None, nothing_since: None }))
    }

    fn is_bounded(&self) -> bool {
        self.source.is_bounded() && self.job.bounded
    }
}

impl<S: DeadLetters<Item = Row>> DeadLetters for Paced<S> {
    fn with_dead_letters(self) -> Self {
        Paced { job: self.job, source: self.source.with_dead_letters() }
    }
}

/// Makes the row of a dead letter again: what goes wrong with it is what goes wrong with any other row.
pub struct Mended {
    /// The job.
    pub job: Arc<Job>,
    /// Where rows go.
    pub next: NextOperator<Row>,
}

impl Operator<DeadLetter<String>> for Mended {
    fn on_record(&mut self, letter: DeadLetter<String>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let mut words = letter.record.split(' ').skip(1).filter_map(|word| word.parse::<u64>().ok());
        let (Some(origin), Some(serial)) = (words.next().and_then(|word| u32::try_from(word).ok()), words.next())
        else {
            return Err(Error::failed(format!("nobody wrote the line of this dead letter: {letter:?}")));
        };
        self.next.on_record(self.job.row(origin, serial), at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

struct Reader<P> {
    job: Arc<Job>,
    inner: BoxedReader<Row, P>,
    last: Option<Time>,
    /// All files are there, and since then nothing came.
    nothing_since: Option<Time>,
}

impl<P> SplitReader for Reader<P> {
    type Item = Row;
    type Position = P;

    fn next(&mut self, now: Time) -> Result<Next<Row>> {
        let due = self.last.map_or(now, |last| last.after(self.job.pause));
        if now < due {
            return Ok(Next::At(due));
        }
        if self.job.fails_next.swap(false, Ordering::Relaxed) {
            return Err(Error::failed("injected: a row cannot be read"));
        }
        let next = self.inner.next(now)?;
        match &next {
            Next::Record(..) | Next::Unreadable(..) => (self.last, self.nothing_since) = (Some(now), None),
            Next::At(_) if self.job.all_there.load(Ordering::Relaxed) => {
                let since = *self.nothing_since.get_or_insert(now);
                if now.since(since) >= TWO_LOOKS {
                    return Ok(Next::End);
                }
            }
            _ => {}
        }
        Ok(next)
    }

    fn position(&self) -> P {
        self.inner.position()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
