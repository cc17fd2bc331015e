//! How long the cut of the heap backend takes, from 1 K to 10 M keys: bar < 10 us at the median, < 100 us at 99 %.

use crate::heap::Counts;
use crate::measure::{mix, percentile, thread_cpu};
use crate::report::Figure;
use flott_checkpoint::{CheckpointId, Kind};

const CUTS: u64 = 401;

pub(crate) fn run(runs: usize) -> Vec<Figure> {
    let sizes = [(1_000u64, "1 K"), (1_000_000, "1 M"), (10_000_000, "10 M")];
    sizes.iter().flat_map(|(keys, name)| measure(*keys, name, runs)).collect()
}

fn measure(keys: u64, name: &str, runs: usize) -> Vec<Figure> {
    let counts = Counts::filled(keys);
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    let mut id = 0;
    for _ in 0..runs {
        let mut times: Vec<f64> = (0..CUTS).map(|_| cut_once(&counts, keys, &mut id)).collect();
        p50.push(percentile(&mut times, 50.0));
        p99.push(percentile(&mut times, 99.0));
    }
    vec![
        Figure::of("cut", format!("{name} keys, p50, thread CPU"), &p50, "us", Some(10.0)),
        Figure::of("cut", format!("{name} keys, p99, thread CPU"), &p99, "us", Some(100.0)),
    ]
}

/// One cut on a table that was written to since the last one.
fn cut_once(counts: &Counts, keys: u64, id: &mut u64) -> f64 {
    *id += 1;
    let base = (*id > 1).then(|| CheckpointId(*id - 1));
    (0..64).for_each(|write| counts.add(mix(*id * 64 + write) % keys));
    let table = counts.state.table();
    let began = thread_cpu();
    table.borrow_mut().cut(CheckpointId(*id), base, Kind::Checkpoint);
    let took = thread_cpu().saturating_sub(began);
    table.borrow_mut().abort(CheckpointId(*id));
    took.as_secs_f64() * 1e6
}
