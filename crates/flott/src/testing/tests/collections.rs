//! Maps and lists are as exact as values.

use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::collections::BTreeMap;
use std::time::Duration;

type Basket = (u64, Vec<(u64, u64)>, Vec<u64>);

/// Every twentieth number of a key gives out its map, sorted, and its list, and clears both.
fn gathering(out: &MemorySink<Basket>) -> Job {
    let job = Job::new("gathering");
    let state = (Map::<u64, u64>::named("counts"), List::<u64>::named("numbers"));
    job.source("numbers", MemorySource::new((0..2_400u64).collect()))
        .key_by(|n| n % 6)
        .process("gather", state, |(mut counts, mut numbers), n, out| {
            counts.update(n % 7, || 0, |count| *count += 1);
            counts.insert(100, n);
            if n % 5 == 0 {
                counts.remove(&3);
            }
            numbers.push(n);
            if numbers.len() == 20 {
                let mut entries = counts.entries();
                entries.sort_unstable();
                assert_eq!(counts.get(&100), Some(n));
                assert!(!counts.contains(&99) && !counts.is_empty());
                out.emit((*out.key, entries, numbers.take()));
                counts.clear();
                assert!(counts.is_empty() && numbers.is_empty());
            }
            Ok(())
        })
        .sink("out", out.clone());
    job
}

fn expected() -> Vec<Basket> {
    let mut all = Vec::new();
    for key in 0..6 {
        let (mut counts, mut numbers) = (BTreeMap::new(), Vec::new());
        for n in (0..2_400u64).filter(|n| n % 6 == key) {
            *counts.entry(n % 7).or_insert(0) += 1;
            counts.insert(100, n);
            if n % 5 == 0 {
                counts.remove(&3);
            }
            numbers.push(n);
            if numbers.len() == 20 {
                all.push((key, std::mem::take(&mut counts).into_iter().collect(), std::mem::take(&mut numbers)));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn maps_and_lists_are_exact_through_crashes() {
    let mut restored = 0;
    for mode in [crate::Mode::Aligned, crate::Mode::StopTheWorld, crate::Mode::Unaligned] {
        for seed in 0..12 {
            let out = MemorySink::new();
            let job = gathering(&out);
            let test = Test::new(&job).seed(seed).mode(mode).interval(Duration::from_millis(2));
            let crashes = [Crash::AfterCheckpoint(1 + seed % 3), Crash::AtTurn(80 + seed), Crash::AfterCheckpoint(1)];
            let tested = crashes.into_iter().fold(test, Test::crash).run().unwrap();
            let mut all = out.committed();
            all.sort_unstable();
            assert_eq!(all, expected(), "seed {seed}, {mode}: {tested:?}");
            restored += tested.restored.len();
        }
    }
    assert!(restored > 48, "{restored}");
}

#[test]
fn a_map_with_user_keys_that_cannot_be_hashed_is_refused_before_anything_runs() {
    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    struct Place {
        degrees: f64,
    }
    impl PartialEq for Place {
        fn eq(&self, other: &Self) -> bool {
            self.degrees.to_bits() == other.degrees.to_bits()
        }
    }
    impl Eq for Place {}
    let job = Job::new("refused");
    job.source("numbers", MemorySource::new(vec![1u64]))
        .key_by(|n| *n)
        .process("places", Map::<Place, u64>::named("places"), |_, n: u64, out| {
            out.emit(n);
            Ok(())
        })
        .sink("out", MemorySink::new());
    let error = Test::new(&job).without_checkpoints().run().unwrap_err().to_string();
    assert!(error.contains("`places`") && error.contains("no float"), "{error}");
}
