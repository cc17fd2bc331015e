//! Jobs with their state in RocksDB, as real processes: killed at every crash point, moved from one backend to the other.
//!
//! Whatever happens, what is committed in the end is what one undisturbed run commits.

mod process;

use process::{ALL_LINES, Site, Start, line, wait_for};
use std::path::{Path, PathBuf};

/// So slow that a process has most of its input before it when something happens to it: 3 s.
const SLOW: u64 = ALL_LINES;

fn work_dir(site: &Site) -> PathBuf {
    site.output().with_file_name("work")
}

fn rocksdb(site: &Site) -> Start<'_> {
    let work = work_dir(site).display().to_string();
    site.job().with(&["--state-backend", "rocksdb", "--state-memory", "32MiB", "--work-dir", &work])
}

/// Attempts of which databases are left in the work directory.
fn left_behind(site: &Site) -> Vec<String> {
    let names = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let attempts = names(&work_dir(site)).iter().flat_map(|job| names(job)).collect::<Vec<_>>();
    attempts.iter().map(|attempt| attempt.display().to_string()).collect()
}

#[test]
fn a_job_in_rocksdb_commits_each_count_once_and_clears_its_work_directory() {
    let site = Site::new();
    rocksdb(&site).start().must_end_with(0);
    site.must_be_whole();
    assert!(work_dir(&site).exists(), "it did not use the directory");
    assert_eq!(left_behind(&site), Vec::<String>::new());
}

fn crash_at(point: &str, mode: &str) {
    let site = Site::new();
    let slow = || rocksdb(&site).rate(SLOW).with(&["--checkpoint-mode", mode]);
    slow().crash_at("BetweenCommits").start().must_crash();
    assert_ne!(left_behind(&site), Vec::<String>::new(), "a killed process cannot have cleared it");
    slow().crash_at(point).start().must_crash();
    rocksdb(&site).start().must_end_with(0);
    site.must_be_whole();
    assert_eq!(left_behind(&site), Vec::<String>::new(), "what killed processes left is cleared by the next one");
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
    a_kill_around_start_and_restore_loses_nothing: ["AfterStart", "DuringRestore"], "aligned";
    a_kill_around_acks_and_log_slot_loses_nothing: ["BeforeAck", "AfterLogSlot"], "aligned";
    a_kill_with_records_in_flight_loses_nothing: ["BeforeAck", "AfterLastAck"], "unaligned";
    a_kill_with_the_world_stopped_loses_nothing: ["AfterManifest"], "stop-the-world";
    a_kill_within_a_commit_or_a_collection_loses_nothing: ["BetweenLinkAndUnlink", "DuringCollection"], "aligned";
}

#[test]
fn state_moves_from_the_heap_to_rocksdb_and_back() {
    let site = Site::new();
    site.job().rate(SLOW).crash_at("BetweenCommits").start().must_crash();
    rocksdb(&site).rate(SLOW).crash_at("BetweenCommits").start().must_crash();
    site.job().rate(SLOW).crash_at("BetweenCommits").start().must_crash();
    rocksdb(&site).start().must_end_with(0);
    site.must_be_whole();
}

/// Threads that use a database are still at work then: the destructors of its library must not run below them.
#[test]
fn a_second_interrupt_ends_at_once_with_130_while_databases_are_open() {
    let site = Site::new();
    let mut job = rocksdb(&site).rate(SLOW).with(&["--hang-on", &line(0, 200)]).start();
    job.await_that("it does not return", |job| job.stderr().contains("never returning"));
    wait_for("it ends", || {
        job.interrupt_if_it_lives();
        job.has_ended().then_some(())
    });
    job.must_end_with(130);
    rocksdb(&site).start().must_end_with(0);
    site.must_be_whole();
    assert_eq!(left_behind(&site), Vec::<String>::new(), "what it left is cleared by the next one");
}

#[test]
fn a_work_directory_that_cannot_be_fails_the_job_with_its_name() {
    let site = Site::new();
    let file = site.output().with_file_name("work");
    std::fs::write(&file, "").expect("written");
    let mut job = rocksdb(&site).start();
    let status = job.end();
    assert_ne!(status.code(), Some(0));
    let said = job.stderr();
    assert!(said.contains("work") && said.contains("--work-dir"), "{said}");
}
