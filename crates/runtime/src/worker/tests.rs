//! Workers on the deterministic host, driven by a script in the place of the job manager: a keyed count over a shuffle, cut,
//! crashed and restored in every mode, in many interleavings.

mod job;
mod rescale;
mod restored_tokens;
mod script;
mod timers;
mod waiting;

use flott_checkpoint::Mode;
use job::{RECORDS_PER_SPLIT, SPLITS, expected};
use script::{Ending, run};
use std::collections::BTreeSet;

const EXACT: [Mode; 4] = [Mode::StopTheWorld, Mode::Aligned, Mode::AlignedThenUnaligned, Mode::Unaligned];
const SEEDS: u64 = 60;

#[test]
fn a_run_without_checkpoints_counts_every_record_once() {
    for seed in 0..SEEDS {
        let run = run(seed, Mode::Aligned, 0, Ending::Finish, None);
        assert_eq!(run.counts(), expected(), "seed {seed}");
    }
}

#[test]
fn a_restore_from_an_exact_cut_continues_as_if_nothing_had_happened() {
    for (seed, mode) in (0..SEEDS).flat_map(|seed| EXACT.map(|mode| (seed, mode))) {
        let first = run(seed, mode, 3, Ending::Crash, None);
        let second = run(seed + 1_000, mode, 1, Ending::Finish, first.restore());
        assert_eq!(second.counts(), expected(), "seed {seed}, {mode}");
        let together: Vec<(u64, u64)> = first.committed().into_iter().chain(second.committed()).collect();
        assert_eq!(together.len() as u64, SPLITS * RECORDS_PER_SPLIT, "seed {seed}, {mode}: committed once each");
    }
}

#[test]
fn a_restore_without_alignment_never_loses_and_sometimes_counts_twice() {
    let mut over = 0;
    for seed in 0..SEEDS {
        let first = run(seed, Mode::AtLeastOnce, 3, Ending::Crash, None);
        let second = run(seed + 1_000, Mode::AtLeastOnce, 1, Ending::Finish, first.restore());
        for (key, count) in expected() {
            let counted = second.counts().get(&key).copied().unwrap_or(0);
            assert!(counted >= count, "seed {seed}: key {key} has {counted} of {count}");
            over += counted - count;
        }
    }
    assert!(over > 0, "no interleaving showed what at-least-once means");
}

#[test]
fn a_stopped_world_holds_no_record_when_its_checkpoint_is_complete() {
    for seed in 0..SEEDS {
        let run = run(seed, Mode::StopTheWorld, 3, Ending::Finish, None);
        assert!(run.cuts > 0 && run.records_in_stopped_world == 0, "seed {seed}");
    }
}

#[test]
fn the_smallest_credit_window_with_frequent_barriers_does_not_deadlock() {
    for (seed, mode) in (0..SEEDS).flat_map(|seed| Mode::ALL.map(|mode| (seed, mode))) {
        let run = script::run_with(seed, mode, 20, Ending::Finish, None, 1);
        assert_eq!(run.counts(), expected(), "seed {seed}, {mode}");
    }
}

#[test]
fn an_aborted_checkpoint_loses_no_output() {
    for (seed, mode) in (0..SEEDS).flat_map(|seed| EXACT.map(|mode| (seed, mode))) {
        let run = script::run_aborting(seed, mode);
        assert_eq!(run.committed().len() as u64, SPLITS * RECORDS_PER_SPLIT, "seed {seed}, {mode}");
        assert_eq!(run.counts(), expected(), "seed {seed}, {mode}");
    }
}

#[test]
fn modes_change_from_one_checkpoint_to_the_next_and_an_exact_one_after_them_is_exact() {
    for (seed, mode) in (0..SEEDS).flat_map(|seed| EXACT.map(|mode| (seed, mode))) {
        let first = script::run_switching(seed, 4, mode, Ending::Crash, None);
        let second = script::run_switching(seed + 1_000, 4, mode, Ending::Finish, first.restore());
        // The first may have committed the last records of a key, or of all.
        let mut counts = first.counts();
        counts.extend(second.counts());
        assert_eq!(counts, expected(), "seed {seed}, {mode}");
    }
}

#[test]
fn what_a_subtask_says_of_its_part_is_what_it_has_done() {
    for mode in Mode::ALL {
        // The script compares what they say with the acks.
        let stages = (0..SEEDS).flat_map(|seed| script::run_asking(seed, mode).stages).collect::<BTreeSet<_>>();
        assert_eq!(stages, BTreeSet::from(["acked", "arriving", "cut"]), "{mode}");
    }
}

#[test]
fn what_is_in_flight_belongs_to_unaligned_cuts_and_to_no_others() {
    for mode in Mode::ALL {
        let captured = (0..SEEDS).map(|seed| run(seed, mode, 3, Ending::Crash, None).captured());
        let with_records = captured.filter(|captured| captured.records > 0).count();
        let some = mode.acts_on_arrival();
        assert_eq!(with_records > 0, some, "{mode}: {with_records} of {SEEDS} runs captured records");
        // An alignment that ends in time captures nothing.
        assert_eq!(with_records < SEEDS as usize, mode != Mode::Unaligned, "{mode}: {with_records} of {SEEDS}");
    }
}

#[test]
fn a_sink_that_shows_its_output_at_once_has_nothing_to_claim_and_holds_nobody_up() {
    for seed in 0..SEEDS {
        let run = script::run_showing(seed, Mode::Aligned);
        assert_eq!(run.counts(), expected(), "seed {seed}");
    }
}
