//! End-to-end latency of the keyed count at half of the load that it can take, checkpoints off and each second: bars p50 < 10 ms, and
//! p99 with checkpoints within 1.5x of p99 without.
//!
//! Each record knows the moment at which it was to be given out, and its latency counts from then until the sink has its result. So a
//! stall is paid by all records that were due while it lasted, not only by the one that met it (no coordinated omission).

use crate::Options;
use crate::keyed_count::{WORKERS, key};
use crate::measure::percentile;
use crate::report::Figure;
use flott::connector::{
    BoxedReader, CheckpointId, Committer, Next, Sealed, Sink, SinkContext, SinkWriter, Source, SourceContext,
    SplitReader,
};
use flott::{Job, Result, Time};
use flott_runtime::key::owner_of_name;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// As many for each worker, so that half of the load is that of each.
const SPLITS: u16 = 32;
/// While the tables fill.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long the most that it can take is measured, and then the latency.
const SATURATED: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(8);
/// How often a source that has nothing due looks again, as one that polls a broker would. It is part of the latency.
const POLL: Duration = Duration::from_millis(1);
/// One record in so many has its latency taken: a clock costs about as much as the count.
const SAMPLE: u64 = 31;
const PORTION: u64 = 1_024;

pub(crate) fn run(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let mut rates = Vec::new();
    let (mut off, mut on, mut ratio) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], Vec::new());
    for _ in 0..options.runs {
        let rate = match options.rate {
            Some(rate) => rate * 1e6,
            None => saturation()? / 2.0,
        };
        rates.push(rate / 1e6);
        let [without, with] = [latencies(rate, false)?, latencies(rate, true)?];
        ratio.push(with[1] / without[1]);
        (0..2).for_each(|percentile| off[percentile].push(without[percentile]));
        (0..2).for_each(|percentile| on[percentile].push(with[percentile]));
    }
    let load = if options.rate.is_some() { "load" } else { "half of the load that it can take" };
    let millis = |what: &str, runs: &[f64], bar| Figure::of("latency", what, runs, "ms", bar);
    Ok(vec![
        Figure::of("latency", load, &rates, "M records/s", None),
        millis("p50, no checkpoints", &off[0], Some(10.0)),
        millis("p50, aligned each 1 s", &on[0], Some(10.0)),
        millis("p99, no checkpoints", &off[1], None),
        millis("p99, aligned each 1 s", &on[1], None),
        Figure::of("latency", "p99, aligned each 1 s / no checkpoints", &ratio, "x", Some(1.5)),
    ])
}

/// Records a second that the same job takes if it never has to wait.
fn saturation() -> std::result::Result<f64, String> {
    let seen = Arc::new(Seen::default());
    let handle = start(f64::INFINITY, None, &seen)?;
    std::thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), seen.records.load(Ordering::Relaxed));
    std::thread::sleep(SATURATED);
    let records = seen.records.load(Ordering::Relaxed) - before;
    let rate = records as f64 / began.elapsed().as_secs_f64();
    finish(handle)?;
    if rate > 0.0 { Ok(rate) } else { Err("the job that latency is measured of takes no records".into()) }
}

/// p50 and p99 in milliseconds.
fn latencies(rate: f64, checkpoints: bool) -> std::result::Result<[f64; 2], String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let seen = Arc::new(Seen::default());
    let handle = start(rate, checkpoints.then(|| directory.path().to_string_lossy().into_owned()), &seen)?;
    std::thread::sleep(WARM_UP + MEASURED);
    let completed = handle.status().completed_checkpoints;
    finish(handle)?;
    if checkpoints && completed == 0 {
        return Err("no checkpoint completed while latency was measured".into());
    }
    let mut samples = std::mem::take(&mut *seen.samples.lock().unwrap_or_else(PoisonError::into_inner));
    if samples.is_empty() {
        return Err("no record came through while latency was measured".into());
    }
    Ok([percentile(&mut samples, 50.0), percentile(&mut samples, 99.0)])
}

fn start(rate: f64, directory: Option<String>, seen: &Arc<Seen>) -> std::result::Result<flott::JobHandle, String> {
    let job = Job::new("latency");
    job.workers(WORKERS);
    if let Some(directory) = directory {
        job.checkpoint_dir(directory).checkpoint_interval(Duration::from_secs(1));
    }
    job.source("paced", Paced { rate, seen: Arc::clone(seen) })
        .key_by(|(key, _)| *key)
        .fold("count", (0u64, 0u64), |(count, due), record| {
            *count += 1;
            *due = record.1;
        })
        .sink("out", Clocked(Arc::clone(seen)));
    job.spawn().map_err(|error| error.to_string())
}

fn finish(handle: flott::JobHandle) -> std::result::Result<(), String> {
    handle.cancel();
    handle.wait().map(|_| ()).map_err(|error| format!("the job that latency is measured of failed: {error}"))
}

/// What source and sink share.
#[derive(Default)]
struct Seen {
    /// When the first record was due.
    began: OnceLock<Instant>,
    records: AtomicU64,
    /// Milliseconds, of those that were due after the warm-up.
    samples: Mutex<Vec<f64>>,
}

/// So many records a second, evenly; each with its key and the nanosecond at which it is due, counted from the first one.
struct Paced {
    rate: f64,
    seen: Arc<Seen>,
}

impl Source for Paced {
    type Item = (u64, u64);
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok(split_names())
    }

    fn open(&self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<(u64, u64), u64>> {
        let index = split_names().iter().position(|name| name == split);
        let split = index.ok_or_else(|| flott::Error::unusable(format!("there is no split `{split}`")))? as u64;
        let reader =
            PacedReader { rate: self.rate, seen: Arc::clone(&self.seen), split, next: from.unwrap_or(0), allowed: 0 };
        Ok(Box::new(reader))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

/// Names are hashed to workers: the first ones of which each worker has as many.
fn split_names() -> Vec<String> {
    let of = |worker| {
        let names = (0u32..).map(|number| number.to_string());
        names.filter(move |name| owner_of_name(name, WORKERS) == worker).take(usize::from(SPLITS / WORKERS))
    };
    (0..WORKERS).flat_map(of).collect()
}

struct PacedReader {
    rate: f64,
    seen: Arc<Seen>,
    split: u64,
    next: u64,
    /// Records below this one were due when the clock was last looked at.
    allowed: u64,
}

impl PacedReader {
    fn number(&self, next: u64) -> u64 {
        next * u64::from(SPLITS) + self.split
    }

    /// Whether the next record is due.
    fn is_due(&mut self) -> bool {
        if self.next < self.allowed {
            return true;
        }
        let elapsed = self.seen.began.get_or_init(Instant::now).elapsed().as_secs_f64();
        // All numbers up to this one are due; without a limit that is beyond all (the conversion and the sum saturate).
        let due = elapsed * self.rate;
        self.allowed = if due < self.split as f64 {
            0
        } else {
            (((due - self.split as f64) / f64::from(SPLITS)) as u64).saturating_add(1)
        };
        self.next < self.allowed
    }
}

impl SplitReader for PacedReader {
    type Item = (u64, u64);
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<(u64, u64)>> {
        if !self.is_due() {
            return Ok(Next::At(now.after(POLL)));
        }
        let number = self.number(self.next);
        self.next += 1;
        Ok(Next::Record((key(number), (number as f64 / self.rate * 1e9) as u64), None))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("paced split {}, record {}", self.split, self.next)
    }
}

/// Looks at the clock now and then.
struct Clocked(Arc<Seen>);

struct ClockedWriter {
    seen: Arc<Seen>,
    records: u64,
    samples: Vec<f64>,
}

impl Sink<(u64, (u64, u64))> for Clocked {
    type Writer = ClockedWriter;

    fn open(&self, _: &SinkContext) -> Result<ClockedWriter> {
        Ok(ClockedWriter { seen: Arc::clone(&self.0), records: 0, samples: Vec::new() })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

impl ClockedWriter {
    #[inline(never)]
    fn sample(&mut self, due: u64) {
        let Some(began) = self.seen.began.get() else { return };
        let due = Duration::from_nanos(due);
        if due < WARM_UP {
            return;
        }
        self.samples.push(began.elapsed().saturating_sub(due).as_secs_f64() * 1_000.0);
        if self.samples.len() as u64 == PORTION {
            self.seen.samples.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.samples);
        }
    }
}

impl SinkWriter<(u64, (u64, u64))> for ClockedWriter {
    #[inline]
    fn write(&mut self, (_, (_, due)): (u64, (u64, u64)), _: Time) -> Result<()> {
        self.records += 1;
        if self.records.is_multiple_of(SAMPLE) {
            self.sample(due);
        }
        if self.records.is_multiple_of(PORTION) {
            self.seen.records.fetch_add(PORTION, Ordering::Relaxed);
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}
