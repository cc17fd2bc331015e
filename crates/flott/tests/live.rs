//! Running jobs asked and changed by their local sockets: under load, with crashes, with clients and paths of every kind.

#![cfg(unix)]

mod process;

use flott::Mode;
use flott::remote::{Request, ask};
use process::{ALL_LINES, Process, Site, line, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// So slow that a process has most of its input before it when something is asked of it: 3 s.
const SLOW: u64 = ALL_LINES;

fn set(socket: &str, mode: &str) -> Value {
    let request = Request::Set { checkpoint_mode: Some(mode.to_owned()), checkpoint_interval: None };
    ask(socket, &request).expect("it is set")
}

fn status(socket: &str) -> Value {
    ask(socket, &Request::Status {}).expect("it answers")
}

/// Waits for a completed checkpoint in this mode that comes after so many events.
fn await_mode(job: &mut Process, mode: &str, after: usize) {
    job.await_that(&format!("a checkpoint is {mode}"), |job| {
        let events = job.events();
        let mut later = events.iter().skip(after);
        later.any(|event| event["event"] == "checkpoint" && event["mode"] == mode)
    });
}

#[test]
fn the_mode_changes_between_two_checkpoints_under_load_and_the_history_says_which_took_each() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).start();
    let socket = job.await_socket();
    job.await_checkpoints(1);
    for mode in ["stop-the-world", "at-least-once", "unaligned", "aligned-then-unaligned", "aligned"] {
        let before = job.events().len();
        let status = set(&socket, mode);
        assert_eq!(status["checkpoint_mode"], mode);
        await_mode(&mut job, mode, before);
    }
    let restored =
        wait_for("it is exact again", || Some(status(&socket)).filter(|status| status["guarantee"] == "exactly-once"));
    assert_eq!(restored["checkpoint_mode"], "aligned");
    job.must_end_with(0);
    assert!(job.stderr().contains("guarantee: at-least-once, until an exact checkpoint"), "{}", job.stderr());
    assert!(job.stderr().contains("guarantee: exactly-once again, since checkpoint"), "{}", job.stderr());
    let taken: BTreeSet<Mode> = site.modes().into_values().collect();
    assert_eq!(taken, BTreeSet::from(Mode::ALL));
    site.must_be_whole();
}

#[test]
fn a_crash_after_changes_between_exact_modes_loses_and_doubles_nothing() {
    let site = Site::new();
    for modes in
        [["stop-the-world", "unaligned"], ["aligned-then-unaligned", "stop-the-world"], ["unaligned", "aligned"]]
    {
        let mut job = site.job().rate(SLOW).start();
        let socket = job.await_socket();
        for mode in modes {
            let before = job.events().len();
            set(&socket, mode);
            await_mode(&mut job, mode, before);
        }
        job.kill();
    }
    site.run_to_the_end();
    site.must_be_whole();
}

#[test]
fn a_crash_while_checkpoints_are_at_least_once_loses_nothing_and_the_lesser_guarantee_stays() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).start();
    let socket = job.await_socket();
    job.await_checkpoints(1);
    let before = job.events().len();
    assert_eq!(set(&socket, "at-least-once")["guarantee"], "at-least-once");
    await_mode(&mut job, "at-least-once", before);
    job.kill();
    // It is taken in aligned mode again, but what it restored is worth no more.
    let mut again = site.job().start();
    again.must_end_with(0);
    let restored = &again.events_of("restored")[0];
    assert_eq!(restored["guarantee"], "at-least-once");
    let promised = again.events_of("checkpoint");
    assert!(promised.iter().all(|event| event["guarantee"] == "at-least-once"), "{promised:?}");
    let committed = site.committed();
    let lines: u64 = committed.values().sum();
    assert!(lines >= ALL_LINES, "{lines} rows for {ALL_LINES} lines: some were lost");
}

#[test]
fn a_job_that_hangs_says_where_its_checkpoint_is() {
    let site = Site::new();
    let mut job = site.job().with(&["--hang-on", &line(0, 500)]).start();
    let socket = job.await_socket();
    let found = wait_for("a checkpoint is stuck", || {
        let status = status(&socket);
        let silent = status["pending"]["silent"].as_array().is_some_and(|silent| !silent.is_empty());
        silent.then_some(status)
    });
    let silent = &found["pending"]["silent"][0];
    assert!(silent["operator"].as_str().is_some_and(|name| name.contains("inspect")), "{found}");
    let lines = found["pending_lines"].to_string();
    assert!(lines.contains("does not answer: code of `inspect"), "{lines}");
    assert!(lines.contains("was not sent yet"), "the other worker waits for its barriers: {lines}");
    job.kill();
}

#[test]
fn the_socket_is_private_goes_with_the_job_and_a_dead_one_does_no_harm() {
    let site = Site::new();
    let mut job = site.job().rate(SLOW).start();
    let socket = job.await_socket();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(Path::new(&socket)), mode(&site.sockets())), (0o600, 0o700));
    job.kill();
    let refused = ask(&socket, &Request::Status {}).expect_err("nobody is there").to_string();
    assert!(refused.contains("nobody listens"), "{refused}");
    let mut job = site.job().rate(SLOW).start();
    let own = job.await_socket();
    assert_eq!(status(&own)["job"], "counted");
    job.await_checkpoints(1);
    job.interrupt();
    job.must_end_with(0);
    assert!(!Path::new(&own).exists(), "it is removed at the end");
    let mut job = site.job().rate(SLOW).start();
    let own = job.await_socket();
    job.stop_and_go_on(Process::two_signals);
    job.end();
    assert!(!Path::new(&own).exists(), "also when a second signal ends it");
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_a_warning() {
    let site = Site::new();
    let long = site.sockets().parent().expect("run").join("r".repeat(120));
    fs::create_dir(&long).expect("made");
    let mut job = site.job().env("XDG_RUNTIME_DIR", &long).start();
    job.must_end_with(0);
    assert!(job.stderr().contains("warning: the job has no local socket"), "{}", job.stderr());
    site.must_be_whole();
}

#[test]
fn a_metrics_port_in_use_is_refused_before_the_start_and_a_free_one_serves() {
    let site = Site::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let mut job = site.job().with(&["--metrics", &address]).start();
    job.must_end_with(2);
    assert!(job.stderr().contains(&format!("metrics cannot be served at {address}")), "{}", job.stderr());
    assert!(job.events().is_empty() && !site.output().exists(), "nothing has begun");
    let mut job = site.job().rate(SLOW).with(&["--metrics", "127.0.0.1:0"]).start();
    job.await_checkpoints(1);
    let said = job.stderr();
    let url = said.lines().find_map(|line| line.strip_prefix("metrics: http://")).expect("it says where");
    let mut client = TcpStream::connect(url.trim_end_matches("/metrics")).expect("connected");
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("answered");
    assert!(text.contains("flott_checkpoints_completed_total{job=\"counted\"}"), "{text}");
    job.must_end_with(0);
    site.must_be_whole();
}
