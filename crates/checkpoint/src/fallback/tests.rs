//! Tests of the fallback: along `parent`, inside the incarnation, never past what may be committed.

use super::*;

fn ancestor(id: u64, parent: Option<u64>, incarnation: u64) -> Ancestor {
    Ancestor { id: CheckpointId(id), parent: parent.map(CheckpointId), incarnation }
}

/// 1 <- 2 <- 3 <- 6, and 4 <- 5 of another incarnation, the parent of 5 being 4.
fn recorded() -> Vec<Ancestor> {
    vec![
        ancestor(1, None, 7),
        ancestor(2, Some(1), 7),
        ancestor(3, Some(2), 7),
        ancestor(4, Some(3), 8),
        ancestor(5, Some(4), 8),
        ancestor(6, Some(3), 7),
    ]
}

fn from(damaged: u64, unusable: &[u64], committed: &[SinkEpoch], allowed: Allowed) -> Result<GoBack, Refusal> {
    let unusable = unusable.iter().map(|&id| CheckpointId(id)).collect();
    fall_back(CheckpointId(damaged), &unusable, &recorded(), committed, allowed)
}

fn out(epoch: u64) -> SinkEpoch {
    SinkEpoch { sink: "out".to_owned(), epoch: CheckpointId(epoch) }
}

#[test]
fn without_a_transactional_sink_it_goes_to_the_parent_and_past_what_is_unusable_too() {
    let to = |id| Ok(GoBack { to: CheckpointId(id), doubled: Vec::new() });
    assert_eq!(from(6, &[], &[], Allowed::default()), to(3));
    assert_eq!(from(6, &[3, 2], &[], Allowed::default()), to(1));
    assert_eq!(from(5, &[], &[], Allowed::default()), to(4));
}

#[test]
fn it_never_leaves_the_incarnation_and_says_when_nothing_is_left() {
    let none = |id| Err(Refusal::NoneLeft { damaged: CheckpointId(id) });
    assert_eq!(from(4, &[], &[], Allowed::default()), none(4));
    assert_eq!(from(5, &[4], &[], Allowed::default()), none(5));
    assert_eq!(from(1, &[], &[], Allowed::default()), none(1));
    assert_eq!(from(99, &[], &[], Allowed::default()), none(99));
}

#[test]
fn an_epoch_that_may_be_committed_is_refused_by_name() {
    let refused = from(6, &[], &[out(6)], Allowed::default());
    assert_eq!(refused, Err(Refusal::Committed { to: CheckpointId(3), committed: out(6) }));
    let text = refused.expect_err("refused").to_string();
    assert!(
        text.contains("sink out") && text.contains("checkpoint 6") && text.contains("--allow-duplicates"),
        "{text}"
    );
}

#[test]
fn a_sink_that_has_committed_nothing_later_does_not_hinder() {
    assert_eq!(from(6, &[], &[out(3)], Allowed::default()).map(|back| back.guarantee()), Ok(Guarantee::ExactlyOnce));
}

#[test]
fn allowed_duplicates_lower_the_guarantee_and_are_named() {
    let allowed = Allowed { duplicates: true, ..Allowed::default() };
    let back = from(6, &[], &[out(3), out(6)], allowed).expect("allowed");
    assert_eq!((back.guarantee(), back.doubled), (Guarantee::AtLeastOnce, vec![out(6)]));
}

#[test]
fn no_fallback_refuses_even_a_harmless_one() {
    let allowed = Allowed { no_fallback: true, duplicates: true };
    let refused = Refusal::NotWanted { damaged: CheckpointId(6), to: CheckpointId(3) };
    assert_eq!(from(6, &[], &[], allowed), Err(refused));
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

#[test]
fn a_circle_of_parents_in_a_damaged_log_ends() {
    let circle = [ancestor(1, Some(2), 7), ancestor(2, Some(1), 7)];
    let unusable = BTreeSet::from([CheckpointId(1)]);
    let end = fall_back(CheckpointId(2), &unusable, &circle, &[], Allowed::default());
    assert_eq!(end, Err(Refusal::NoneLeft { damaged: CheckpointId(2) }));
}
