//! What a Start restores (R1-R4, L3), and what happens when it is damaged.

use super::rig::{Rig, When, plan, settings};
use super::store::Store;
use crate::error::{Error, ErrorKind};
use crate::job_manager::{JobSettings, Outcome};
use crate::manifest::Manifest;
use crate::plan::{Plan, Role};
use flott_checkpoint::{Guarantee, Mode, Restore};

/// A store with checkpoints 1 to `count`, whose process was killed.
fn killed_after(count: usize) -> Store {
    let store = Store::default();
    let mut rig = Rig::with(&store, 50, printing(), settings());
    rig.run_until(|rig| rig.completed().len() == count);
    store
}

/// The plan with a sink that shows its output at once.
fn printing() -> Plan {
    let mut plan = plan();
    plan.operators[2].role = Role::Sink { transactional: false };
    plan
}

fn manifest(store: &Store, path: &str) -> Manifest {
    Manifest::decode(path, &store.get(path).expect("it is there")).expect("it can be read")
}

fn failed(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Failed(error) => error,
        other => panic!("it must fail: {other:?}"),
    }
}

#[test]
fn a_new_process_goes_on_from_the_head_with_the_ids_and_bases_that_follow() {
    let store = killed_after(3);
    let mut rig = Rig::with(&store, 51, printing(), settings());
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(3)]);
    let attempt = &rig.attempts[0];
    let restore = attempt.restore.as_ref().expect("it restores");
    assert_eq!(restore.manifests.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 3], "with all its bases");
    assert!(restore.same_topology && attempt.claim.is_none());
    assert_eq!((attempt.id.0, attempt.first_checkpoint.0), (5, 4));
    let next = manifest(&store, "manifests/4-5.json");
    assert_eq!((next.parent.map(|id| id.0), next.base.map(|base| base.id.0)), (Some(3), Some(3)));
}

#[test]
fn both_steps_of_the_restore_are_kept_apart() {
    let store = killed_after(1);
    let mut rig = Rig::with(&store, 52, printing(), settings());
    rig.script.slow = Some(1);
    rig.script.fails.push((3, When::Restoring, Error::failed("cannot read the segment")));
    // The rig asserts that nobody is told to open before all have restored.
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(1), Some(1)]);
}

#[test]
fn an_older_checkpoint_is_restored_when_asked_for_and_the_next_one_is_full() {
    let store = killed_after(3);
    let options = JobSettings { restore: Restore::Id(flott_checkpoint::CheckpointId(2)), ..settings() };
    let mut rig = Rig::with(&store, 53, printing(), options);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(2)]);
    let next = manifest(&store, "manifests/4-5.json");
    assert_eq!((next.parent.map(|id| id.0), next.base), (Some(2), None));
    // `--restore` shapes the first Start alone.
    rig.panic_workers(Some(Error::failed("once")));
    rig.run_until(|rig| rig.completed().len() == 2);
    assert_eq!(rig.restored(), [Some(2), Some(4)]);
}

#[test]
fn restore_none_begins_an_incarnation_that_never_falls_back_into_the_old_one() {
    let store = killed_after(2);
    let options = JobSettings { restore: Restore::None, overwrite: true, ..settings() };
    let mut rig = Rig::with(&store, 54, printing(), options);
    rig.run_until(|rig| rig.attempts.len() == 1);
    assert!(rig.attempts[0].claim.is_some_and(|claim| claim.overwrite));
    let old = manifest(&store, "manifests/2-1.json");
    assert_ne!(rig.attempts[0].incarnation, old.incarnation);
    // A failure before its first checkpoint restores nothing again.
    rig.panic_workers(Some(Error::failed("once")));
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [None, None]);
    assert_eq!(rig.attempts[0].incarnation, rig.attempts[1].incarnation);
    assert!(rig.attempts[1].claim.is_some(), "nothing is committed yet: foreign output is still in the way");
    store.damage("manifests/3-5.json");
    let error = failed(Rig::with(&store, 55, printing(), settings()).run());
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    assert!(error.to_string().contains("--restore none"), "{error}");
}

#[test]
fn a_damaged_manifest_falls_back_along_parent_when_nothing_can_be_doubled() {
    let store = killed_after(3);
    store.damage("manifests/3-1.json");
    let mut rig = Rig::with(&store, 56, printing(), settings());
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(2)]);
    assert!(rig.warnings().contains("goes back to checkpoint 2"), "{}", rig.warnings());
    assert!(manifest(&store, "manifests/4-6.json").is_full(), "not the head was restored");
}

#[test]
fn a_damaged_base_and_a_missing_manifest_are_damage_too() {
    let store = killed_after(3);
    store.remove("manifests/2-1.json");
    let mut rig = Rig::with(&store, 57, printing(), settings());
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(1)], "3 needs 2, 2 is gone, 1 is full");
}

#[test]
fn a_segment_that_a_worker_finds_damaged_falls_back_too() {
    let store = killed_after(2);
    let mut rig = Rig::with(&store, 58, printing(), settings());
    rig.script.fails.push((4, When::Restoring, Error::unusable("data/1/2-0.seg: block 3 is damaged")));
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(2), Some(1)]);
    assert!(rig.restarts().is_empty(), "a fallback is no restart");
}

#[test]
fn no_fallback_and_nothing_to_fall_back_to_end_the_job_with_the_damaged_file_named() {
    let store = killed_after(2);
    store.damage("manifests/2-1.json");
    let options = JobSettings { no_fallback: true, ..settings() };
    let error = failed(Rig::with(&store, 59, printing(), options).run());
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert!(error.to_string().contains("manifests/2-1.json"), "{error}");
    store.damage("manifests/1-1.json");
    let error = failed(Rig::with(&store, 60, printing(), settings()).run());
    assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains("no older one"), "{error}");
}

#[test]
fn no_fallback_passes_output_that_may_be_committed_unless_duplicates_are_allowed() {
    let store = Store::default();
    Rig::new(&store, 61).run_until(|rig| rig.completed().len() == 3);
    store.damage("manifests/3-1.json");
    let error = failed(Rig::new(&store, 62).run());
    assert_eq!(error.kind(), ErrorKind::Unusable);
    let text = error.to_string();
    assert!(
        text.contains("sink out") && text.contains("checkpoint 3") && text.contains("--allow-duplicates"),
        "{text}"
    );

    let older = JobSettings { restore: Restore::Id(flott_checkpoint::CheckpointId(2)), ..settings() };
    let slots = store.paths("log/").len();
    let error = failed(Rig::with(&store, 63, plan(), older).run());
    assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains("sink out"), "{error}");
    assert_eq!(store.paths("log/").len(), slots, "the log is unchanged by what was refused");

    let allowed = JobSettings { allow_duplicates: true, ..settings() };
    let mut rig = Rig::with(&store, 64, plan(), allowed);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(2)]);
    let path = store.paths("manifests/4-").pop().expect("it was written");
    assert_eq!(manifest(&store, &path).guarantee, Guarantee::AtLeastOnce, "output may come twice");
}

#[test]
fn the_guarantee_is_inherited_from_what_was_restored() {
    let store = Store::default();
    let mut options = settings();
    options.coordinator.mode = Mode::AtLeastOnce;
    Rig::with(&store, 65, plan(), options).run_until(|rig| rig.completed().len() == 1);
    let mut rig = Rig::new(&store, 66);
    rig.run_until(|rig| rig.completed().len() == 1);
    let next = manifest(&store, "manifests/2-3.json");
    assert_eq!((next.mode, next.guarantee), (Mode::Aligned, Guarantee::AtLeastOnce));
    let strict = JobSettings { require: Some(Guarantee::ExactlyOnce), ..settings() };
    let error = failed(Rig::with(&store, 67, plan(), strict).run());
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("restored"), "{error}");
}

#[test]
fn a_source_that_cannot_be_read_again_lessens_the_guarantee_of_all_that_follows() {
    let mut socket = plan();
    socket.operators[0].role = Role::Source { replayable: false, bounded: true };
    let store = Store::default();
    Rig::with(&store, 74, socket, settings()).run_until(|rig| rig.completed().len() == 1);
    assert_eq!(manifest(&store, "manifests/1-1.json").guarantee, Guarantee::AtMostOnce);
    // The source can be replaced, what is missing in the state cannot.
    Rig::new(&store, 75).run_until(|rig| rig.completed().len() == 1);
    assert_eq!(manifest(&store, "manifests/2-3.json").guarantee, Guarantee::AtMostOnce);
}

#[test]
fn a_checkpoint_that_is_not_in_the_log_cannot_be_restored() {
    let store = killed_after(1);
    let options = JobSettings { restore: Restore::Id(flott_checkpoint::CheckpointId(77)), ..settings() };
    let error = failed(Rig::with(&store, 68, printing(), options).run());
    assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains("77"), "{error}");
}
