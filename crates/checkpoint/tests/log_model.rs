//! The log rules L1-L7, C1 and G1-G2, explored exhaustively with the code that production runs.
//!
//! Processes that contest, checkpoint, commit and collect run against one store. Between any two storage calls a process
//! may stop (it is not scheduled; a zombie is one that is scheduled again later) or crash; an answer may be lost with or
//! without effect, and a request without effect may still land later; retention deletes checkpoint slots.
//! What must hold: only the owner of the newest running attempt records; an attempt that starts running restores exactly
//! what is newest in the log; ids grow; nobody commits what it has not itself recorded or restored; what is restored is
//! there. Each of three mutations must break that.

#[path = "log_model/model.rs"]
mod model;
#[path = "log_model/world.rs"]
mod world;

use model::{Bounds, Coverage, LogModel, Mutation};
use stateright::{Checker, Model};
use std::sync::atomic::{AtomicBool, Ordering};

fn explore(bounds: Bounds, mutation: Option<Mutation>) -> (LogModel, usize, Option<String>) {
    let model = LogModel::new(bounds, mutation);
    let checker = model.clone().checker().threads(2).spawn_bfs().join();
    assert!(checker.is_done() || checker.discovery("holds").is_some(), "the exploration was cut short");
    let violation = checker.discovery("holds").map(|path| {
        let actions: Vec<String> = path.clone().into_actions().iter().map(|action| format!("{action:?}")).collect();
        format!("{:?} after {}", path.last_state().violation, actions.join(", "))
    });
    (model, checker.unique_state_count(), violation)
}

fn holds(name: &str, bounds: Bounds) -> LogModel {
    let (model, states, violation) = explore(bounds, None);
    println!("{name}: {states} states");
    assert_eq!(violation, None);
    model
}

fn fails(name: &str, bounds: Bounds, mutation: Mutation) {
    let (_, states, violation) = explore(bounds, Some(mutation));
    println!("{name}: {states} states, {violation:?}");
    assert!(violation.is_some(), "{name} must break the log, but {states} states hold");
}

type Way = fn(&Coverage) -> &AtomicBool;

/// Every way of the rules is walked, or the exploration proves less than it says.
fn assert_covered(model: &LogModel, ways: &[(&str, Way)]) {
    for (name, way) in ways {
        assert!(way(&model.coverage).load(Ordering::Relaxed), "never explored: {name}");
    }
}

#[test]
fn three_processes_never_break_the_log() {
    // Everything at once is two million states more: only if asked for, as the complete set of schedules is.
    if std::env::var("FLOTT_SCHEDULES").is_ok_and(|set| set == "all") {
        holds("everything", Bounds::DEEP);
    }
    let model = holds("three processes", Bounds::THREE);
    assert_covered(
        &model,
        &[
            ("a Start is void", |c| &c.void_start),
            ("a Start wins a hole", |c| &c.start_in_hole),
            ("a zombie is fenced", |c| &c.fenced),
            ("two attempts run at once", |c| &c.two_running),
            ("a zombie commits", |c| &c.zombie_commit),
            ("a slot is deleted", |c| &c.deleted),
        ],
    );
}

#[test]
fn lost_answers_and_late_requests_never_break_the_log() {
    let model = holds("unknown outcomes", Bounds::UNKNOWN);
    assert_covered(
        &model,
        &[
            ("a late request lands", |c| &c.landed),
            ("a process finds its own entry", |c| &c.found_own),
            ("a win after a repeat is recorded", |c| &c.settled),
            ("a win after a repeat lies in a hole", |c| &c.hole_after_repeat),
            ("a late checkpoint comes back into a slot that retention emptied", |c| &c.void_checkpoint),
            ("a zombie is fenced", |c| &c.fenced),
        ],
    );
}

#[test]
fn restore_none_and_older_checkpoints_never_bring_back_what_was_left() {
    let model = holds("departures", Bounds::DEPARTURES);
    assert_covered(
        &model,
        &[("a Start departs from the head", |c| &c.departed), ("a slot is deleted", |c| &c.deleted)],
    );
}

#[test]
fn every_stop_between_two_reads_is_safe() {
    let model = holds("single reads", Bounds::READS);
    assert_covered(&model, &[("a slot vanishes between the listing and the read", |c| &c.vanished)]);
}

#[test]
fn without_the_second_listing_of_l2_the_log_breaks() {
    fails("no-relist", Bounds::THREE, Mutation::NoRelist);
}

#[test]
fn with_the_newest_checkpoint_below_instead_of_the_head_of_l3_the_log_breaks() {
    fails("no-head-rule", Bounds::DEPARTURES, Mutation::NoHeadRule);
}

#[test]
fn with_deleted_starts_against_l7_the_log_breaks() {
    fails("delete-starts", Bounds::THREE, Mutation::DeleteStarts);
}
