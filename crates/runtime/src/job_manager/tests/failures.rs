//! What follows a failure: a restart, or the end.

use super::rig::{Rig, When, plan, settings};
use super::store::{Fault, Store};
use crate::control::Report;
use crate::error::{Error, ErrorKind};
use crate::history::HistoryEntry;
use crate::job_manager::{JobSettings, ManagerEvent, Outcome};
use flott_checkpoint::{AttemptId, RestartOptions, Restore, SubtaskId};
use std::time::Duration;

#[test]
fn a_failed_attempt_is_restarted_from_the_newest_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 40);
    rig.run_until(|rig| rig.completed().len() == 2);
    rig.script.fails.push((1, When::Triggered, Error::failed("divided by zero")));
    rig.run_until(|rig| rig.completed().len() == 4);
    assert_eq!(rig.restored(), [None, Some(2)]);
    assert_eq!(rig.restarts(), [(1, Duration::from_millis(50))]);
    assert!(rig.aborted()[0].contains("divided by zero"), "{:?}", rig.aborted());
    assert!(store.get("history/3-1.json").is_some(), "the abandoned checkpoint is in the history");
}

#[test]
fn a_panic_of_the_host_is_a_failure_like_any_other() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 41);
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.panic_workers(Some(Error::failed("operator `counts` panicked")));
    rig.run_until(|rig| rig.completed().len() == 2);
    assert_eq!(rig.restored(), [None, Some(1)]);
    rig.panic_workers(None);
    rig.run_until(|rig| rig.completed().len() == 3);
    assert_eq!(rig.restarts().len(), 2);
}

#[test]
fn pauses_double_and_ten_failures_without_a_checkpoint_end_the_job_with_the_last_error() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 42);
    for attempt in 1..=10 {
        rig.script.fails.push((attempt, When::Restoring, Error::failed("no such file").at_operator("lines")));
    }
    let Outcome::Failed(error) = rig.run() else { panic!("it must fail") };
    assert!(error.to_string().contains("operator `lines`") && error.to_string().contains("10 failures"), "{error}");
    let pauses: Vec<u128> = rig.restarts().iter().map(|(_, pause)| pause.as_millis()).collect();
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800]);
}

#[test]
fn a_completed_checkpoint_forgives_earlier_failures() {
    let store = Store::default();
    let options = JobSettings { restart: RestartOptions { failures: 2, ..RestartOptions::default() }, ..settings() };
    let mut rig = Rig::with(&store, 43, plan(), options);
    for round in 1..=4 {
        rig.run_until(|rig| rig.completed().len() == round);
        rig.panic_workers(Some(Error::failed("again")));
    }
    rig.run_until(|rig| rig.completed().len() == 5);
    assert_eq!(rig.restarts().len(), 4);
}

#[test]
fn what_a_restart_cannot_cure_is_not_restarted() {
    for (error, kind) in [
        (Error::refused("foreign output in DIR"), ErrorKind::Refused),
        (Error::invalid("the line is not UTF-8"), ErrorKind::Invalid),
        (Error::output_damaged("part-3 is gone"), ErrorKind::OutputDamaged),
        (Error::fenced("a newer attempt"), ErrorKind::Fenced),
    ] {
        let mut rig = Rig::new(&Store::default(), 44);
        rig.script.fails.push((1, When::Restoring, error));
        let Outcome::Failed(error) = rig.run() else { panic!("it must fail") };
        assert_eq!(error.kind(), kind);
        assert!(rig.restarts().is_empty());
    }
}

#[test]
fn mail_of_an_older_attempt_is_dropped() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 45);
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.panic_workers(Some(Error::failed("once")));
    rig.run_until(|rig| rig.attempts.len() == 2);
    let late = crate::control::ToManager {
        attempt: AttemptId(1),
        worker: 0,
        report: Report::Failed(Error::output_damaged("of the past")),
    };
    rig.queue.push_back(ManagerEvent::Worker(late));
    rig.queue.push_back(ManagerEvent::AttemptEnded { attempt: AttemptId(1), error: None });
    rig.run_until(|rig| rig.completed().len() == 3);
    assert_eq!(rig.attempts.len(), 2);
}

#[test]
fn a_storage_that_fails_is_tried_again_in_the_first_contest_and_later() {
    let store = Store::default();
    store.break_next("list log", Fault::Fails, 1);
    let mut rig = Rig::new(&store, 46);
    rig.script.ends_after = Some(1);
    assert!(matches!(rig.run(), Outcome::Finished { .. }), "{:?}", rig.events);
    assert_eq!(rig.restarts().len(), 1);

    let broken = Store::default();
    broken.break_next("list log", Fault::Fails, 1_000);
    let Outcome::Failed(error) = Rig::new(&broken, 46).run() else { panic!("it must fail") };
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");

    let store = Store::default();
    let mut rig = Rig::new(&store, 47);
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.panic_workers(Some(Error::failed("once")));
    store.break_next("list log", Fault::Fails, 2);
    rig.run_until(|rig| rig.completed().len() == 2);
    assert_eq!(rig.restarts().len(), 3);
}

#[test]
fn a_history_that_cannot_be_written_hinders_nothing() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 48);
    rig.script.ends_after = Some(2);
    store.break_next("create history", Fault::Fails, 100);
    assert!(matches!(rig.run(), Outcome::Finished { .. }));
    assert!(rig.warnings().contains("history"), "{}", rig.warnings());
}

#[test]
fn a_checkpoint_that_died_with_its_process_is_in_the_history_too() {
    let store = Store::default();
    let mut old = Rig::new(&store, 49);
    old.run_until(|_| store.get("manifests/2-1.json").is_some());
    assert!(store.get("history/2-1.json").is_none(), "it dies before it can say anything");
    Rig::new(&store, 50).run_until(|rig| rig.completed().len() == 1);
    let path = "history/2-1.json";
    let entry = HistoryEntry::decode(path, &store.get(path).expect("it was found")).expect("readable");
    assert!(entry.reason().is_some_and(|reason| reason.contains("the process ended")), "{entry:?}");
}

#[test]
fn a_first_start_that_was_not_won_is_tried_again_as_it_was_asked_for() {
    let store = Store::default();
    Rig::new(&store, 51).run_until(|rig| rig.completed().len() == 1);
    let options = JobSettings { restore: Restore::None, settle_tries: 2, ..settings() };
    let mut rig = Rig::with(&store, 52, plan(), options);
    store.break_next("create log", Fault::Unknown, 2);
    rig.run_until(|rig| rig.completed().len() == 1);
    assert_eq!(rig.restored(), [None]);
    assert_eq!(rig.restarts().len(), 1);
}

#[test]
fn output_that_cannot_be_committed_for_now_is_told() {
    let mut rig = Rig::new(&Store::default(), 53);
    rig.run_until(|rig| rig.completed().len() == 1);
    let subtask = SubtaskId { vertex: 1, index: 0 };
    rig.report(0, Report::Hindered { subtask, error: Error::failed("DELETE denied").at_operator("out") });
    rig.run_until(|rig| rig.completed().len() == 2);
    let warnings = rig.warnings();
    assert!(warnings.contains("DELETE denied") && warnings.contains("out"), "{warnings}");
    assert!(rig.restarts().is_empty());
}
