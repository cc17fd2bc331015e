//! Jobs inside of other programs: started, asked, stopped and dropped by hand, also inside of a tokio runtime.

use flott::connector::Generator;
use flott::prelude::*;
use flott::{CheckpointStatus, Ended, JobHandle, Mode, Phase, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Never ends by itself; checkpoints only when asked, for all practical purposes.
fn endless(place: &tempfile::TempDir, out: &MemorySink<(u64, u64)>) -> Job {
    let job = Job::new("endless");
    job.workers(2).checkpoint_dir(place.path().display().to_string()).checkpoint_interval(Duration::from_secs(3_600));
    job.source("numbers", Generator::unbounded(1, |n, _| n).rate(5_000.0))
        .key_by(|n| n % 10)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", out.clone());
    job
}

/// Waits until the status is as wished; a job that ends before fails the test.
fn wait_until(handle: &JobHandle, wish: impl Fn(&Status) -> bool) -> Status {
    loop {
        let status = handle.status();
        if wish(&status) {
            return status;
        }
        if let Some(ended) = handle.wait_for(Duration::from_millis(5)) {
            panic!("the job ended: {ended:?}");
        }
    }
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for temporary files")
}

#[test]
fn a_running_job_takes_checkpoints_when_asked_and_stops_when_told() {
    let (place, out) = (place(), MemorySink::new());
    let handle = endless(&place, &out).spawn().expect("the job starts");
    wait_until(&handle, |status| status.records_in > 0);
    assert_eq!(handle.status().last_checkpoint, None);
    assert_eq!(handle.checkpoint(true).expect("it is taken").0, 1);
    let status = handle.status();
    let Some(CheckpointStatus { id, bytes, .. }) = status.last_checkpoint else { panic!("{status:?}") };
    assert!(id.0 == 1 && bytes > 0, "{status:?}");
    let taken = handle.savepoint(place.path().join("savepoint").display().to_string()).expect("it is taken");
    assert!(taken.checkpoint.0 == 2 && taken.bytes > 0 && taken.path.ends_with("savepoint"), "{taken:?}");
    handle.stop();
    let report = handle.wait().expect("a stop is no failure");
    assert_eq!(report.ended, Ended::Stopped);
    assert_eq!(report.checkpoint.map(|id| id.0), Some(3));
    assert_eq!(out.committed().len() as u64, report.records_out, "a stop commits everything that was written");
}

#[test]
fn whoever_asks_for_a_checkpoint_that_does_not_come_hears_why() {
    let out = MemorySink::new();
    let job = Job::new("without");
    job.source("numbers", MemorySource::new((0..1_000_000u64).collect())).throttle(1_000).sink("out", out.clone());
    let handle = job.spawn().expect("the job starts");
    wait_until(&handle, |status| status.records_in > 0);
    let refused = handle.checkpoint(false).expect_err("checkpoints are off").to_string();
    assert!(refused.contains("checkpoints are off"), "{refused}");
    let nowhere = std::env::temp_dir().join("flott-no-savepoint").display().to_string();
    for refused in [handle.savepoint(nowhere.clone()), handle.stop_with_savepoint(nowhere.clone(), true)] {
        let refused = refused.expect_err("checkpoints are off").to_string();
        assert!(refused.contains("checkpoints are off"), "{refused}");
    }
    assert!(!std::path::Path::new(&nowhere).exists(), "a refused savepoint leaves nothing behind");
    let commands = handle.commands();
    handle.cancel();
    handle.wait().expect("a cancelled job has not failed");
    let late = commands.savepoint(nowhere).expect_err("the job is over").to_string();
    assert!(late.contains("the job was cancelled"), "{late}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "whoever asks is blocked, so somebody else has to go on")]
fn whoever_waits_for_a_checkpoint_hears_of_the_end_of_the_job() {
    let (place, (open, gate)) = (place(), std::sync::mpsc::channel::<()>());
    let job = Job::new("ending");
    job.workers(1).checkpoint_dir(place.path().display().to_string()).checkpoint_interval(Duration::from_secs(3_600));
    let gate = std::sync::Mutex::new(gate);
    // No barrier gets past the first record before the gate opens.
    job.source("numbers", Generator::unbounded(1, |n, _| n))
        .inspect(move |n| {
            if *n == 0 {
                // It comes back when the other end is gone.
                let _ = gate.lock().expect("nobody panics with it").recv();
            }
        })
        .sink("out", MemorySink::new());
    let handle = job.spawn().expect("the job starts");
    wait_until(&handle, |status| status.phase == Phase::Running);
    let commands = handle.commands();
    let asking = std::thread::spawn(move || commands.checkpoint(false));
    // Whether the request comes before the end or after it: it is answered.
    handle.cancel();
    drop(open);
    handle.wait().expect("a cancelled job has not failed");
    let error = asking.join().expect("it does not panic").expect_err("no checkpoint can be complete").to_string();
    assert!(error.contains("no checkpoint was taken"), "{error}");
}

#[test]
fn mode_and_interval_change_while_the_job_runs() {
    let (place, out) = (place(), MemorySink::new());
    let handle = endless(&place, &out).spawn().expect("the job starts");
    wait_until(&handle, |status| status.phase == Phase::Running);
    handle.set_interval(Duration::from_millis(20)).expect("it can keep this interval");
    for mode in Mode::ALL {
        handle.set_mode(mode).expect("it can run in this mode");
        let before = handle.status().completed_checkpoints;
        // The one that is pending may be of the mode before.
        wait_until(&handle, |status| status.completed_checkpoints >= before + 3);
    }
    assert!(handle.set_interval(Duration::ZERO).is_err());
}

#[test]
fn a_job_runs_and_is_dropped_inside_of_a_tokio_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let out = MemorySink::new();
        let job = Job::new("inside");
        job.source("numbers", MemorySource::new((0..100u64).collect())).map(|n| n * 2).sink("out", out.clone());
        assert_eq!(job.run().expect("the job runs").ended, Ended::Finished);
        assert_eq!(out.committed(), (0..100).map(|n| n * 2).collect::<Vec<u64>>());
        let place = place();
        drop(endless(&place, &MemorySink::new()).spawn().expect("the job starts"));
    });
}

#[test]
fn a_dropped_handle_cancels_its_job() {
    let place = place();
    let alive = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&alive);
    let job = Job::new("dropped");
    job.workers(1).checkpoint_dir(place.path().display().to_string());
    job.source("numbers", Generator::unbounded(1, |n, _| n).rate(1_000.0))
        .inspect(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
        })
        .sink("out", MemorySink::new());
    let handle = job.spawn().expect("the job starts");
    let commands = handle.commands();
    wait_until(&handle, |_| alive.load(Ordering::SeqCst) > 0);
    drop(handle);
    assert_eq!(commands.status().phase, Phase::Ended);
    commands.stop();
}

#[test]
fn an_error_restarts_the_job_from_its_last_checkpoint() {
    let (place, out) = (place(), MemorySink::new());
    let failures = Arc::new(AtomicUsize::new(0));
    let job = Job::new("restarts");
    job.workers(1).checkpoint_dir(place.path().display().to_string()).checkpoint_interval(Duration::from_millis(20));
    let failing = Arc::clone(&failures);
    job.source("numbers", Generator::new(600, 1, |n, _| n).rate(3_000.0))
        .try_map(OnError::Fail, move |n| match n {
            300 if failing.fetch_add(1, Ordering::SeqCst) < 2 => Err("not yet"),
            500 if failing.fetch_add(1, Ordering::SeqCst) < 4 => panic!("on purpose"),
            n => Ok(n),
        })
        .key_by(|n| n % 3)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", out.clone());
    let report = job.run().expect("it recovers");
    assert_eq!((report.ended, report.restarts), (Ended::Finished, 3));
    let mut counts: Vec<(u64, u64)> = out.committed();
    counts.sort_unstable();
    assert_eq!(counts, (0..3).flat_map(|key| (1..=200).map(move |count| (key, count))).collect::<Vec<_>>());
}
