//! How a job ends: finished, stopped, cancelled, finished before; with and without a storage.

use super::rig::{Rig, When, plan, settings};
use super::store::Store;
use crate::error::{Error, ErrorKind};
use crate::job_manager::{Command, JobEvent, JobSettings, ManagerEvent, Outcome};
use crate::manifest::Manifest;
use crate::plan::Role;
use flott_checkpoint::{Guarantee, Restore};
use std::time::Duration;

fn off() -> JobSettings {
    JobSettings { checkpoints: false, ..settings() }
}

#[test]
fn a_stop_takes_a_final_checkpoint_from_which_the_job_goes_on() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 20);
    rig.run_until(|rig| rig.completed().len() == 2);
    rig.command(Command::Stop);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Stopped { checkpoint: Some(id) } if id.0 == 3), "{outcome:?}");
    let bytes = store.get("manifests/3-1.json").expect("the final one is there");
    assert!(!Manifest::decode("manifests/3-1.json", &bytes).expect("readable").finished);
    assert!(rig.committed.iter().filter(|(_, id)| id.0 == 3).count() >= 2, "exit only after the commits");

    let mut rig = Rig::new(&store, 21);
    rig.script.ends_after = Some(1);
    assert!(matches!(rig.run(), Outcome::Finished { before: false, .. }));
    assert_eq!(rig.restored(), [Some(3)]);
}

#[test]
fn a_stop_during_the_restore_is_obeyed_as_soon_as_there_is_something_to_stop() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 22);
    rig.command(Command::Stop);
    assert!(matches!(rig.run(), Outcome::Stopped { checkpoint: Some(id) } if id.0 == 1));
}

#[test]
fn a_stop_survives_a_failure_of_its_final_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 23);
    rig.script.fails.push((1, When::Committing, Error::failed("disk full")));
    rig.command(Command::Stop);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Stopped { checkpoint: Some(_) }), "{outcome:?}");
    assert_eq!(rig.restored(), [None, Some(1)]);
}

#[test]
fn a_cancel_takes_no_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 24);
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.command(Command::Cancel);
    assert!(matches!(rig.run(), Outcome::Cancelled));
    assert_eq!(rig.completed(), [1]);
}

#[test]
fn a_finished_job_stays_finished_however_often_it_is_cancelled() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 29);
    rig.script.ends_after = Some(1);
    rig.run_until(Rig::is_closing);
    for _ in 0..2 {
        rig.queue.push_front(ManagerEvent::Command(Command::Cancel));
    }
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Finished { checkpoint: Some(_), before: false }), "{outcome:?}");
}

#[test]
fn a_failure_after_a_stop_is_followed_by_a_restart_at_once() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 19);
    rig.script.fails.push((1, When::Triggered, Error::failed("disk full")));
    rig.command(Command::Stop);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Stopped { checkpoint: Some(_) }), "{outcome:?}");
    let delays: Vec<Duration> = rig.restarts().into_iter().map(|(_, delay)| delay).collect();
    assert_eq!(delays, [Duration::ZERO]);
}

#[test]
fn a_finished_job_started_again_commits_its_tokens_and_opens_no_source() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 25);
    rig.script.ends_after = Some(1);
    rig.run();
    let mut rig = Rig::new(&store, 26);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Finished { checkpoint: Some(id), before: true } if id.0 == 2), "{outcome:?}");
    assert_eq!(rig.restored(), [Some(2)]);
    assert!(!rig.events.iter().any(|event| matches!(event, JobEvent::Progress { .. })), "no worker was opened");
    assert!(store.paths("log/").contains(&"log/4.json".to_owned()), "it won a Start of its own");
}

#[test]
fn a_failure_between_the_final_slot_and_its_commits_ends_in_the_same_process() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 27);
    rig.script.ends_after = Some(0);
    rig.script.fails.push((1, When::Committing, Error::failed("rename failed")));
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Finished { checkpoint: Some(id), .. } if id.0 == 1), "{outcome:?}");
    assert_eq!(rig.restored(), [None, Some(1)]);
}

#[test]
fn without_a_storage_a_bounded_job_commits_once_at_its_end_and_asks_no_storage() {
    let store = Store::default();
    let mut rig = Rig::with(&store, 28, plan(), off());
    rig.script.ends_after = Some(0);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Finished { checkpoint: None, before: false }), "{outcome:?}");
    assert_eq!(rig.committed.iter().map(|(_, id)| id.0).collect::<Vec<_>>(), [1, 1]);
    assert!(store.asked().is_empty(), "{:?}", store.asked());
}

#[test]
fn without_a_storage_a_stop_commits_nothing() {
    let store = Store::default();
    let mut rig = Rig::with(&store, 29, plan(), off());
    rig.run_until(|rig| matches!(rig.events.last(), Some(JobEvent::Progress { .. })));
    rig.command(Command::Stop);
    assert!(matches!(rig.run(), Outcome::Stopped { checkpoint: None }));
    assert!(rig.committed.is_empty());
}

#[test]
fn without_a_storage_a_failure_ends_the_job() {
    let store = Store::default();
    let mut rig = Rig::with(&store, 30, plan(), off());
    rig.script.fails.push((1, When::Restoring, Error::failed("no such file")));
    let Outcome::Failed(error) = rig.run() else { panic!("it must fail") };
    assert!(error.to_string().contains("no such file") && error.to_string().contains("--checkpoint-dir"), "{error}");
}

#[test]
fn an_unbounded_job_with_a_committing_sink_is_refused_without_a_storage() {
    let mut unbounded = plan();
    unbounded.operators[0].role = Role::Source { replayable: true, bounded: false };
    let mut rig = Rig::with(&Store::default(), 31, unbounded, off());
    let Outcome::Failed(error) = rig.run() else { panic!("it must be refused") };
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("`lines`") && error.to_string().contains("`out`"), "{error}");
}

#[test]
fn a_guarantee_that_cannot_be_met_is_refused_before_any_worker_starts() {
    let mut socket = plan();
    socket.operators[0].role = Role::Source { replayable: false, bounded: true };
    let options = JobSettings { require: Some(Guarantee::ExactlyOnce), ..settings() };
    let mut rig = Rig::with(&Store::default(), 32, socket, options);
    let Outcome::Failed(error) = rig.run() else { panic!("it must be refused") };
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("at-most-once") && rig.attempts.is_empty(), "{error}");
}

#[test]
fn absurd_settings_and_doubled_names_are_refused_before_the_log_is_touched() {
    let store = Store::default();
    let mut twice = plan();
    twice.operators[1].name = "out".to_owned();
    let mut options = JobSettings { workers: Some(0), key_groups: 0, restore: Restore::Latest, ..settings() };
    options.coordinator.retained = 0;
    let mut rig = Rig::with(&store, 33, twice, options);
    let Outcome::Failed(error) = rig.run() else { panic!("it must be refused") };
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    for wrong in ["workers is 0", "key groups is 0", "`out`", "retained"] {
        assert!(text.contains(wrong), "{text} does not mention {wrong}");
    }
    assert!(store.asked().is_empty());
}
