//! Every broken rule is noticed, and within how many seeds.

#![cfg(feature = "mutations")]

use flott_sim::campaign::{SEEDS_TO_NOTICE, run_seeds};
use flott_sim::mutation::Mutation;

fn is_noticed(mutation: Mutation) {
    let summary = run_seeds(0, SEEDS_TO_NOTICE, Some(mutation), |_, _| ());
    let failure = summary.failures.first();
    assert!(failure.is_some(), "{mutation} was not noticed in {} seeds", summary.seeds);
}

macro_rules! noticed {
    ($($test:ident: $mutation:ident,)*) => {
        $(
            #[test]
            fn $test() {
                is_noticed(Mutation::$mutation);
            }
        )*

        #[test]
        fn every_mutation_has_a_test() {
            let tested = [$(Mutation::$mutation),*];
            assert!(Mutation::ALL.iter().all(|mutation| tested.contains(mutation)));
        }
    };
}

noticed! {
    a_channel_that_is_not_blocked_is_noticed: UnblockedChannel,
    a_finished_subtask_that_falls_silent_is_noticed: FinishedIsSilent,
    a_resolution_that_is_lost_downstream_is_noticed: ResolvedLostDownstream,
    a_restore_that_trusts_the_receivers_end_is_noticed: RestoreTrustsReceiversEnd,
    an_ack_before_the_upload_is_noticed: AckBeforeUpload,
    a_commit_before_the_log_is_noticed: CommitBeforeLog,
    a_stale_barrier_that_is_obeyed_is_noticed: StaleBarrier,
    a_skipped_old_value_is_noticed: SkipPreimage,
    a_store_without_a_fence_is_noticed: NoFence,
    an_abort_that_discards_output_is_noticed: AbortDiscards,
    a_start_in_a_hole_is_noticed: HoleStart,
    a_full_snapshot_without_what_was_restored_is_noticed: FullSkipsRestored,
    records_in_flight_that_are_not_captured_are_noticed: CaptureForgotten,
    a_collector_that_leaves_orphans_is_noticed: OrphansStay,
    tokens_of_one_writer_with_several_owners_are_noticed: TokensScattered,
    parts_that_outlive_a_barrier_are_noticed: PartsOutliveBarrier,
    restored_timers_that_sleep_are_noticed: TimersAsleep,
    key_groups_that_a_restore_by_other_workers_leaves_behind_are_noticed: GroupsLeftBehind,
}
