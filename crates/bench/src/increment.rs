//! How much an incremental checkpoint writes when 1 % and 10 % of the keys changed: bar at 1 % < 3 % of the full size.

use crate::backend::Backend;
use crate::counts::Counts;
use crate::measure::{mix, thread_cpu};
use crate::report::Figure;
use flott_checkpoint::{CheckpointId, Kind};

const KEYS: u64 = 1_000_000;

pub(crate) fn run(backends: &[Backend], runs: usize) -> Vec<Figure> {
    backends.iter().flat_map(|backend| measure(*backend, runs)).collect()
}

fn measure(backend: Backend, runs: usize) -> Vec<Figure> {
    let counts = Counts::filled(backend, KEYS);
    let mut id = 0;
    let mut full_ms = Vec::new();
    let mut figures = Vec::new();
    for (percent, bar) in [(1, Some(3.0)), (10, None)] {
        let (mut shares, mut increment_ms) = (Vec::new(), Vec::new());
        for run in 0..runs as u64 {
            id += 1;
            let (full, time) = snapshot(&counts, id, None);
            full_ms.push(time);
            (0..KEYS * percent / 100).for_each(|write| counts.add(mix((run + percent) * KEYS + write) % KEYS));
            id += 1;
            let (increment, time) = snapshot(&counts, id, Some(id - 1));
            increment_ms.push(time);
            shares.push(increment as f64 / full as f64 * 100.0);
        }
        let what = format!("{}, 1 M keys, {percent} % changed", backend.name());
        figures.push(Figure::of("increment", format!("{what}: bytes of the full size"), &shares, "%", bar));
        figures.push(Figure::of("increment", format!("{what}, thread CPU"), &increment_ms, "ms", None));
    }
    let what = format!("{}, 1 M keys, full scan and encoding, thread CPU", backend.name());
    figures.push(Figure::of("increment", what, &full_ms, "ms", None));
    figures
}

fn snapshot(counts: &Counts, id: u64, base: Option<u64>) -> (usize, f64) {
    let id = CheckpointId(id);
    let began = thread_cpu();
    counts.table().borrow_mut().cut(id, base.map(CheckpointId), Kind::Checkpoint);
    let bytes = counts.scan(id);
    let took = thread_cpu().saturating_sub(began).as_secs_f64() * 1e3;
    counts.table().borrow_mut().completed(id);
    (bytes, took)
}
