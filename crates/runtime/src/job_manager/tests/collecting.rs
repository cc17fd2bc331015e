//! Collection beside the job: it keeps what is retained, and delays nothing.

use super::rig::{Rig, plan, settings};
use super::store::{Fault, Store};
use crate::job_manager::{Command, ManagerEvent, Outcome};
use crate::manifest::Manifest;
use flott_checkpoint::RequestId;

#[test]
fn what_is_retained_stays_restorable_and_the_rest_goes() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 90);
    rig.run_until(|rig| rig.completed().len() == 30);
    let kept = store.paths("manifests/");
    // Checkpoint 22 is full: the three retained ones need nothing below it.
    assert!(kept.len() <= 10 && kept.contains(&"manifests/22-1.json".to_owned()), "{kept:?}");
    assert!(store.get("log/1.json").is_some(), "Start slots stay (L7)");
    let mut rig = Rig::new(&store, 91);
    rig.script.ends_after = Some(1);
    assert!(matches!(rig.run(), Outcome::Finished { .. }), "{:?}", rig.events);
    assert_eq!(rig.restored(), [Some(30)]);
}

#[test]
fn a_collector_that_fails_is_a_warning_and_delays_no_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 92);
    store.break_next("delete", Fault::Fails, 1_000_000);
    let before = rig.now;
    rig.run_until(|rig| rig.completed().len() == 40);
    assert!(rig.now.since(before) < std::time::Duration::from_secs(45));
    assert!(rig.warnings().contains("not all deleted"), "{}", rig.warnings());
}

#[test]
fn a_fenced_process_deletes_nothing_of_the_newer_one() {
    let store = Store::default();
    let mut options = settings();
    options.coordinator.retained = 1;
    let mut old = Rig::with(&store, 93, plan(), options.clone());
    old.run_until(|rig| rig.completed().len() == 25);
    let mut new = Rig::with(&store, 94, plan(), options);
    new.run_until(|rig| rig.completed().len() == 2);
    let before = store.paths("");
    old.run_until(|rig| rig.done.is_some());
    let after = store.paths("");
    let gone: Vec<&String> = before.iter().filter(|path| !after.contains(path)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let head = store.get("manifests/27-27.json").expect("the newer one's checkpoint is whole");
    assert!(Manifest::decode("manifests/27-27.json", &head).is_ok());
}

#[test]
fn collection_rests_while_a_slot_is_unsettled_and_goes_on_afterwards() {
    let store = Store::default();
    let mut options = settings();
    options.coordinator.retained = 1;
    let mut rig = Rig::with(&store, 95, plan(), options);
    // Checkpoint 22 is full: all below it may go, the oldest last.
    rig.run_until(|rig| rig.completed().len() == 22);
    store.break_next("create log", Fault::Unknown, 3);
    let appends = || store.asked().iter().filter(|asked| asked.starts_with("create log")).count();
    let before = appends();
    rig.queue.push_front(ManagerEvent::Command(Command::Checkpoint { full: false, request: RequestId(1) }));
    rig.run_until(|_| appends() == before + 4);
    assert!(store.get("manifests/1-1.json").is_some(), "the collector went on");
    rig.run_until(|rig| rig.completed().len() == 24);
    assert!(store.get("manifests/1-1.json").is_none(), "the collector rests for ever");
}
