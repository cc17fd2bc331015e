//! How long a checkpoint takes under full back-pressure: half of all records on one hot key, and a sink that sleeps 1 ms after
//! every 10 records (the shape of Flink's J3), with the default credit window. From the trigger to the log slot.

use crate::Options;
use crate::keyed_count::{KEYS, WORKERS, set_window};
use crate::measure::{median, mix};
use crate::report::Figure;
use flott::Mode;
use flott::prelude::*;
use flott_checkpoint::CheckpointId;
use flott_runtime::error::Result;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::find_storage;
use flott_runtime::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott_runtime::verify::Directory;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SPLITS: u16 = 32;
/// Checkpoints of one run; the first finds the tables new, and does not count.
const MEASURED: u64 = 4;

/// The modes, and what their checkpoints must stay below, in milliseconds.
const MODES: [(Mode, Option<f64>); 4] = [
    (Mode::Aligned, Some(500.0)),
    (Mode::AtLeastOnce, None),
    (Mode::AlignedThenUnaligned, None),
    (Mode::Unaligned, Some(20.0)),
];

pub(crate) fn run(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let mut took = MODES.map(|_| Vec::new());
    let mut in_flight = MODES.map(|_| Vec::new());
    let mut flink = [Vec::new(), Vec::new()];
    for _ in 0..options.runs {
        for (index, (mode, _)) in MODES.into_iter().enumerate() {
            let (millis, mib) = measure(mode, options.window)?;
            took[index].extend(millis);
            in_flight[index].push(mib);
        }
        if let Some(engine) = &options.flink {
            flink[0].push(engine.backpressure(false)?);
            flink[1].push(engine.backpressure(true)?);
        }
    }
    let mut figures = Vec::new();
    for ((mode, bar), (took, in_flight)) in MODES.into_iter().zip(took.iter().zip(&in_flight)) {
        figures.push(Figure::of(
            "backpressure",
            format!("checkpoint under full back-pressure, {mode}"),
            took,
            "ms",
            bar,
        ));
        if mode.acts_on_arrival() {
            figures.push(Figure::of(
                "backpressure",
                format!("records in flight in it, {mode}"),
                in_flight,
                "MiB",
                None,
            ));
        }
    }
    for (theirs, (mode, ours)) in flink.iter().zip([("aligned", &took[0]), ("unaligned", &took[3])]) {
        if !theirs.is_empty() {
            let ratio = median(ours.clone()) / median(theirs.clone());
            figures.push(Figure::of("backpressure", format!("Flink 2.3, {mode}"), theirs, "ms", None));
            figures.push(Figure::of("backpressure", format!("flott / Flink, {mode}"), &[ratio], "x", None));
        }
    }
    Ok(figures)
}

/// Half of all records are of key 0.
fn key(number: u64) -> u64 {
    let mixed = mix(number);
    if mixed >> 63 == 0 { 0 } else { (mixed & (u64::MAX >> 1)) % KEYS }
}

/// How long each checkpoint took, and what was in flight at the last one.
fn measure(mode: Mode, window: Option<usize>) -> std::result::Result<(Vec<f64>, f64), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let job = Job::new("backpressure");
    job.workers(WORKERS)
        .checkpoint_dir(directory.path().to_string_lossy().into_owned())
        .checkpoint_mode(mode)
        .checkpoint_interval(Duration::from_secs(3_600));
    set_window(&job, window);
    job.source("numbers", Generator::unbounded(1, |number, _| key(number)).splits(SPLITS))
        .key_by(|key| *key)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", Slow);
    let handle = job.spawn().map_err(|error| error.to_string())?;
    // Until the queues are full.
    std::thread::sleep(Duration::from_secs(1));
    let mut took = Vec::new();
    for done in 0..=MEASURED {
        let id = handle.checkpoint(false).map_err(|error| format!("no checkpoint in mode {mode}: {error}"))?;
        let last = handle.status().last_checkpoint.filter(|last| last.id == id);
        let last = last.ok_or("a completed checkpoint has no status")?;
        if done > 0 {
            took.push(last.duration.as_secs_f64() * 1_000.0);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    handle.cancel();
    handle.wait().map_err(|error| format!("the job under back-pressure failed: {error}"))?;
    Ok((took, in_flight(directory.path())?))
}

fn in_flight(directory: &Path) -> std::result::Result<f64, String> {
    let text = |error: flott_runtime::Error| error.to_string();
    let place = directory.to_string_lossy();
    let (_, storage) = block_on(find_storage(&place, None)).map_err(text)?.map_err(text)?;
    let directory = block_on(Directory::read(&storage, &mut |_| {})).map_err(text)?.map_err(text)?;
    let newest = directory.checkpoints().last().and_then(|(_, entry)| directory.manifest(entry.id, entry.attempt));
    let captured = newest.ok_or("there is no checkpoint")?.captured();
    Ok(captured.bytes as f64 / f64::from(1 << 20))
}

/// Sleeps 1 ms after every 10 records, on the worker's thread.
struct Slow;

struct Sleepy(u32);

impl Sink<(u64, u64)> for Slow {
    type Writer = Sleepy;

    fn open(&self, _: &SinkContext) -> Result<Sleepy> {
        Ok(Sleepy(0))
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

impl SinkWriter<(u64, u64)> for Sleepy {
    fn write(&mut self, _: (u64, u64), _: flott::Time) -> Result<()> {
        self.0 += 1;
        if self.0.is_multiple_of(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}
