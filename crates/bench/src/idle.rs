//! What an idle job with 10 M keys and a checkpoint each second costs: bar < 1 % of a core.

use crate::keyed_count::{Count, SecondHalf, WORKERS};
use crate::measure::process_cpu;
use crate::report::Figure;
use flott::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 10_000_000;
const SPLITS: u16 = 32;
/// How long it is watched, each run.
const WATCH: Duration = Duration::from_secs(10);

pub(crate) fn run(runs: usize) -> Result<Vec<Figure>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let job = Job::new("idle");
    job.workers(WORKERS)
        .checkpoint_dir(directory.path().to_string_lossy().into_owned())
        .checkpoint_interval(Duration::from_secs(1));
    // All keys at once, then a record an hour: the source never ends.
    let keys = job.source("keys", Generator::new(KEYS, 1, |number, _| number).splits(SPLITS));
    let rest = job.source("rest", Generator::unbounded(1, |number, _| KEYS + number).rate(1.0 / 3_600.0));
    keys.union(rest)
        .key_by(|number| *number)
        .fold("count", 0u64, |count, _| *count += 1)
        .inspect(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .sink("out", Count(SecondHalf::of(u64::MAX)));
    let handle = job.spawn().map_err(|error| error.to_string())?;
    wait_until(Duration::from_secs(300), || seen.load(Ordering::Relaxed) >= KEYS)?;
    // The checkpoint that holds all of it must be through.
    let settled = handle.status().completed_checkpoints + 3;
    wait_until(Duration::from_secs(300), || handle.status().completed_checkpoints >= settled)?;
    let mut shares = Vec::new();
    for _ in 0..runs {
        let (began, cpu) = (Instant::now(), process_cpu());
        std::thread::sleep(WATCH);
        let used = process_cpu().saturating_sub(cpu).as_secs_f64();
        shares.push(used / began.elapsed().as_secs_f64() * 100.0);
    }
    handle.cancel();
    handle.wait().map_err(|error| format!("the idle job failed: {error}"))?;
    Ok(vec![Figure::of("idle", "10 M keys, a checkpoint each 1 s: share of a core", &shares, "%", Some(1.0))])
}

fn wait_until(patience: Duration, reached: impl Fn() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !reached() {
        if began.elapsed() > patience {
            return Err("the job did not get to where it is to be measured".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
