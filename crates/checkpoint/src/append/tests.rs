//! Tests of the append (L4, L5), one outcome after the other.

use super::*;
use crate::ids::CheckpointId;
use crate::log::{CheckpointEntry, Incarnation, StartEntry};

fn mine() -> LogEntry {
    checkpoint(77)
}

fn checkpoint(nonce: u64) -> LogEntry {
    LogEntry::Checkpoint(CheckpointEntry {
        slot: Slot(8),
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
        savepoint: None,
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

fn own_start() -> AppendEvent {
    let LogEntry::Start(start) = foreign_start() else { unreachable!("a Start") };
    let entry = LogEntry::Start(StartEntry { attempt: AttemptId(3), ..start });
    AppendEvent::Read { slot: Slot(3), entry: Some(Ok(entry)) }
}

#[test]
fn a_clean_win_is_recorded_if_the_own_start_is_in_the_log() {
    let mut append = append();
    assert_eq!(append.on(created(CreateOutcome::Won)), AppendAction::Read(Slot(3)));
    assert_eq!(append.on(own_start()), RECORDED);
}

#[test]
fn nothing_is_recorded_in_a_log_that_somebody_took_away() {
    let gone = AppendAction::Done(AppendOutcome::Gone(Slot(3)));
    let mut clean = append();
    clean.on(created(CreateOutcome::Won));
    assert_eq!(clean.on(AppendEvent::Read { slot: Slot(3), entry: None }), gone);
    let mut repeated = append();
    repeated.on(created(CreateOutcome::Unknown));
    repeated.on(created(CreateOutcome::Won));
    assert_eq!(repeated.on(AppendEvent::Listed(vec![Slot(8)])), gone);
}

#[test]
fn a_start_that_cannot_be_read_is_there() {
    let mut append = append();
    append.on(created(CreateOutcome::Won));
    let start = AppendEvent::Read { slot: Slot(3), entry: Some(Err(EntryError::Checksum)) };
    assert_eq!(append.on(start), RECORDED);
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
fn bytes_that_are_no_entry_are_damage_and_those_of_a_newer_program_a_fence() {
    let found = |error: EntryError| append().on(created(CreateOutcome::Taken(Err(error))));
    let error = EntryError::Checksum;
    let damaged = AppendAction::Done(AppendOutcome::Damaged { slot: Slot(8), error: error.clone() });
    assert_eq!(found(error), damaged);
    let fenced = AppendAction::Done(AppendOutcome::Fenced { slot: Slot(8), by: None });
    assert_eq!(found(EntryError::Newer { found: 9 }), fenced);
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
    let slots = vec![Slot(3), Slot(8), Slot(9), Slot(10)];
    assert_eq!(append.on(AppendEvent::Listed(slots)), AppendAction::Read(Slot(10)));
    let fenced = |by| AppendAction::Done(AppendOutcome::Fenced { slot: Slot(10), by });
    let read = |entry| append.clone().on(AppendEvent::Read { slot: Slot(10), entry });
    assert_eq!(read(Some(Ok(foreign_start()))), fenced(Some(AttemptId(8))));
    assert_eq!(read(None), fenced(None), "only somebody with a higher slot deletes it");
}

#[test]
fn a_copied_entry_in_an_absurd_slot_is_damage_and_no_fence() {
    let mut append = append();
    append.on(created(CreateOutcome::Unknown));
    append.on(created(CreateOutcome::Won));
    assert_eq!(
        append.on(AppendEvent::Listed(vec![Slot(3), Slot(8), Slot(u64::MAX)])),
        AppendAction::Read(Slot(u64::MAX))
    );
    let error = EntryError::Misplaced { slot: Slot(u64::MAX), attempt: AttemptId(3) };
    let read = AppendEvent::Read { slot: Slot(u64::MAX), entry: Some(Err(error.clone())) };
    assert_eq!(append.on(read), AppendAction::Done(AppendOutcome::Damaged { slot: Slot(u64::MAX), error }));
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
