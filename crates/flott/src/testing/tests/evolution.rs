//! Types may change between two versions of a job as far as serde can read what was stored; what it cannot read is refused before
//! any record, and everything is named that one needs to know.

use super::backends;
use crate::prelude::*;
use crate::testing::{Crash, Test, Tested};
use crate::{ErrorKind, State};
use flott_runtime::record::Record;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const NUMBERS: u64 = 800;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Old {
    count: u64,
    total: u64,
    dropped: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct New {
    /// It was there under another name.
    #[serde(alias = "total")]
    sum: u64,
    count: u64,
    #[serde(default)]
    added: Option<String>,
}

/// Key, count, sum.
type Row = (u64, u64, u64);

macro_rules! version {
    ($name:ident, $type:ty, $new:expr, $sum:ident) => {
        fn $name(out: &MemorySink<Row>) -> Job {
            let job = Job::new("evolving");
            let state = (
                Value::<$type>::named("kept"),
                Map::<u64, $type>::named("by digit"),
                List::<$type>::named("all"),
                Aggregating::<u64, $type, u64>::named(
                    "folded",
                    || $new,
                    |kept, n| (kept.count += 1, kept.$sum += n).0,
                    |kept| kept.count,
                ),
            );
            job.source("numbers", MemorySource::new((0..NUMBERS).collect()))
                .throttle(20_000)
                .key_by(|n| n % 10)
                .process("keep", state, |(mut kept, mut by_digit, mut all, mut folded), n, out| {
                    let change = |kept: &mut $type| {
                        kept.count += 1;
                        kept.$sum += n;
                        (kept.count, kept.$sum)
                    };
                    let (count, sum) = kept.update(|| $new, change);
                    by_digit.update(n / 10 % 3, || $new, change);
                    let mut element = $new;
                    change(&mut element);
                    all.push(element);
                    folded.add(n);
                    // All kinds say the same of the key.
                    let entries = by_digit.entries();
                    assert_eq!(entries.iter().map(|(_, kept)| (kept.count, kept.$sum)).fold((0, 0), add), (count, sum));
                    assert_eq!(
                        all.read(|all| all.iter().map(|kept| (kept.count, kept.$sum)).fold((0, 0), add)),
                        (count, sum)
                    );
                    assert_eq!(folded.get(), Some(count));
                    out.emit((*out.key, count, sum));
                    Ok(())
                })
                .sink("out", out.clone());
            job
        }
    };
}

fn add(all: (u64, u64), one: (u64, u64)) -> (u64, u64) {
    (all.0 + one.0, all.1 + one.1)
}

version!(old, Old, Old { count: 0, total: 0, dropped: vec![1, 2, 3] }, total);
version!(new, New, New { count: 0, sum: 0, added: None }, sum);

fn expected() -> Vec<Row> {
    let mut kept = [(0, 0); 10];
    let row = |n: u64| {
        let of_key = &mut kept[(n % 10) as usize];
        *of_key = add(*of_key, (1, n));
        (n % 10, of_key.0, of_key.1)
    };
    let mut all: Vec<Row> = (0..NUMBERS).map(row).collect();
    all.sort_unstable();
    all
}

#[test]
fn fields_are_added_removed_and_renamed_without_loss_through_crash_rescale_and_savepoint() {
    for (seed, stores) in (0..6).flat_map(|seed| backends().into_iter().map(move |stores| (seed, stores))) {
        let out = MemorySink::new();
        let (old, new) = (old(&out), new(&out));
        let test = Test::new(&old).seed(seed).interval(Duration::from_millis(3)).state_in(stores).next_version(&new);
        // The second crash goes back to what the new version has written on top of the old one.
        let test = match seed % 3 {
            0 => test.crash(Crash::AfterCheckpoint(2)).crash(Crash::AfterCheckpoint(2)),
            1 => test.crash(Crash::AfterCheckpoint(2)).workers_after_crash(3).crash(Crash::AfterCheckpoint(2)),
            _ => test.move_by_savepoint(2),
        };
        let tested = test.run().unwrap();
        assert!(!tested.restored.is_empty());
        let mut rows = out.committed();
        rows.sort_unstable();
        assert_eq!(rows, expected(), "seed {seed}: {tested:?}");
    }
}

/// A job that keeps what it is told to keep, and says so when it gets a record.
fn keeping<S: State, K: flott_runtime::key::Key>(
    out: &MemorySink<u64>,
    key: fn(&u64) -> K,
    state: S,
    keep: impl for<'a> Fn(S::At<'a, K>, u64) + Send + Sync + 'static,
) -> Job {
    let job = Job::new("keeping");
    job.source("numbers", MemorySource::new((0..400u64).collect()))
        .throttle(20_000)
        .key_by(key)
        .process("keep", state, move |state, n, out| {
            keep(state, n);
            out.emit(n);
            Ok(())
        })
        .sink("out", out.clone());
    job
}

fn change(before: &Job, after: &Job, turn: usize) -> crate::Result<Tested> {
    let test = Test::new(before).interval(Duration::from_millis(2)).next_version(after);
    let test = test.state_in(backends().into_iter().nth(turn).expect("there are several"));
    if turn.is_multiple_of(2) {
        test.crash(Crash::AfterCheckpoint(2)).workers_after_crash(3).run()
    } else {
        test.move_by_savepoint(2).run()
    }
}

fn came() {
    panic!("a record came");
}

#[test]
fn a_type_that_does_not_fit_is_refused_before_any_record_with_operator_state_key_and_both_types() {
    let key = |n: &u64| format!("key-{}", n % 3);

    for turn in 0..backends().len() {
        let out = MemorySink::new();
        let refused = [
            (
                keeping(&out, key, Value::<u64>::named("kept"), |mut kept, n| kept.set(n)),
                keeping(&out, key, Value::<String>::named("kept"), |_, _| came()),
                ("u64", "string"),
            ),
            (
                keeping(&out, key, Map::<u64, u64>::named("kept"), |mut kept, n| kept.insert(n % 4, n)),
                keeping(&out, key, Map::<u64, (u64, u64)>::named("kept"), |_, _| came()),
                ("map<u64,u64>", "map<u64,(u64,u64)>"),
            ),
            (
                keeping(&out, key, List::<Old>::named("kept"), |mut kept, n| {
                    kept.push(Old { count: n, total: n, dropped: vec![] });
                }),
                keeping(&out, key, List::<u64>::named("kept"), |_, _| came()),
                ("seq<{count:u64,total:u64,dropped:seq<?>}>", "seq<u64>"),
            ),
        ];
        for (before, after, (stored, declared)) in &refused {
            let error = change(before, after, turn).expect_err("another type");
            assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
            let said = error.to_string();
            for part in ["`keep`", "keep/kept", "\"key-", stored, declared, "serde(default)"] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
    }
}

#[test]
fn a_key_type_cannot_change_not_even_to_one_that_reads_the_same() {
    fn of<K: flott_runtime::key::Key + Record + Sync>(out: &MemorySink<u64>, key: fn(&u64) -> K) -> Job {
        keeping(out, key, Value::<u64>::named("kept"), |mut kept, n| kept.set(n))
    }
    let out = MemorySink::new();
    for (turn, before, after, types) in [
        (0, of(&out, |n| n % 5), of(&out, |n| (n % 5) as u32), ("u64", "u32")),
        (1, of(&out, |n| n % 5), of(&out, |n| (n % 5).to_string()), ("u64", "string")),
        (0, of(&out, |n| (n % 5, n % 2)), of(&out, |n| n % 5), ("(u64,u64)", "u64")),
    ] {
        let error = change(&before, &after, turn).expect_err("another key type");
        assert_eq!(error.kind(), ErrorKind::Unusable);
        let said = error.to_string();
        for part in ["key type", "`kept`", "`keep`", types.0, types.1] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
