//! The disk under RocksDB fails while a job runs: the attempt ends with the reason, the job is restarted, and nothing is lost or
//! doubled.

#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "it waits for a job in this process")]

use flott::prelude::*;
use flott::testing::MemorySink;
use flott::{JobHandle, StateBackend};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const KEYS: u64 = 20_000;
const RECORDS: u64 = 15 * KEYS;
const DEADLINE: Duration = Duration::from_secs(120);

struct Running {
    handle: JobHandle,
    out: MemorySink<(u64, u64)>,
}

/// A job that writes more than its memtables hold, so that RocksDB needs its disk again and again.
fn start(checkpoints: &Path, work: &Path) -> Running {
    let out = MemorySink::new();
    let job = Job::new("on-a-bad-disk");
    job.workers(2)
        .checkpoint_dir(checkpoints.display().to_string())
        .checkpoint_interval(Duration::from_millis(100))
        .state_backend(StateBackend::RocksDb)
        .state_memory(8 << 20)
        .work_dir(work);
    job.source("numbers", Generator::new(RECORDS, 1, |number, _| number % KEYS).splits(4).rate(60_000.0))
        .key_by(|key| *key)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", out.clone());
    let handle = job.spawn().expect("it starts");
    wait_for("a checkpoint", || handle.status().completed_checkpoints >= 2);
    Running { handle, out }
}

fn wait_for(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Running {
    fn must_restart(&self) {
        wait_for("a restart", || self.handle.status().restarts > 0);
    }

    fn must_end_whole(self) {
        self.handle.wait().expect("it ends well");
        let rows = self.out.committed();
        assert_eq!(rows.len() as u64, RECORDS, "each record comes out once");
        let distinct: BTreeSet<(u64, u64)> = rows.into_iter().collect();
        let expected = (0..KEYS).flat_map(|key| (1..=RECORDS / KEYS).map(move |count| (key, count)));
        assert!(distinct.into_iter().eq(expected), "counts were lost or doubled");
    }
}

#[test]
fn a_work_directory_that_goes_away_costs_a_restart_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let work = directory.path().join("work");
    let job = start(&directory.path().join("checkpoints"), &work);
    fs::remove_dir_all(&work).expect("it was there");
    job.must_restart();
    job.must_end_whole();
}

/// The directory of a small file system, for the test that runs within it.
const SMALL: &str = "FLOTT_TEST_SMALL_DISK";

#[test]
fn a_full_disk_costs_a_restart_and_nothing_else() {
    if let Some(small) = std::env::var_os(SMALL) {
        return with_a_full_disk(&PathBuf::from(small));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let own = std::env::current_exe().expect("a program");
    let script = "mount -t tmpfs -o size=64m none \"$1\" || exit 77; exec \"$2\" --exact a_full_disk_costs_a_restart_and_nothing_else --nocapture";
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(directory.path()).arg(own);
    let ran = shell.env(SMALL, directory.path()).output();
    match ran.as_ref().map(|ran| ran.status.code()) {
        Ok(Some(0)) => {}
        // No namespaces here: the test needs a disk that it may fill.
        Err(_) | Ok(Some(77)) => eprintln!("not tested: a file system of its own cannot be mounted here"),
        Ok(code) => panic!("{code:?}: {}", String::from_utf8_lossy(&ran.expect("it ran").stderr)),
    }
}

fn with_a_full_disk(small: &Path) {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let job = start(&elsewhere.path().join("checkpoints"), &small.join("work"));
    let filler = small.join("filler");
    let mut file = fs::File::create(&filler).expect("a file");
    while file.write_all(&[7; 4_096]).is_ok() {}
    job.must_restart();
    // As long as it is open it takes its room, with or without a name.
    drop(file);
    fs::remove_file(&filler).expect("it was there");
    job.must_end_whole();
}
