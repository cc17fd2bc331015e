//! Tests of retention: the number, the branches, the bases, and what is in use.

use super::*;
use proptest::prelude::*;

/// A checkpoint in the slot after its id, recorded by attempt 1.
fn known(id: u64, parent: Option<u64>, base: Option<u64>) -> Recorded {
    Recorded {
        id: CheckpointId(id),
        slot: Slot(id + 1),
        attempt: AttemptId(1),
        parent: parent.map(CheckpointId),
        base: base.map(CheckpointId),
        savepoint: false,
    }
}

fn line(ids: std::ops::RangeInclusive<u64>) -> Vec<Recorded> {
    ids.map(|id| known(id, (id > 1).then(|| id - 1), None)).collect()
}

fn in_use(newest: u64, retained: u32) -> InUse {
    InUse {
        attempt: AttemptId(1),
        newest: Some(CheckpointId(newest)),
        restored_from: None,
        pending: None,
        pins: LiteSet::new(),
        retained,
    }
}

fn gone(recorded: &[Recorded], in_use: &InUse) -> Vec<u64> {
    retain(recorded, in_use).expendable.iter().map(|known| known.id.0).collect()
}

#[test]
fn the_newest_of_the_line_are_kept_and_the_oldest_goes_first() {
    assert_eq!(gone(&line(1..=6), &in_use(6, 3)), [1, 2, 3]);
    assert_eq!(gone(&line(1..=3), &in_use(3, 3)), [0; 0]);
}

#[test]
fn an_increment_keeps_its_bases_down_to_the_full_one() {
    let mut recorded = line(1..=6);
    for (known, base) in recorded.iter_mut().zip([None, None, Some(2), Some(3), Some(4), Some(5)]) {
        known.base = base.map(CheckpointId);
    }
    assert_eq!(gone(&recorded, &in_use(6, 1)), [1]);
    let kept = retain(&recorded, &in_use(6, 1)).needed;
    assert!(recorded.iter().any(|known| known.base.is_none() && kept.contains(&known.id)), "a full one is kept");
}

#[test]
fn what_was_recorded_since_somebody_said_what_is_in_use_is_kept_with_its_bases() {
    let mut recorded = line(1..=3);
    for (known, base) in recorded.iter_mut().zip([None, Some(1), Some(2)]) {
        known.base = base.map(CheckpointId);
    }
    let mut at_the_start = in_use(1, 1);
    at_the_start.newest = None;
    assert_eq!(gone(&recorded, &at_the_start), [0; 0], "nothing had been recorded then");
    assert_eq!(gone(&recorded, &in_use(1, 1)), [0; 0]);
    assert_eq!(gone(&line(1..=4), &in_use(2, 1)), [1], "and what was old then is still old");
}

#[test]
fn pins_and_the_pending_checkpoint_with_its_base_are_needed() {
    let mut use_ = in_use(6, 1);
    use_.pins.insert(CheckpointId(1));
    use_.pending = Some((CheckpointId(7), Some(CheckpointId(4))));
    assert_eq!(gone(&line(1..=6), &use_), [2, 3, 5]);
}

#[test]
fn an_abandoned_branch_goes_after_the_first_checkpoint_of_the_new_one_and_not_before() {
    let mut use_ = InUse { attempt: AttemptId(9), restored_from: Some(CheckpointId(2)), ..in_use(2, 3) };
    let mut recorded = line(1..=5);
    assert_eq!(gone(&recorded, &use_), [0; 0]);
    recorded.push(Recorded { attempt: AttemptId(9), ..known(8, Some(2), None) });
    use_.newest = Some(CheckpointId(8));
    assert_eq!(gone(&recorded, &use_), [3, 4, 5], "1, 2 and 8 are the line");
}

#[test]
fn savepoints_stay_as_long_as_their_line_or_a_pin_and_do_not_use_up_its_number() {
    let mut recorded = line(1..=5);
    for known in recorded.iter_mut().filter(|known| [1, 5].contains(&known.id.0)) {
        known.savepoint = true;
    }
    assert_eq!(gone(&recorded, &in_use(5, 2)), [1, 2], "5 does not count, and 1 is copied");
    let copied = InUse { pins: LiteSet::from_iter([CheckpointId(1)]), ..in_use(5, 2) };
    assert_eq!(gone(&recorded, &copied), [2], "1 is being copied");
}

#[test]
fn checkpoints_of_newer_attempts_are_left_alone() {
    let mut recorded = line(1..=4);
    recorded.push(Recorded { attempt: AttemptId(9), ..known(5, Some(2), Some(2)) });
    assert_eq!(gone(&recorded, &in_use(4, 1)), [1, 3], "2 is the base of the newer attempt's");
}

#[test]
fn a_circle_of_parents_or_bases_in_a_damaged_log_ends() {
    let recorded = [known(1, Some(2), Some(2)), known(2, Some(1), Some(1))];
    assert_eq!(gone(&recorded, &in_use(2, 10)), [0; 0]);
}

proptest! {
    #[test]
    fn whatever_stays_can_be_restored(
        bases in prop::collection::vec(any::<Option<prop::sample::Index>>(), 1..20),
        parents in prop::collection::vec(any::<prop::sample::Index>(), 20),
        newest: prop::sample::Index,
        retained in 1u32..5,
    ) {
        let recorded: Vec<Recorded> = bases.iter().zip(&parents).enumerate().map(|(n, (base, parent))| {
            let older = |index: &prop::sample::Index| (n > 0).then(|| index.index(n.max(1)) as u64 + 1);
            known(n as u64 + 1, older(parent), base.as_ref().and_then(older))
        }).collect();
        let newest = newest.index(recorded.len()) as u64 + 1;
        let Retention { needed, expendable } = retain(&recorded, &in_use(newest, retained));
        let gone: LiteSet<CheckpointId> = expendable.iter().map(|known| known.id).collect();
        prop_assert!(!needed.iter().any(|id| gone.contains(id)));
        prop_assert_eq!(needed.len() + gone.len(), recorded.len());
        prop_assert!(needed.contains(&CheckpointId(newest)));
        for known in recorded.iter().filter(|known| needed.contains(&known.id)) {
            prop_assert!(known.base.is_none_or(|base| needed.contains(&base)), "{} lost its base", known.id);
        }
    }
}
