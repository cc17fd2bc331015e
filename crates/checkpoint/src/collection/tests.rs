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
    Collection::new(&Retention { needed: BTreeSet::new(), expendable }, AttemptId(1), Slot(9))
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
fn slot_then_manifest_then_blobs_each_after_a_look() {
    let attempt = AttemptId(1);
    let mut expected = Vec::new();
    for id in [CheckpointId(1), CheckpointId(2)] {
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
    assert_eq!(collection.on(FREE), CollectAction::Delete(Batch::Slot(Slot(3))));
}

#[test]
fn the_highest_slot_newer_attempts_and_needed_checkpoints_are_spared_whatever_retention_says() {
    let spared = vec![known(8, 1), known(3, 2), known(4, 1)];
    let retention = Retention { needed: BTreeSet::from([CheckpointId(4)]), expendable: spared };
    assert_eq!(deleted(Collection::new(&retention, AttemptId(1), Slot(9))), []);
}
