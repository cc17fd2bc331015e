//! Checkpoints of a running job: their order, their outcome, what the user asks for.

use super::rig::{Rig, plan, settings};
use super::store::{Fault, Store};
use crate::history::HistoryEntry;
use crate::job_manager::{Command, JobEvent, JobSettings, Outcome};
use crate::manifest::Manifest;
use flott_checkpoint::{Guarantee, Kind, Mode, RequestId};
use std::time::Duration;

fn manifest(store: &Store, path: &str) -> Manifest {
    Manifest::decode(path, &store.get(path).expect("the manifest is there")).expect("it can be read")
}

fn position(asked: &[String], what: &str) -> usize {
    asked.iter().position(|request| request == what).unwrap_or_else(|| panic!("{what} was not asked in {asked:?}"))
}

#[test]
fn a_first_run_wins_the_log_and_ends_with_one_final_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 1);
    rig.script.ends_after = Some(2);
    let outcome = rig.run();
    assert!(matches!(outcome, Outcome::Finished { checkpoint: Some(id), before: false } if id.0 == 3), "{outcome:?}");
    assert_eq!(rig.completed(), [1, 2, 3]);
    assert!(matches!(rig.events.first(), Some(JobEvent::Started { workers: 2, .. })), "{:?}", rig.events);
    assert_eq!(store.paths("log/"), ["log/1.json", "log/2.json", "log/3.json", "log/4.json"]);
    let last = manifest(&store, "manifests/3-1.json");
    assert!(last.finished && last.kind == Kind::Final);
    assert_eq!(last.parent.map(|id| id.0), Some(2));
    assert_eq!(last.guarantee, Guarantee::ExactlyOnce);
    assert_eq!(last.base.map(|base| base.id.0), Some(2));
}

#[test]
fn the_manifest_is_durable_before_the_slot_and_the_slot_before_any_commit() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 2);
    rig.run_until(|rig| store.asked().iter().any(|asked| asked == "create log/2.json") || rig.done.is_some());
    let asked = store.asked();
    assert!(position(&asked, "create manifests/1-1.json") < position(&asked, "create log/2.json"));
    assert!(rig.committed.is_empty(), "nobody commits before the slot is known to be written");
    rig.run_until(|rig| !rig.committed.is_empty());
    assert_eq!(rig.committed.first().map(|(attempt, id)| (attempt.0, id.0)), Some((1, 1)));
}

#[test]
fn a_lost_answer_about_the_slot_is_settled_before_anything_else_happens() {
    for fault in [Fault::AnswerLost, Fault::Unknown] {
        let store = Store::default();
        let mut rig = Rig::new(&store, 3);
        rig.script.ends_after = Some(2);
        store.break_next("create log/2.json", fault, 3);
        let outcome = rig.run();
        assert!(matches!(outcome, Outcome::Finished { .. }), "{fault:?}: {outcome:?}");
        assert_eq!(rig.completed(), [1, 2, 3], "{fault:?}");
        assert!(rig.restarts().is_empty(), "{fault:?}: {:?}", rig.events);
    }
}

#[test]
fn a_lost_answer_about_the_manifest_is_settled_by_its_content() {
    for fault in [Fault::AnswerLost, Fault::Unknown] {
        let store = Store::default();
        let mut rig = Rig::new(&store, 4);
        rig.script.ends_after = Some(2);
        store.break_next("create manifests/2-1.json", fault, 2);
        assert!(matches!(rig.run(), Outcome::Finished { .. }), "{fault:?}");
        assert_eq!(rig.completed(), [1, 2, 3], "{fault:?}");
    }
}

#[test]
fn a_manifest_that_cannot_be_written_aborts_its_checkpoint_and_no_other() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 5);
    rig.script.ends_after = Some(2);
    store.break_next("create manifests/2-1.json", Fault::Fails, 1);
    assert!(matches!(rig.run(), Outcome::Finished { .. }));
    assert_eq!(rig.completed(), [1, 3, 4]);
    assert!(rig.aborted()[0].contains("manifest"), "{:?}", rig.aborted());
    assert!(store.get("log/3.json").is_some() && store.get("manifests/2-1.json").is_none());
}

#[test]
fn an_unsettled_slot_ends_the_attempt_and_the_next_start_contends_for_it() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 6);
    rig.script.ends_after = Some(3);
    // The entry is in the log, and no answer ever says so.
    store.break_next("create log/3.json", Fault::AnswerLost, 8);
    assert!(matches!(rig.run(), Outcome::Finished { .. }), "{:?}", rig.events);
    assert_eq!(rig.restored(), [None, Some(2)], "the new attempt found the entry");
    assert_eq!(rig.restarts().len(), 1);
}

#[test]
fn every_checkpoint_tried_is_in_the_history_with_its_reason() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 7);
    rig.script.ends_after = Some(2);
    rig.script.declines = 1;
    assert!(matches!(rig.run(), Outcome::Finished { .. }));
    let entries: Vec<HistoryEntry> = store
        .paths("history/")
        .iter()
        .map(|path| HistoryEntry::decode(path, &store.get(path).expect("listed")).expect("readable"))
        .collect();
    assert_eq!(entries.iter().map(|entry| entry.id().0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let reason = entries[0].reason().expect("the first one was declined");
    assert!(reason.contains("1/0") && reason.contains("disk full"), "{reason}");
    assert!(entries[1..].iter().all(HistoryEntry::is_completed));
}

#[test]
fn a_checkpoint_that_a_subtask_never_acks_expires_and_names_it() {
    let store = Store::default();
    let mut options = settings();
    options.coordinator.timeout = Duration::from_secs(5);
    let mut rig = Rig::with(&store, 8, plan(), options);
    rig.script.silent = Some(1);
    rig.run_until(|rig| !rig.aborted().is_empty());
    assert!(rig.aborted()[0].contains("0/1, 1/1"), "{:?}", rig.aborted());
    rig.script.silent = None;
    // The second one was triggered at once, while the worker was still silent.
    rig.run_until(|rig| !rig.completed().is_empty());
    assert_eq!(rig.completed(), [3]);
}

#[test]
fn too_many_failed_checkpoints_in_a_row_restart_the_job() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 9);
    rig.script.declines = 11;
    rig.run_until(|rig| !rig.completed().is_empty());
    assert_eq!(rig.restarts().len(), 1, "{:?}", rig.events);
}

#[test]
fn the_user_takes_checkpoints_and_changes_mode_and_interval_while_the_job_runs() {
    let store = Store::default();
    let mut options = settings();
    options.coordinator.interval = None;
    let mut rig = Rig::with(&store, 10, plan(), options);
    rig.command(Command::Checkpoint { full: false, request: RequestId(0) });
    rig.run_until(|rig| rig.warnings().contains("not running"));
    rig.run_until(|rig| matches!(rig.events.last(), Some(JobEvent::Progress { .. })));
    rig.command(Command::Checkpoint { full: false, request: RequestId(1) });
    rig.run_until(|rig| rig.completed() == [1]);
    rig.command(Command::Set { mode: Some(Mode::AtLeastOnce), interval: None });
    rig.command(Command::Checkpoint { full: true, request: RequestId(2) });
    rig.run_until(|rig| rig.completed() == [1, 2]);
    let second = manifest(&store, "manifests/2-1.json");
    assert_eq!((second.mode, second.guarantee, second.base), (Mode::AtLeastOnce, Guarantee::AtLeastOnce, None));
    rig.command(Command::Savepoint { request: RequestId(3) });
    rig.run_until(|rig| rig.completed() == [1, 2, 3]);
    assert_eq!(manifest(&store, "manifests/3-1.json").kind, Kind::Savepoint);
    let answers: Vec<(u64, String)> = rig
        .answers
        .iter()
        .map(|(request, answer)| (request.0, answer.as_ref().map_or_else(ToString::to_string, |id| format!("is {id}"))))
        .collect();
    let refused = "no checkpoint was taken: the job is not running at the moment";
    let expected = [(0, refused), (1, "is 1"), (2, "is 2"), (3, "is 3")].map(|(id, text)| (id, text.to_owned()));
    assert_eq!(answers, expected, "whoever asked has been answered, once");
    rig.command(Command::Set { mode: None, interval: Some(Duration::from_millis(200)) });
    let before = rig.now;
    rig.run_until(|rig| rig.completed().len() == 8);
    assert!(rig.now.since(before) < Duration::from_secs(2));
    // The savepoint is nobody's base.
    assert_eq!(manifest(&store, "manifests/4-1.json").base.map(|base| base.id.0), Some(2));
}

#[test]
fn a_chain_of_increments_ends_with_a_full_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::with(&store, 11, plan(), JobSettings { ..settings() });
    rig.run_until(|rig| rig.completed().len() == 45);
    let full: Vec<u64> = (1..=45)
        .filter(|id| store.get(&format!("manifests/{id}-1.json")).is_some())
        .filter(|id| manifest(&store, &format!("manifests/{id}-1.json")).is_full())
        .collect();
    assert!(full.contains(&22) && full.contains(&43), "{full:?}");
}

#[test]
fn a_mode_that_breaks_the_required_guarantee_is_not_taken() {
    let store = Store::default();
    let options = JobSettings { require: Some(Guarantee::ExactlyOnce), ..settings() };
    let mut rig = Rig::with(&store, 12, plan(), options);
    rig.command(Command::Set { mode: Some(Mode::AtLeastOnce), interval: None });
    rig.run_until(|rig| rig.completed().len() == 1);
    assert!(rig.warnings().contains("--require"), "{}", rig.warnings());
    assert_eq!(manifest(&store, "manifests/1-1.json").mode, Mode::Aligned);
}

#[test]
fn mode_and_interval_are_changed_together_or_not_at_all() {
    let store = Store::default();
    let options = JobSettings { require: Some(Guarantee::ExactlyOnce), ..settings() };
    let mut rig = Rig::with(&store, 13, plan(), options);
    let set = |mode, interval| Command::Set { mode: Some(mode), interval: Some(interval) };
    let changes = |rig: &Rig| {
        let changes = rig.events.iter().filter_map(|event| match event {
            JobEvent::Changed { mode, interval } => Some((*mode, *interval)),
            _ => None,
        });
        changes.collect::<Vec<_>>()
    };
    let interval = Duration::from_millis(200);
    rig.command(set(Mode::AtLeastOnce, interval));
    rig.run_until(|rig| rig.completed().len() == 1);
    rig.command(set(Mode::StopTheWorld, Duration::ZERO));
    rig.run_until(|rig| rig.completed().len() == 2);
    rig.command(Command::Set { mode: None, interval: None });
    assert_eq!(changes(&rig), []);
    assert_eq!(manifest(&store, "manifests/2-1.json").mode, Mode::Aligned);
    rig.command(set(Mode::StopTheWorld, interval));
    rig.run_until(|rig| rig.completed().len() == 3);
    assert_eq!(changes(&rig), [(Mode::StopTheWorld, Some(interval))], "told once");
    assert_eq!(manifest(&store, "manifests/3-1.json").mode, Mode::StopTheWorld);
}

#[test]
fn a_segment_that_subtasks_share_counts_once_wherever_its_bytes_are_told() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 26);
    rig.script.segments = true;
    rig.script.ends_after = Some(1);
    assert!(matches!(rig.run(), Outcome::Finished { .. }));
    let told = rig.events.iter().filter_map(|event| match event {
        JobEvent::Completed { bytes, .. } => Some(*bytes),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [2_000, 2_000], "two workers, four subtasks");
    assert_eq!(manifest(&store, "manifests/2-1.json").bytes(), 2_000);
    let path = "history/2-1.json";
    let entry = HistoryEntry::decode(path, &store.get(path).expect("it is there")).expect("readable");
    assert!(matches!(entry.tried.outcome, flott_checkpoint::Outcome::Completed { bytes: 2_000, .. }), "{entry:?}");
}
