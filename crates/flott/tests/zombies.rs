//! Zombies: a process stops itself at the worst moments, another one goes on with its job, and then the first one goes on
//! too, as if nothing had been.
//!
//! It never records, overwrites or deletes what is needed, and commits nothing but what it had itself recorded.

mod process;

use process::{ALL_LINES, LogWatch, Process, Site, wait_for};

/// So slow that a process has most of its input before it when it stops itself: 3 s.
const SLOW: u64 = ALL_LINES;

/// Somebody who stopped at this point, at a place where nothing was before or where a killed process left a checkpoint.
fn zombie(site: &Site, point: &str, restored: bool) -> Process {
    if restored {
        site.job().rate(SLOW).crash_at("BetweenCommits").start().must_crash();
    }
    let mut zombie = site.job().rate(SLOW).stop_at(point).start();
    zombie.await_stop();
    zombie
}

/// After the job is finished by another process, the zombie goes on, and ends with this code.
fn goes_on_after_the_end(point: &str, restored: bool, code: i32) {
    let site = Site::new();
    let mut zombie = zombie(&site, point, restored);
    let mut log = LogWatch::default();
    log.look(&site);
    site.run_to_the_end();
    log.look(&site);
    site.must_hold_one_run();
    let (slots, objects, committed) = (site.log(), site.objects(), site.committed_files());

    zombie.go_on();
    zombie.must_end_with(code);
    log.look(&site);
    assert_eq!(site.committed_files(), committed, "{point}: the zombie changed the output");
    let after = site.objects();
    let gone = objects.iter().filter(|(path, bytes)| after.get(*path) != Some(bytes)).map(|(path, _)| path.as_str());
    let gone: Vec<&str> = gone.collect();
    if point == "DuringCollection" {
        // The one deletion that it was about to make, of something that nobody needs.
        assert!(gone.len() <= 1, "{gone:?}");
    } else {
        assert_eq!(gone, Vec::<&str>::new(), "{point}: the zombie deleted or overwrote");
    }
    if code == 3 {
        assert!(site.log().keys().all(|slot| slots.contains_key(slot)), "{point}: the zombie recorded");
        assert!(zombie.stderr().contains("owns"), "it says that another one owns the job: {}", zombie.stderr());
    }
    site.must_verify();
    // And what is there is enough for whoever comes next.
    site.run_to_the_end();
    assert_eq!(site.committed_files(), committed);
}

/// While another process runs the job, the zombie goes on and is fenced; the other one is not disturbed.
fn goes_on_meanwhile(point: &str, restored: bool) {
    let site = Site::new();
    let mut zombie = zombie(&site, point, restored);
    let mut log = LogWatch::default();
    log.look(&site);
    let mut owner = site.job().rate(SLOW).start();
    owner.await_checkpoints(2);
    log.look(&site);

    zombie.go_on();
    wait_for("the zombie ends", || {
        log.look(&site);
        zombie.has_ended().then_some(())
    });
    zombie.must_end_with(3);
    owner.must_end_with(0);
    log.look(&site);
    site.must_hold_one_run();
    site.must_verify();
}

fn is_fenced(point: &str) {
    for restored in [false, true] {
        goes_on_after_the_end(point, restored, 3);
    }
    goes_on_meanwhile(point, true);
}

#[test]
fn stopped_between_manifest_and_log_slot_it_records_nothing() {
    is_fenced("AfterManifest");
}

#[test]
fn stopped_before_its_manifest_it_records_nothing() {
    is_fenced("AfterLastAck");
}

#[test]
fn stopped_in_its_collector_it_deletes_nothing_that_is_needed() {
    is_fenced("DuringCollection");
}

#[test]
fn stopped_after_its_log_slot_it_commits_only_what_it_recorded() {
    is_fenced("AfterLogSlot");
}

#[test]
fn stopped_within_a_commit_it_commits_only_what_it_recorded() {
    is_fenced("BetweenCommits");
    is_fenced("BetweenLinkAndUnlink");
}

#[test]
fn stopped_during_its_restore_it_is_fenced() {
    goes_on_after_the_end("DuringRestore", true, 3);
    goes_on_meanwhile("DuringRestore", true);
}

#[test]
fn stopped_after_the_final_slot_it_commits_what_it_recorded_and_has_finished() {
    let site = Site::new();
    let mut zombie = site.job().stop_at("AfterFinalSlot").start();
    zombie.await_stop();
    site.run_to_the_end();
    site.must_hold_one_run();
    let (slots, committed) = (site.log(), site.committed_files());
    zombie.go_on();
    zombie.must_end_with(0);
    assert_eq!((site.log(), site.committed_files()), (slots, committed));
    site.must_be_whole();
}

/// It owned nothing yet: its Start is lost or void, it lists again, and is then the newest attempt by right (L2).
#[test]
fn stopped_around_its_start_it_begins_again_and_finds_the_job_finished() {
    for point in ["BeforeStart", "AfterStart"] {
        for restored in [false, true] {
            goes_on_after_the_end(point, restored, 0);
        }
    }
}

#[test]
fn stopped_around_its_start_it_begins_again_and_fences_whoever_came_between() {
    for point in ["BeforeStart", "AfterStart"] {
        let site = Site::new();
        let mut late = zombie(&site, point, true);
        let mut log = LogWatch::default();
        let mut owner = site.job().rate(SLOW).start();
        owner.await_checkpoints(2);
        log.look(&site);
        late.go_on();
        owner.must_end_with(3);
        log.look(&site);
        late.must_end_with(0);
        log.look(&site);
        let slots: Vec<&String> = log.slots().collect();
        let attempt = late.events_of("restored").pop().expect("it restored")["attempt"].as_u64();
        assert!(attempt.is_some_and(|attempt| slots.contains(&&format!("{attempt}.json"))), "{attempt:?} of {slots:?}");
        site.must_hold_one_run();
        site.must_verify();
    }
}

/// The slot that it is about to create was taken by a checkpoint and emptied by retention: its Start fences nobody, and it
/// must not take that for a win.
#[test]
fn stopped_between_listing_and_start_it_does_not_win_with_a_slot_that_retention_emptied() {
    let site = Site::new();
    let mut owner = site.job().rate(SLOW / 4).start();
    owner.await_checkpoints(1);
    let mut late = site.job().stop_at("BeforeStart").start();
    late.await_stop();
    let hole = site.head() + 1;
    let mut log = LogWatch::default();
    // It may have listed an older head than we saw: every slot up to the hole must be gone.
    wait_for("retention empties the slots", || {
        log.look(&site);
        assert!(!owner.has_ended(), "too fast: {}", owner.stderr());
        let emptied = |slot: &u64| !site.has_slot(*slot);
        (site.head() > hole && (2..=hole).all(|slot| emptied(&slot))).then_some(())
    });
    log.look(&site);
    late.go_on();
    owner.must_end_with(3);
    late.must_end_with(0);
    log.look(&site);
    // Its first Start lies in the hole, void, and hurts nobody.
    assert!((2..=hole).any(|slot| site.has_slot(slot)), "it went into the hole");
    let attempt = late.events_of("restored").pop().expect("it restored")["attempt"].as_u64();
    assert!(attempt > Some(hole), "attempt {attempt:?} is above the hole {hole}");
    site.must_hold_one_run();
    site.must_verify();
    site.run_to_the_end();
    site.must_hold_one_run();
}

#[test]
fn stopped_at_any_storage_request_it_leaves_the_finished_output_alone() {
    for step in [2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 21, 30] {
        let site = Site::new();
        let mut zombie = zombie(&site, &format!("Step({step})"), step % 2 == 0);
        let mut log = LogWatch::default();
        log.look(&site);
        site.run_to_the_end();
        log.look(&site);
        let committed = site.committed_files();
        zombie.go_on();
        let code = zombie.end().code();
        assert!(matches!(code, Some(0 | 3)), "step {step}: {code:?}, {}", zombie.stderr());
        log.look(&site);
        assert_eq!(site.committed_files(), committed, "step {step}");
        site.must_hold_one_run();
        site.must_verify();
    }
}

/// The job was started over meanwhile: what the zombie recorded belongs to a life that is over, and must not come back.
#[test]
fn stopped_after_its_log_slot_it_adds_nothing_to_a_job_that_was_started_over() {
    for point in ["AfterLogSlot", "BetweenLinkAndUnlink", "BetweenCommits"] {
        let site = Site::new();
        let mut zombie = zombie(&site, point, true);
        site.job().with(&["--restore", "none", "--overwrite"]).start().must_end_with(0);
        site.must_hold_one_run();
        let (slots, committed) = (site.log(), site.committed_files());
        zombie.go_on();
        // That its parts are gone is no damage, and no reason to start over once more.
        zombie.must_end_with(3);
        assert_eq!(site.committed_files(), committed, "{point}");
        assert_eq!(site.log(), slots);
        site.must_verify();
    }
}
