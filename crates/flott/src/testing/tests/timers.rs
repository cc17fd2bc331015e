//! Timers of user code fire once each, through crashes, and in their order.

use crate::Mode;
use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::time::Duration;

/// Every number waits for a timer of its own; the number, and whether its input had ended when it fired.
fn delayed(out: &MemorySink<(u64, bool)>, numbers: u64, delay: Duration) -> Job {
    let job = Job::new("delayed");
    job.source("numbers", MemorySource::new((0..numbers).collect()))
        .throttle(20_000)
        .key_by(|n| *n)
        .process_with_timers(
            "delay",
            Value::<Time>::named("until"),
            move |mut until, _, out| {
                until.set(out.timer_after(delay));
                // At most one per key and moment.
                out.timer_after(delay);
                Ok(())
            },
            |mut until, moment, out| {
                assert_eq!(until.get(), Some(&moment), "a timer without its state");
                until.clear();
                let early = out.now() < moment;
                out.emit((*out.key, early));
                Ok(())
            },
        )
        .sink("out", out.clone());
    job
}

#[test]
fn every_timer_fires_once_through_crashes() {
    let (mut in_time, mut at_the_end, mut crashes) = (0, 0, 0);
    for mode in [Mode::Aligned, Mode::StopTheWorld, Mode::Unaligned] {
        for seed in 0..15 {
            let out = MemorySink::new();
            let job = delayed(&out, 600, Duration::from_millis(3));
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(4));
            let places =
                [Crash::AfterCheckpoint(1 + seed % 3), Crash::At(Duration::from_millis(seed)), Crash::AtTurn(60)];
            let tested = places.into_iter().fold(test, Test::crash).run().unwrap();
            let mut fired = out.committed();
            fired.sort_unstable();
            assert!(fired.iter().map(|(n, _)| *n).eq(0..600), "seed {seed}, {mode}: {} fired", fired.len());
            at_the_end += fired.iter().filter(|(_, early)| *early).count();
            in_time += fired.iter().filter(|(_, early)| !early).count();
            crashes += tested.crashes;
        }
    }
    assert!(in_time > 0 && at_the_end > 0 && crashes > 30, "{in_time} {at_the_end} {crashes}");
}

#[test]
fn without_exactness_every_timer_fires_at_least_once() {
    for seed in 0..10 {
        let out = MemorySink::new();
        let job = delayed(&out, 400, Duration::from_millis(2));
        let test = Test::new(&job).seed(seed).mode(Mode::AtLeastOnce).interval(Duration::from_millis(2));
        test.crash(Crash::AfterCheckpoint(2)).run().unwrap();
        let mut fired: Vec<u64> = out.committed().into_iter().map(|(n, _)| n).collect();
        fired.sort_unstable();
        fired.dedup();
        assert!(fired.into_iter().eq(0..400), "seed {seed}");
    }
}

#[test]
fn a_deleted_timer_does_not_fire_and_a_moment_that_has_passed_fires_at_once() {
    let out = MemorySink::new();
    let job = Job::new("deleted");
    job.source("numbers", MemorySource::new((0..100u64).collect()))
        .throttle(10_000)
        .key_by(|n| n % 10)
        .process_with_timers(
            "last",
            Value::<Time>::named("alarm"),
            |mut alarm, _, out| {
                if let Some(old) = alarm.get() {
                    assert!(out.delete_timer(*old));
                    assert!(!out.delete_timer(*old), "deleted twice");
                } else {
                    out.timer_at(Time(0));
                }
                alarm.set(out.timer_after(Duration::from_secs(1)));
                Ok(())
            },
            |alarm, moment, out| {
                out.emit((*out.key, moment == Time(0), alarm.get() == Some(&moment)));
                Ok(())
            },
        )
        .sink("out", out.clone());
    let tested = Test::new(&job).run().unwrap();
    let mut fired = out.committed();
    fired.sort_unstable();
    let expected: Vec<_> = (0..10).flat_map(|key| [(key, false, true), (key, true, false)]).collect();
    assert_eq!(fired, expected);
    assert!(tested.time < Duration::from_secs(1), "the end of the input waited for timers: {:?}", tested.time);
}

#[test]
fn a_timer_that_sets_itself_again_does_so_until_the_input_ends() {
    let out = MemorySink::new();
    let job = Job::new("ticks");
    job.source("numbers", MemorySource::new((0..300u64).collect()))
        .throttle(10_000)
        .key_by(|_| ())
        .process_with_timers(
            "tick",
            Value::<u64>::named("ticks"),
            |ticks, _, out| {
                if ticks.get().is_none() {
                    out.timer_after(Duration::from_millis(1));
                }
                Ok(())
            },
            |mut ticks, moment, out| {
                ticks.update(|| 0, |ticks| *ticks += 1);
                out.timer_after(Duration::from_millis(1));
                out.emit(moment);
                Ok(())
            },
        )
        .sink("out", out.clone());
    let tested =
        Test::new(&job).workers(1).interval(Duration::from_millis(3)).crash(Crash::AfterCheckpoint(3)).run().unwrap();
    let ticks = out.committed();
    assert!(ticks.len() > 10, "{} ticks in {:?}", ticks.len(), tested.time);
    assert!(ticks.is_sorted_by(|a, b| a < b), "out of order: {ticks:?}");
}
