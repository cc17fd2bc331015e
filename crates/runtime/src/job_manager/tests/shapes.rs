//! Contract 5: a checkpoint meets a job of another shape.

use super::rig::{Rig, plan, settings};
use super::store::Store;
use crate::control::{BlobRef, Captured, ChannelPart};
use crate::error::{Error, ErrorKind};
use crate::job_manager::{JobEvent, JobSettings, Outcome};
use crate::key::Shape;
use crate::manifest::Manifest;
use crate::plan::{Plan, Role, StatePlan};
use crate::time::Watermark;
use flott_checkpoint::CheckpointId;

fn recorded() -> Store {
    let store = Store::default();
    Rig::new(&store, 70).run_until(|rig| rig.completed().len() == 1);
    store
}

fn refused(store: &Store, plan: Plan, settings: JobSettings) -> Error {
    let mut rig = Rig::with(store, 71, plan, settings);
    let Outcome::Failed(error) = rig.run() else { panic!("it must not start") };
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    assert!(rig.attempts.is_empty(), "no worker is started");
    error
}

fn starts(store: &Store, plan: Plan, settings: JobSettings) -> Rig {
    let mut rig = Rig::with(store, 72, plan, settings);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(1)]);
    rig
}

#[test]
fn state_that_nothing_claims_is_named_and_left_behind_only_when_that_is_allowed() {
    let store = recorded();
    let mut other = plan();
    other.operators[1].name = "totals".to_owned();
    let error = refused(&store, other.clone(), settings());
    assert!(error.to_string().contains("`counts`") && error.to_string().contains("--allow-unclaimed-state"), "{error}");
    let rig = starts(&store, other, JobSettings { allow_unclaimed_state: true, ..settings() });
    assert!(rig.warnings().contains("`counts`") && rig.warnings().contains("`totals` is new"), "{}", rig.warnings());
}

#[test]
fn a_state_inside_an_operator_is_claimed_by_name_too() {
    let store = recorded();
    let mut other = plan();
    other.operators[1].states[0].name = "sum".to_owned();
    let error = refused(&store, other, settings());
    assert!(error.to_string().contains("`count` of operator `counts`"), "{error}");
}

#[test]
fn renamed_state_moves_to_its_new_name() {
    let store = recorded();
    let mut renamed = plan();
    renamed.operators[1].name = "totals".to_owned();
    renamed.operators[1].renamed_from = Some("counts".to_owned());
    let rig = starts(&store, renamed.clone(), settings());
    assert_eq!(rig.warnings(), "");
    // Once it is stored under the new name, the old one is of no importance.
    let mut rig = Rig::with(&store, 73, renamed, settings());
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.warnings(), "");
}

#[test]
fn an_operator_without_state_in_the_checkpoint_starts_empty_and_says_so() {
    let store = recorded();
    let mut more = plan();
    let mut another = more.operators[1].clone();
    another.name = "totals".to_owned();
    more.operators.push(another);
    let rig = starts(&store, more, settings());
    assert!(rig.warnings().contains("operator `totals` is new: its state starts empty"), "{}", rig.warnings());
}

#[test]
fn another_key_type_kind_or_role_is_refused() {
    let store = recorded();
    let change = |with: &dyn Fn(&mut StatePlan)| {
        let mut other = plan();
        with(&mut other.operators[1].states[0]);
        refused(&store, other, settings()).to_string()
    };
    let key = change(&|state| state.key = "u64".to_owned());
    assert!(key.contains("key type") && key.contains("`string`") && key.contains("`u64`"), "{key}");
    assert!(change(&|state| state.kind = "timers".to_owned()).contains("kind"));
    let mut other = plan();
    other.operators[2].role = Role::Sink { transactional: false };
    let role = refused(&store, other, settings()).to_string();
    assert!(role.contains("`out` was a committing sink"), "{role}");
}

#[test]
fn a_key_type_that_was_renamed_or_moved_is_the_same_and_one_with_holes_agrees() {
    mod elsewhere {
        #[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub(super) struct Text(String);
    }
    let keyed = |key: String| {
        let mut other = plan();
        other.operators[1].states[0].key = key;
        other
    };
    let renamed = Shape::of_type::<elsewhere::Text>().to_string();
    for key in [renamed, "?".to_owned(), "any".to_owned()] {
        starts(&recorded(), keyed(key), settings());
    }
}

#[test]
fn another_value_type_is_not_refused_for_fields_can_be_added() {
    let store = recorded();
    let mut other = plan();
    other.operators[1].states[0].value = "struct Total { n, sum }".to_owned();
    starts(&store, other, settings());
}

#[test]
fn the_workers_are_those_of_the_checkpoint_unless_the_user_says_otherwise() {
    let store = recorded();
    let rig = starts(&store, plan(), JobSettings { default_workers: 7, ..settings() });
    assert_eq!((rig.attempts[0].workers, rig.attempts[0].rescaled_from()), (2, None));
    for workers in [1, 3, 128] {
        let store = recorded();
        let rig = starts(&store, plan(), JobSettings { workers: Some(workers), ..settings() });
        assert_eq!((rig.attempts[0].workers, rig.attempts[0].rescaled_from()), (workers, Some(2)));
        let told = |event: &JobEvent| matches!(event, JobEvent::Restored { rescaled_from: Some(2), .. });
        assert!(rig.events.iter().any(told), "{:?}", rig.events);
    }
}

#[test]
fn the_first_checkpoint_of_other_workers_is_full_and_those_after_it_build_on_it() {
    let store = recorded();
    let mut rig = Rig::with(&store, 72, plan(), JobSettings { workers: Some(3), ..settings() });
    rig.run_until(|rig| rig.completed().len() == 2);
    let attempt = rig.attempts[0].id;
    let manifest = |id| {
        let path = crate::layout::manifest(CheckpointId(id), attempt);
        Manifest::decode(&path, &store.get(&path).expect("it is there")).expect("readable")
    };
    assert_eq!((manifest(2).workers, manifest(2).base, manifest(2).parent), (3, None, Some(CheckpointId(1))));
    assert_eq!(manifest(3).base.map(|base| base.id), Some(CheckpointId(2)));
    // A process that is told nothing goes on with them.
    let rig = starts_from(&store, 3, settings());
    assert_eq!((rig.attempts[0].workers, rig.attempts[0].rescaled_from()), (3, None));
}

fn starts_from(store: &Store, id: u64, settings: JobSettings) -> Rig {
    let mut rig = Rig::with(store, 73, plan(), settings);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(id)]);
    rig
}

#[test]
fn more_workers_than_key_groups_are_refused() {
    let store = Store::default();
    let few = JobSettings { key_groups: 3, ..settings() };
    Rig::with(&store, 70, plan(), few).run_until(|rig| rig.completed().len() == 1);
    // The key groups are those of the checkpoint, whatever a new job would have.
    let mut rig = Rig::with(&store, 71, plan(), JobSettings { workers: Some(4), ..settings() });
    let Outcome::Failed(error) = rig.run() else { panic!("it must not start") };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let said = error.to_string();
    assert!(said.contains("4 workers") && said.contains("3 key groups") && said.contains("--workers 3"), "{said}");
    assert!(rig.attempts.is_empty(), "no worker is started");
    starts(&store, plan(), JobSettings { workers: Some(3), ..settings() });
}

#[test]
fn other_edges_are_no_hindrance_and_workers_are_told() {
    let store = recorded();
    let mut other = plan();
    other.edges[0].partitioning = crate::plan::Partitioning::Rebalance;
    let rig = starts(&store, other, settings());
    assert!(!rig.attempts[0].restore.as_ref().expect("it restores").same_topology);
}

/// Says in the first checkpoint that three records were in flight to its last subtask.
fn with_records_in_flight(store: &Store) {
    let path = "manifests/1-1.json";
    let mut manifest = Manifest::decode(path, &store.get(path).expect("it is there")).expect("readable");
    let part = manifest.parts.last_mut().expect("it has parts");
    let (watermark, captured) = (Watermark::default(), Captured { records: 3, bytes: 90, window: 24 });
    part.channels.push(ChannelPart { edge: 0, from: 0, watermark, end_of_data: false, captured });
    let segment = crate::layout::segment(manifest.attempt, manifest.id, part.subtask.index);
    part.segment = Some(BlobRef { path: segment, length: 200, checksum: "00".repeat(8) });
    replace_manifest(store, manifest.encode());
}

fn replace_manifest(store: &Store, bytes: bytes::Bytes) {
    let (path, slot) = ("manifests/1-1.json", "log/2.json");
    let entry = flott_checkpoint::LogEntry::decode(&store.get(slot).expect("it is there")).expect("readable");
    let flott_checkpoint::LogEntry::Checkpoint(mut entry) = entry else { panic!("slot 2 is a checkpoint") };
    entry.checksum = Manifest::checksum(&bytes);
    store.put(path, bytes);
    store.put(slot, flott_checkpoint::LogEntry::Checkpoint(entry).encode().into());
}

#[test]
fn records_in_flight_are_refused_by_a_job_with_other_channels_and_welcome_in_the_same() {
    let store = recorded();
    with_records_in_flight(&store);
    let mut other = plan();
    other.edges[0].partitioning = crate::plan::Partitioning::Rebalance;
    let error = refused(&store, other, settings()).to_string();
    assert!(error.contains("3 records that were in flight") && error.contains("savepoint"), "{error}");
    let error = refused(&store, plan(), JobSettings { workers: Some(3), ..settings() }).to_string();
    for said in ["2 workers", "3 records that were in flight", "--workers 2 and --checkpoint-mode aligned"] {
        assert!(error.contains(said), "{error}");
    }
    starts(&store, plan(), settings());
}

#[test]
fn a_manifest_of_a_newer_format_is_refused_by_number() {
    let store = recorded();
    let path = "manifests/1-1.json";
    let text = String::from_utf8(store.get(path).expect("it is there").to_vec()).expect("JSON");
    let body = text.split(",\"xxh3\"").next().expect("it has a body").replace("\"format\":1", "\"format\":9");
    let hash = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
    let bytes = bytes::Bytes::from(format!("{body},\"xxh3\":\"{hash:016x}\"}}\n"));
    replace_manifest(&store, bytes);
    let error = refused(&store, plan(), settings());
    assert!(error.to_string().contains("format 9") && error.to_string().contains("newer version"), "{error}");
}
