//! The running count by key: 1 M keys, 2 workers, heap state; CPU time per record of the second half of a run, when the
//! tables have grown. Beside it the bare loop and plain timely dataflow on the same records, run in turn.

use crate::beside::{limit, plain_timely};
use crate::measure::{mix, process_cpu};
use crate::report::Figure;
use crate::{Beside, Options};
use flott::prelude::*;
use flott_checkpoint::CheckpointId;
use flott_runtime::error::Result;
use flott_runtime::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott_runtime::time::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const KEYS: u64 = 1_000_000;
pub(crate) const WORKERS: u16 = 2;
/// Enough splits that their hashes spread over the workers.
const SPLITS: u16 = 32;

/// The key of the n-th record, the same for everybody.
#[inline]
pub(crate) fn key(number: u64) -> u64 {
    (mix(number) >> 1) % KEYS
}

pub(crate) fn run(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let (mut off, mut on, mut loops, mut timely) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        off.push(flott(options.records, false)?);
        on.push(flott(options.records, true)?);
        if options.beside.contains(&Beside::Limit) {
            loops.push(limit::run(options.records));
        }
        if options.beside.contains(&Beside::Timely) {
            timely.push(plain_timely::run(options.records));
        }
    }
    let unit = "ns CPU/record";
    let mut figures = vec![
        Figure::of("keyed-count", "flott, no checkpoints", &off, unit, None),
        Figure::of("keyed-count", "flott, aligned each 1 s", &on, unit, None),
    ];
    if !loops.is_empty() {
        figures.push(Figure::of("keyed-count", "bare loop, two sharded threads", &loops, unit, None));
        let ratio = |ours: &[f64]| ours.iter().zip(&loops).map(|(ours, bare)| ours / bare).collect::<Vec<f64>>();
        figures.push(Figure::of("keyed-count", "flott without checkpoints / bare loop", &ratio(&off), "x", None));
        figures.push(Figure::of("keyed-count", "flott with checkpoints / bare loop", &ratio(&on), "x", None));
    }
    if !timely.is_empty() {
        figures.push(Figure::of("keyed-count", "plain timely dataflow", &timely, unit, None));
    }
    Ok(figures)
}

/// CPU time between the middle of a run and its end.
#[derive(Default)]
pub(crate) struct SecondHalf {
    records: u64,
    seen: AtomicU64,
    cpu_at_half: AtomicU64,
}

impl SecondHalf {
    pub(crate) fn of(records: u64) -> Arc<SecondHalf> {
        Arc::new(SecondHalf { records, ..SecondHalf::default() })
    }

    /// So many more records are through.
    #[inline]
    pub(crate) fn add(&self, records: u64) {
        let before = self.seen.fetch_add(records, Ordering::Relaxed);
        if before < self.records / 2 && before + records >= self.records / 2 {
            self.cpu_at_half.store(nanos(process_cpu()), Ordering::Relaxed);
        }
    }

    /// CPU nanoseconds per record; called at the end.
    pub(crate) fn per_record(&self) -> f64 {
        let took = nanos(process_cpu()).saturating_sub(self.cpu_at_half.load(Ordering::Relaxed));
        took as f64 / (self.records - self.records / 2) as f64
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn flott(records: u64, checkpoints: bool) -> std::result::Result<f64, String> {
    let half = SecondHalf::of(records);
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let job = Job::new("keyed-count");
    job.workers(WORKERS);
    if checkpoints {
        job.checkpoint_dir(directory.path().to_string_lossy().into_owned()).checkpoint_interval(Duration::from_secs(1));
    }
    job.source("numbers", Generator::new(records, 1, |number, _| key(number)).splits(SPLITS))
        .key_by(|key| *key)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", Count(Arc::clone(&half)));
    job.run().map_err(|error| error.to_string())?;
    Ok(half.per_record())
}

/// Takes records and keeps nothing.
pub(crate) struct Count(pub(crate) Arc<SecondHalf>);

/// Counts in portions, so that two workers do not fight over one cache line.
pub(crate) struct Portion {
    half: Arc<SecondHalf>,
    records: u64,
}

const PORTION: u64 = 1_024;

impl Sink<(u64, u64)> for Count {
    type Writer = Portion;

    fn open(&self, _: &SinkContext) -> Result<Portion> {
        Ok(Portion { half: Arc::clone(&self.0), records: 0 })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

impl SinkWriter<(u64, u64)> for Portion {
    #[inline]
    fn write(&mut self, _: (u64, u64), _: Time) -> Result<()> {
        self.records += 1;
        if self.records == PORTION {
            self.half.add(PORTION);
            self.records = 0;
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}
