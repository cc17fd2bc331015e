//! How much an incremental checkpoint writes when 1 % of the keys changed: bar < 3 % of the full size.

use crate::heap::Counts;
use crate::measure::{mix, thread_cpu};
use crate::report::Figure;
use flott_checkpoint::{CheckpointId, Kind};

pub(crate) fn run(runs: usize) -> Vec<Figure> {
    let (keys, name) = (1_000_000u64, "1 M");
    let counts = Counts::filled(keys);
    let (mut shares, mut full_ms, mut increment_ms) = (Vec::new(), Vec::new(), Vec::new());
    let mut id = 0;
    for run in 0..runs as u64 {
        id += 1;
        let (full, time) = snapshot(&counts, id, None);
        full_ms.push(time);
        (0..keys / 100).for_each(|write| counts.add(mix(run * keys + write) % keys));
        id += 1;
        let (increment, time) = snapshot(&counts, id, Some(id - 1));
        increment_ms.push(time);
        shares.push(increment as f64 / full as f64 * 100.0);
    }
    vec![
        Figure::of("increment", format!("{name} keys, 1 % changed: bytes of the full size"), &shares, "%", Some(3.0)),
        Figure::of("increment", format!("{name} keys, full scan and encoding, thread CPU"), &full_ms, "ms", None),
        Figure::of("increment", format!("{name} keys, increment, thread CPU"), &increment_ms, "ms", None),
    ]
}

fn snapshot(counts: &Counts, id: u64, base: Option<u64>) -> (usize, f64) {
    let id = CheckpointId(id);
    let began = thread_cpu();
    counts.state.table().borrow_mut().cut(id, base.map(CheckpointId), Kind::Checkpoint);
    let bytes = counts.scan(id);
    let took = thread_cpu().saturating_sub(began).as_secs_f64() * 1e3;
    counts.state.table().borrow_mut().completed(id);
    (bytes, took)
}
