//! The lists of workers: nothing is lost or doubled, whoever has it after a restore, and what one writer wrote stays in order.

use super::backends;
use crate::Mode;
use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::time::Duration;

const NUMBERS: u64 = 1_500;
const SPLITS: u64 = 5;
const FULL: usize = 40;

/// Numbers of five splits, gathered by whoever reads them; given out forty at a time, and the rest at the end.
fn gathering(out: &MemorySink<Vec<u64>>) -> Job {
    let job = Job::new("gathering");
    let splits = (0..SPLITS).map(|split| (0..NUMBERS / SPLITS).map(|n| n * SPLITS + split).collect()).collect();
    job.source("numbers", MemorySource::with_splits(splits))
        .throttle(20_000)
        .process_with_list(
            "gather",
            SplitList::<u64>::named("waiting"),
            |mut waiting, n, out| {
                waiting.push(n);
                if waiting.len() >= FULL {
                    out.emit(waiting.take());
                }
                Ok(())
            },
            |waiting, out| {
                // It is left in the list, and must be gone from there all the same.
                out.emit(waiting.to_vec());
                Ok(())
            },
        )
        .sink("out", out.clone());
    job
}

fn all(batches: &[Vec<u64>]) -> Vec<u64> {
    let mut all: Vec<u64> = batches.iter().flatten().copied().collect();
    all.sort_unstable();
    all
}

#[test]
fn every_element_is_given_out_once_by_any_number_of_workers_of_any_backend() {
    let mut restored = 0;
    for mode in [Mode::Aligned, Mode::StopTheWorld] {
        for (seed, stores) in (0..6).flat_map(|seed| backends().into_iter().map(move |stores| (seed, stores))) {
            let out = MemorySink::new();
            let job = gathering(&out);
            let test = Test::new(&job).seed(seed).mode(mode).workers(1 + (seed % 3) as u16).state_in(stores);
            let test = test.interval(Duration::from_millis(2));
            let crashes = [
                Crash::AfterCheckpoint(2),
                Crash::AtTurn(40 + seed),
                Crash::AfterCheckpoint(1 + seed % 3),
                Crash::AfterCheckpoint(2),
            ];
            let test = crashes.into_iter().fold(test, Test::crash);
            let tested = [4, 4, 2, 7].into_iter().fold(test, Test::workers_after_crash).run().unwrap();
            assert_eq!(all(&out.committed()), (0..NUMBERS).collect::<Vec<_>>(), "seed {seed}, {mode}: {tested:?}");
            restored += tested.restored.len();
        }
    }
    assert!(restored >= 36, "{restored}");
}

#[test]
fn what_one_worker_gathered_stays_in_order_when_it_is_dealt_out() {
    for seed in 0..10 {
        let out = MemorySink::new();
        let job = gathering(&out);
        let test = Test::new(&job).seed(seed).workers(1).interval(Duration::from_millis(3));
        let tested = test.crash(Crash::AfterCheckpoint(2)).workers_after_crash(3).run().unwrap();
        assert_eq!(tested.crashes, 1);
        let in_order =
            |batch: &Vec<u64>| (0..SPLITS).all(|split| batch.iter().filter(|n| *n % SPLITS == split).is_sorted());
        assert!(out.committed().iter().all(in_order), "seed {seed}: {:?}", out.committed());
    }
}

#[test]
fn the_lists_move_with_a_savepoint() {
    let out = MemorySink::new();
    let job = gathering(&out);
    let test = Test::new(&job).interval(Duration::from_millis(3)).move_by_savepoint(2).crash(Crash::AfterCheckpoint(2));
    let tested = test.run().unwrap();
    assert_eq!(all(&out.committed()), (0..NUMBERS).collect::<Vec<_>>(), "{tested:?}");
}

#[test]
fn a_stream_without_a_key_has_side_outputs_too() {
    const ODD: SideOutput<u64> = SideOutput::named("odd");
    let (out, odd) = (MemorySink::new(), MemorySink::new());
    let job = Job::new("sides");
    let even = job.source("numbers", MemorySource::new((0..10u64).collect())).process_with_list(
        "part",
        SplitList::<u64>::named("seen"),
        |mut seen, n, out| {
            seen.push(n);
            if n % 2 == 0 {
                out.emit(n)
            } else {
                out.emit_to(ODD, n)
            }
            Ok(())
        },
        |seen, out| {
            out.emit(seen.len() as u64);
            Ok(())
        },
    );
    even.side(ODD).sink("odd", odd.clone());
    even.sink("out", out.clone());
    Test::new(&job).workers(1).run().unwrap();
    assert_eq!((out.committed(), odd.committed()), (vec![0, 2, 4, 6, 8, 10], vec![1, 3, 5, 7, 9]));
}
