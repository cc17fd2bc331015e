//! A checkpoint restored by another number of workers goes on as if nothing had happened, again and again.

use super::job::{RECORDS_PER_SPLIT, SPLITS, Shows, expected};
use super::script::{Ending, Run, Setting, play};
use flott_checkpoint::Mode;
use std::collections::BTreeMap;

const SEEDS: u64 = 15;

/// Lives of one job: each but the last dies after its second checkpoint, and the next one has another number of workers.
fn lives(seed: u64, mode: Mode, workers: &[u16]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &number in workers {
        let ending = if runs.len() + 1 == workers.len() { Ending::Finish } else { Ending::Crash };
        let setting = Setting { workers: number, ..Setting::new(mode, Shows::Commits) };
        let from = runs.last().and_then(Run::restore);
        runs.push(play(seed + 1_000 * runs.len() as u64, setting, 2, ending, from));
    }
    runs
}

/// The highest count of each key that any life committed.
fn counts(runs: &[Run]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for (key, count) in runs.iter().flat_map(Run::counts) {
        let highest = counts.entry(key).or_insert(0);
        *highest = count.max(*highest);
    }
    counts
}

fn goes_on(seed: u64, workers: &[u16]) {
    for mode in [Mode::Aligned, Mode::StopTheWorld] {
        let runs = lives(seed, mode, workers);
        assert_eq!(counts(&runs), expected(), "seed {seed}, {mode}, {workers:?}");
        let committed: usize = runs.iter().map(|run| run.committed().len()).sum();
        assert_eq!(committed as u64, SPLITS * RECORDS_PER_SPLIT, "seed {seed}, {mode}, {workers:?}: once each");
    }
}

#[test]
fn any_number_of_workers_goes_on_from_a_checkpoint_of_any_other() {
    for workers in [[1, 2, 1], [2, 1, 3], [1, 4, 3], [3, 7, 2]] {
        (0..SEEDS).for_each(|seed| goes_on(seed, &workers));
    }
}

#[test]
fn many_workers_go_on_from_a_checkpoint_of_few_and_few_from_one_of_many() {
    goes_on(0, &[5, 2, 24]);
    goes_on(0, &[24, 3, 1]);
}

#[test]
fn without_alignment_nothing_is_lost_by_other_workers() {
    for seed in 0..SEEDS {
        let runs = lives(seed, Mode::AtLeastOnce, &[2, 3, 1]);
        let counts = counts(&runs);
        for (key, count) in expected() {
            assert!(counts.get(&key).is_some_and(|counted| *counted >= count), "seed {seed}: key {key}");
        }
    }
}
