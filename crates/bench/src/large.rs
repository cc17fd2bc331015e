//! State of 8 + 32 bytes a key in a real job, filled, changed, snapshotted and restored: throughput, checkpoints, the restore beside a
//! plain copy of the same bytes, and the memory of the processes. `rocksdb-large` is RocksDB with a state of several times its budget:
//! bar for the peak of resident memory is the budget and [`OVERHEAD_MIB`]. `state` is heap and RocksDB in turn on a state that fits.
//!
//! Each run is a process that fills and checkpoints, and another one that restores, because an allocator gives back late.

pub(crate) mod child;

use crate::Options;
use crate::backend::Backend;
use crate::report::Figure;
use child::{Filled, Restored, Spec};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a process with two workers may take beside the budget of its state: itself, the windows of its channels, iterators and
/// compactions, segments on their way to the storage, blocks of a restore.
pub(crate) const OVERHEAD_MIB: f64 = 64.0;
const MIB: f64 = 1_048_576.0;
/// Bytes of a key and its value, before any encoding.
const ENTRY: u64 = 40;

pub(crate) fn run_large(options: &Options) -> Result<Vec<Figure>, String> {
    let backend = Backend::Rocksdb.built()?;
    let (keys, budget) = (options.state / ENTRY, options.budget);
    let runs: Vec<Run> = (0..options.runs).map(|_| run(backend, keys, budget)).collect::<Result<_, _>>()?;
    let bar = Some(budget as f64 / MIB + OVERHEAD_MIB);
    let what = format!("{} MiB of state, budget {} MiB", options.state >> 20, budget >> 20);
    Ok(figures("rocksdb-large", &what, &runs, bar))
}

/// Bytes of state of the comparison of backends, unless `--state` says otherwise.
const SMALL: u64 = 40 << 20;

pub(crate) fn run_both(options: &Options) -> Result<Vec<Figure>, String> {
    let mut all = Vec::new();
    let state = if options.state == crate::LARGE_STATE { SMALL } else { options.state };
    for backend in options.backends()? {
        let runs: Vec<Run> =
            (0..options.runs).map(|_| run(backend, state / ENTRY, 4 * state)).collect::<Result<_, _>>()?;
        all.extend(figures("state", &format!("{}, {} MiB", backend.name(), state >> 20), &runs, None));
    }
    Ok(all)
}

struct Run {
    filled: Filled,
    restored: Restored,
    /// Bytes of the checkpoint directory when it was restored.
    stored: u64,
    /// Seconds to copy them, and to copy and sync them.
    copy: [f64; 2],
}

fn run(backend: Backend, keys: u64, budget: u64) -> Result<Run, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let spec = Spec { backend: backend.word().to_owned(), directory: directory.path().to_owned(), keys, budget };
    let filled: Filled = ask(child::FILL, &spec)?;
    let files = files_below(&spec.checkpoints())?;
    let copy = [copy_all(&files, directory.path(), false)?, copy_all(&files, directory.path(), true)?];
    let stored = files.iter().map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum();
    let restored: Restored = ask(child::RESTORE, &spec)?;
    if restored.absent > child::SLACK {
        return Err(format!("{} keys were not there after the restore", restored.absent));
    }
    Ok(Run { filled, restored, stored, copy })
}

fn figures(bench: &'static str, what: &str, runs: &[Run], memory_bar: Option<f64>) -> Vec<Figure> {
    let figure = |name: &str, unit, bar, of: &dyn Fn(&Run) -> f64| {
        let values: Vec<f64> = runs.iter().map(of).collect();
        Figure::of(bench, format!("{what}: {name}"), &values, unit, bar)
    };
    let rate = |bytes: f64, seconds: f64| bytes / MIB / seconds;
    vec![
        figure("peak RSS, filling and checkpoints", "MiB", memory_bar, &|run| run.filled.peak / MIB),
        figure("peak RSS, restore and on", "MiB", memory_bar, &|run| run.restored.peak / MIB),
        figure("filling, checkpoints on", "k records/s", None, &|run| run.filled.fill_rate / 1e3),
        figure("filling, CPU per record", "us", None, &|run| run.filled.fill_cpu_us),
        figure("updates, no checkpoint", "k records/s", None, &|run| run.filled.idle_rate / 1e3),
        figure("updates in a full checkpoint / without", "x", None, &|run| run.filled.busy_rate / run.filled.idle_rate),
        figure("checkpoints while filling, median", "ms", None, &|run| run.filled.median_ms),
        figure("checkpoints while filling, longest", "ms", None, &|run| run.filled.longest_ms),
        figure("longest cut of all checkpoints, wall", "ms", Some(20.0), &|run| run.filled.longest_cut_ms),
        figure("full checkpoint", "MiB", None, &|run| run.filled.full_bytes / MIB),
        figure("full checkpoint", "s", None, &|run| run.filled.full_seconds),
        figure("full checkpoint", "MiB/s", None, &|run| rate(run.filled.full_bytes, run.filled.full_seconds)),
        figure("copy and sync of its directory", "MiB/s", None, &|run| rate(run.stored as f64, run.copy[1])),
        figure("restore", "s", None, &|run| run.restored.seconds),
        figure("restore", "MiB/s", None, &|run| rate(run.filled.full_bytes, run.restored.seconds)),
        figure("copy of its directory", "MiB/s", None, &|run| rate(run.stored as f64, run.copy[0])),
        figure("restore / copy, time", "x", None, &|run| {
            run.restored.seconds / (run.copy[0] * run.filled.full_bytes / run.stored as f64)
        }),
        figure("updates after the restore", "k records/s", None, &|run| run.restored.rate / 1e3),
    ]
}

/// This program as a child; what it measured.
fn ask<T: DeserializeOwned>(what: &str, spec: &Spec) -> Result<T, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let spec = serde_json::to_string(spec).map_err(|error| error.to_string())?;
    let mut child = Command::new(own);
    child.args([child::CHILD, what, &spec]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = child.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    serde_json::from_str(&said).map_err(|_| format!("the process that does `{what}` said `{said}`"))
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

/// Seconds for all files, one after the other, into one file.
fn copy_all(files: &[PathBuf], into: &Path, sync: bool) -> Result<f64, String> {
    let began = Instant::now();
    let copied = into.join("copied");
    let copy = || -> std::io::Result<()> {
        let mut target = File::create(&copied)?;
        let mut buffer = vec![0; 1 << 20];
        for file in files {
            let mut source = File::open(file)?;
            loop {
                let length = source.read(&mut buffer)?;
                if length == 0 {
                    break;
                }
                target.write_all(&buffer[..length])?;
            }
        }
        if sync { target.sync_all() } else { Ok(()) }
    };
    copy().map_err(|error| format!("cannot copy the checkpoint: {error}"))?;
    let took = began.elapsed().as_secs_f64();
    std::fs::remove_file(&copied).map_err(|error| error.to_string())?;
    Ok(took)
}
