//! Two processes on one storage: at any moment one of them owns the log, and the other learns it (L2, L4, L5).

use super::rig::{Rig, When, next, plan, settings};
use super::store::{Fault, Store};
use crate::error::{Error, ErrorKind};
use crate::job_manager::{JobSettings, Outcome};
use flott_checkpoint::{LogEntry, Slot};
use std::collections::BTreeMap;

fn fenced(rig: &Rig) -> bool {
    matches!(&rig.done, Some(Outcome::Failed(error)) if error.kind() == ErrorKind::Fenced)
}

#[test]
fn a_newer_process_fences_the_older_one_which_ends_without_a_restart() {
    let store = Store::default();
    let mut old = Rig::new(&store, 80);
    old.run_until(|rig| rig.completed().len() == 2);
    let mut new = Rig::new(&store, 81);
    new.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(new.restored(), [Some(2)]);
    old.run_until(|rig| rig.done.is_some());
    assert!(fenced(&old), "{:?}", old.done);
    assert!(old.restarts().is_empty());
    assert_eq!(old.completed(), [1, 2], "what it had not recorded is not completed");
    assert!(old.committed.iter().all(|(_, id)| id.0 <= 2), "nor committed");
    new.run_until(|rig| rig.completed().len() == 3);
}

#[test]
fn a_process_whose_attempt_fails_does_not_take_the_job_back() {
    let store = Store::default();
    let mut old = Rig::new(&store, 82);
    old.run_until(|rig| rig.completed().len() == 1);
    let mut new = Rig::new(&store, 83);
    new.run_until(|rig| rig.attempts.len() == 1);
    old.panic_workers(Some(Error::failed("connection lost")));
    old.run_until(|rig| rig.done.is_some());
    assert!(fenced(&old), "{:?}", old.done);
    new.run_until(|rig| rig.completed().len() == 2);
}

#[test]
fn a_process_that_was_stopped_between_manifest_and_slot_records_nothing_when_it_goes_on() {
    let store = Store::default();
    let mut old = Rig::new(&store, 84);
    old.run_until(|_| store.get("manifests/2-1.json").is_some());
    assert!(store.get("log/3.json").is_none(), "it stands between the two");
    let mut new = Rig::new(&store, 85);
    new.script.ends_after = Some(1);
    assert!(matches!(new.run(), Outcome::Finished { .. }));
    old.run_until(|rig| rig.done.is_some());
    assert!(fenced(&old), "{:?}", old.done);
    assert_eq!(old.completed(), [1]);
}

/// What the newer one has collected or overwritten is not damaged, and no reason to tell the user to start over.
#[test]
fn a_fenced_process_that_misses_output_or_its_checkpoint_says_that_it_is_fenced() {
    for (missing, when) in [
        (Error::output_damaged("part-3 is gone"), When::Committing),
        (Error::output_damaged("part-3 is gone"), When::Restoring),
        (Error::unusable("a segment is gone"), When::Restoring),
    ] {
        let store = Store::default();
        Rig::new(&store, 86).run_until(|rig| rig.completed().len() == 1);
        let mut old = Rig::new(&store, 87);
        old.script.fails.push((3, when, missing.clone()));
        if when == When::Committing {
            old.run_until(|_| store.get("log/4.json").is_some());
        } else {
            old.run_until(|rig| rig.attempts.len() == 1);
        }
        let mut new = Rig::new(&store, 88);
        new.run_until(|rig| rig.completed().len() == 2);
        assert!(old.done.is_none(), "it stands before its failure");
        old.run_until(|rig| rig.done.is_some());
        assert!(fenced(&old), "{missing}, {when:?}: {:?}", old.done);
        // Of one that owns the job it is the truth.
        new.panic_workers(Some(Error::output_damaged("part-4 is gone")));
        let Outcome::Failed(error) = new.run() else { panic!("it must fail") };
        assert_eq!(error.kind(), ErrorKind::OutputDamaged);
    }
}

#[test]
fn a_fenced_process_whose_manifest_was_collected_says_that_it_is_fenced() {
    let store = Store::default();
    Rig::new(&store, 89).run_until(|rig| rig.completed().len() == 2);
    let mut old = Rig::new(&store, 90);
    let reads = || store.asked().iter().filter(|asked| *asked == "read manifests/2-1.json").count();
    let before = reads();
    // It reads what checkpoint 2 says, and not yet what that builds on.
    old.run_until(|_| reads() > before);
    let mut new = Rig::new(&store, 91);
    new.run_until(|rig| rig.completed().len() == 1);
    store.remove("manifests/1-1.json");
    old.run_until(|rig| rig.done.is_some());
    assert!(fenced(&old), "{:?}", old.done);
}

#[test]
fn an_id_is_recorded_once_whatever_two_processes_do() {
    for seed in 0..60u64 {
        let store = Store::default();
        let mut random = seed;
        let options = || {
            let mut options = JobSettings { default_workers: 1, ..settings() };
            options.coordinator.timeout = std::time::Duration::from_secs(10);
            options
        };
        let mut rigs: Vec<Rig> = (0..3).map(|n| Rig::with(&store, seed * 10 + n, plan(), options())).collect();
        for _ in 0..400 {
            let chosen = usize::try_from(next(&mut random) % 3).expect("small");
            // Now one runs far ahead, now another; the storage forgets answers.
            let steps = next(&mut random) % 40;
            if next(&mut random).is_multiple_of(10) {
                store.break_next("create log", Fault::AnswerLost, 1);
            }
            for _ in 0..steps {
                if rigs[chosen].done.is_none() {
                    rigs[chosen].step();
                }
            }
            if rigs[chosen].done.is_some() {
                assert!(fenced(&rigs[chosen]), "seed {seed}: {:?}", rigs[chosen].done);
            }
        }
        check_log(&store, seed);
        let recorded = recorded(&store, seed);
        for rig in &rigs {
            for (attempt, id) in &rig.committed {
                assert_eq!(recorded.get(&id.0), Some(&attempt.0), "seed {seed}: committed what it did not record");
            }
        }
        assert!(recorded.len() > 10, "seed {seed}: somebody got forward");
    }
}

/// By which attempt each id was ever recorded: once, whatever retention deletes.
fn recorded(store: &Store, seed: u64) -> BTreeMap<u64, u64> {
    let mut recorded = BTreeMap::new();
    for entry in store.entries() {
        if let LogEntry::Checkpoint(entry) = entry {
            let before = recorded.insert(entry.id.0, entry.attempt.0);
            assert!(before.is_none(), "seed {seed}: {} was recorded twice", entry.id);
        }
    }
    recorded
}

/// The log is dense at its head, its ids grow, and every checkpoint follows an entry of its own attempt.
fn check_log(store: &Store, seed: u64) {
    let mut slots: Vec<(Slot, LogEntry)> = store
        .paths("log/")
        .iter()
        .filter_map(|path| match crate::layout::parse(path) {
            Some(crate::layout::Name::Slot(slot)) => Some((slot, path)),
            _ => None,
        })
        .map(|(slot, path)| (slot, LogEntry::decode(&store.get(path).expect("listed")).expect("readable")))
        .collect();
    slots.sort_by_key(|(slot, _)| *slot);
    let mut newest = 0;
    let mut owner = 0;
    for (slot, entry) in slots {
        match entry {
            LogEntry::Start(start) => {
                assert!(start.next_id.0 > newest, "seed {seed}: slot {slot}");
                owner = start.attempt.0;
            }
            LogEntry::Checkpoint(checkpoint) => {
                assert!(checkpoint.id.0 > newest, "seed {seed}: slot {slot} repeats an id");
                assert_eq!(checkpoint.attempt.0, owner, "seed {seed}: slot {slot} is of a fenced attempt");
                newest = checkpoint.id.0;
            }
        }
    }
}
