//! The job as a real process: killed at every crash point, stopped, interrupted, started twice, wrong in its own code.
//!
//! Whatever happens, what is committed in the end is what one undisturbed run commits.

mod process;

use process::{ALL_LINES, Site, line, wait_for};

/// So slow that a process has most of its input before it when something happens to it: 3 s.
const SLOW: u64 = ALL_LINES;

#[test]
fn an_undisturbed_run_commits_each_count_once() {
    let site = Site::new();
    site.run_to_the_end();
    site.must_be_whole();
}

/// Kills a first life at the point, and runs the job to its end; then once more, with a life before that left a checkpoint.
fn crash_at(point: &str, mode: &str) {
    let first = Site::new();
    first.job().rate(SLOW).with(&["--checkpoint-mode", mode]).crash_at(point).start().must_crash();
    first.run_to_the_end();
    first.must_be_whole();
    crash_later_at(point, mode);
}

fn crash_later_at(point: &str, mode: &str) {
    let later = Site::new();
    let slow = || later.job().rate(SLOW).with(&["--checkpoint-mode", mode]);
    slow().crash_at("BetweenCommits").start().must_crash();
    slow().crash_at(point).start().must_crash();
    later.run_to_the_end();
    later.must_be_whole();
}

macro_rules! crash_points {
    ($($name:ident: $points:expr, $mode:literal;)*) => {
        $(#[test]
        fn $name() {
            for point in $points {
                crash_at(point, $mode);
            }
        })*
    };
}

crash_points! {
    a_kill_around_start_loses_nothing: ["BeforeStart", "AfterStart"], "aligned";
    a_kill_around_the_acks_loses_nothing: ["BeforeAck", "AfterLastAck"], "aligned";
    a_kill_around_the_acks_loses_nothing_with_the_world_stopped: ["BeforeAck", "AfterLastAck"], "stop-the-world";
    a_kill_around_the_log_slot_loses_nothing: ["AfterManifest", "AfterLogSlot"], "aligned";
    a_kill_around_the_log_slot_loses_nothing_with_the_world_stopped: ["AfterManifest", "AfterLogSlot"], "stop-the-world";
    a_kill_around_acks_and_log_slot_loses_nothing_that_was_in_flight: ["BeforeAck", "AfterLogSlot"], "unaligned";
    a_kill_within_a_commit_loses_nothing: ["BetweenCommits", "BetweenLinkAndUnlink"], "aligned";
    a_kill_during_collection_loses_nothing: ["DuringCollection"], "aligned";
    a_kill_at_early_storage_requests_loses_nothing: steps(&[1, 2, 3, 4, 5, 6, 7]), "aligned";
    a_kill_at_later_storage_requests_loses_nothing: steps(&[8, 9, 11, 14, 19, 26, 37]), "stop-the-world";
}

fn steps(steps: &[u32]) -> impl Iterator<Item = &'static str> {
    let points: Vec<&'static str> = steps.iter().map(|step| &*format!("Step({step})").leak()).collect();
    points.into_iter()
}

#[test]
fn a_kill_during_restore_loses_nothing() {
    crash_later_at("DuringRestore", "aligned");
    crash_later_at("DuringRestore", "stop-the-world");
}

#[test]
fn a_crash_point_that_does_not_exist_is_refused() {
    let site = Site::new();
    let mut job = site.job().crash_at("AfterBreakfast").start();
    job.must_end_with(2);
    assert!(job.stderr().contains("AfterBreakfast"), "{}", job.stderr());
}

#[test]
fn a_finished_job_started_again_says_so_and_changes_nothing() {
    let site = Site::new();
    site.run_to_the_end();
    let before = site.committed_files();
    for _ in 0..2 {
        let mut again = site.job().start();
        again.must_end_with(0);
        let said = again.stderr();
        assert!(said.contains("finished at checkpoint"), "{said}");
        assert!(said.contains("warning: nothing was read or computed"), "it is told from a real finish: {said}");
        assert!(said.contains("--restore none --overwrite starts over"), "{said}");
        assert_eq!(site.committed_files(), before);
    }
    site.must_be_whole();
}

#[test]
fn a_finished_job_killed_before_its_last_commit_commits_when_it_is_started_again() {
    for restored in [false, true] {
        let site = Site::new();
        if restored {
            site.job().rate(SLOW).crash_at("BetweenCommits").start().must_crash();
        }
        a_kill_after_the_final_slot_loses_nothing(&site);
    }
}

fn a_kill_after_the_final_slot_loses_nothing(site: &Site) {
    // The final checkpoint is the only one, so that its epoch holds all that is left.
    site.job().with(&["--checkpoint-interval", "1h"]).crash_at("AfterFinalSlot").start().must_crash();
    assert_ne!(site.committed(), Site::expected(), "the last epoch cannot be committed yet");
    let mut again = site.job().start();
    again.must_end_with(0);
    assert!(again.stderr().contains("finished at checkpoint"), "{}", again.stderr());
    site.must_be_whole();
}

#[test]
fn starting_over_on_foreign_output_is_refused_and_overwrite_leaves_exactly_one_run() {
    let site = Site::new();
    site.run_to_the_end();
    let before = site.committed_files();
    let mut refused = site.job().with(&["--restore", "none"]).start();
    refused.must_end_with(2);
    assert!(refused.stderr().contains("--overwrite"), "{}", refused.stderr());
    assert!(refused.stderr().contains("out"), "it names the directory: {}", refused.stderr());
    assert_eq!(site.committed_files(), before);

    site.job().with(&["--restore", "none", "--overwrite"]).start().must_end_with(0);
    let after = site.committed_files();
    assert!(after.keys().all(|name| !before.contains_key(name)), "parts of the first run are left");
    site.must_be_whole();
    // And it stays so: the head decides, not what an older run left in the log.
    site.run_to_the_end();
    assert_eq!(site.committed_files(), after);
}

#[test]
fn a_crash_while_starting_over_leaves_exactly_one_run() {
    let before_the_log = ["AfterStart", "AfterManifest"];
    let behind_it = ["AfterLogSlot", "BetweenLinkAndUnlink", "BetweenCommits", "AfterFinalSlot"];
    for point in before_the_log.into_iter().chain(behind_it) {
        let site = Site::new();
        site.run_to_the_end();
        let before = site.committed_files();
        site.job().rate(SLOW).with(&["--restore", "none", "--overwrite"]).crash_at(point).start().must_crash();
        // What has no checkpoint yet begins once more, and has to be allowed to. A checkpoint knows what was allowed.
        let again: &[&str] = if before_the_log.contains(&point) { &["--overwrite"] } else { &[] };
        site.job().with(again).start().must_end_with(0);
        site.must_be_whole();
        assert!(
            site.committed_files().keys().all(|name| !before.contains_key(name)),
            "{point}: foreign parts are left"
        );
    }
}

#[test]
fn sigterm_stops_with_a_final_checkpoint_and_the_next_run_goes_on_from_it() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).start();
    job.await_checkpoints(2);
    job.terminate();
    job.must_end_with(0);
    let end = job.events_of("finished").pop().expect("it says how it ended");
    assert_eq!(end["ended"], "stopped", "{end}");
    let stopped_at = end["checkpoint"].as_u64().expect("a final checkpoint");
    site.must_verify();
    let (committed, records_out) = (site.committed(), end["records_out"].as_u64());
    assert!(!committed.is_empty() && committed != Site::expected(), "stopped in the middle");
    assert_eq!(Some(committed.values().sum()), records_out, "everything it wrote is committed when it ends");

    let mut next = site.job().start();
    next.must_end_with(0);
    let restored = next.events_of("restored").pop().expect("it restored");
    assert_eq!(restored["checkpoint"].as_u64(), Some(stopped_at));
    site.must_be_whole();
}

#[test]
fn a_job_stopped_with_one_worker_goes_on_with_four_and_three_and_is_killed_in_between() {
    for mode in ["aligned", "stop-the-world"] {
        let site = Site::new();
        let with = |workers: &str| site.job().rate(SLOW).with(&["--checkpoint-mode", mode, "--workers", workers]);
        let mut one = with("1").start();
        one.await_checkpoints(2);
        one.terminate();
        one.must_end_with(0);
        site.must_verify();

        let mut four = with("4").crash_at("BetweenCommits").start();
        four.must_crash();
        let restored = four.events_of("restored").pop().expect("it restored");
        assert_eq!((&restored["workers"], &restored["rescaled_from"]), (&4.into(), &1.into()), "{restored}");
        site.must_verify();
        // It dies before it has recorded anything, and its successor goes on from what four workers left.
        with("2").crash_at("AfterStart").start().must_crash();
        with("3").crash_at("AfterManifest").start().must_crash();
        let mut three = with("3").crash_at("AfterLogSlot").start();
        three.must_crash();
        assert_eq!(three.events_of("restored").pop().expect("it restored")["rescaled_from"], 4);

        let mut last = site.job().with(&["--workers", "3"]).start();
        last.must_end_with(0);
        assert!(last.events_of("restored").pop().expect("it restored").get("rescaled_from").is_none());
        site.must_be_whole();
    }
}

#[test]
fn a_second_interrupt_ends_at_once_with_130_and_nothing_is_lost() {
    let site = Site::new();
    // It cannot take a final checkpoint: its code does not return.
    let mut job = site.job().rate(SLOW).with(&["--hang-on", &line(0, 200)]).start();
    job.await_that("it does not return", |job| job.stderr().contains("never returning"));
    job.interrupt();
    job.await_that("it heard the first", |job| job.stderr().contains("stopping with a final checkpoint"));
    // One that comes right behind the first is still the first.
    wait_for("it ends", || {
        job.interrupt_if_it_lives();
        job.has_ended().then_some(())
    });
    job.must_end_with(130);
    let said = job.stderr();
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains("ended at once by a second signal: started again, the job goes on from checkpoint"),
        "{said}"
    );
    site.run_to_the_end();
    site.must_be_whole();
}

#[test]
fn two_signals_at_one_moment_are_one_wish() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).start();
    job.await_checkpoints(2);
    // As `timeout` does it: to the process, and to its group. Asleep, it gets both together.
    job.stop_and_go_on(process::Process::two_signals);
    job.must_end_with(0);
    assert_eq!(job.events_of("finished")[0]["ended"], "stopped");
    site.run_to_the_end();
    site.must_be_whole();
}

#[test]
fn code_that_never_returns_is_named_when_the_job_cannot_stop() {
    let site = Site::new();
    let mut job = site.job().with(&["--hang-on", &line(0, 600), "--stop-timeout", "1s"]).start();
    job.await_that("it does not return", |job| job.stderr().contains("never returning"));
    job.terminate();
    job.must_end_with(1);
    let said = job.stderr();
    assert!(said.contains("operator `inspect"), "it names the operator: {said}");
    assert!(said.contains("its code does not return"), "{said}");
    assert!(said.contains("record 6"), "it names the record: {said}");
    site.run_to_the_end();
    site.must_be_whole();
}

#[test]
fn two_processes_started_at_one_moment_leave_one_owner_and_whole_output() {
    let site = Site::new();
    let start = || site.job().rate(SLOW).stop_at("BeforeStart").start();
    let mut both = [start(), start()];
    // Both have seen the same empty log, and both are about to create its first slot.
    both.iter_mut().for_each(process::Process::await_stop);
    assert_eq!(site.head(), 0);
    both.iter().for_each(process::Process::go_on);
    let mut codes: Vec<_> = both.iter_mut().map(|process| process.end().code()).collect();
    codes.sort_unstable();
    let said: Vec<String> = both.iter().map(process::Process::stderr).collect();
    assert_eq!(codes, [Some(0), Some(3)], "{said:#?}");
    site.must_hold_one_run();
    site.must_verify();
}

#[test]
fn a_panic_in_user_code_restarts_the_job_in_its_process() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).with(&["--panic-on", &line(1, 300), "--panics", "2"]).start();
    job.must_end_with(0);
    let restarts = job.events_of("restart");
    assert_eq!(restarts.len(), 2, "{restarts:?}");
    assert!(restarts[0]["error"].as_str().is_some_and(|error| error.contains("no good line")), "{restarts:?}");
    assert_eq!(job.events_of("restored").len(), 2, "both went on from a checkpoint");
    site.must_be_whole();
}

#[test]
fn a_panic_that_comes_again_and_again_ends_the_job_and_names_operator_text_and_record() {
    let site = Site::new();
    let always = u64::MAX.to_string();
    let mut job = site.job().with(&["--panic-on", &line(2, 10), "--panics", &always]).start();
    job.must_end_with(1);
    let said = job.stderr();
    let last = said.lines().rev().find(|line| line.starts_with("error: ")).expect("an error");
    assert!(last.contains("operator `inspect"), "{last}");
    assert!(last.contains(&format!("no good line: {}", line(2, 10))), "{last}");
    assert!(last.contains("input-2.txt"), "it names the position in the input: {last}");
    assert!(last.contains("10 failures without a completed checkpoint"), "{last}");
    assert_eq!(job.events_of("restart").len(), 9);
    // The code is mended, and the job goes on.
    site.run_to_the_end();
    site.must_be_whole();
}

#[test]
fn a_job_killed_again_and_again_at_any_moment_loses_nothing() {
    let site = Site::new();
    for lines in [100, 900, 1_500, 2_200] {
        let mut job = site.job().rate(SLOW).start();
        let committed = || site.committed().values().sum::<u64>();
        wait_for("it gets on", || (committed() >= lines).then_some(()));
        job.kill();
    }
    site.run_to_the_end();
    site.must_be_whole();
}
