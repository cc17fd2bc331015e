//! Tests of the history.

use super::{FAILURES_KEPT_FOR, HistoryEntry, HistoryKey, KEPT, Phases, Seen, Slowest, expired};
use crate::control::Captured;
use crate::testing::sample_job;
use flott_checkpoint::{AbortReason, AttemptId, Barrier, CheckpointId, Kind, Mode, Outcome, SubtaskId, Tried};
use litemap::LiteMap;
use proptest::prelude::*;

fn entry(outcome: Outcome) -> HistoryEntry {
    let (id, attempt, triggered_at) = (CheckpointId(9), AttemptId(4), 1_700_000_000_000);
    let barrier = Barrier { id, attempt, mode: Mode::Aligned, kind: Kind::Checkpoint, base: None, triggered_at };
    let tried = Tried { barrier, ended_at: triggered_at + 18, outcome };
    let parts = sample_job::manifest(id, attempt, None).parts;
    HistoryEntry { tried, workers: 2, phases: Phases::of(&parts, 77), captured: Captured::of(&parts) }
}

fn key(n: u64) -> HistoryKey {
    (CheckpointId(n), AttemptId(1))
}

#[test]
fn an_entry_is_read_back_and_says_why_its_checkpoint_failed() {
    let subtask = SubtaskId { vertex: 1, index: 0 };
    let declined = AbortReason::Declined { subtask, reason: "prepare: no space left on device".to_owned() };
    let cases = [
        (Outcome::Completed { full: true, bytes: 5, acked_at: 1 }, None),
        (Outcome::Aborted(declined), Some("declined by subtask 1/0: prepare: no space left on device")),
        (Outcome::Unknown { reason: "killed".to_owned() }, Some("nobody knows whether it was recorded: killed")),
    ];
    for (outcome, reason) in cases {
        let entry = entry(outcome);
        assert_eq!(HistoryEntry::decode("history/9-4.json", &entry.encode()).expect("sound"), entry);
        assert_eq!(entry.reason().as_deref(), reason);
        assert_eq!(entry.is_completed(), reason.is_none());
        HistoryEntry::decode("history/9-5.json", &entry.encode()).expect_err("another name");
    }
}

#[test]
fn each_phase_names_its_slowest_subtask() {
    let phases = entry(Outcome::Unknown { reason: String::new() }).phases;
    assert_eq!(phases.alignment, Slowest { micros: 1, subtask: Some(SubtaskId { vertex: 0, index: 1 }) });
    assert_eq!(phases.upload.micros, 4);
    assert_eq!(phases.record, 77);
    assert_eq!(Phases::of([], 0).cut, Slowest::default());
}

#[test]
fn the_newest_thousand_and_all_failures_of_seven_days_stay() {
    let week = u64::try_from(FAILURES_KEPT_FOR.as_millis()).expect("fits");
    let now = 10 * week;
    let kept = KEPT as u64;
    let entries = || (1..=kept + 5).map(key);
    let unread = expired(entries(), &LiteMap::new_vec(), now);
    assert_eq!(unread.read, (1..=5).map(key).collect::<Vec<_>>());
    assert_eq!(unread.delete, []);

    let seen = LiteMap::from_iter([
        (key(1), Some(Seen { failed: false, ended_at: now })),
        (key(2), Some(Seen { failed: true, ended_at: now - week + 1 })),
        (key(3), Some(Seen { failed: true, ended_at: now - week })),
        (key(4), None),
        (key(5), Some(Seen { failed: true, ended_at: now + week })),
    ]);
    let all = expired(entries(), &seen, now);
    assert_eq!(all.delete, [key(1), key(3), key(4)]);
    assert_eq!(all.read, []);
    assert_eq!(expired((1..=kept).map(key), &seen, now), super::Expired::default());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
        prop_assert!(HistoryEntry::decode("history/9-4.json", &bytes).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found(at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = entry(Outcome::Unknown { reason: "killed".to_owned() }).encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(HistoryEntry::decode("history/9-4.json", &bytes).is_err());
    }

    #[test]
    fn nothing_among_the_newest_thousand_is_ever_forgotten(
        ids in prop::collection::btree_set(0..5_000u64, 0..1_500),
        failed: Vec<bool>,
    ) {
        let seen = ids.iter().zip(failed.iter().cycle())
            .map(|(&id, &failed)| (key(id), Some(Seen { failed, ended_at: 0 }))).collect();
        let result = expired(ids.iter().copied().map(key), &seen, u64::MAX);
        let newest: Vec<_> = ids.iter().rev().take(KEPT).copied().map(key).collect();
        prop_assert!(result.delete.iter().chain(&result.read).all(|key| !newest.contains(key)));
    }
}
