//! One test for each rule of the coordinator.

use super::*;

fn every_second() -> Options {
    Options { timeout: Duration::from_secs(10), tolerable_failures: 2, ..Options::default() }
}

fn by_hand() -> Options {
    Options { interval: None, ..every_second() }
}

fn id(n: u64) -> CheckpointId {
    CheckpointId(n)
}

#[test]
fn the_first_trigger_comes_after_one_interval_and_goes_to_the_sources_alone() {
    let mut bench = Bench::new(every_second());
    bench.tick(0);
    assert_eq!(bench.wake, Some(1000));
    bench.tick(999);
    assert!(bench.triggers.is_empty());
    bench.tick(1000);
    assert_eq!(bench.triggers, [(SOURCE, bench.barrier())]);
    assert_eq!((bench.barrier().id, bench.barrier().base), (id(10), Some(id(9))));
}

#[test]
fn one_is_pending_and_an_overdue_interval_follows_at_once_but_never_in_a_burst() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.tick(4500);
    assert_eq!(bench.barrier().id, id(10));
    bench.complete();
    assert_eq!((bench.barrier().id, bench.barrier().triggered_at), (id(11), 4500));
    bench.complete();
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(5499);
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(5500);
    assert_eq!(bench.barrier().id, id(12));
}

#[test]
fn the_minimum_pause_counts_from_the_last_completion_and_only_periodic_triggers_obey_it() {
    let mut bench = Bench::new(Options { min_pause: Duration::from_secs(5), ..every_second() });
    bench.tick(1000);
    bench.tick(3000);
    bench.complete();
    assert_eq!(bench.wake, Some(8000));
    bench.tick(7999);
    assert_eq!(bench.coordinator.pending(), None);
    bench.on(Event::Trigger { request: RequestId(1), full: false });
    assert_eq!(bench.complete(), id(11));
    assert_eq!(bench.answers, [(1, Ok(id(11)))]);
    bench.tick(12_998);
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(12_999);
    assert_eq!(bench.barrier().id, id(12));
}

#[test]
fn a_stopped_world_runs_at_least_as_long_as_it_stood_still() {
    let mut bench = Bench::new(Options { mode: crate::Mode::StopTheWorld, ..every_second() });
    bench.tick(1000);
    bench.tick(4000);
    bench.complete();
    assert_eq!(bench.wake, Some(7000));
    bench.tick(6999);
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(7000);
    assert_eq!(bench.barrier().id, id(11));
}

#[test]
fn a_trigger_is_repeated_to_the_sources_that_did_not_take_it() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.tick(2000);
    assert_eq!(bench.triggers.len(), 2);
    bench.on(Event::TriggerTaken { subtask: SOURCE, attempt: ATTEMPT, id: id(10) });
    bench.tick(3000);
    assert_eq!(bench.triggers.len(), 2);
    assert_eq!(bench.wake, Some(11_000), "only the timeout is left to wait for");
}

#[test]
fn it_records_when_every_part_is_there_once_in_the_order_of_the_subtasks() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.ack(SINK);
    bench.ack(SINK);
    assert!(bench.records.is_empty());
    bench.now = 1200;
    bench.ack(SOURCE);
    let record = bench.records.first().expect("all parts are there");
    assert_eq!(record.parts.iter().map(|part| (part.subtask, part.part)).collect::<Vec<_>>(), [(SOURCE, 0), (SINK, 1)]);
    assert_eq!((record.parent, record.bytes(), record.acked_at), (Some(id(9)), 14, 1200));
    assert!(!record.full && !record.finished);
    assert!(bench.resolved.is_empty(), "nothing is resolved before it is in the log");
    assert_eq!(bench.coordinator.dropped().repeated, 1);
}

#[test]
fn while_it_is_being_recorded_nothing_is_aborted_or_triggered() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.ack_all();
    bench.on(Event::Declined { subtask: SINK, attempt: ATTEMPT, id: id(10), reason: String::new() });
    bench.on(Event::Trigger { request: RequestId(1), full: false });
    bench.tick(1_000_000);
    assert_eq!(bench.barrier().id, id(10));
    assert!(bench.notes.is_empty() && bench.resolved.is_empty() && bench.failure.is_none());
    bench.on(Event::Recorded { id: id(10) });
    assert!(matches!(bench.last_outcome(), Outcome::Completed { .. }));
    assert_eq!(bench.barrier().id, id(11));
}

#[test]
fn late_foreign_and_unknown_messages_are_dropped_and_counted() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.decline();
    bench.on(ack_of(SOURCE, id(10), None, false));
    bench.on(ack_of(SOURCE, id(9), None, false));
    bench.on(ack_of(SOURCE, id(11), None, false));
    bench.on(ack_of(SubtaskId { vertex: 7, index: 0 }, id(10), None, false));
    bench.on(Event::Finished { subtask: SOURCE, attempt: AttemptId(3) });
    bench.on(Event::CommitDone { subtask: SOURCE, attempt: ATTEMPT, id: id(10) });
    let dropped = bench.coordinator.dropped();
    assert_eq!((dropped.late, dropped.foreign, dropped.repeated), (1, 5, 0));
    assert!(bench.records.is_empty());
}

#[test]
fn a_decline_aborts_with_subtask_and_reason_and_everybody_hears_it_until_it_is_acknowledged() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    let declined = Event::Declined { subtask: SINK, attempt: ATTEMPT, id: id(10), reason: "disk full".to_owned() };
    bench.on(declined);
    assert_eq!(bench.resolved, [(SOURCE, id(10), false), (SINK, id(10), false)]);
    let reason = AbortReason::Declined { subtask: SINK, reason: "disk full".to_owned() };
    assert_eq!(bench.last_outcome(), &Outcome::Aborted(reason));
    bench.on(Event::ResolvedAcked { subtask: SINK, attempt: ATTEMPT, id: id(10) });
    bench.resolved.clear();
    bench.tick(2000);
    assert_eq!(bench.resolved, [(SOURCE, id(10), false)]);
}

#[test]
fn a_part_on_a_base_that_was_not_named_aborts_and_a_full_part_never_does() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.on(ack_of(SOURCE, id(10), None, false));
    bench.on(ack_of(SINK, id(10), Some(id(8)), false));
    let reason = AbortReason::WrongBase { subtask: SINK, named: Some(id(9)), used: Some(id(8)) };
    assert_eq!(bench.last_outcome(), &Outcome::Aborted(reason));
}

#[test]
fn a_checkpoint_of_which_every_part_is_full_is_full() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.on(ack_of(SOURCE, id(10), None, false));
    bench.on(ack_of(SINK, id(10), None, false));
    assert!(bench.records.first().is_some_and(|record| record.full));
}

#[test]
fn expiry_names_who_is_missing_and_more_failures_in_a_row_than_tolerated_end_the_job() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.on(ack_of(SOURCE, id(10), None, false));
    bench.tick(11_000);
    let reason = AbortReason::Expired { untaken: Vec::new(), missing: vec![SINK] };
    assert_eq!(bench.last_outcome(), &Outcome::Aborted(reason));
    bench.decline();
    assert_eq!((bench.coordinator.failures(), bench.failure.clone()), (2, None));
    bench.tick(12_000);
    bench.complete();
    assert_eq!(bench.coordinator.failures(), 0, "a completed one forgives");
    for now in [13_000, 14_000, 15_000] {
        assert_eq!(bench.failure, None);
        bench.tick(now);
        bench.decline();
    }
    assert!(matches!(bench.failure, Some(JobFailure::TooManyFailures { failures: 3, .. })));
    assert!(bench.coordinator.is_over());
}

#[test]
fn a_failed_savepoint_is_no_failure_of_the_job() {
    let mut bench = Bench::new(by_hand());
    for request in 0..5 {
        bench.on(Event::Savepoint { request: RequestId(request) });
        bench.decline();
    }
    assert_eq!((bench.coordinator.failures(), bench.failure.clone()), (0, None));
    assert!(bench.answers.iter().all(|(_, result)| result.is_err()) && bench.answers.len() == 5);
}

#[test]
fn a_savepoint_holds_no_records_in_flight_and_every_other_checkpoint_is_as_the_job_is() {
    for mode in Mode::ALL {
        let mut bench = Bench::new(Options { mode, ..by_hand() });
        bench.on(Event::Savepoint { request: RequestId(1) });
        let savepoint = if mode.acts_on_arrival() { Mode::Aligned } else { mode };
        assert_eq!(bench.barrier().mode, savepoint, "{mode}");
        bench.complete();
        bench.on(Event::Trigger { request: RequestId(2), full: false });
        assert_eq!((bench.barrier().kind, bench.barrier().mode), (Kind::Checkpoint, mode));
        bench.complete();
        bench.on(Event::Stop);
        assert_eq!((bench.barrier().kind, bench.barrier().mode), (Kind::Final, mode));
    }
}

#[test]
fn a_savepoint_queues_before_other_requests_is_full_and_is_never_a_base() {
    let mut bench = Bench::new(by_hand());
    bench.on(Event::Trigger { request: RequestId(1), full: false });
    bench.on(Event::Trigger { request: RequestId(2), full: true });
    bench.on(Event::Savepoint { request: RequestId(3) });
    assert_eq!(bench.complete(), id(10));
    assert_eq!((bench.barrier().kind, bench.barrier().base), (Kind::Savepoint, None));
    bench.complete();
    assert_eq!((bench.barrier().kind, bench.barrier().base), (Kind::Checkpoint, None), "asked for in full");
    bench.complete();
    bench.on(Event::Savepoint { request: RequestId(4) });
    bench.complete();
    bench.on(Event::Trigger { request: RequestId(5), full: false });
    assert_eq!(bench.barrier().base, Some(id(12)), "not the savepoint");
    bench.ack_all();
    assert_eq!(bench.records.last().and_then(|record| record.parent), Some(id(13)), "a savepoint is a restore point");
}

#[test]
fn the_queue_is_bounded() {
    let mut bench = Bench::new(by_hand());
    for request in 0..1003 {
        bench.on(Event::Trigger { request: RequestId(request), full: false });
    }
    assert_eq!(bench.answers.len(), 2, "one pending, 1000 waiting");
}

#[test]
fn without_a_base_the_checkpoints_are_full_until_one_is_completed() {
    let mut bench = Bench::from(every_second(), Origin { base: None, ..origin() });
    bench.tick(1000);
    assert_eq!(bench.barrier().base, None);
    bench.decline();
    bench.tick(2000);
    assert_eq!(bench.barrier().base, None);
    bench.complete();
    bench.tick(3000);
    assert_eq!(bench.barrier().base, Some(id(11)));
    bench.coordinator.request_full();
    bench.decline();
    bench.tick(4000);
    assert_eq!(bench.barrier().base, None);
    bench.complete();
    bench.tick(5000);
    assert_eq!(bench.barrier().base, Some(id(13)));
}

#[test]
fn when_every_subtask_is_finished_the_final_checkpoint_comes_at_once_and_only_once() {
    let mut bench = Bench::new(by_hand());
    bench.on(Event::Finished { subtask: SINK, attempt: ATTEMPT });
    bench.on(Event::Finished { subtask: SINK, attempt: ATTEMPT });
    assert_eq!(bench.coordinator.pending(), None);
    bench.on(Event::Finished { subtask: SOURCE, attempt: ATTEMPT });
    assert_eq!(bench.barrier().kind, Kind::Final);
    for subtask in BOTH {
        bench.on(ack_of(subtask, id(10), Some(id(9)), true));
    }
    assert!(bench.records.first().is_some_and(|record| record.finished));
    bench.on(Event::Recorded { id: id(10) });
    bench.tick(100_000);
    assert_eq!(bench.coordinator.pending(), None);
    bench.on(Event::Trigger { request: RequestId(1), full: false });
    assert!(bench.answers.iter().all(|(_, result)| result.is_err()));
}

#[test]
fn the_job_closes_only_after_every_commit_and_the_last_resolution_is_repeated_until_then() {
    let mut bench = Bench::new(by_hand());
    bench.on(Event::Stop);
    bench.complete();
    assert_eq!(bench.closed, None);
    bench.on(Event::CommitDone { subtask: SOURCE, attempt: ATTEMPT, id: id(10) });
    bench.resolved.clear();
    bench.tick(1000);
    assert_eq!(bench.resolved, [(SINK, id(10), true)], "heard, but not committed");
    bench.on(Event::CommitDone { subtask: SINK, attempt: ATTEMPT, id: id(10) });
    assert_eq!(bench.closed, Some((id(10), false)));
    assert!(bench.coordinator.is_over());
}

#[test]
fn acks_that_say_finished_are_as_good_as_the_message_that_was_lost() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    for subtask in BOTH {
        bench.on(ack_of(subtask, id(10), None, true));
    }
    assert!(bench.records.first().is_some_and(|record| !record.finished), "only the final one says finished");
    bench.on(Event::Recorded { id: id(10) });
    assert_eq!(bench.barrier().kind, Kind::Final);
}

#[test]
fn a_stop_takes_a_final_checkpoint_after_the_pending_one_and_tries_again_when_it_fails() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.on(Event::Stop);
    assert_eq!(bench.barrier().kind, Kind::Checkpoint);
    bench.complete();
    assert_eq!(bench.barrier().kind, Kind::Final);
    bench.now = 1500;
    bench.decline();
    assert_eq!((bench.coordinator.pending(), bench.wake), (None, Some(2500)));
    bench.on(Event::Stop);
    bench.tick(2499);
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(2500);
    assert_eq!((bench.barrier().kind, bench.barrier().id), (Kind::Final, id(12)));
    bench.complete();
    for subtask in BOTH {
        bench.on(Event::CommitDone { subtask, attempt: ATTEMPT, id: id(12) });
    }
    assert_eq!(bench.closed, Some((id(12), false)), "stopped, not finished");
}

#[test]
fn savepoints_come_before_the_final_checkpoint_and_the_final_one_serves_all_other_requests() {
    let mut bench = Bench::new(by_hand());
    bench.on(Event::Trigger { request: RequestId(1), full: false });
    bench.on(Event::Trigger { request: RequestId(2), full: false });
    bench.on(Event::Trigger { request: RequestId(3), full: true });
    bench.on(Event::Savepoint { request: RequestId(4) });
    bench.on(Event::Stop);
    assert!(bench.coordinator.is_ending());
    bench.complete();
    assert_eq!(bench.barrier().kind, Kind::Savepoint);
    bench.complete();
    assert_eq!(bench.barrier().kind, Kind::Final);
    bench.complete();
    let answers: Vec<_> = bench.answers.iter().map(|(request, result)| (*request, result.clone().ok())).collect();
    assert_eq!(answers, [(1, Some(id(10))), (4, Some(id(11))), (2, Some(id(12))), (3, None)]);
}

#[test]
fn a_final_checkpoint_that_is_to_be_copied_is_full_and_waits_for_nothing_else() {
    for mode in Mode::ALL {
        let mut bench = Bench::new(Options { mode, ..by_hand() });
        bench.on(Event::Trigger { request: RequestId(1), full: false });
        bench.complete();
        bench.on(Event::EndWithSavepoint);
        assert!(!bench.coordinator.is_ending(), "it asks for no end");
        bench.on(Event::Trigger { request: RequestId(2), full: false });
        assert_eq!((bench.barrier().kind, bench.barrier().base), (Kind::Checkpoint, Some(id(10))));
        bench.on(Event::Stop);
        bench.complete();
        let aligned = if mode.acts_on_arrival() { Mode::Aligned } else { mode };
        assert_eq!((bench.barrier().kind, bench.barrier().base), (Kind::Final, None));
        assert_eq!(bench.barrier().mode, aligned);
    }
}

#[test]
fn a_failed_manifest_is_a_failure_and_not_an_end() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.ack_all();
    bench.on(Event::RecordFailed { id: id(10), reason: "no space left".to_owned() });
    assert_eq!(
        bench.last_outcome(),
        &Outcome::Aborted(AbortReason::RecordFailed { reason: "no space left".to_owned() })
    );
    assert_eq!(bench.coordinator.failures(), 1);
    bench.tick(2000);
    assert_eq!(bench.barrier().id, id(11), "an id is never used twice");
}

#[test]
fn a_fenced_or_unsettled_attempt_ends_and_resolves_nothing() {
    for event in [Event::Fenced { by: Some(AttemptId(9)) }, Event::Unsettled { id: id(10) }] {
        let mut bench = Bench::new(every_second());
        bench.tick(1000);
        bench.on(Event::Savepoint { request: RequestId(1) });
        bench.ack_all();
        bench.on(event);
        assert!(bench.failure.is_some() && bench.resolved.is_empty());
        assert!(matches!(bench.last_outcome(), Outcome::Unknown { .. }));
        assert!(bench.answers.iter().any(|(request, result)| *request == 1 && result.is_err()));
        bench.tick(100_000);
        assert_eq!(bench.triggers.len(), 1, "nothing is triggered any more");
    }
}

#[test]
fn mode_and_interval_change_between_two_checkpoints() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.coordinator.set_mode(Mode::AtLeastOnce);
    assert_eq!(bench.barrier().mode, Mode::Aligned);
    bench.complete();
    assert!(bench.coordinator.set_interval(Some(Duration::ZERO)).is_err());
    bench.coordinator.set_interval(Some(Duration::from_secs(3))).expect("a valid interval");
    bench.tick(3999);
    assert_eq!(bench.coordinator.pending(), None);
    bench.tick(4000);
    assert_eq!(bench.barrier().mode, Mode::AtLeastOnce);
    bench.ack_all();
    assert_eq!(bench.records.last().map(|record| record.guarantee), Some(Guarantee::AtLeastOnce));
    bench.on(Event::Recorded { id: id(11) });
    bench.coordinator.set_interval(None).expect("off");
    bench.tick(1_000_000);
    assert_eq!(bench.coordinator.pending(), None);
}

#[test]
fn what_was_inherited_limits_every_later_checkpoint() {
    let mut bench = Bench::from(every_second(), Origin { inherited: Guarantee::AtLeastOnce, ..origin() });
    bench.tick(1000);
    bench.ack_all();
    assert_eq!(bench.records.first().map(|record| record.guarantee), Some(Guarantee::AtLeastOnce));
}

#[test]
fn an_unheard_completion_is_still_sent_after_a_later_abort_and_replaced_by_a_later_completion() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.ack_all();
    bench.on(Event::Recorded { id: id(10) });
    bench.tick(2000);
    bench.on(Event::Declined { subtask: SINK, attempt: ATTEMPT, id: id(11), reason: String::new() });
    bench.resolved.clear();
    bench.tick(3000);
    let to_sink: Vec<_> =
        bench.resolved.iter().filter(|(to, ..)| *to == SINK).map(|&(_, id, done)| (id, done)).collect();
    assert_eq!(to_sink, [(id(10), true), (id(11), false)]);
    bench.on(Event::ResolvedAcked { subtask: SINK, attempt: ATTEMPT, id: id(11) });
    bench.resolved.clear();
    bench.now = 3999;
    bench.on(Event::Declined { subtask: SINK, attempt: ATTEMPT, id: id(12), reason: String::new() });
    assert!(bench.resolved.contains(&(SINK, id(10), true)), "to hear of an abort is not to have committed");
    bench.tick(4000);
    bench.ack_all();
    bench.on(Event::Recorded { id: id(13) });
    bench.resolved.clear();
    bench.tick(5000);
    assert_eq!(bench.resolved, [(SOURCE, id(13), true), (SINK, id(13), true)]);
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let mut bench = Bench::new(every_second());
    bench.tick(1000);
    bench.tick(500);
    assert_eq!(bench.barrier().triggered_at, 1000);
    bench.complete();
    bench.tick(1999);
    assert_eq!(bench.coordinator.pending(), None);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let options = Options { timeout: Duration::ZERO, ..Options::default() };
    assert!(Coordinator::<()>::new(options, origin(), BOTH, [SOURCE], 0).is_err());
}
