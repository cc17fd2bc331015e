//! The test harness that users get, on small jobs: it must find what is wrong and pass what is right.

use super::*;
use crate::prelude::*;
use std::collections::BTreeMap;

mod collections;
mod commutative;
mod evolution;
mod expiring;
mod folding;
mod rescale;
mod sides;
mod split_lists;
mod timers;
mod two_inputs;

/// Where the state of each process in turn lies: on the heap, and with the feature also in a store, and one after the other.
fn backends() -> Vec<Vec<Option<Arc<dyn Stores>>>> {
    #[cfg(feature = "rocksdb")]
    {
        // Above it there is no memory, or too little, or enough.
        let store =
            |memory| Some(Arc::new(flott_runtime::testing::memory_store::MemoryStores(memory)) as Arc<dyn Stores>);
        vec![
            vec![None],
            vec![store(0)],
            vec![store(4 << 10)],
            vec![None, store(1 << 20)],
            vec![store(2 << 10), None, None],
        ]
    }
    #[cfg(not(feature = "rocksdb"))]
    vec![vec![None], vec![None, None]]
}

/// Counts by key; every record of a key comes out with its running count.
fn counting(out: &MemorySink<(u64, u64)>, records: u64) -> Job {
    let job = Job::new("counting");
    let splits = (0..3).map(|split| (0..records).map(|n| n * 3 + split).collect()).collect();
    job.source("numbers", MemorySource::with_splits(splits))
        .map(|n| n % 17)
        .key_by(|n| *n)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", out.clone());
    job
}

/// The counts of each key, which must be 1, 2, 3, … in some order.
fn counts(out: &MemorySink<(u64, u64)>) -> BTreeMap<u64, Vec<u64>> {
    let mut counts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (key, count) in out.committed() {
        counts.entry(key).or_default().push(count);
    }
    counts.values_mut().for_each(|counts| counts.sort_unstable());
    counts
}

fn expected(records: u64) -> BTreeMap<u64, Vec<u64>> {
    let mut counts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for n in 0..records * 3 {
        let of_key = counts.entry(n % 17).or_default();
        of_key.push(of_key.len() as u64 + 1);
    }
    counts
}

#[test]
fn a_job_that_moves_by_savepoints_and_crashes_gives_the_output_of_one_that_stays() {
    // So many that every process has something left to do.
    const RECORDS: u64 = 4_000;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_exact()) {
        for seed in 0..20 {
            let out = MemorySink::new();
            let job = counting(&out, RECORDS);
            job.alignment_timeout(Duration::from_micros(200 * seed));
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(4));
            // The first process moves; the next ones crash before and after their first checkpoint; another one moves.
            let test = test.crash(Crash::At(Duration::from_secs(3_600))).move_by_savepoint(1 + seed % 3);
            let test = test.crash(Crash::AtTurn(5 + 17 * seed)).crash(Crash::AfterCheckpoint(1));
            let tested = test.move_by_savepoint(1 + seed % 2).run().unwrap();
            assert_eq!(counts(&out), expected(RECORDS), "seed {seed}, {mode}, {tested:?}");
            assert!(tested.crashes > 0 && tested.restored.len() > 1, "seed {seed}, {mode}, {tested:?}");
        }
    }
}

#[test]
fn a_run_with_crashes_gives_the_output_of_a_run_without() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_exact()) {
        for seed in 0..20 {
            let out = MemorySink::new();
            let job = counting(&out, 2_000);
            // Some alignments end before it, some do not.
            job.alignment_timeout(Duration::from_micros(200 * seed));
            let crashes = [
                Crash::AfterCheckpoint(1 + seed % 3),
                Crash::AtTurn(40 + 13 * seed),
                Crash::At(Duration::from_millis(seed)),
            ];
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(4));
            let tested = crashes.into_iter().fold(test, Test::crash).run().unwrap();
            assert_eq!(counts(&out), expected(2_000), "seed {seed}, {mode}, {tested:?}");
            assert_eq!(tested.crashes, 3, "seed {seed}, {mode}: {tested:?}");
        }
    }
}

#[test]
fn at_least_once_loses_nothing_and_counts_some_records_twice() {
    let mut doubled = 0;
    for seed in 0..20 {
        let out = MemorySink::new();
        let job = counting(&out, 2_000);
        let test = Test::new(&job).seed(seed).mode(Mode::AtLeastOnce).interval(Duration::from_millis(1));
        test.crash(Crash::AfterCheckpoint(2)).run().unwrap();
        for (key, expected) in expected(2_000) {
            let highest = counts(&out)[&key].last().copied().unwrap();
            assert!(highest >= expected.len() as u64, "seed {seed}, key {key}: {highest} of {}", expected.len());
            doubled += highest - expected.len() as u64;
        }
    }
    assert!(doubled > 0, "no seed shows the difference to exactly once");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || {
        let out = MemorySink::new();
        let tested = Test::new(&counting(&out, 200)).seed(3).crash(Crash::AtTurn(100)).run().unwrap();
        (out.committed(), tested.time, tested.completed, tested.restored)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_throttle_takes_its_time() {
    let out = MemorySink::new();
    let job = Job::new("slow");
    job.source("numbers", MemorySource::new((0..100u64).collect())).throttle(10).sink("out", out.clone());
    let tested = Test::new(&job).run().unwrap();
    assert_eq!(out.committed().len(), 100);
    assert!((9..=11).contains(&tested.time.as_secs()), "{:?}", tested.time);
}

#[test]
fn every_stateless_operator_does_what_it_says() {
    let out = MemorySink::new();
    let job = Job::new("operators");
    let numbers = job.source("numbers", MemorySource::new((0..10u64).collect()));
    let odd = numbers.clone().filter(|n| n % 2 == 1).map(|n| n * 100);
    let twice = numbers.clone().flat_map(|n| [n, n]);
    let parsed = numbers.try_map(OnError::Skip, |n| if n == 7 { Err("unlucky") } else { Ok(n + 1_000) });
    odd.union(twice.rebalance()).union(parsed.broadcast()).sink("out", out.clone());
    let tested = Test::new(&job).run().unwrap();
    let mut all = out.committed();
    all.sort_unstable();
    let mut expected: Vec<u64> = (0..10).flat_map(|n| [n, n]).chain([100, 300, 500, 700, 900]).collect();
    // Broadcast: once for each of the two workers.
    expected.extend((0..10).filter(|n| *n != 7).flat_map(|n| [n + 1_000, n + 1_000]));
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(tested.report.skipped, BTreeMap::from([("try_map after numbers".to_owned(), 1)]));
}

#[test]
fn process_keeps_its_states_apart_and_through_a_crash() {
    let out = MemorySink::new();
    let job = Job::new("process");
    job.source("numbers", MemorySource::new((0..600u64).collect()))
        .key_by(|n| n % 3)
        .process("steps", (Value::<u64>::named("seen"), Value::<u64>::named("last")), |(mut seen, mut last), n, out| {
            let step = last.get().map(|last| n - last);
            last.set(n);
            seen.update(|| 0, |seen| *seen += 1);
            if seen.get() == Some(&200) {
                seen.clear();
                out.emit((*out.key, step, seen.get().copied()));
            }
            Ok(())
        })
        .sink("out", out.clone());
    let tested = Test::new(&job).interval(Duration::from_millis(1)).crash(Crash::AfterCheckpoint(2)).run().unwrap();
    let mut all = out.committed();
    all.sort_unstable();
    assert_eq!(all, [(0, Some(3), None), (1, Some(3), None), (2, Some(3), None)]);
    assert_eq!(tested.crashes, 1);
}

#[test]
fn reduce_begins_with_the_first_record() {
    let out = MemorySink::new();
    let job = Job::new("reduce");
    job.source("numbers", MemorySource::new(vec![5u64, 3, 9, 1]))
        .key_by(|_| 0u8)
        .reduce("least", |least, n| *least = n.min(*least))
        .sink("out", out.clone());
    Test::new(&job).workers(1).run().unwrap();
    assert_eq!(out.committed(), [(0, 5), (0, 3), (0, 3), (0, 1)]);
}

#[test]
fn an_error_of_user_code_names_operator_and_record() {
    let job = Job::new("failing");
    job.source("numbers", MemorySource::new((0..10u64).collect()))
        .try_map(OnError::Fail, |n| if n == 4 { Err(format!("{n} is too much")) } else { Ok(n) })
        .sink("out", MemorySink::new());
    let error = Test::new(&job).without_checkpoints().run().unwrap_err().to_string();
    assert!(error.contains("operator `try_map after numbers`") && error.contains("4 is too much"), "{error}");
    assert!(error.contains("memory split 0, record 5"), "{error}");
}
