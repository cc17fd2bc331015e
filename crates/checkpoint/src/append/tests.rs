//! Tests of the append (L4, L5), one outcome after the other.

use super::*;
use crate::ids::CheckpointId;
use crate::log::{CheckpointEntry, Incarnation, StartEntry};

fn mine() -> LogEntry {
    checkpoint(77)
}

fn checkpoint(nonce: u64) -> LogEntry {
    LogEntry::Checkpoint(CheckpointEntry {
        id: CheckpointId(5),
        attempt: AttemptId(3),
        nonce,
        parent: None,
        manifest: "manifests/5-3.json".to_owned(),
        checksum: 9,
    })
}

fn foreign_start() -> LogEntry {
    LogEntry::Start(StartEntry {
        attempt: AttemptId(8),
        nonce: 1,
        incarnation: 1,
        restored_from: None,
        next_id: CheckpointId(5),
        began: Some(Incarnation { id: 1, key_seed: 1, key_groups: 1 }),
    })
}

fn append() -> Append {
    let mut append = Append::new(Slot(8), mine(), 3);
    assert_eq!(append.begin(), create());
    append
}

fn create() -> AppendAction {
    AppendAction::Create { slot: Slot(8), entry: Box::new(mine()) }
}

fn created(outcome: CreateOutcome) -> AppendEvent {
    AppendEvent::Created(outcome)
}

const RECORDED: AppendAction = AppendAction::Done(AppendOutcome::Recorded(Slot(8)));
const UNSETTLED: AppendAction = AppendAction::Done(AppendOutcome::Unsettled(Slot(8)));

#[test]
fn a_clean_win_is_recorded_at_once() {
    assert_eq!(append().on(created(CreateOutcome::Won)), RECORDED);
}

#[test]
fn a_foreign_entry_means_fenced_and_names_its_attempt() {
    let fenced = AppendAction::Done(AppendOutcome::Fenced { slot: Slot(8), by: Some(AttemptId(8)) });
    assert_eq!(append().on(created(CreateOutcome::Taken(Ok(foreign_start())))), fenced);
}

#[test]
fn an_entry_that_differs_in_the_nonce_alone_is_foreign() {
    let outcome = append().on(created(CreateOutcome::Taken(Ok(checkpoint(78)))));
    assert!(matches!(outcome, AppendAction::Done(AppendOutcome::Fenced { .. })), "{outcome:?}");
}

#[test]
fn bytes_that_are_no_entry_are_foreign() {
    let outcome = append().on(created(CreateOutcome::Taken(Err(EntryError::Checksum))));
    assert_eq!(outcome, AppendAction::Done(AppendOutcome::Fenced { slot: Slot(8), by: None }));
}

#[test]
fn my_own_entry_found_there_is_success_if_nothing_lies_above() {
    let mut append = append();
    assert_eq!(append.on(created(CreateOutcome::Unknown)), create());
    assert_eq!(append.on(created(CreateOutcome::Taken(Ok(mine())))), AppendAction::List);
    assert_eq!(append.on(AppendEvent::Listed(vec![Slot(8), Slot(3), Slot(7)])), RECORDED);
}

#[test]
fn a_win_after_a_repeat_below_a_higher_slot_is_no_success() {
    let mut append = append();
    append.on(created(CreateOutcome::Unknown));
    assert_eq!(append.on(created(CreateOutcome::Won)), AppendAction::List);
    let fenced = AppendAction::Done(AppendOutcome::Fenced { slot: Slot(10), by: None });
    assert_eq!(append.on(AppendEvent::Listed(vec![Slot(3), Slot(8), Slot(9), Slot(10)])), fenced);
}

#[test]
fn an_unknown_outcome_is_repeated_identically_and_then_stays_unsettled() {
    let mut append = append();
    assert_eq!(append.on(created(CreateOutcome::Unknown)), create());
    assert_eq!(append.on(created(CreateOutcome::Unknown)), create());
    assert_eq!(append.on(created(CreateOutcome::Unknown)), UNSETTLED);
    assert_eq!(append.on(created(CreateOutcome::Won)), UNSETTLED, "an end is an end");
}

#[test]
fn a_listing_that_fails_or_lacks_the_entry_settles_nothing() {
    for answer in [AppendEvent::Failed, AppendEvent::Listed(vec![Slot(7)]), AppendEvent::Listed(Vec::new())] {
        let mut append = append();
        append.on(created(CreateOutcome::Unknown));
        append.on(created(CreateOutcome::Won));
        assert_eq!(append.on(answer), UNSETTLED);
    }
}
