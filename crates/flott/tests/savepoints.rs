//! Savepoints of real processes: taken under load, with kills in the middle, moved, and gone on from in another place.

#![cfg(unix)]

mod process;

use flott::remote::{Request, ask};
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::find_storage;
use flott_runtime::verify::{Report, verify};
use process::{ALL_LINES, Process, Rows, Site};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// So slow that a process has most of its input before it when something is asked of it: 3 s.
const SLOW: u64 = ALL_LINES;

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn savepoint(socket: &str, directory: &Path, stop: bool, drain: bool) -> flott::Result<Value> {
    ask(socket, &Request::Savepoint { directory: text(directory), stop, drain })
}

/// A place for savepoints, beside the jobs' own.
fn shelf() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().canonicalize().expect("it is there");
    (dir, path)
}

fn must_verify(directory: &Path) -> Report {
    let (_, storage) = block_on(find_storage(&text(directory), None)).expect("it runs").expect("opened");
    let report = block_on(async { verify(&storage, |_| ()).await }).expect("it runs").expect("verified");
    assert!(!report.is_damaged(), "{:#?}", report.findings);
    assert_eq!(report.checkpoints, 1);
    report
}

/// What both have committed, together.
fn together(first: &Site, second: &Site) -> Rows {
    let mut rows = first.committed();
    for (row, count) in second.committed() {
        *rows.entry(row).or_insert(0) += count;
    }
    rows
}

fn running(site: &Site) -> (Process, String) {
    let mut job = site.job().rate(SLOW).start();
    let socket = job.await_socket();
    job.await_checkpoints(2);
    (job, socket)
}

#[test]
fn a_job_stopped_with_a_savepoint_goes_on_elsewhere_when_that_was_moved() {
    let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
    let (mut job, socket) = running(&first);
    let taken = savepoint(&socket, &shelf.join("one"), true, false).expect("it is taken");
    job.must_end_with(0);
    assert_eq!((taken["path"].clone(), taken["stopped"].clone()), (text(&shelf.join("one")).into(), true.into()));
    assert!(!shelf.join("one/unfinished").exists());
    must_verify(&shelf.join("one"));
    first.must_verify();
    let before: u64 = first.committed().values().sum();
    assert!(before > 0 && before < ALL_LINES, "it was stopped in the middle");
    // The first job's own directory is of no more use to it.
    fs::rename(shelf.join("one"), shelf.join("moved")).expect("moved");
    let mut next = second.job().with(&["--restore", &text(&shelf.join("moved"))]).start();
    next.must_end_with(0);
    assert_eq!(
        next.events_of("restored").first().map(|event| event["checkpoint"].clone()),
        Some(taken["checkpoint"].clone())
    );
    assert_eq!(together(&first, &second), Site::expected());
    second.must_verify();
    must_verify(&shelf.join("moved"));
}

#[test]
fn savepoints_are_taken_while_the_job_runs_and_it_goes_on_undisturbed() {
    let (site, (_dir, shelf)) = (Site::new(), shelf());
    let (mut job, socket) = running(&site);
    for name in ["a", "b", "deep/er/c"] {
        savepoint(&socket, &shelf.join(name), false, false).expect("it is taken");
        must_verify(&shelf.join(name));
    }
    // Where something is, nothing is written, and the job does not mind.
    let taken = savepoint(&socket, &shelf.join("a"), false, false).expect_err("there is one");
    assert!(taken.to_string().contains("there is one already"), "{taken}");
    fs::create_dir(shelf.join("full")).expect("made");
    fs::write(shelf.join("full/note"), "mine").expect("written");
    let full = savepoint(&socket, &shelf.join("full"), true, false).expect_err("it is not empty");
    assert!(full.to_string().contains("not empty"), "{full}");
    let file = savepoint(&socket, &shelf.join("full/note"), false, false).expect_err("a file");
    assert!(file.to_string().contains("not a directory"), "{file}");
    let relative = savepoint(&socket, Path::new("here"), false, false).expect_err("of which directory?");
    assert!(relative.to_string().contains("no absolute path"), "{relative}");
    job.must_end_with(0);
    site.must_be_whole();
}

#[test]
fn a_drained_job_has_finished_and_a_job_that_goes_on_from_there_says_so() {
    let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
    let (mut job, socket) = running(&first);
    savepoint(&socket, &shelf.join("end"), true, true).expect("it is taken");
    job.must_end_with(0);
    assert_eq!(job.events_of("finished").len(), 1, "{:?}", job.events().last());
    must_verify(&shelf.join("end"));
    let before: u64 = first.committed().values().sum();
    assert!(before > 0 && before < ALL_LINES, "its sources ended in the middle");
    let mut next = second.job().with(&["--restore", &text(&shelf.join("end"))]).start();
    next.must_end_with(0);
    assert!(second.committed().is_empty(), "it opened a source again");
}

#[test]
fn a_kill_in_the_middle_of_a_savepoint_leaves_none_and_the_job_loses_nothing() {
    for point in ["BeforeSavepointBlob", "BeforeSavepointManifest", "BeforeSavepointEntry"] {
        let (site, (_dir, shelf)) = (Site::new(), shelf());
        let mut job = site.job().rate(SLOW).crash_at(point).start();
        let socket = job.await_socket();
        job.await_checkpoints(1);
        let gone = savepoint(&socket, &shelf.join("half"), false, false).expect_err("it dies");
        assert!(gone.to_string().contains("cannot be asked"), "{point}: {gone}");
        job.must_crash();
        assert!(!shelf.join("half/savepoint.json").exists() && shelf.join("half/unfinished").exists(), "{point}");
        let other = Site::new();
        let mut from = other.job().with(&["--restore", &text(&shelf.join("half"))]).start();
        from.must_end_with(2);
        assert!(from.stderr().contains("left unfinished"), "{point}: {}", from.stderr());
        site.run_to_the_end();
        site.must_be_whole();
    }
}

#[test]
fn a_kill_after_the_entry_of_a_savepoint_leaves_a_whole_one() {
    let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
    let mut job = first.job().rate(SLOW).crash_at("AfterSavepointEntry").start();
    let socket = job.await_socket();
    job.await_checkpoints(1);
    savepoint(&socket, &shelf.join("whole"), true, false).expect_err("it dies before it answers");
    job.must_crash();
    must_verify(&shelf.join("whole"));
    second.job().with(&["--restore", &text(&shelf.join("whole"))]).start().must_end_with(0);
    assert_eq!(together(&first, &second), Site::expected());
}

#[test]
fn a_crash_before_the_first_checkpoint_after_a_savepoint_begins_from_it_again() {
    let (first, (_dir, shelf)) = (Site::new(), shelf());
    let (mut job, socket) = running(&first);
    savepoint(&socket, &shelf.join("one"), true, false).expect("it is taken");
    job.must_end_with(0);
    for point in ["BeforeStart", "AfterStart", "DuringRestore", "BeforeAck", "AfterManifest", "AfterLogSlot"] {
        let second = Site::new();
        let mut next = second.job().with(&["--restore", &text(&shelf.join("one"))]).crash_at(point).start();
        next.must_crash();
        // Without the flag: the log knows where it began.
        let again = second.job();
        let again = if point == "BeforeStart" { again.with(&["--restore", &text(&shelf.join("one"))]) } else { again };
        again.start().must_end_with(0);
        assert_eq!(together(&first, &second), Site::expected(), "{point}");
        second.must_verify();
    }
}

/// All files below a directory, with their bytes.
fn snapshot(directory: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let (mut open, mut files) = (vec![directory.to_owned()], std::collections::BTreeMap::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => open.push(entry.path()),
                false => drop(files.insert(entry.path(), fs::read(entry.path()).expect("read"))),
            }
        }
    }
    files
}

#[test]
fn a_claimed_savepoint_goes_on_in_the_same_output_but_not_past_what_is_later() {
    let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
    let (mut job, socket) = running(&first);
    savepoint(&socket, &shelf.join("early"), false, false).expect("it is taken");
    let taken = job.completed();
    job.await_checkpoints(taken + 2);
    savepoint(&socket, &shelf.join("last"), true, false).expect("it is taken");
    job.must_end_with(0);
    let output = text(&first.output());
    let next = |name: &str, more: &[&str]| {
        let site = second.job_to(&output);
        site.with(&["--restore", &text(&shelf.join(name))]).with(more)
    };
    let mut foreign = next("last", &[]).start();
    foreign.must_end_with(2);
    assert!(foreign.stderr().contains("output of an earlier job"), "{}", foreign.stderr());
    let mut early = next("early", &["--claim"]).start();
    early.must_end_with(2);
    assert!(early.stderr().contains("later than what is restored"), "{}", early.stderr());
    // A kill right after its tokens are committed: the claim is in the log.
    next("last", &["--claim"]).crash_at("AfterManifest").start().must_crash();
    second.job_to(&output).start().must_end_with(0);
    first.must_hold_one_run();
    second.must_verify();
    // A third life goes on after the second: it knows of the first.
    let third = Site::new();
    let from = text(&second.checkpoints());
    let mut job = third.job_to(&output).with(&["--restore", &from, "--claim"]).start();
    job.must_end_with(0);
    first.must_hold_one_run();
}

#[test]
fn pending_output_of_a_savepoint_is_committed_with_a_claim_alone() {
    for claim in [false, true] {
        let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
        // It dies when the savepoint is complete, and the checkpoint it is a copy of is recorded; then its output is taken
        // back to what a kill before the commits would have left.
        let mut job = first.job().rate(SLOW).crash_at("AfterLogSlot").start();
        job.must_crash();
        let pending = fs::read_dir(first.output()).expect("listed").flatten();
        let pending = pending.filter(|entry| entry.file_name().to_string_lossy().starts_with(".part")).count();
        assert!(pending > 0 && first.committed().is_empty(), "it was killed before its commits");
        let from = text(&first.checkpoints());
        let output = text(&first.output());
        let next = second.job_to(&output).with(&["--restore", &from]);
        let mut next = if claim { next.with(&["--claim"]) } else { next }.start();
        next.must_end_with(0);
        let rows: u64 = first.committed().values().sum();
        match claim {
            true => first.must_hold_one_run(),
            false => assert!(rows < ALL_LINES, "{rows}: the pending output of another life was touched"),
        }
        drop(shelf);
    }
}

#[test]
fn a_dry_run_says_what_would_be_restored_and_writes_not_a_byte() {
    let (first, second, (_dir, shelf)) = (Site::new(), Site::new(), shelf());
    let (mut job, socket) = running(&first);
    savepoint(&socket, &shelf.join("one"), true, false).expect("it is taken");
    job.must_end_with(0);
    let from = text(&shelf.join("one"));
    let before = (snapshot(&shelf), snapshot(&first.checkpoints()), snapshot(&first.output()));
    let mut look = second.job().with(&["--restore", &from, "--dry-run"]).start();
    look.must_end_with(0);
    let said = look.events_of("dry-run").pop().expect("it says what");
    assert_eq!(
        (&said["restores"]["begins_incarnation"], &said["restores"]["from"]),
        (&true.into(), &from.clone().into())
    );
    assert!(!second.checkpoints().exists() && !second.output().exists(), "it wrote something");
    // The same of the job's own log.
    let mut own = first.job().with(&["--dry-run"]).start();
    own.must_end_with(0);
    assert_eq!(own.events_of("dry-run")[0]["restores"]["begins_incarnation"], false);
    let mut foreign = second.job_to(&text(&first.output())).with(&["--restore", &from, "--dry-run"]).start();
    foreign.must_end_with(2);
    assert!(foreign.stderr().contains("output of an earlier job"), "{}", foreign.stderr());
    second.job_to(&text(&first.output())).with(&["--restore", &from, "--dry-run", "--claim"]).start().must_end_with(0);
    let mut workers = second.job().with(&["--restore", &from, "--dry-run", "--require", "exactly-once"]).start();
    workers.must_end_with(0);
    assert_eq!((snapshot(&shelf), snapshot(&first.checkpoints()), snapshot(&first.output())), before);
    // The log says that a savepoint is restored, and it is gone.
    second.job().with(&["--restore", &from]).crash_at("AfterStart").start().must_crash();
    fs::rename(shelf.join("one"), shelf.join("elsewhere")).expect("moved");
    for arguments in [&["--dry-run"][..], &[]] {
        second.job().with(arguments).start().must_end_with(4);
    }
    fs::rename(shelf.join("elsewhere"), shelf.join("one")).expect("moved");
    second.job().with(&["--dry-run"]).start().must_end_with(0);
    let segment = snapshot(&shelf).into_keys().find(|path| path.extension().is_some_and(|e| e == "seg")).expect("one");
    let mut bytes = fs::read(&segment).expect("read");
    bytes[9] ^= 1;
    fs::write(&segment, bytes).expect("written");
    let mut damaged = second.job().with(&["--restore", &from, "--dry-run"]).start();
    damaged.must_end_with(4);
    assert!(damaged.stderr().contains(".seg"), "{}", damaged.stderr());
    let mut nothing = second.job().with(&["--dry-run", "--restore", "/nowhere/at/all"]).start();
    nothing.must_end_with(2);
}
