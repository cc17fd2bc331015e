//! Folding before the shuffle changes how often something comes out, and nothing else.

use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::collections::BTreeMap;
use std::time::Duration;

const RECORDS: u64 = 3_000;

/// The sum and the number of the records of each key, by `reduce` and by `fold`.
fn summing(sums: &MemorySink<(u64, u64)>, counts: &MemorySink<(u64, u64)>) -> Job {
    let job = Job::new("summing");
    let splits = (0..3).map(|split| (0..RECORDS).map(|n| n * 3 + split).collect()).collect();
    let numbers = job.source("numbers", MemorySource::with_splits(splits)).map(|n: u64| (n % 5 % 3, n));
    let keyed = numbers.key_by(|n| n.0);
    keyed
        .clone()
        .commutative()
        .reduce("sum", |sum, n| sum.1 += n.1)
        .map(|(key, sum)| (key, sum.1))
        .sink("sums", sums.clone());
    keyed.commutative().fold("count", 0u64, |n, _| *n += 1, |n, more| *n += more).sink("counts", counts.clone());
    job
}

fn last(out: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut last = BTreeMap::new();
    for (key, value) in out {
        let known = last.entry(*key).or_insert(*value);
        *known = (*known).max(*value);
    }
    last
}

fn expected() -> (BTreeMap<u64, u64>, BTreeMap<u64, u64>) {
    let (mut sums, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for n in 0..RECORDS * 3 {
        *sums.entry(n % 5 % 3).or_insert(0) += n;
        *counts.entry(n % 5 % 3).or_insert(0) += 1;
    }
    (sums, counts)
}

#[test]
fn parts_are_exact_through_crashes_and_fewer_than_the_records() {
    let mut parts = 0;
    for mode in [crate::Mode::Aligned, crate::Mode::StopTheWorld, crate::Mode::Unaligned] {
        for seed in 0..12 {
            let (sums, counts) = (MemorySink::new(), MemorySink::new());
            let job = summing(&sums, &counts);
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(3));
            let tested =
                test.crash(Crash::AfterCheckpoint(1 + seed % 3)).crash(Crash::AtTurn(60 + seed)).run().unwrap();
            let (sums, counts) = (sums.committed(), counts.committed());
            assert_eq!((last(&sums), last(&counts)), expected(), "seed {seed}, {mode}: {tested:?}");
            // Every part changes its key's value once: a part that is lost or doubled would leave a hole.
            let values: std::collections::BTreeSet<_> = counts.iter().collect();
            assert_eq!(values.len(), counts.len(), "seed {seed}, {mode}: a value came twice");
            parts += counts.len();
            assert_eq!(tested.crashes, 2);
        }
    }
    assert!(parts > 24 * 3 && parts < 24 * RECORDS as usize, "{parts} parts");
}

#[test]
fn the_state_is_that_of_the_fold_without_parts() {
    let plan = |commutative: bool| {
        let job = Job::new("states");
        let keyed = job.source("numbers", MemorySource::new(vec![1u64])).key_by(|n| *n);
        let (folded, reduced) = if commutative {
            let add = |n: &mut u64, more| *n += more;
            let folded = keyed.clone().commutative().fold("fold", 0u64, |n, _| *n += 1, add);
            (folded, keyed.commutative().reduce("reduce", add))
        } else {
            (keyed.clone().fold("fold", 0u64, |n, _| *n += 1), keyed.reduce("reduce", |n, more| *n += more))
        };
        folded.union(reduced).sink("out", MemorySink::new());
        let plan = job.freeze().unwrap().plan;
        plan.operators.iter().map(|operator| (operator.name.clone(), operator.states.clone())).collect::<Vec<_>>()
    };
    assert_eq!(plan(true), plan(false));
}
