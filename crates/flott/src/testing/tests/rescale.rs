//! A job that crashes and goes on with another number of workers, again and again, gives the output of an undisturbed run: with
//! every kind of state, timers and copies.

use crate::prelude::*;
use crate::testing::{Crash, Test};
use crate::{ErrorKind, Mode};
use std::collections::BTreeMap;
use std::time::Duration;

const NUMBERS: u64 = 1_500;
const KEYS: u64 = 40;
const RULES: u64 = 60;

/// Key, what comes out, number.
type Row = (u64, String, u64);

/// Values, maps, lists and timers behind one shuffle, and a fold behind a second one.
fn keeping(out: &MemorySink<Row>) -> Job {
    let job = Job::new("keeping");
    let splits = (0..5).map(|split| (0..NUMBERS / 5).map(|n| n * 5 + split).collect()).collect();
    let state = (
        Value::<u64>::named("sum"),
        Map::<u64, u64>::named("by digit"),
        List::<u64>::named("all"),
        Value::<u64>::named("lasting").ttl(Duration::from_secs(3_600)),
    );
    job.source("numbers", MemorySource::with_splits(splits))
        .throttle(30_000)
        .key_by(|n| n % KEYS)
        .process_with_timers(
            "keep",
            state,
            |(mut sum, mut digits, mut all, mut lasting), n, out| {
                sum.update(|| 0, |sum| *sum += n);
                digits.update(n % 10, || 0, |count| *count += 1);
                all.push(n);
                lasting.update(|| 0, |count| *count += 1);
                // One a number. Some are due while there is input, most when it ends.
                out.timer_at(Time(n * 1_000));
                Ok(())
            },
            |(sum, digits, mut all, lasting), moment, out| {
                let n = moment.millis();
                // The last one of a key says all that was kept of it.
                if n >= NUMBERS - KEYS {
                    let mut numbers = all.take();
                    numbers.sort_unstable();
                    let mut digits = digits.entries();
                    digits.sort_unstable();
                    let kept = (sum.get().copied(), digits, numbers, lasting.get().copied());
                    out.emit((*out.key, format!("{kept:?}"), n));
                } else {
                    out.emit((*out.key, "fired".to_owned(), n));
                }
                Ok(())
            },
        )
        .sink("out", out.clone());
    job
}

fn rows(out: &MemorySink<Row>) -> Vec<Row> {
    let mut rows = out.committed();
    rows.sort_unstable();
    rows
}

#[test]
fn all_state_and_timers_go_from_one_worker_to_four_to_three_to_one() {
    let undisturbed = MemorySink::new();
    Test::new(&keeping(&undisturbed)).run().unwrap();
    let expected = rows(&undisturbed);
    assert_eq!(expected.len() as u64, NUMBERS);
    assert_eq!(expected.iter().filter(|row| row.1 != "fired").count() as u64, KEYS);
    let mut restored = 0;
    for mode in [Mode::Aligned, Mode::StopTheWorld] {
        for seed in 0..8 {
            let out = MemorySink::new();
            let job = keeping(&out);
            let test = Test::new(&job).seed(seed).mode(mode).workers(1).interval(Duration::from_millis(3));
            // The second of them has recorded nothing: its successor restores what was taken by one worker.
            let crashes = [
                Crash::AfterCheckpoint(2),
                Crash::AtTurn(40 + seed),
                Crash::AfterCheckpoint(1 + seed % 3),
                Crash::AfterCheckpoint(2),
            ];
            let test = crashes.into_iter().fold(test, Test::crash);
            let tested = [2, 4, 3, 1].into_iter().fold(test, Test::workers_after_crash).run().unwrap();
            assert_eq!(rows(&out), expected, "seed {seed}, {mode}: {tested:?}");
            restored += tested.restored.len();
        }
    }
    assert!(restored >= 48, "{restored}");
}

/// Every number comes out with the rules that its worker had; the rules are there before most numbers.
fn ruled(out: &MemorySink<Row>) -> Job {
    let job = Job::new("ruled");
    let rules = job.source("rules", MemorySource::new((0..RULES).collect::<Vec<u64>>()));
    let numbers = job.source("numbers", MemorySource::new((0..600u64).collect())).throttle(10_000);
    numbers
        .key_by(|n| n % KEYS)
        .connect_broadcast(rules)
        .process(
            "rule",
            Value::<u64>::named("seen"),
            Map::<u64, u64>::named("rules"),
            |mut seen, rules, n, out| {
                seen.update(|| 0, |seen| *seen += 1);
                let mut all = rules.entries();
                all.sort_unstable();
                out.emit((n % KEYS, format!("{all:?}"), n));
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
fn every_one_of_any_number_of_workers_has_a_copy_of_what_was_broadcast() {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    (0..RULES).for_each(|rule| *counts.entry(rule % 7).or_default() += 1);
    let whole = format!("{:?}", counts.into_iter().collect::<Vec<_>>());
    for seed in 0..10 {
        let out = MemorySink::new();
        let job = ruled(&out);
        let test = Test::new(&job).seed(seed).workers(2).interval(Duration::from_millis(5));
        let crashes = [Crash::AfterCheckpoint(3), Crash::AfterCheckpoint(2), Crash::AfterCheckpoint(2)];
        let test = crashes.into_iter().fold(test, Test::crash);
        let tested = [5, 1, 3].into_iter().fold(test, Test::workers_after_crash).run().unwrap();
        let rows = rows(&out);
        assert_eq!(rows.len(), 600, "seed {seed}: {tested:?}");
        // The rules are all there long before the second half of the numbers.
        let late: Vec<&Row> = rows.iter().filter(|row| row.2 >= 300).collect();
        let wrong = late.iter().find(|row| row.1 != whole);
        assert_eq!(wrong, None, "seed {seed}: {tested:?}");
        assert_eq!(tested.crashes, 3, "seed {seed}");
    }
}

#[test]
fn what_was_in_flight_is_not_restored_by_other_workers() {
    let error = (1..20)
        .map(|checkpoints| {
            let out = MemorySink::new();
            let job = keeping(&out);
            let test = Test::new(&job).mode(Mode::Unaligned).interval(Duration::from_millis(1)).workers(2);
            test.crash(Crash::AfterCheckpoint(checkpoints)).workers_after_crash(3).run()
        })
        .find_map(Result::err)
        .expect("some checkpoint holds records in flight");
    assert_eq!(error.kind(), ErrorKind::Unusable);
    let said = error.to_string();
    for part in ["2 workers", "in flight", "restored with 3", "--workers 2", "--checkpoint-mode aligned"] {
        assert!(said.contains(part), "{said}");
    }
}
