//! Tests of the contest against a log in memory: what is restored, when it begins again, when it gives up.

use super::*;
use crate::ids::Slot;
use std::collections::BTreeMap;

const FRESH: Incarnation = Incarnation { id: 99, key_seed: 5, key_groups: 128 };
const FIRST: Incarnation = Incarnation { id: 11, key_seed: 4, key_groups: 64 };

#[derive(Clone, Default)]
struct Log(BTreeMap<Slot, Result<LogEntry, EntryError>>);

impl Log {
    fn start(self, slot: u64, from: Option<u64>, next: u64) -> Log {
        self.start_of(slot, FIRST, from, next, slot == 1)
    }

    fn start_of(mut self, slot: u64, incarnation: Incarnation, from: Option<u64>, next: u64, began: bool) -> Log {
        let start = StartEntry {
            attempt: AttemptId(slot),
            nonce: 1000 + slot,
            incarnation: incarnation.id,
            restored_from: from.map(CheckpointId),
            next_id: CheckpointId(next),
            began: began.then_some(incarnation),
            savepoint: None,
        };
        self.0.insert(Slot(slot), Ok(LogEntry::Start(start)));
        self
    }

    fn checkpoint(mut self, slot: u64, attempt: u64, id: u64, parent: Option<u64>) -> Log {
        let checkpoint = CheckpointEntry {
            slot: Slot(slot),
            id: CheckpointId(id),
            attempt: AttemptId(attempt),
            nonce: 2000 + slot,
            parent: parent.map(CheckpointId),
            manifest: format!("manifests/{id}-{attempt}.json"),
            checksum: id,
        };
        self.0.insert(Slot(slot), Ok(LogEntry::Checkpoint(checkpoint)));
        self
    }

    fn without(mut self, slot: u64) -> Log {
        self.0.remove(&Slot(slot));
        self
    }

    fn damaged(mut self, slot: u64) -> Log {
        self.0.insert(Slot(slot), Err(EntryError::Checksum));
        self
    }

    fn slots(&self) -> Vec<Slot> {
        self.0.keys().rev().copied().collect()
    }

    /// Answers until the contest creates, is over, or asks for consent; counts the reads.
    fn answer(&self, contest: &mut Contest, mut action: ContestAction) -> ContestAction {
        loop {
            let event = match action {
                ContestAction::List => ContestEvent::Listed { slots: self.slots(), nonce: 42 },
                ContestAction::Read(slot) => ContestEvent::Read { slot, entry: self.0.get(&slot).cloned() },
                other => return other,
            };
            action = contest.on(event);
        }
    }

    /// Runs a contest to its end with a store that obeys.
    fn run(&mut self, restore: Restore) -> Result<Claim, ContestError> {
        self.run_with(options(restore))
    }

    fn run_with(&mut self, options: ContestOptions) -> Result<Claim, ContestError> {
        let mut contest = Contest::new(options);
        let mut action = contest.begin();
        loop {
            action = match self.answer(&mut contest, action) {
                ContestAction::Consider(_) => contest.on(ContestEvent::Agreed),
                ContestAction::Create { slot, entry } => {
                    assert!(self.0.insert(slot, Ok(*entry)).is_none(), "no slot is overwritten");
                    contest.on(ContestEvent::Created(CreateOutcome::Won))
                }
                ContestAction::Owned(claim) => return Ok(*claim),
                ContestAction::Failed(error) => return Err(error),
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

fn options(restore: Restore) -> ContestOptions {
    ContestOptions { restore, fresh: FRESH, past: Vec::new(), tries: 3 }
}

fn running() -> Log {
    Log::default().start(1, None, 1).checkpoint(2, 1, 1, None).checkpoint(3, 1, 2, Some(1))
}

#[test]
fn the_first_attempt_of_a_job_begins_an_incarnation_in_slot_one() {
    let claim = Log::default().run(Restore::Latest).expect("an empty log is free");
    assert_eq!((claim.attempt, claim.next_id(), claim.next_slot()), (AttemptId(1), CheckpointId(1), Slot(2)));
    assert_eq!(claim.start.began, Some(FRESH));
    assert!(claim.first_is_full && claim.begins() && claim.restore.is_none());
}

#[test]
fn a_checkpoint_at_the_head_is_restored_and_may_be_built_on() {
    let claim = running().run(Restore::Latest).expect("nobody contends");
    assert_eq!((claim.attempt, claim.next_id(), claim.incarnation), (AttemptId(4), CheckpointId(3), FIRST));
    assert_eq!(claim.restore.as_ref().map(|checkpoint| checkpoint.id), Some(CheckpointId(2)));
    assert!(!claim.first_is_full && !claim.begins() && !claim.departs());
}

#[test]
fn a_start_at_the_head_hands_on_what_it_restored() {
    let claim = running().start(4, Some(2), 3).start(5, Some(2), 3).run(Restore::Latest).expect("nobody contends");
    assert_eq!(claim.start.restored_from, Some(CheckpointId(2)));
    assert_eq!(claim.next_id(), CheckpointId(3));
    assert!(!claim.first_is_full, "only restarts lie between the checkpoint and the head");
}

#[test]
fn after_a_fallback_the_next_start_stays_with_the_older_one_and_begins_full() {
    let mut log = running();
    let fallback = log.run(Restore::Id(CheckpointId(1))).expect("the caller agrees");
    assert!(fallback.departs() && fallback.first_is_full);
    assert_eq!(fallback.next_id(), CheckpointId(3), "ids grow over the whole log");
    let next = log.run(Restore::Latest).expect("nobody contends");
    assert_eq!(next.start.restored_from, Some(CheckpointId(1)));
    assert!(next.first_is_full && !next.departs());
}

#[test]
fn after_restore_none_and_a_crash_the_old_incarnation_does_not_come_back() {
    let mut log = running();
    let fresh = log.run(Restore::None).expect("the caller agrees");
    assert!(fresh.begins() && fresh.departs() && fresh.restore.is_none());
    let next = log.run(Restore::Latest).expect("nobody contends");
    assert_eq!((next.start.restored_from, next.incarnation), (None, FRESH));
    assert_eq!((next.start.began, next.next_id()), (None, CheckpointId(3)));
}

#[test]
fn a_checkpoint_of_an_older_incarnation_brings_its_key_seed_back() {
    let mut log = running().start_of(4, FRESH, None, 3, true).checkpoint(5, 4, 3, None);
    let claim = log.run(Restore::Id(CheckpointId(1))).expect("the caller agrees");
    assert_eq!((claim.incarnation, claim.start.incarnation), (FIRST, FIRST.id));
    assert!(claim.first_is_full && claim.departs());
}

#[test]
fn a_departing_or_beginning_claim_is_put_before_the_caller_while_the_log_is_unchanged() {
    for restore in [Restore::None, Restore::Id(CheckpointId(1))] {
        let log = running();
        let mut contest = Contest::new(options(restore));
        let first = contest.begin();
        let consider = log.answer(&mut contest, first);
        assert!(matches!(consider, ContestAction::Consider(_)), "{consider:?}");
        let refused = contest.on(ContestEvent::Refused("it would double output".to_owned()));
        assert_eq!(refused, ContestAction::Failed(ContestError::Refused("it would double output".to_owned())));
    }
}

#[test]
fn a_start_in_a_hole_is_void() {
    for now in [vec![1, 3, 4, 5], vec![1, 2, 4], vec![4]] {
        let log = running();
        let mut contest = Contest::new(options(Restore::Latest));
        let first = contest.begin();
        let ContestAction::Create { slot: Slot(4), .. } = log.answer(&mut contest, first) else { panic!("no create") };
        assert_eq!(contest.on(ContestEvent::Created(CreateOutcome::Won)), ContestAction::List);
        let slots = now.iter().map(|&slot| Slot(slot)).collect();
        let again = contest.on(ContestEvent::Listed { slots, nonce: 43 });
        assert_eq!(again, ContestAction::List, "listing {now:?}");
    }
}

#[test]
fn a_lost_slot_begins_again_with_a_fresh_nonce() {
    let mut log = running();
    let mut contest = Contest::new(options(Restore::Latest));
    let first = contest.begin();
    let ContestAction::Create { .. } = log.answer(&mut contest, first) else { panic!("no create") };
    log = log.start(4, Some(2), 3);
    let other = log.0.get(&Slot(4)).cloned().expect("just written");
    let mut action = contest.on(ContestEvent::Created(CreateOutcome::Taken(other)));
    assert_eq!(action, ContestAction::List);
    action = contest.on(ContestEvent::Listed { slots: log.slots(), nonce: 43 });
    let ContestAction::Create { slot, .. } = log.answer(&mut contest, action) else { panic!("no create") };
    assert_eq!(slot, Slot(5));
    assert_eq!(contest.nonces(), [42, 43]);
}

#[test]
fn an_incarnation_that_was_begun_in_vain_is_not_begun_again() {
    let mut log = running();
    let mut contest = Contest::new(options(Restore::None));
    let mut action = contest.begin();
    let mut begun = Vec::new();
    for nonce in [51, 52] {
        assert_eq!(action, ContestAction::List);
        action = contest.on(ContestEvent::Listed { slots: log.slots(), nonce });
        action = log.answer(&mut contest, action);
        assert!(matches!(action, ContestAction::Consider(_)));
        let ContestAction::Create { slot, entry } = contest.on(ContestEvent::Agreed) else { panic!("no create") };
        let LogEntry::Start(start) = *entry else { panic!("no Start") };
        begun.push(start.incarnation);
        assert_eq!(start.began.map(|began| began.id), Some(start.incarnation));
        // It counts, but another attempt goes on from it before the second listing.
        log = log.start_of(slot.0, FRESH, None, 3, true).start_of(slot.0 + 1, FRESH, None, 3, false);
        assert_eq!(contest.on(ContestEvent::Created(CreateOutcome::Won)), ContestAction::List);
        action = contest.on(ContestEvent::Listed { slots: log.slots(), nonce: 0 });
    }
    assert_eq!(begun, [FRESH.id, FRESH.id ^ 52]);
}

#[test]
fn an_unknown_create_is_repeated_identically_until_it_is_settled() {
    let log = running();
    let mut contest = Contest::new(options(Restore::Latest));
    let first = contest.begin();
    let create = log.answer(&mut contest, first);
    let ContestAction::Create { entry, slot } = create.clone() else { panic!("no create") };
    assert_eq!(contest.on(ContestEvent::Created(CreateOutcome::Unknown)), create);
    assert_eq!(contest.on(ContestEvent::Created(CreateOutcome::Unknown)), create);
    let mut settled = contest.clone();
    assert_eq!(settled.on(ContestEvent::Created(CreateOutcome::Taken(Ok(*entry)))), ContestAction::List);
    let end = contest.on(ContestEvent::Created(CreateOutcome::Unknown));
    assert_eq!(end, ContestAction::Failed(ContestError::Unsettled { slot }));
}

#[test]
fn a_process_that_finds_a_foreign_newest_start_is_fenced_for_good() {
    let mut log = running().start(4, Some(2), 3);
    let mine = ContestOptions { past: vec![1001], ..options(Restore::Latest) };
    assert_eq!(log.run_with(mine), Err(ContestError::Fenced { by: AttemptId(4) }));
    let mine = ContestOptions { past: vec![1001, 1004], ..options(Restore::Latest) };
    assert!(log.run_with(mine).is_ok());
}

#[test]
fn damage_hinders_only_if_the_damaged_slot_is_needed() {
    let error = |slot| Err(ContestError::Damaged { slot: Slot(slot), error: EntryError::Checksum });
    assert_eq!(running().damaged(3).run(Restore::Latest), error(3), "the head");
    assert_eq!(running().damaged(1).run(Restore::Latest), error(1), "the Start of the head's attempt");
    assert!(running().damaged(2).run(Restore::Latest).is_ok(), "an older checkpoint");
    assert_eq!(running().damaged(2).run(Restore::Id(CheckpointId(1))), error(2), "the wanted checkpoint");
}

#[test]
fn what_is_not_there_is_named() {
    let missing = Err(ContestError::NoSuchCheckpoint { id: CheckpointId(7) });
    assert_eq!(running().run(Restore::Id(CheckpointId(7))), missing);
    assert_eq!(Log::default().run(Restore::Id(CheckpointId(7))), missing);
    let mut log = running().start(4, Some(2), 3).without(1);
    assert_eq!(log.run(Restore::Latest), Err(ContestError::NoBeginning));
}

#[test]
fn an_entry_of_another_slot_is_not_believed() {
    let mut log = running();
    let start = log.0.get(&Slot(1)).cloned().expect("slot 1");
    log.0.insert(Slot(4), start);
    assert!(matches!(log.run(Restore::Latest), Err(ContestError::Damaged { slot: Slot(4), .. })));
}

#[test]
fn slots_that_vanish_while_they_are_read_lead_to_a_new_listing_and_not_for_ever() {
    let mut contest = Contest::new(options(Restore::Latest));
    let mut action = contest.begin();
    for _ in 0..1000 {
        action = match action {
            ContestAction::List => contest.on(ContestEvent::Listed { slots: vec![Slot(1), Slot(5)], nonce: 1 }),
            ContestAction::Read(slot) => contest.on(ContestEvent::Read { slot, entry: None }),
            ContestAction::Failed(error) => {
                assert_eq!(error, ContestError::Contended { rounds: MAX_ROUNDS });
                return;
            }
            other => panic!("unexpected {other:?}"),
        };
    }
    panic!("it never gave up");
}

#[test]
fn a_storage_that_does_not_answer_ends_the_contest() {
    let mut contest = Contest::new(options(Restore::Latest));
    contest.begin();
    let failed = contest.on(ContestEvent::StorageFailed("no route to host".to_owned()));
    assert_eq!(failed, ContestAction::Failed(ContestError::Storage("no route to host".to_owned())));
    assert_eq!(contest.on(ContestEvent::Agreed), ContestAction::Failed(ContestError::OutOfOrder));
}

fn elsewhere() -> Elsewhere {
    let savepoint = Savepoint {
        location: "/shelf/one".to_owned(),
        id: CheckpointId(40),
        attempt: AttemptId(7),
        checksum: 3,
        claim: true,
    };
    Elsewhere { savepoint, incarnation: Incarnation { id: 77, key_seed: 8, key_groups: 32 } }
}

#[test]
fn a_savepoint_begins_an_incarnation_with_its_own_key_seed_and_ids_above_its_own() {
    for mut log in [Log::default(), running()] {
        let claim = log.run(Restore::Savepoint(Box::new(elsewhere()))).expect("the caller agrees");
        let began = Incarnation { id: FRESH.id, key_seed: 8, key_groups: 32 };
        assert_eq!((claim.start.began, claim.incarnation), (Some(began), began));
        assert_eq!((claim.start.restored_from, claim.next_id()), (None, CheckpointId(41)));
        assert_eq!(claim.start.savepoint, Some(elsewhere().savepoint));
        assert!(claim.begins() && claim.first_is_full && claim.restore.is_none());
    }
}

#[test]
fn the_head_says_that_a_savepoint_is_restored_until_a_checkpoint_is_recorded() {
    let mut log = running();
    log.run(Restore::Savepoint(Box::new(elsewhere()))).expect("the caller agrees");
    let again = log.run(Restore::Latest).expect("nobody contends");
    assert_eq!((again.start.savepoint.clone(), again.start.began), (Some(elsewhere().savepoint), None));
    assert!(again.first_is_full && again.incarnation.key_seed == 8);
    let mut later = log.clone().checkpoint(6, 5, 41, None);
    let later = later.run(Restore::Latest).expect("nobody contends");
    assert_eq!((later.start.savepoint, later.start.restored_from), (None, Some(CheckpointId(41))));
    // Whoever wants to start over gets that.
    let over = log.run(Restore::None).expect("the caller agrees");
    assert_eq!((over.start.savepoint, over.incarnation), (None, FRESH));
}
