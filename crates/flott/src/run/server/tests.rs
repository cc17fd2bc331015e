//! Clients of all kinds at the socket of a job that runs.

use crate::connector::{Generator, MemorySink, MemorySource};
use crate::{Job, JobHandle, Phase};
use flott_runtime::io::local_socket::LocalSocket;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A job that runs, and its socket.
struct Site {
    handle: JobHandle,
    socket: PathBuf,
    _socket: LocalSocket,
    _dir: TempDir,
}

fn site(checkpoints: bool) -> Site {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job::new("asked");
    job.workers(1);
    if checkpoints {
        job.checkpoint_dir(dir.path().join("ck").display().to_string());
        job.checkpoint_interval(Duration::from_secs(3_600));
    }
    if checkpoints {
        job.source("numbers", Generator::unbounded(1, |n, _| n).rate(1_000.0)).sink("out", MemorySink::new());
    } else {
        job.source("numbers", MemorySource::new((0..1_000_000u64).collect()))
            .throttle(1_000)
            .sink("out", MemorySink::new());
    }
    let handle = job.spawn().expect("it starts");
    while handle.status().phase != Phase::Running {
        assert!(handle.wait_for(Duration::from_millis(5)).is_none(), "it ended");
    }
    let socket = LocalSocket::bind(&dir.path().join("sockets"), "asked").expect("bound");
    handle.listen(&socket, "asked").expect("it listens");
    Site { handle, socket: socket.path().to_owned(), _socket: socket, _dir: dir }
}

impl Site {
    fn client(&self) -> UnixStream {
        let client = UnixStream::connect(&self.socket).expect("connected");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        client
    }

    /// Writes something, and reads one line.
    fn say(&self, bytes: &[u8]) -> Value {
        let client = self.client();
        (&client).write_all(bytes).expect("written");
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).expect("answered");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

#[test]
fn a_client_reads_the_status_and_changes_mode_and_interval() {
    let site = site(true);
    let status = site.say(b"{\"request\":\"status\"}\n");
    assert_eq!((&status["job"], &status["checkpoint_mode"]), (&"asked".into(), &"aligned".into()));
    let set = b"{\"request\":\"set\",\"checkpoint_mode\":\"at-least-once\",\"checkpoint_interval\":\"30ms\"}\n";
    let status = site.say(set);
    assert_eq!(
        (&status["checkpoint_mode"], &status["checkpoint_interval_ms"]),
        (&"at-least-once".into(), &30.0.into())
    );
    assert_eq!(status["guarantee"], "at-least-once");
    assert_eq!(site.handle.status().checkpoint_interval, Some(Duration::from_millis(30)));
}

#[test]
fn one_connection_serves_many_requests() {
    let site = site(true);
    let client = site.client();
    let mut answers = BufReader::new(client.try_clone().expect("cloned"));
    for _ in 0..10 {
        (&client).write_all(b"{\"request\":\"status\"}\n").expect("written");
        let mut line = String::new();
        answers.read_line(&mut line).expect("answered");
        assert!(line.contains("\"job\":\"asked\""), "{line}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let site = site(true);
    let before = site.handle.status();
    for (said, words) in [
        (&b"hello\n"[..], "this is no request"),
        (b"{\"request\":\"set\"}\n", "nothing is to be set"),
        (b"{\"request\":\"set\",\"checkpoint_mode\":\"sideways\"}\n", "`sideways` is not one of"),
        (b"{\"request\":\"set\",\"checkpoint_interval\":\"soon\"}\n", "`soon` is no duration"),
        // The good half of it is not done either.
        (b"{\"request\":\"set\",\"checkpoint_mode\":\"at-least-once\",\"checkpoint_interval\":\"0s\"}\n", "interval"),
        (&[b'x'; 5_000], "at most 4096 bytes"),
    ] {
        let answer = site.say(said);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "{answer}");
        assert_eq!(answer["exit_code"], 2, "{answer}");
    }
    let after = site.handle.status();
    assert_eq!(
        (after.checkpoint_mode, after.checkpoint_interval),
        (before.checkpoint_mode, before.checkpoint_interval)
    );
    let off = self::site(false);
    let answer = off.say(b"{\"request\":\"set\",\"checkpoint_mode\":\"aligned\"}\n");
    assert!(answer["error"].as_str().unwrap_or_default().contains("checkpoints are off"), "{answer}");
}

#[test]
fn clients_that_hang_hurt_nobody_and_are_left_after_a_while() {
    let site = site(true);
    let hanging: Vec<UnixStream> = (0..8).map(|_| site.client()).collect();
    // One of them has said half of something.
    (&hanging[0]).write_all(b"{\"request\"").expect("written");
    assert_eq!(site.say(b"{\"request\":\"status\"}\n")["job"], "asked");
    assert!(site.handle.checkpoint(false).is_ok(), "the job goes on");
    for mut client in hanging {
        assert_eq!(client.read(&mut [0]).expect("not for ever"), 0, "it is left");
    }
}

#[test]
fn too_many_clients_are_sent_away_with_a_reason() {
    let site = site(true);
    let refused = (0..20).any(|_| {
        let hanging: Vec<UnixStream> = (0..=super::MOST_CLIENTS).map(|_| site.client()).collect();
        let mut said = String::new();
        // If this test was held up, the first ones have been left by now, and the last one has a place.
        let last = hanging.last().is_some_and(|mut client| client.read_to_string(&mut said).is_ok());
        last && said.contains("64 clients are being served already")
    });
    assert!(refused);
}
