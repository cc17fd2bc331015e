//! The running count by key: 1 M keys, 2 workers, heap state; CPU time per record of the second half of a run, when the
//! tables have grown. Beside it the bare loop, plain timely dataflow and Flink on the same records, run in turn. `struct-count` is the
//! same job with a value of four fields. With `--backend rocksdb` the count is in RocksDB, beside Flink's RocksDB backend: bar 1/3 of
//! its CPU time per record.

use crate::backend::Backend;
use crate::beside::{limit, plain_timely};
use crate::measure::{mix, process_cpu};
use crate::report::Figure;
use crate::scrape::run_scraped;
use crate::{Beside, Options};
use flott::prelude::*;
use flott_checkpoint::CheckpointId;
use flott_runtime::error::Result;
use flott_runtime::record::Record;
use flott_runtime::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott_runtime::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(crate) const KEYS: u64 = 1_000_000;
pub(crate) const WORKERS: u16 = 2;
/// Enough splits that their hashes spread over the workers.
const SPLITS: u16 = 32;
const UNIT: &str = "ns CPU/record";

/// The key of the n-th record, the same for everybody.
#[inline]
pub(crate) fn key(number: u64) -> u64 {
    (mix(number) >> 1) % KEYS
}

/// What `struct-count` keeps of each key.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Summary {
    count: u64,
    sum: u64,
    least: u64,
    most: u64,
}

impl Summary {
    #[inline]
    fn add(&mut self, value: u64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.sum = self.sum.wrapping_add(value);
        self.count += 1;
    }
}

pub(crate) fn run(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for backend in options.backends()? {
        figures.extend(match backend {
            Backend::Heap => run_heap(options)?,
            Backend::Rocksdb => run_rocksdb(options)?,
        });
    }
    Ok(figures)
}

/// Records in RocksDB, unless `--records` says otherwise: as many as Flink gets in its RocksDB backend.
const STORED_RECORDS: u64 = 3_000_000;

fn run_rocksdb(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let records = if options.records == crate::RECORDS { STORED_RECORDS } else { options.records };
    let (mut off, mut on, mut flink) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        for (checkpoints, runs) in [(false, &mut off), (true, &mut on)] {
            let spec = Spec { records, backend: Backend::Rocksdb, ..Spec::of(options, checkpoints) };
            runs.push(run_job(&spec, 0u64, |count, _| *count += 1)?);
        }
        if let Some(engine) = &options.flink {
            flink.push([engine.keyed_count_stored(records, false)?, engine.keyed_count_stored(records, true)?]);
        }
    }
    let mut figures = with_and_without("keyed-count", "flott in RocksDB", &off, &on, None);
    if !flink.is_empty() {
        let theirs = |which: usize| flink.iter().map(|both| both[which]).collect::<Vec<f64>>();
        figures.extend(beside_flink("in RocksDB, no checkpoints", &off, theirs(0), 3.0));
        figures.extend(beside_flink("in RocksDB, aligned each 1 s", &on, theirs(1), 3.0));
    }
    Ok(figures)
}

fn run_heap(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let (mut off, mut on, mut loops, mut timely) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut flink, mut metered) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        off.push(count(options, false)?);
        if options.metrics {
            let spec = Spec { metrics: true, ..Spec::of(options, false) };
            metered.push(run_job(&spec, 0u64, |count, _| *count += 1)?.cpu);
        }
        on.push(count(options, true)?);
        if options.beside.contains(&Beside::Limit) {
            loops.push(limit::run(options.records));
        }
        if options.beside.contains(&Beside::Timely) {
            timely.push(plain_timely::run(options.records));
        }
        if let Some(engine) = &options.flink {
            let records = options.flink_records;
            flink.push([engine.keyed_count(records, false)?, engine.keyed_count(records, true)?]);
        }
    }
    let mut figures = with_and_without("keyed-count", "flott", &off, &on, Some(5.0));
    if !metered.is_empty() {
        let ratio: Vec<f64> = metered.iter().zip(&off).map(|(metered, off)| metered / off.cpu).collect();
        figures.push(Figure::of("keyed-count", "flott, metrics read each 1 s", &metered, UNIT, None));
        figures.push(Figure::of("keyed-count", "flott with metrics / without", &ratio, "x", None));
    }
    if !loops.is_empty() {
        let ratio = |ours: &[Spent]| ours.iter().zip(&loops).map(|(ours, bare)| ours.cpu / bare).collect::<Vec<f64>>();
        figures.push(Figure::of("keyed-count", "bare loop, two sharded threads", &loops, UNIT, None));
        figures.push(Figure::of("keyed-count", "flott without checkpoints / bare loop", &ratio(&off), "x", Some(1.5)));
        figures.push(Figure::of("keyed-count", "flott with checkpoints / bare loop", &ratio(&on), "x", Some(1.7)));
    }
    if !timely.is_empty() {
        figures.push(Figure::of("keyed-count", "plain timely dataflow", &timely, UNIT, None));
    }
    if !flink.is_empty() {
        figures.extend(beside_flink("no checkpoints", &off, flink.iter().map(|[off, _]| *off).collect(), 20.0));
        figures.extend(beside_flink("aligned each 1 s", &on, flink.iter().map(|[_, on]| *on).collect(), 20.0));
    }
    Ok(figures)
}

fn beside_flink(what: &str, ours: &[Spent], theirs: Vec<f64>, times: f64) -> [Figure; 2] {
    let ratio: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours.cpu / theirs).collect();
    [
        Figure::of("keyed-count", format!("Flink 2.3, {what}"), &theirs, UNIT, None),
        Figure::of("keyed-count", format!("flott / Flink, {what}"), &ratio, "x", Some(1.0 / times)),
    ]
}

/// The same with four fields a key.
pub(crate) fn run_struct(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        off.push(summarise(options, false)?);
        on.push(summarise(options, true)?);
    }
    Ok(with_and_without("struct-count", "flott", &off, &on, Some(12.0)))
}

/// What checkpoints cost is compared with what the workers' cores have to give in the same time: that is the throughput that a
/// job which is short of CPU loses, and another load on the machine does not change it.
fn with_and_without(bench: &'static str, who: &str, off: &[Spent], on: &[Spent], bar: Option<f64>) -> Vec<Figure> {
    let cpu = |runs: &[Spent]| runs.iter().map(|run| run.cpu).collect::<Vec<f64>>();
    let share = |(off, on): (&Spent, &Spent)| (on.cpu - off.cpu) * on.records / (on.wall * f64::from(WORKERS)) * 100.0;
    let loss: Vec<f64> = off.iter().zip(on).map(share).collect();
    vec![
        Figure::of(bench, format!("{who}, no checkpoints"), &cpu(off), UNIT, None),
        Figure::of(bench, format!("{who}, aligned each 1 s"), &cpu(on), UNIT, None),
        Figure::of(bench, format!("{who}, throughput lost by checkpoints each 1 s"), &loss, "%", bar),
    ]
}

/// CPU time between the middle of a run and its end.
#[derive(Default)]
pub(crate) struct SecondHalf {
    records: u64,
    seen: AtomicU64,
    cpu_at_half: AtomicU64,
    half_at: OnceLock<Instant>,
}

/// What the second half of a run took.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// CPU nanoseconds per record.
    pub(crate) cpu: f64,
    records: f64,
    /// Nanoseconds in all.
    wall: f64,
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
            let _ = self.half_at.set(Instant::now());
        }
    }

    /// CPU nanoseconds per record; called at the end.
    pub(crate) fn per_record(&self) -> f64 {
        self.spent().cpu
    }

    fn spent(&self) -> Spent {
        let took = nanos(process_cpu()).saturating_sub(self.cpu_at_half.load(Ordering::Relaxed));
        let records = (self.records - self.records / 2) as f64;
        let wall = self.half_at.get().map_or(f64::NAN, |at| nanos(at.elapsed()) as f64);
        Spent { cpu: took as f64 / records, records, wall }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn count(options: &Options, checkpoints: bool) -> std::result::Result<Spent, String> {
    run_job(&Spec::of(options, checkpoints), 0u64, |count, _| *count += 1)
}

fn summarise(options: &Options, checkpoints: bool) -> std::result::Result<Spent, String> {
    run_job(&Spec::of(options, checkpoints), Summary::default(), Summary::add)
}

/// Sets the credit window, given in KiB, if there is one.
pub(crate) fn set_window(job: &Job, window: Option<usize>) {
    if let Some(window) = window {
        job.credit_window(window << 10);
    }
}

/// One run.
struct Spec {
    records: u64,
    window: Option<usize>,
    checkpoints: bool,
    metrics: bool,
    backend: Backend,
}

impl Spec {
    fn of(options: &Options, checkpoints: bool) -> Spec {
        Spec { records: options.records, window: options.window, checkpoints, metrics: false, backend: Backend::Heap }
    }
}

/// The job of both benches, in a directory of its own.
fn run_job<A: Record + Sync>(
    spec: &Spec,
    init: A,
    fold: impl Fn(&mut A, u64) + Send + Sync + 'static,
) -> std::result::Result<Spent, String> {
    let half = SecondHalf::of(spec.records);
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let job = Job::new("keyed-count");
    job.workers(WORKERS);
    job.state_backend(spec.backend.of_jobs()).work_dir(directory.path().join("work"));
    set_window(&job, spec.window);
    if spec.checkpoints {
        job.checkpoint_dir(directory.path().join("checkpoints").to_string_lossy().into_owned())
            .checkpoint_interval(Duration::from_secs(1));
    }
    job.source("numbers", Generator::new(spec.records, 1, |number, _| key(number)).splits(SPLITS))
        .key_by(|key| *key)
        .fold("count", init, fold)
        .sink("out", Count(Arc::clone(&half)));
    if spec.metrics {
        run_scraped(&job)?;
    } else {
        job.run().map_err(|error| error.to_string())?;
    }
    Ok(half.spent())
}

/// The count with checkpoints, for whoever measures something else of it.
pub(crate) fn run_with_checkpoints(records: u64) -> std::result::Result<(), String> {
    let spec = Spec { records, window: None, checkpoints: true, metrics: false, backend: Backend::Heap };
    run_job(&spec, 0u64, |count, _| *count += 1).map(|_| ())
}

/// Takes records and keeps nothing.
pub(crate) struct Count(pub(crate) Arc<SecondHalf>);

/// Counts in portions, so that two workers do not fight over one cache line.
pub(crate) struct Portion {
    half: Arc<SecondHalf>,
    records: u64,
}

const PORTION: u64 = 1_024;

impl<T: Send + 'static> Sink<(u64, T)> for Count {
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

impl<T> SinkWriter<(u64, T)> for Portion {
    #[inline]
    fn write(&mut self, _: (u64, T), _: Time) -> Result<()> {
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
