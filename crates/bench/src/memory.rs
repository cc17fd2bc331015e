//! What state takes of the memory, at rest and while it is snapshotted, against a bare hash map with the same keys and
//! values: bars on the heap < 1.6x and < 1.8x; RocksDB has a budget, 256 MiB here. And what the whole job of `keyed-count` takes: bar < 120 MiB. Each in a process of its own,
//! because an allocator gives back late.

use crate::backend::Backend;
use crate::counts::{Counts, Weigh};
use crate::keyed_count::{KEYS, run_with_checkpoints};
use crate::report::Figure;
use flott_checkpoint::{CheckpointId, Kind};
use flott_runtime::key::hash_key;
use flott_runtime::state::Progress;
use hashbrown::HashTable;
use std::hint::black_box;
use std::process::{Command, Stdio};

/// The argument by which the child knows itself.
pub(crate) const CHILD: &str = "--memory-child";
const SEED: u64 = 7;
/// What one step of a scan may visit, as in a worker.
const SCAN_BUDGET: usize = 4_096;
const MIB: f64 = 1_048_576.0;

pub(crate) fn run(backends: &[Backend], runs: usize) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    let sizes = [(1_000_000u64, "1 M"), (10_000_000, "10 M")];
    for (backend, (keys, name)) in backends.iter().flat_map(|backend| sizes.map(|size| (*backend, size))) {
        let (mut bare, mut steady, mut scanned) = (Vec::new(), Vec::new(), Vec::new());
        let state = backend.name();
        let bar = |bar| (backend == Backend::Heap).then_some(bar);
        for _ in 0..runs {
            let map = ask("bare", keys)?[0];
            let heap = ask(backend.word(), keys)?;
            bare.push(map / MIB);
            steady.push(heap[0] / map);
            scanned.push(heap[1] / map);
        }
        figures.push(Figure::of("memory", format!("{name} keys, bare hash map"), &bare, "MiB", None));
        figures.push(Figure::of("memory", format!("{name} keys, {state} state / bare map"), &steady, "x", bar(1.6)));
        figures.push(Figure::of(
            "memory",
            format!("{name} keys, {state}, the same during a snapshot"),
            &scanned,
            "x",
            bar(1.8),
        ));
    }
    let job: Vec<f64> = (0..runs).map(|_| Ok(ask("job", KEYS)?[0] / MIB)).collect::<Result<_, String>>()?;
    figures.push(Figure::of(
        "memory",
        "whole process of keyed-count, checkpoints each 1 s, peak",
        &job,
        "MiB",
        Some(120.0),
    ));
    Ok(figures)
}

/// Two numbers of bytes that a child measured.
fn ask(what: &str, keys: u64) -> Result<[f64; 2], String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(&own);
    child.args([CHILD, what, &keys.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = child.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let numbers: Vec<f64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
    <[f64; 2]>::try_from(numbers).map_err(|_| format!("the child that measures {what} said `{text}`"))
}

/// What the child does: prints two numbers of bytes.
pub(crate) fn child(what: &str, keys: &str) -> Result<(), String> {
    let keys: u64 = keys.parse().map_err(|_| "not a number of keys".to_owned())?;
    let before = resident("VmRSS")?;
    match what {
        "bare" => {
            let mut table: HashTable<(u64, u64)> = HashTable::new();
            let hash = |key: &u64| hash_key(SEED, key).expect("a number has an encoding");
            for key in 0..keys {
                table.insert_unique(hash(&key), (key, 1), |entry| hash(&entry.0));
            }
            println!("{} 0", resident("VmRSS")? - before);
            black_box(table.len());
        }
        "heap" | "rocksdb" => {
            let counts = Counts::filled(Backend::of(what)?, keys);
            let steady = resident("VmRSS")? - before;
            println!("{steady} {}", snapshot(&counts, keys)? - before);
        }
        _ => {
            run_with_checkpoints(100 * keys)?;
            println!("{} 0", resident("VmHWM")?);
        }
    }
    Ok(())
}

/// The most that is resident while all of it is snapshotted and written at the same time.
fn snapshot(counts: &Counts, keys: u64) -> Result<f64, String> {
    let (id, table) = (CheckpointId(1), counts.table());
    table.borrow_mut().cut(id, None, Kind::Checkpoint);
    let (mut weigh, mut peak, mut next) = (Weigh::default(), 0f64, 0);
    loop {
        let progress = table.borrow_mut().scan(id, SCAN_BUDGET, &mut weigh).map_err(|error| error.to_string())?;
        (0..SCAN_BUDGET as u64).for_each(|write| counts.add((next + write) % keys));
        next += SCAN_BUDGET as u64;
        peak = peak.max(resident("VmRSS")?);
        if progress == Progress::Done {
            return Ok(peak);
        }
    }
}

/// A line of the kernel's account of this process, in bytes.
pub(crate) fn resident(line: &str) -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let kib = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':')?.trim().strip_suffix(" kB"));
    let kib = kib.ok_or_else(|| format!("/proc/self/status has no line {line}"))?;
    kib.trim().parse::<f64>().map(|kib| kib * 1_024.0).map_err(|error| error.to_string())
}
