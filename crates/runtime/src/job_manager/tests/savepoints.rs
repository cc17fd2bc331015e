//! Savepoints by the job manager: kept while they are copied, taken at the end, begun from.

use super::rig::{Rig, plan, settings};
use super::store::Store;
use crate::error::ErrorKind;
use crate::io::elsewhere;
use crate::job_manager::{Command, JobSettings, Outcome};
use crate::manifest::Manifest;
use flott_checkpoint::{
    AttemptId, CheckpointId, Elsewhere, Incarnation, Kind, LogEntry, Mode, Options, RequestId, Savepoint, StartEntry,
};

const PLACE: &str = "/shelf/savepoint";

fn manifest(store: &Store, path: &str) -> Manifest {
    Manifest::decode(path, &store.get(path).expect("it is there")).expect("readable")
}

/// Puts the final checkpoint of another job where the storage can read it by a path that is not its own.
fn savepoint(seed: u64) -> (Store, Elsewhere) {
    let other = Store::default();
    let mut rig = Rig::new(&other, seed);
    rig.run_until(|rig| rig.completed().len() == 4);
    rig.command(Command::EndWithSavepoint { drain: false });
    assert!(matches!(rig.run(), Outcome::Stopped { checkpoint: Some(id) } if id.0 == 5));
    let (path, store) = ("manifests/5-1.json", Store::default());
    let (bytes, found) = (other.get(path).expect("it is there"), manifest(&other, path));
    assert!(found.is_full(), "the fifth would have been an increment");
    store.put(&elsewhere(PLACE, path), bytes.clone());
    let (id, key_seed) = (u64::from_str_radix(&found.incarnation, 16).expect("hex"), found.key_seed.0);
    let incarnation = Incarnation { id, key_seed, key_groups: found.key_groups };
    let (location, checksum) = (PLACE.to_owned(), Manifest::checksum(&bytes));
    let savepoint = Savepoint { location, id: CheckpointId(5), attempt: AttemptId(1), checksum, claim: false };
    (store, Elsewhere { savepoint, incarnation })
}

fn starts(store: &Store) -> Vec<StartEntry> {
    let entries = store.entries().into_iter();
    entries.filter_map(|entry| if let LogEntry::Start(start) = entry { Some(start) } else { None }).collect()
}

#[test]
fn a_stop_with_a_savepoint_ends_with_a_full_checkpoint_that_holds_nothing_in_flight() {
    for mode in Mode::ALL {
        let coordinator = Options { mode, ..Options::default() };
        let store = Store::default();
        let mut rig = Rig::with(&store, 31, plan(), JobSettings { coordinator, ..settings() });
        rig.run_until(|rig| rig.completed().len() == 2);
        rig.command(Command::EndWithSavepoint { drain: false });
        let outcome = rig.run();
        assert!(matches!(outcome, Outcome::Stopped { checkpoint: Some(id) } if id.0 == 3), "{outcome:?}");
        let last = manifest(&store, "manifests/3-1.json");
        assert_eq!((last.kind, last.is_full(), last.finished), (Kind::Final, true, false));
        assert_eq!(last.mode, if mode.acts_on_arrival() { Mode::Aligned } else { mode });
        assert!(rig.committed.iter().filter(|(_, id)| id.0 == 3).count() >= 2, "exit only after the commits");
    }
}

#[test]
fn a_drained_job_finishes_whatever_mail_is_lost_or_doubled() {
    for seed in 0..20 {
        let store = Store::default();
        let mut rig = Rig::new(&store, seed);
        rig.script.lossy = 30;
        rig.run_until(|rig| rig.completed().len() == 2);
        rig.command(Command::EndWithSavepoint { drain: true });
        let outcome = rig.run();
        let Outcome::Finished { checkpoint: Some(id), before: false } = outcome else {
            panic!("seed {seed}: {outcome:?}")
        };
        let last = manifest(&store, &format!("manifests/{id}-1.json"));
        assert!(last.finished && last.is_full(), "seed {seed}");
    }
}

#[test]
fn a_savepoint_is_kept_until_it_is_released_and_then_goes_as_any_checkpoint() {
    let coordinator = Options { retained: 1, ..Options::default() };
    let store = Store::default();
    let mut rig = Rig::with(&store, 33, plan(), JobSettings { coordinator, ..settings() });
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.command(Command::Savepoint { request: RequestId(9) });
    rig.run_until(|rig| rig.completed().len() == 8);
    let Some((RequestId(9), Ok(id))) = rig.answers.first().cloned() else { panic!("{:?}", rig.answers) };
    let path = format!("manifests/{id}-1.json");
    assert_eq!(manifest(&store, &path).kind, Kind::Savepoint, "it is being copied");
    rig.command(Command::Release(id));
    rig.run_until(|rig| rig.completed().len() == 11);
    assert!(store.get(&path).is_none(), "nobody needs it any more");
}

#[test]
fn a_job_begins_from_a_savepoint_in_a_new_incarnation_with_the_old_key_seed() {
    let (store, from) = savepoint(34);
    let mut rig = Rig::new(&store, 35);
    rig.manager.begin_with(from.clone());
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(5)]);
    let began = starts(&store).first().and_then(|start| start.began).expect("it begins one");
    assert_ne!(began.id, from.incarnation.id);
    assert_eq!((began.key_seed, began.key_groups), (from.incarnation.key_seed, from.incarnation.key_groups));
    let first = manifest(&store, "manifests/6-1.json");
    assert_eq!((first.is_full(), first.parent), (true, None), "ids go on, the line does not");
    let attempt = rig.attempts.first().expect("it ran");
    let restore = attempt.restore.as_ref().expect("it restores");
    assert!(!restore.commits && attempt.claim.is_some(), "old transactions are not touched, and R4 holds");
}

#[test]
fn until_its_first_checkpoint_every_attempt_begins_from_the_savepoint_again() {
    let (store, from) = savepoint(36);
    let mut rig = Rig::new(&store, 37);
    rig.manager.begin_with(from.clone());
    rig.run_until(|rig| rig.restored().len() == 1);
    drop(rig);
    // Another process, which was told nothing.
    let mut rig = Rig::new(&store, 38);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [Some(5)]);
    let [first, second] = starts(&store).try_into().expect("two attempts");
    assert_eq!((first.incarnation, second.began), (second.incarnation, None));
    assert_eq!(second.savepoint, Some(from.savepoint));
    let mut rig = Rig::new(&store, 39);
    rig.script.ends_after = Some(1);
    rig.run();
    assert_eq!(rig.restored(), [Some(6)], "its own checkpoint, from then on");
    assert_eq!(starts(&store).last().and_then(|start| start.savepoint.clone()), None);
}

#[test]
fn a_savepoint_that_is_missing_or_damaged_is_not_fallen_back_from() {
    let path = elsewhere(PLACE, "manifests/5-1.json");
    for damage in [true, false] {
        let (store, from) = savepoint(40);
        if damage {
            store.damage(&path)
        } else {
            store.remove(&path)
        }
        let mut rig = Rig::new(&store, 41);
        rig.manager.begin_with(from);
        let Outcome::Failed(error) = rig.run() else { panic!("it ran") };
        assert_eq!(error.kind(), ErrorKind::Unusable);
        assert!(error.to_string().contains(&path), "{error}");
    }
}
