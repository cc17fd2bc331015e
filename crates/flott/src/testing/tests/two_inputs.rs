//! An operator of two inputs shares its state between them, exactly, through crashes.

use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::time::Duration;

/// Joins each left record with the right record of the same key, whichever comes first.
fn joined(out: &MemorySink<(u64, String)>, with_timers: bool) -> Job {
    let job = Job::new("joined");
    let left = job.source("left", MemorySource::with_splits(vec![(0..500u64).collect(), (500..1_000).collect()]));
    let right =
        job.source("right", MemorySource::new((0..1_000u64).rev().map(|n| (n, format!("right {n}"))).collect()));
    let both = left.key_by(|n| *n).connect(right.throttle(50_000).key_by(|(n, _)| *n));
    let state = (Value::<u64>::named("left"), Value::<String>::named("right"));
    let stream = if with_timers {
        both.process_with_timers(
            "join",
            state,
            |(mut left, _), n, out| {
                left.set(n);
                out.timer_after(Duration::from_millis(20));
                Ok(())
            },
            |(_, mut right), (_, text), out| {
                right.set(text);
                out.timer_after(Duration::from_millis(20));
                Ok(())
            },
            |(mut left, mut right), _, out| {
                if let (Some(n), Some(text)) = (left.get().copied(), right.get().cloned()) {
                    left.clear();
                    right.clear();
                    out.emit((n, text));
                }
                Ok(())
            },
        )
    } else {
        both.process(
            "join",
            state,
            |(mut left, mut right), n, out| {
                match right.get().cloned() {
                    Some(text) => out.emit((n, text)),
                    None => left.set(n),
                }
                right.clear();
                Ok(())
            },
            |(mut left, mut right), (_, text), out| {
                match left.get().copied() {
                    Some(n) => out.emit((n, text)),
                    None => right.set(text),
                }
                left.clear();
                Ok(())
            },
        )
    };
    stream.sink("out", out.clone());
    job
}

#[test]
fn both_inputs_share_one_state_exactly_through_crashes() {
    for with_timers in [false, true] {
        for seed in 0..12 {
            let out = MemorySink::new();
            let job = joined(&out, with_timers);
            let mode = if seed % 2 == 0 { crate::Mode::Aligned } else { crate::Mode::Unaligned };
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(3));
            let tested = test.crash(Crash::AfterCheckpoint(1)).crash(Crash::AtTurn(90 + seed)).run().unwrap();
            let mut all = out.committed();
            all.sort_unstable();
            let expected: Vec<_> = (0..1_000).map(|n| (n, format!("right {n}"))).collect();
            assert_eq!(all, expected, "seed {seed}, timers {with_timers}: {tested:?}");
            assert_eq!(tested.crashes, 2, "seed {seed}");
        }
    }
}

#[test]
fn an_error_names_operator_and_input() {
    let job = Job::new("failing");
    let left = job.source("left", MemorySource::new(vec![1u64]));
    let right = job.source("right", MemorySource::new(vec![2u64]));
    left.key_by(|n| *n)
        .connect(right.key_by(|n| *n))
        .process(
            "pair",
            Value::<u64>::named("n"),
            |_, n: u64, out| {
                out.emit(n);
                Ok(())
            },
            |_, _, _| Err("two is too much".into()),
        )
        .sink("out", MemorySink::new());
    let error = Test::new(&job).without_checkpoints().run().unwrap_err().to_string();
    assert!(error.contains("operator `pair`") && error.contains("record 1 of input 1"), "{error}");
}

#[test]
fn streams_of_two_jobs_cannot_be_connected() {
    let (job, other) = (Job::new("one"), Job::new("other"));
    let left = job.source("left", MemorySource::new(vec![1u64])).key_by(|n| *n);
    let right = other.source("right", MemorySource::new(vec![1u64])).key_by(|n| *n);
    let pair = left.connect(right).process(
        "pair",
        Value::<u64>::named("n"),
        |_, n: u64, out| {
            out.emit(n);
            Ok(())
        },
        |_, _, _| Ok(()),
    );
    pair.sink("out", MemorySink::new());
    let error = Test::new(&job).run().unwrap_err().to_string();
    assert!(error.contains("`pair` connects streams of two jobs"), "{error}");
}

/// Counts rules everywhere; every number comes out with the rules that its worker had.
fn ruled(out: &MemorySink<(u64, u64, u64)>) -> Job {
    let job = Job::new("ruled");
    let rules = job.source("rules", MemorySource::with_splits(vec![(0..100u64).collect(), (100..200).collect()]));
    let numbers = job.source("numbers", MemorySource::new((0..600u64).collect())).throttle(10_000);
    numbers
        .key_by(|n| n % 8)
        .connect_broadcast(rules.throttle(20_000))
        .process(
            "rule",
            Value::<u64>::named("seen"),
            Map::<u64, u64>::named("rules"),
            |mut seen, rules, n, out| {
                seen.update(|| 0, |seen| *seen += 1);
                let mut sum = 0;
                rules.for_each(|_, count| sum += count);
                out.emit((n % 8, n, sum));
                Ok(())
            },
            |rules, rule| {
                rules.update(rule % 7, || 0, |count| *count += 1);
                Ok(())
            },
        )
        .sink("out", out.clone());
    job
}

#[test]
fn every_worker_gets_every_rule_once_through_crashes() {
    let mut restored = 0;
    for mode in [crate::Mode::Aligned, crate::Mode::StopTheWorld, crate::Mode::Unaligned] {
        for seed in 0..10 {
            let out = MemorySink::new();
            let job = ruled(&out);
            let test = Test::new(&job).seed(seed).mode(mode).workers(3).interval(Duration::from_millis(4));
            let tested = test.crash(Crash::AfterCheckpoint(1 + seed % 2)).crash(Crash::AtTurn(200)).run().unwrap();
            restored += tested.restored.len();
            let mut all = out.committed();
            all.sort_unstable();
            assert_eq!(all.len(), 600, "seed {seed}, {mode}");
            for of_key in all.chunk_by(|a, b| a.0 == b.0) {
                assert!(of_key.is_sorted_by_key(|row| row.2), "seed {seed}, {mode}: a rule was forgotten");
                // The numbers take six times as long as the rules.
                assert_eq!(of_key.last().map(|row| row.2), Some(200), "seed {seed}, {mode}, key {}", of_key[0].0);
            }
        }
    }
    assert!(restored >= 20, "{restored}");
}
