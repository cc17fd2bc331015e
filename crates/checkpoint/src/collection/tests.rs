//! Tests of collection: its order, its look before each batch, what it never touches.

use super::*;
use std::collections::BTreeSet;

fn known(id: u64, attempt: u64) -> Recorded {
    Recorded {
        id: CheckpointId(id),
        slot: Slot(id + 1),
        attempt: AttemptId(attempt),
        parent: None,
        base: None,
        savepoint: false,
    }
}

fn collection(expendable: Vec<Recorded>) -> Collection {
    Collection::new(&Retention { needed: LiteSet::new(), expendable }, AttemptId(1), Slot(9))
}

const FREE: CollectEvent = CollectEvent::Probed { foreign: false };

/// What is deleted when nobody disturbs.
fn deleted(mut collection: Collection) -> Vec<Batch> {
    let mut deleted = Vec::new();
    let mut action = collection.begin();
    loop {
        action = match action {
            CollectAction::Probe => collection.on(FREE),
            CollectAction::Delete(batch) => {
                deleted.push(batch);
                collection.on(CollectEvent::Deleted)
            }
            CollectAction::Done => return deleted,
            CollectAction::Stopped => panic!("nobody stopped it"),
        };
    }
}

#[test]
fn newest_first_slot_then_manifest_then_blobs_each_after_a_look() {
    let attempt = AttemptId(1);
    let mut expected = Vec::new();
    for id in [CheckpointId(2), CheckpointId(1)] {
        expected.extend([Batch::Slot(Slot(id.0 + 1)), Batch::Manifest(id, attempt), Batch::Blobs(id, attempt)]);
    }
    assert_eq!(deleted(collection(vec![known(1, 1), known(2, 1)])), expected);
}

#[test]
fn it_stops_for_good_when_the_next_slot_is_foreign_or_unreadable() {
    for event in [CollectEvent::Probed { foreign: true }, CollectEvent::ProbeFailed] {
        let mut collection = collection(vec![known(1, 1)]);
        assert_eq!(collection.begin(), CollectAction::Probe);
        assert!(matches!(collection.on(FREE), CollectAction::Delete(_)));
        assert_eq!(collection.on(CollectEvent::Deleted), CollectAction::Probe);
        assert_eq!(collection.on(event), CollectAction::Stopped);
        assert_eq!(collection.on(FREE), CollectAction::Stopped);
    }
}

#[test]
fn a_batch_that_cannot_be_deleted_leaves_the_rest_of_its_checkpoint_for_later() {
    let mut collection = collection(vec![known(1, 1), known(2, 1)]);
    collection.begin();
    collection.on(FREE);
    assert_eq!(collection.on(CollectEvent::DeleteFailed), CollectAction::Probe);
    assert_eq!(collection.on(FREE), CollectAction::Delete(Batch::Slot(Slot(2))));
}

/// Checkpoints 1 to 4, each but the first and third building on the one before.
fn two_chains() -> Vec<Recorded> {
    let on = |id, base| Recorded { base: Some(CheckpointId(base)), ..known(id, 1) };
    vec![known(1, 1), on(2, 1), known(3, 1), on(4, 3)]
}

/// At any moment, and whichever deletions fail, all that a checkpoint of the log builds on is in the log and undamaged.
#[test]
fn what_the_log_names_is_whole_wherever_a_collection_ends_and_whatever_it_cannot_delete() {
    for failing in 0u32..1 << 12 {
        let mut collection = collection(two_chains());
        let mut in_log: BTreeSet<u64> = (1..=4).collect();
        let mut damaged = BTreeSet::new();
        let mut action = collection.begin();
        for step in 0.. {
            action = match action {
                CollectAction::Probe => collection.on(FREE),
                CollectAction::Delete(batch) => {
                    let fails = failing & (1 << (step / 2)) != 0;
                    match batch {
                        Batch::Slot(slot) if !fails => drop(in_log.remove(&(slot.0 - 1))),
                        Batch::Slot(_) => {}
                        // Blobs may be gone in part.
                        Batch::Manifest(id, _) | Batch::Blobs(id, _) => drop(damaged.insert(id.0)),
                    }
                    collection.on(if fails { CollectEvent::DeleteFailed } else { CollectEvent::Deleted })
                }
                CollectAction::Done => break,
                CollectAction::Stopped => panic!("nobody stopped it"),
            };
            for known in two_chains().iter().filter(|known| in_log.contains(&known.id.0)) {
                let whole = |id: u64| in_log.contains(&id) && !damaged.contains(&id);
                assert!(whole(known.id.0), "failing {failing:b}: {known:?} is in the log and not whole");
                assert!(known.base.is_none_or(|base| whole(base.0)), "failing {failing:b}: {known:?} lost its base");
            }
        }
        assert!(failing != 0 || in_log.is_empty(), "nothing failed, and everything goes");
    }
}

#[test]
fn what_a_spared_checkpoint_builds_on_is_spared() {
    // The head of the log is checkpoint 4.
    let retention = Retention { needed: LiteSet::new(), expendable: two_chains() };
    let gone = deleted(Collection::new(&retention, AttemptId(1), Slot(5)));
    let slots: Vec<&Batch> = gone.iter().filter(|batch| matches!(batch, Batch::Slot(_))).collect();
    assert_eq!(slots, [&Batch::Slot(Slot(3)), &Batch::Slot(Slot(2))]);
}

#[test]
fn the_highest_slot_newer_attempts_and_needed_checkpoints_are_spared_whatever_retention_says() {
    let spared = vec![known(8, 1), known(3, 2), known(4, 1)];
    let retention = Retention { needed: LiteSet::from_iter([CheckpointId(4)]), expendable: spared };
    assert_eq!(deleted(Collection::new(&retention, AttemptId(1), Slot(9))), []);
}
