//! Real processes whose checkpoint storage is slow, fails now and then, is full, or denies writing for a while.
//!
//! Checkpoints take longer or fail and say why; records are processed all the while; what is committed in the end is what one
//! undisturbed run commits. That processing goes on is shown by the order of events, never by a clock: records are taken
//! between two looks at one and the same pending checkpoint.

#![cfg(unix)]
#![allow(clippy::indexing_slicing, reason = "a test may end where it stands")]

mod process;

use flott::remote::{Request, ask};
use process::{Process, Site, wait_for};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many lines a second: some seconds are left for whatever happens.
const SLOW: u64 = 600;
/// What the storage takes longer for each request.
const LATENCY: Duration = Duration::from_millis(200);

/// The pending checkpoint, if one is, and how many records were read.
fn look(socket: &str) -> (Option<u64>, u64) {
    let status = ask(socket, &Request::Status {}).expect("it answers");
    (status["pending"]["id"].as_u64(), status["records_in"].as_u64().expect("a count"))
}

/// Waits until records were taken while one checkpoint was pending, for so many checkpoints.
fn records_go_on_during(checkpoints: usize, socket: &str) {
    let (mut first, mut worked) = (BTreeMap::new(), BTreeMap::new());
    wait_for("records are processed while a checkpoint is pending", || {
        if let (Some(id), records) = look(socket) {
            let before = *first.entry(id).or_insert(records);
            if records > before {
                worked.insert(id, records - before);
            }
        }
        (worked.len() >= checkpoints).then_some(())
    });
}

#[test]
fn a_slow_storage_makes_checkpoints_longer_and_holds_nothing_up() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).trouble("latency=200ms").start();
    let socket = job.await_socket();
    records_go_on_during(3, &socket);
    job.must_end_with(0);
    assert!(job.events_of("restart").is_empty(), "{}", job.stderr());
    let history = site.history();
    assert!(history.len() >= 4 && history.iter().all(|entry| entry.is_completed()), "{history:#?}");
    for entry in &history {
        // The segment, then manifest and slot: what was injected is in the record of where the time went.
        let latency = u64::try_from(LATENCY.as_micros()).expect("short");
        assert!(entry.phases.upload.micros >= latency && entry.phases.record >= 2 * latency, "{entry:?}");
    }
    site.must_be_whole();
}

#[test]
fn a_storage_that_fails_in_one_of_five_or_of_two_requests_changes_nothing_of_the_result() {
    let mut troubled = 0;
    for (errors, seed) in [(5, 1), (5, 2), (2, 3)] {
        let site = Site::new();
        let trouble = format!("errors={errors} seed={seed}");
        let mut job = site.job().rate(SLOW).trouble(&trouble).start();
        let socket = job.await_socket();
        records_go_on_during(1, &socket);
        job.await_checkpoints(3);
        // What is left behind in doubt is settled by the next one, which has the same trouble.
        job.kill();
        site.job().trouble(&trouble).start().must_end_with(0);
        let history = site.history();
        // A repeated request comes after a pause of 50 ms or more.
        let longer = |entry: &&flott_runtime::history::HistoryEntry| {
            entry.phases.upload.micros.max(entry.phases.record) >= 50_000 || !entry.is_completed()
        };
        troubled += history.iter().filter(longer).count();
        let reasons = history.iter().filter(|entry| !entry.is_completed()).map(|entry| entry.reason());
        assert!(reasons.into_iter().all(|reason| reason.is_some_and(|reason| !reason.is_empty())));
        site.must_be_whole();
    }
    assert!(troubled > 3, "no trouble reached any checkpoint");
}

/// What failed checkpoints left behind.
struct Left {
    /// Objects that nothing led to.
    objects: usize,
    /// Entries of the history.
    remembered: usize,
}

/// Something goes wrong with the storage of a running job for a while: checkpoints fail and say why, records are processed,
/// and when it is over the next checkpoint succeeds. What the log names is whole all the time, and what failed checkpoints wrote
/// is collected.
fn fails_for_a_while(site: &Site, job: &mut Process, goes_wrong: impl Fn(&Process, bool), says: &str) -> Left {
    let socket = job.await_socket();
    job.await_checkpoints(2);
    goes_wrong(job, true);
    job.await_that("a checkpoint fails", |job| !failed(job).is_empty());
    let (_, before) = look(&socket);
    wait_for("records are processed though checkpoints fail", || (look(&socket).1 > before).then_some(()));
    job.await_that("another one fails", |job| failed(job).len() >= 2);
    site.must_verify();
    let left = site.garbage();
    goes_wrong(job, false);
    let completed = job.completed();
    for more in 1..=3 {
        job.await_checkpoints(completed + more);
        site.must_verify();
    }
    wait_for("what failed checkpoints wrote is collected", || {
        let garbage = site.garbage();
        (!left.iter().any(|path| garbage.contains(path))).then_some(())
    });
    job.terminate();
    job.must_end_with(0);
    assert!(job.events_of("restart").is_empty(), "{}", job.stderr());
    let reasons = failed(job);
    assert!(reasons.iter().all(|reason| reason.to_lowercase().contains(says)), "{reasons:?}");
    let remembered = remembered(site, says);
    site.run_to_the_end();
    site.must_be_whole();
    Left { objects: left.len(), remembered }
}

fn flag(file: &Path) -> impl Fn(&Process, bool) {
    move |_, wrong| {
        if wrong { fs::write(file, "").expect("put there") } else { fs::remove_file(file).expect("taken away") }
    }
}

/// The reasons of the checkpoints that were given up.
fn failed(job: &Process) -> Vec<String> {
    let aborted = job.events_of("checkpoint").into_iter().filter(|event| event["status"] == "aborted");
    aborted.map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

/// How many failures the history has, each with its reason. While nothing at all can be written, it cannot be either.
fn remembered(site: &Site, says: &str) -> usize {
    let history = site.history();
    let failures: Vec<String> = history.iter().filter_map(|entry| entry.reason()).collect();
    assert!(failures.iter().all(|reason| reason.to_lowercase().contains(says)), "{failures:?}");
    failures.len()
}

#[test]
fn a_full_storage_fails_checkpoints_with_its_reason_and_the_next_one_succeeds_when_there_is_room() {
    let site = Site::new();
    let file = site.path("full");
    let mut job = site.job().rate(SLOW).trouble(&format!("full-while={}", file.display())).start();
    fails_for_a_while(&site, &mut job, flag(&file), "no storage space");
}

#[test]
fn a_storage_that_denies_writing_fails_checkpoints_with_its_reason_and_the_next_one_succeeds() {
    let site = Site::new();
    let file = site.path("denied");
    let trouble = format!("denied-while={}", file.display());
    let mut job = site.job().rate(SLOW).with(&["--checkpoint-interval", "300ms"]).trouble(&trouble).start();
    fails_for_a_while(&site, &mut job, flag(&file), "permission denied");
}

/// The system's own refusal, and the local directory's own way: no file may become as large as a manifest is.
#[test]
#[cfg(target_os = "linux")]
fn files_that_may_not_grow_fail_checkpoints_with_the_reason_of_the_system() {
    const LESS_THAN_A_MANIFEST: u64 = 2_100;
    let site = Site::new();
    // The limit's signal would end the process before any error came of it.
    let job = site.job().rate(400).with(&["--checkpoint-interval", "100ms"]);
    let mut job = job.in_shell("trap '' XFSZ; exec \"$0\" \"$@\"").by_pipe().start();
    let limit = |job: &Process, wrong: bool| {
        let pid = Pid::from_raw(i32::try_from(job.pid()).expect("a number"));
        let current = wrong.then_some(LESS_THAN_A_MANIFEST);
        prlimit(pid, Resource::Fsize, Rlimit { current, maximum: None }).expect("limited");
    };
    let left = fails_for_a_while(&site, &mut job, limit, "file too large");
    assert!(left.objects > 0, "segments come before manifests");
    assert!(left.remembered >= 2, "the history is small enough to be written");
}

#[test]
fn directories_that_lose_their_permissions_fail_checkpoints_with_the_reason_of_the_system() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).with(&["--checkpoint-interval", "300ms"]).by_nobody().start();
    let directories = |site: &Site| -> Vec<PathBuf> {
        let data = fs::read_dir(site.checkpoints().join("counted/data")).expect("listed");
        data.map(|entry| entry.expect("an attempt").path()).collect()
    };
    let permit = |_: &Process, wrong: bool| {
        let mode = if wrong { 0o555 } else { 0o755 };
        for directory in directories(&site) {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode)).expect("changed");
        }
    };
    let left = fails_for_a_while(&site, &mut job, permit, "permission denied");
    assert!(left.remembered >= 2, "the history's own directory is as it was");
}

#[test]
fn more_failures_in_a_row_than_are_tolerable_end_the_attempt_and_the_job_goes_on_when_the_cause_is_gone() {
    let site = Site::new();
    let file = site.path("denied");
    let trouble = format!("denied-while={}", file.display());
    let mut job = site.job().rate(SLOW).with(&["--longest-restart-delay", "200ms"]).trouble(&trouble).start();
    job.await_checkpoints(2);
    fs::write(&file, "").expect("put there");
    job.await_that("the attempt ends", |job| !job.events_of("restart").is_empty());
    fs::remove_file(&file).expect("taken away");
    let events = job.events();
    let until = events.iter().position(|event| event["event"] == "restart").expect("just seen");
    let failures = events[..until].iter().filter(|event| event["status"] == "aborted").count();
    assert!(failures >= 10, "10 in a row are tolerable: {failures}");
    let error = events[until]["error"].as_str().unwrap_or_default().to_owned();
    assert!(
        error.contains("11 checkpoints in a row failed") && error.to_lowercase().contains("permission denied"),
        "{error}"
    );
    job.must_end_with(0);
    site.must_be_whole();
}

/// Resident memory of a process in KiB.
#[cfg(target_os = "linux")]
fn resident(job: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", job.pid())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Less than the records that pass would take if they waited anywhere: a record has 24 bytes.
#[test]
#[cfg(target_os = "linux")]
fn memory_stays_flat_while_the_storage_is_slow_or_fails() {
    const RECORDS: u64 = 400_000;
    const MAY_GROW_KIB: u64 = RECORDS * 24 / 1024 / 2;
    for trouble in ["latency=200ms", "errors=2 seed=5"] {
        let site = Site::of("churning");
        let output = site.output().display().to_string();
        let mut arguments = vec!["--output", &output, "--records", "1000000000000", "--rate", "150000", "--seed", "1"];
        arguments.extend(["--slots", "2000", "--life", "50", "--ttl", "300", "--panic-every", "0"]);
        let program = Path::new(env!("CARGO_BIN_EXE_flott-soak-job"));
        let mut job = site.program(program).with(&arguments).trouble(trouble).start();
        let socket = job.await_socket();
        job.await_checkpoints(4);
        wait_for("it is warm", || (look(&socket).1 > RECORDS / 2).then_some(()));
        let (before, at, completed) = (resident(&job), look(&socket).1, job.completed());
        job.await_checkpoints(completed + 4);
        wait_for("as many records have passed", || (look(&socket).1 >= at + RECORDS).then_some(()));
        let after = resident(&job);
        assert!(after < before + MAY_GROW_KIB, "{trouble}: from {before} to {after} KiB");
        job.kill();
        site.must_verify();
    }
}
