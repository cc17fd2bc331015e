//! Permissions: what a job may not do at its start ends it at once, with what to do; what it may not do any more while it runs
//! fails a checkpoint, and the job goes on.

use super::process::{Process, Site};
use super::proxy::{Fault, Proxy, Seen};
use super::server::Server;
use super::{SLOW, job, job_without_output, must_be_whole, output, started};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store of which some requests are not for us.
fn denying(server: &Server, denied: fn(&Seen) -> bool) -> Proxy {
    Proxy::new(&server.address(), move |_, seen| denied(seen).then_some(Fault::Answer(403, "AccessDenied")))
}

fn writes(seen: &Seen) -> bool {
    !["GET", "HEAD"].contains(&seen.method.as_str())
}

/// The job with its checkpoints in the bucket, or with its output there, ends with 2 before anything runs.
fn must_be_refused(address: &str, words: &str) {
    for place in ["checkpoints", "output"] {
        let (in_bucket, local) = (Site::with_checkpoints_at("s3://bucket/x"), Site::new());
        let mut job = match place {
            "checkpoints" => job(&in_bucket, address).start(),
            _ => job_without_output(&local, address).with(&["--output", "s3://bucket/out"]).start(),
        };
        job.must_end_with(2);
        assert!(job.stderr().contains(words), "{place}: {}", job.stderr());
        assert!(job.events_of("restart").is_empty(), "{place}: it tried again: {}", job.stderr());
    }
}

#[test]
fn wrong_credentials_end_a_job_at_its_start() {
    let stranger = Server::that_knows_nobody();
    stranger.bucket("bucket");
    must_be_refused(&stranger.address(), "AWS_SECRET_ACCESS_KEY");
}

#[test]
fn credentials_that_may_only_read_end_a_job_at_its_start() {
    let (server, site) = (started(), Site::with_checkpoints_at("s3://bucket/x"));
    // Also if somebody else, who might write, was there before.
    for _ in 0..2 {
        must_be_refused(&denying(&server, writes).address(), "they need to read, write, list and delete");
        job(&site, &server.address()).start().must_end_with(0);
    }
}

#[test]
fn output_that_could_not_be_renamed_or_cleaned_ends_a_job_at_its_start() {
    let server = started();
    for denied in [|seen: &Seen| seen.method == "DELETE", |seen: &Seen| seen.target.contains("list-type")] {
        let (proxy, site) = (denying(&server, denied), Site::new());
        let mut job = job_without_output(&site, &proxy.address()).with(&["--output", "s3://bucket/out"]).start();
        job.must_end_with(2);
        assert!(job.stderr().contains("403 AccessDenied"), "{}", job.stderr());
    }
}

fn aborted(job: &Process) -> Vec<String> {
    let events = job.events_of("checkpoint").into_iter().filter(|event| event["status"] == "aborted");
    events.filter_map(|event| Some(event.get("reason")?.as_str()?.to_owned())).collect()
}

/// Writes of a running job are denied for a while: checkpoints fail and say why, the attempt goes on, and the next ones succeed.
fn denied_for_a_while(mut job: Process, denied: &AtomicBool) {
    job.await_checkpoints(1);
    denied.store(true, Ordering::SeqCst);
    job.await_that("checkpoints fail", |job| aborted(job).len() >= 2);
    denied.store(false, Ordering::SeqCst);
    let completed = job.completed();
    job.await_checkpoints(completed + 1);
    job.must_end_with(0);
    assert!(job.events_of("restart").is_empty(), "{}", job.stderr());
    let reasons = aborted(&job);
    assert!(reasons.iter().all(|reason| reason.contains("403 AccessDenied")), "{reasons:?}");
}

/// Denies that these objects are written while it is on.
fn denying_at_times(server: &Server, part: &'static str) -> (Proxy, Arc<AtomicBool>) {
    let on = Arc::new(AtomicBool::new(false));
    let denied = Arc::clone(&on);
    let rule = move |_: usize, seen: &Seen| {
        let hit = denied.load(Ordering::SeqCst) && seen.method == "PUT" && seen.target.contains(part);
        hit.then_some(Fault::Answer(403, "AccessDenied"))
    };
    (Proxy::new(&server.address(), rule), on)
}

#[test]
fn a_permission_lost_while_a_job_runs_fails_checkpoints_and_not_the_job() {
    let server = started();
    let (proxy, on) = denying_at_times(&server, ".seg");
    let site = Site::with_checkpoints_at("s3://bucket/lost");
    denied_for_a_while(job(&site, &proxy.address()).rate(SLOW).start(), &on);
    must_be_whole(&site, &server);

    let (proxy, on) = denying_at_times(&server, "/.part-");
    let site = Site::new();
    let start = job_without_output(&site, &proxy.address()).rate(SLOW).with(&["--output", "s3://bucket/lost-out"]);
    denied_for_a_while(start.start(), &on);
    assert!(output(&server, "lost-out").0 == Site::expected());
}
