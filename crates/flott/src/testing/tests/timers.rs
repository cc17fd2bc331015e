//! Timers of user code fire once each, through crashes, and in their order.

use super::backends;
use crate::Mode;
use crate::prelude::*;
use crate::testing::{Crash, RECORDS_A_STEP, Test};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
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

/// A timer far away for each number, so that all are left when the input ends; counts those that fire, by the step that fired them.
fn left_at_the_end(out: &MemorySink<u64>, numbers: u64, fired: &Fired) -> Job {
    let job = Job::new("left-at-the-end");
    let fired = Arc::clone(fired);
    job.source("numbers", MemorySource::new((0..numbers).collect()))
        .key_by(|n| *n)
        .process_with_timers(
            "left",
            Value::<Time>::named("until"),
            |mut until, n, out| {
                until.set(out.timer_at(Time::of_millis(1 << 40).after(Duration::from_secs(n))));
                Ok(())
            },
            move |mut until, moment, out| {
                assert_eq!(until.get(), Some(&moment), "a timer without its state");
                until.clear();
                fired.lock().unwrap().push((out.now(), *out.key));
                // Nobody would come for this one.
                out.timer_after(Duration::from_secs(1));
                out.emit(*out.key);
                Ok(())
            },
        )
        .sink("out", out.clone());
    job
}

/// The moment of a step, and the key of a timer that fired in it.
type Fired = Arc<Mutex<Vec<(Time, u64)>>>;

#[test]
fn timers_left_at_the_end_fire_in_portions_and_a_crash_between_two_of_them_changes_nothing() {
    const NUMBERS: u64 = 1_500;
    let modes = [Mode::Aligned, Mode::StopTheWorld, Mode::Unaligned, Mode::AlignedThenUnaligned];
    let mut between = 0;
    for (turn, mode) in modes.into_iter().enumerate() {
        for seed in 0..20 {
            let (before, after) = (Fired::default(), Fired::default());
            let out = MemorySink::new();
            let (first, second) = (left_at_the_end(&out, NUMBERS, &before), left_at_the_end(&out, NUMBERS, &after));
            let stores = backends().into_iter().cycle().nth(turn + seed as usize).expect("they go round");
            let test = Test::new(&first).seed(seed).mode(mode).interval(Duration::from_millis(1)).workers(1);
            let test = test.state_in(stores).crash(Crash::AfterCheckpoint(2 + seed % 5)).next_version(&second);
            test.run().unwrap();
            let mut all = out.committed();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..NUMBERS), "seed {seed}, {mode}");
            let (before, after) = (before.lock().unwrap(), after.lock().unwrap());
            for fired in [&before, &after] {
                assert!(fired.is_sorted_by_key(|(_, key)| *key), "seed {seed}, {mode}: out of order");
                let steps = fired.chunk_by(|(one, _), (other, _)| one == other).map(<[_]>::len);
                let most = steps.max().unwrap_or_default();
                assert!(most <= RECORDS_A_STEP as usize, "seed {seed}, {mode}: {most} in one step");
            }
            // The checkpoint lay behind some of them, and before others.
            between += u32::from(!before.is_empty() && (1..NUMBERS as usize).contains(&after.len()));
        }
    }
    assert!(between > 10, "{between} of 80 crashes came between two portions");
}

#[test]
fn timers_left_at_the_end_move_to_other_workers_between_two_portions() {
    const NUMBERS: u64 = 1_500;
    let mut between = 0;
    for seed in 0..30 {
        let (before, after) = (Fired::default(), Fired::default());
        let out = MemorySink::new();
        let (first, second) = (left_at_the_end(&out, NUMBERS, &before), left_at_the_end(&out, NUMBERS, &after));
        let (workers, later) = ([2, 1, 3][seed as usize % 3], [3, 2, 1][seed as usize % 3]);
        let test = Test::new(&first).seed(seed).interval(Duration::from_millis(1)).workers(workers);
        let test = test.crash(Crash::AfterCheckpoint(2 + seed % 5)).workers_after_crash(later).next_version(&second);
        test.run().unwrap();
        let mut all = out.committed();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..NUMBERS), "seed {seed}, {workers} to {later} workers");
        let (before, after) = (before.lock().unwrap().len(), after.lock().unwrap().len());
        between += u32::from(before > 0 && (1..NUMBERS as usize).contains(&after));
    }
    assert!(between > 5, "{between} of 30 crashes came between two portions");
}

#[test]
fn timers_left_at_the_end_respect_the_credit_of_their_output() {
    const NUMBERS: u64 = 2_000;
    const WINDOW: usize = 256;
    let (ahead, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let out = MemorySink::new();
    let job = Job::new("credit");
    job.credit_window(WINDOW);
    let (fired, seen, taken) = (Arc::clone(&ahead), Arc::clone(&most), Arc::clone(&ahead));
    job.source("numbers", MemorySource::new((0..NUMBERS).collect()))
        .key_by(|n| *n)
        .process_with_timers(
            "left",
            Value::<()>::named("none"),
            |_, _, out| {
                out.timer_at(Time::of_millis(1 << 40));
                Ok(())
            },
            move |_, _, out| {
                seen.fetch_max(fired.fetch_add(1, Relaxed) + 1, Relaxed);
                out.emit(*out.key);
                Ok(())
            },
        )
        .rebalance()
        .inspect(move |_| {
            taken.fetch_sub(1, Relaxed);
        })
        .throttle(10_000)
        .sink("out", out.clone());
    Test::new(&job).interval(Duration::from_millis(5)).run().unwrap();
    assert_eq!(out.committed().len() as u64, NUMBERS);
    // Two senders with two channels each; a number weighs eight bytes, and one may overdraw each channel.
    let room = 4 * (WINDOW as i64 / 8 + 1);
    let most = most.load(Relaxed);
    assert!((1..=room).contains(&most), "{most} on the way, and there is room for {room}");
}
