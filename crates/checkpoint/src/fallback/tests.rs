//! Tests of the fallback: to the parent, and never past what may be committed.

use super::*;
use crate::ids::{AttemptId, Slot};

fn entry(id: u64, parent: Option<u64>) -> CheckpointEntry {
    CheckpointEntry {
        slot: Slot(id + 1),
        id: CheckpointId(id),
        attempt: AttemptId(1),
        nonce: 1,
        parent: parent.map(CheckpointId),
        manifest: format!("manifests/{id}-1.json"),
        checksum: 1,
    }
}

/// 6 is damaged, and 3 is the one before it.
fn back(committed: &[SinkEpoch], allowed: Allowed) -> Result<GoBack, Refusal> {
    fall_back(&entry(6, Some(3)), committed, allowed)
}

fn out(epoch: u64) -> SinkEpoch {
    SinkEpoch { sink: "out".to_owned(), epoch: CheckpointId(epoch) }
}

#[test]
fn without_a_transactional_sink_it_goes_to_the_parent() {
    assert_eq!(back(&[], Allowed::default()), Ok(GoBack { to: CheckpointId(3), doubled: Vec::new() }));
}

#[test]
fn it_says_when_nothing_is_left() {
    // Also if a damaged log names a parent that is no older one.
    for parent in [None, Some(6), Some(7)] {
        let none = Err(Refusal::NoneLeft { damaged: CheckpointId(6) });
        assert_eq!(fall_back(&entry(6, parent), &[], Allowed::default()), none);
    }
}

#[test]
fn an_epoch_that_may_be_committed_is_refused_by_name() {
    let refused = back(&[out(6)], Allowed::default());
    assert_eq!(refused, Err(Refusal::Committed { to: CheckpointId(3), committed: out(6) }));
    let text = refused.expect_err("refused").to_string();
    assert!(
        text.contains("sink out") && text.contains("checkpoint 6") && text.contains("--allow-duplicates"),
        "{text}"
    );
}

#[test]
fn a_sink_that_has_committed_nothing_later_does_not_hinder() {
    assert_eq!(back(&[out(3)], Allowed::default()).map(|back| back.doubled), Ok(Vec::new()));
}

#[test]
fn allowed_duplicates_are_named() {
    let allowed = Allowed { duplicates: true, ..Allowed::default() };
    assert_eq!(back(&[out(3), out(6)], allowed).map(|back| back.doubled), Ok(vec![out(6)]));
}

#[test]
fn no_fallback_refuses_even_a_harmless_one() {
    let allowed = Allowed { no_fallback: true, duplicates: true };
    let refused = Refusal::NotWanted { damaged: CheckpointId(6), to: CheckpointId(3) };
    assert_eq!(back(&[], allowed), Err(refused));
}

#[test]
fn an_older_checkpoint_named_by_the_user_obeys_the_same_rule() {
    assert!(judge_going_back(CheckpointId(2), &[out(6)], Allowed::default()).is_err());
    assert!(judge_going_back(CheckpointId(6), &[out(6)], Allowed::default()).is_ok());
    assert!(judge_going_back(CheckpointId(2), &[out(6)], Allowed { duplicates: true, ..Allowed::default() }).is_ok());
}

#[test]
fn what_is_recorded_may_be_committed_by_every_transactional_sink() {
    let committed = may_have_committed(["a", "b"], Some(CheckpointId(6)));
    let names: Vec<(&str, u64)> = committed.iter().map(|known| (known.sink.as_str(), known.epoch.0)).collect();
    assert_eq!(names, [("a", 6), ("b", 6)]);
    assert!(may_have_committed(["a"], None).is_empty());
}
