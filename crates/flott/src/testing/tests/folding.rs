//! Reducing and aggregating state is as exact as a value, on the heap and in a store, and is not taken for one.

use super::backends;
use crate::prelude::*;
use crate::testing::{Crash, Test};
use crate::{ErrorKind, State};
use std::collections::BTreeMap;
use std::time::Duration;

const KEYS: u64 = 7;
const NUMBERS: u64 = 1_400;

/// Key, number, the greatest one since the last clear, and the mean.
type Row = (u64, u64, Option<u64>, Option<u64>);

fn greatest() -> Reducing<u64> {
    Reducing::named("greatest", |kept: &mut u64, n| *kept = n.max(*kept))
}

fn mean() -> Aggregating<u64, (u64, u64), u64> {
    let add = |(sum, count): &mut (u64, u64), n: u64| (*sum += n, *count += 1).0;
    Aggregating::named("mean", || (0, 0), add, |(sum, count)| sum / count)
}

/// Numbers that go up and down.
fn value_of(n: u64) -> u64 {
    n * 7_919 % 1_000
}

fn folding(out: &MemorySink<Row>, greatest: Reducing<u64>, mean: Aggregating<u64, (u64, u64), u64>) -> Job {
    let job = Job::new("folding");
    job.source("numbers", MemorySource::new((0..NUMBERS).collect()))
        .throttle(20_000)
        .key_by(|n| n % KEYS)
        .process("fold", (greatest, mean), |(mut greatest, mut mean), n, out| {
            if n / KEYS % 50 == 49 {
                greatest.clear();
                mean.clear();
                assert_eq!((greatest.get(), mean.get()), (None, None));
            } else {
                greatest.add(value_of(n));
                mean.add(value_of(n));
            }
            assert_eq!(greatest.get(), greatest.read(|kept| kept.copied()));
            out.emit((*out.key, n, greatest.get(), mean.get()));
            Ok(())
        })
        .sink("out", out.clone());
    job
}

fn expected() -> Vec<Row> {
    let mut kept: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let row = |n| {
        let kept = kept.entry(n % KEYS).or_default();
        if n / KEYS % 50 == 49 {
            kept.clear()
        } else {
            kept.push(value_of(n))
        }
        let mean = kept.iter().sum::<u64>().checked_div(kept.len() as u64);
        (n % KEYS, n, kept.iter().max().copied(), mean)
    };
    (0..NUMBERS).map(row).collect()
}

fn sorted(out: &MemorySink<Row>) -> Vec<Row> {
    let mut rows = out.committed();
    rows.sort_unstable_by_key(|row| row.1);
    rows
}

#[test]
fn folding_state_is_exact_through_crashes_other_workers_and_backends() {
    let mut restored = 0;
    for (seed, stores) in (0..12).flat_map(|seed| backends().into_iter().map(move |stores| (seed, stores))) {
        let out = MemorySink::new();
        let hour = Duration::from_secs(3_600);
        let job = if seed % 2 == 0 {
            folding(&out, greatest(), mean())
        } else {
            folding(&out, greatest().ttl(hour), mean().ttl(hour))
        };
        let test = Test::new(&job).seed(seed).interval(Duration::from_millis(3)).state_in(stores);
        let crashes = [Crash::AfterCheckpoint(2), Crash::AtTurn(60 + seed), Crash::AfterCheckpoint(1 + seed % 3)];
        let test = crashes.into_iter().fold(test, Test::crash);
        let tested = [3, 1, 2].into_iter().fold(test, Test::workers_after_crash).run().unwrap();
        assert_eq!(sorted(&out), expected(), "seed {seed}: {tested:?}");
        restored += tested.restored.len();
    }
    assert!(restored >= 30, "{restored}");
}

#[test]
fn what_was_folded_expires_after_the_last_element_that_was_added() {
    let out = MemorySink::new();
    let job = Job::new("expiring");
    let kept = Reducing::named("sum", |kept: &mut u64, n| *kept += n).ttl(Duration::from_millis(10));
    // One number each 4 ms, with pauses of 12 ms behind every fifth.
    job.source("numbers", MemorySource::new((0..100u64).collect()))
        .throttle(250)
        .filter(|n| n % 7 < 5)
        .key_by(|_| 0u8)
        .process("sum", kept, |mut sum, n: u64, out| {
            sum.add(1);
            out.emit((n, sum.get()));
            Ok(())
        })
        .sink("out", out.clone());
    let tested = Test::new(&job).workers(1).crash(Crash::AfterCheckpoint(3)).run().unwrap();
    let expected: Vec<_> = (0..100).filter(|n| n % 7 < 5).map(|n| (n, Some(n % 7 + 1))).collect();
    assert_eq!(out.committed(), expected, "{tested:?}");
}

#[test]
fn no_kind_is_restored_as_another_one() {
    fn job<S: State>(out: &MemorySink<u64>, state: S) -> Job {
        let job = Job::new("kinds");
        job.source("numbers", MemorySource::new((0..400u64).collect()))
            .throttle(20_000)
            .key_by(|n| n % 5)
            .process("keep", state, |_, n, out| {
                out.emit(n);
                Ok(())
            })
            .sink("out", out.clone());
        job
    }
    let ttl = Duration::from_secs(60);
    let sum = |sum: &mut u64, n| *sum += n;
    let out = MemorySink::new();
    let kinds = || {
        [
            ("value", job(&out, Value::<u64>::named("n"))),
            ("value-ttl", job(&out, Value::<u64>::named("n").ttl(ttl))),
            ("reducing", job(&out, Reducing::<u64>::named("n", sum))),
            ("reducing-ttl", job(&out, Reducing::<u64>::named("n", sum).ttl(ttl))),
            ("aggregating", job(&out, Aggregating::<u64, u64, u64>::named("n", || 0, sum, |sum| *sum))),
            ("aggregating-ttl", job(&out, Aggregating::<u64, u64, u64>::named("n", || 0, sum, |sum| *sum).ttl(ttl))),
            ("map", job(&out, Map::<u64, u64>::named("n"))),
            ("list", job(&out, List::<u64>::named("n"))),
        ]
    };
    for (was, before) in &kinds() {
        for (is, after) in &kinds() {
            let test = Test::new(before).crash(Crash::AfterCheckpoint(1)).next_version(after);
            let ended = test.interval(Duration::from_millis(2)).run();
            if was == is {
                ended.expect("the same kind");
                continue;
            }
            let error = ended.expect_err(is);
            assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
            let said = error.to_string();
            for part in ["`n`", "`keep`", &format!("`{was}`"), &format!("`{is}`")] {
                assert!(said.contains(part), "{said}");
            }
        }
    }
}
