//! Checkpoints in an object store: on a real S3 server on loopback, through a network that loses, delays and cuts; with jobs
//! that are killed at crash points and go on exactly; with everything that a user can get wrong.
//!
//! `cargo xtask test --real s3` installs the server.

#![allow(clippy::disallowed_methods, reason = "a server and a slow network are threads of the test, on the real clock")]

mod process;
#[path = "s3/proxy.rs"]
mod proxy;
#[path = "s3/refused.rs"]
mod refused;
#[path = "s3/server.rs"]
mod server;
#[path = "s3/sink.rs"]
mod sink;

use bytes::Bytes;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{RetryOptions, StorageServer, StoreOptions, find_storage_with, open_storage_with};
use flott_runtime::io::{StorageReply, StorageRequest};
use flott_runtime::testing::storage_suite;
use flott_runtime::verify::{Severity, verify};
use process::{ALL_LINES, Site, Start};
use proxy::{Fault, Proxy};
use server::Server;
use std::time::Duration;

/// So slow that a process has most of its input before it when something happens to it: 3 s.
const SLOW: u64 = ALL_LINES;

/// One part of a multipart upload, and a little.
const TWO_PARTS: usize = (8 << 20) + 1;

const BLOB: &str = "data/1/1-0.seg";

fn variables(address: &str) -> Vec<(String, String)> {
    let variables = [
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "testing".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn options(address: &str) -> StoreOptions {
    let retry = RetryOptions { first_pause: Duration::from_millis(5), ..RetryOptions::default() };
    StoreOptions { retry, variables: variables(address) }
}

fn open(address: &str, job: &str) -> StorageServer {
    open_storage_with("s3://bucket/some/prefix", job, &options(address)).expect("opened")
}

fn started() -> Server {
    let server = Server::new();
    server.bucket("bucket");
    server
}

fn create(path: &str) -> StorageRequest {
    StorageRequest::Create { path: path.to_owned(), bytes: Bytes::from_static(b"{mine}") }
}

fn read(path: &str) -> StorageRequest {
    StorageRequest::Read { path: path.to_owned(), range: None }
}

async fn write(storage: &StorageServer, path: &str, length: usize) {
    let bytes = Bytes::from((0..length).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
    let append = StorageRequest::Append { path: path.to_owned(), bytes: bytes.clone() };
    for request in [append, StorageRequest::Finish { path: path.to_owned() }] {
        let reply = storage.serve(request).await;
        assert!(matches!(reply, StorageReply::Done), "{path}: {reply:?}");
    }
    let StorageReply::Read(found) = storage.serve(read(path)).await else { panic!("{path} is finished") };
    assert!(found == bytes, "{path} is not what was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_keeps_all_promises_and_says_where_it_is() {
    let server = started();
    let mut n = 0;
    storage_suite::all(|| {
        n += 1;
        open(&server.address(), &format!("job-{n}"))
    })
    .await;
    let storage = open(&server.address(), "job-1");
    assert_eq!(storage.name(), "s3://bucket/some/prefix/job-1");
    storage.probe().await.expect("it keeps its word");
    storage.probe().await.expect("and again");
}

/// A put that may be repeated; what is asked; what the store is asked for then, and how often in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_network_does_to_a_request_is_made_good() {
    let faults: [fn() -> Fault; 5] = [
        || Fault::Answer(503, "SlowDown"),
        || Fault::Lost,
        || Fault::LostBehindError,
        || Fault::HalfRequest,
        || Fault::HalfAnswer,
    ];
    let server = started();
    for (n, fault) in faults.iter().enumerate() {
        let of = [
            ("PUT", "small.seg"),
            ("GET", "small.seg"),
            ("POST", "?uploads"),
            ("PUT", "partNumber=1"),
            ("PUT", "partNumber=2"),
            ("POST", "uploadId"),
            ("GET", "1-0.seg"),
            ("GET", "list-type"),
            ("DELETE", "1-0.seg"),
        ];
        let faults = of.iter().map(|(method, part)| (*method, *part, fault())).collect();
        let proxy = Proxy::with_faults(&server.address(), faults);
        let storage = open(&proxy.address(), &format!("job-{n}"));
        write(&storage, "data/1/small.seg", 1_000).await;
        write(&storage, BLOB, TWO_PARTS).await;
        let StorageReply::Listed(objects) = storage.serve(StorageRequest::List { prefix: "data".to_owned() }).await
        else {
            panic!("listed")
        };
        assert_eq!(objects, [(BLOB.to_owned(), TWO_PARTS as u64), ("data/1/small.seg".to_owned(), 1_000)]);
        let reply = storage.serve(StorageRequest::Delete { path: BLOB.to_owned() }).await;
        assert!(matches!(reply, StorageReply::Done), "{reply:?}");
        for (method, part) in of {
            assert!(proxy.seen(method, part) >= 2, "{:?}: {method} {part} was never repeated", fault());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_whose_answer_is_lost_is_unknown_and_found_to_be_ones_own() {
    let server = started();
    let faults: [fn() -> Fault; 3] = [|| Fault::Lost, || Fault::LostBehindError, || Fault::HalfAnswer];
    for (n, fault) in faults.iter().enumerate() {
        let proxy = Proxy::with_faults(&server.address(), vec![("PUT", "log/1.json", fault())]);
        let storage = open(&proxy.address(), &format!("job-{n}"));
        let reply = storage.serve(create("log/1.json")).await;
        assert!(matches!(reply, StorageReply::Unknown(_)), "{:?}: {reply:?}", fault());
        assert_eq!(proxy.seen("PUT", "log/1.json"), 1, "nobody but whoever asked repeats it");
        assert!(matches!(storage.serve(create("log/1.json")).await, StorageReply::Exists));
        let StorageReply::Read(bytes) = storage.serve(read("log/1.json")).await else { panic!("it is there") };
        assert_eq!(&bytes[..], b"{mine}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_others_are_at_is_unknown_and_then_ones_own() {
    let server = started();
    let faults = vec![("PUT", "log/1.json", Fault::Answer(409, "ConditionalRequestConflict"))];
    let proxy = Proxy::with_faults(&server.address(), faults);
    let storage = open(&proxy.address(), "job");
    let reply = storage.serve(create("log/1.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_)), "it is not there: {reply:?}");
    assert!(matches!(storage.serve(create("log/1.json")).await, StorageReply::Created));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_hangs_is_overtaken_by_a_second_try() {
    let server = started();
    let faults = vec![
        ("PUT", "slow.seg", Fault::Hang),
        ("PUT", "log/2.json", Fault::Vanished),
        ("PUT", "log/3.json", Fault::Late(Duration::from_secs(1))),
    ];
    let proxy = Proxy::with_faults(&server.address(), faults);
    let mut options = options(&proxy.address());
    options.retry.timeout = Duration::from_secs(20);
    let storage = open_storage_with("s3://bucket/hedge", "job", &options).expect("opened");
    // What puts take has to be known.
    for n in 0..10 {
        write(&storage, &format!("data/1/{n}.seg"), 100).await;
    }
    write(&storage, "data/1/slow.seg", 100).await;
    assert_eq!(proxy.seen("PUT", "slow.seg"), 2, "the first had no answer");

    // The first was done, and its answer never came; so the second says that the object exists.
    let reply = storage.serve(create("log/2.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_)), "nobody may take it for somebody else's: {reply:?}");
    assert!(matches!(storage.serve(create("log/2.json")).await, StorageReply::Exists));
    // The first arrives after the second, and finds what that has created: `Unknown` at once, or `Created` by both answers.
    let reply = storage.serve(create("log/3.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_) | StorageReply::Created), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_heal_is_asked_once_and_said_with_what_to_do() {
    let server = started();
    let stranger = Server::that_knows_nobody();
    stranger.bucket("bucket");
    let off = |_: usize, _: &proxy::Seen| Some(Fault::Answer(403, "RequestTimeTooSkewed"));
    let elsewhere = |_: usize, _: &proxy::Seen| Some(Fault::Answer(400, "AuthorizationHeaderMalformed"));
    let cases = [
        (Proxy::new(&server.address(), |_, _| None), "s3://no-such-bucket/x", "no such bucket: make it"),
        (Proxy::new(&stranger.address(), |_, _| None), "s3://bucket/x", "AWS_SECRET_ACCESS_KEY"),
        (Proxy::new(&server.address(), off), "s3://bucket/x", "set the clock"),
        (Proxy::new(&server.address(), elsewhere), "s3://bucket/x", "AWS_REGION"),
    ];
    for (proxy, location, words) in cases {
        let options = options(&proxy.address());
        let storage = open_storage_with(location, "job", &options).expect("nobody is asked yet");
        let mut requests = vec![create("log/1.json"), StorageRequest::List { prefix: "log".to_owned() }];
        requests.push(read("log/1.json"));
        requests.push(StorageRequest::Append { path: BLOB.to_owned(), bytes: Bytes::from(vec![0; TWO_PARTS]) });
        for (n, request) in requests.into_iter().enumerate() {
            let reply = storage.serve(request).await;
            let StorageReply::Failed(text) = reply else { panic!("{location}: {reply:?}") };
            assert!(text.contains(words) && text.contains(location), "{text}");
            assert!(!text.contains("tried"), "{text}");
            assert_eq!(proxy.all().len(), n + 1, "asked once: {:?}", proxy.all());
        }
        let error = storage.probe().await.expect_err("it cannot hold a log");
        assert_eq!(error.kind().exit_code(), 2);
        assert!(error.to_string().contains(words), "{error}");
        let error = find_storage_with(location, None, &options).await.expect_err("nothing is found");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_conditional_writes_is_no_storage() {
    let server = started();
    // What ignores the condition says that all went well.
    let proxy = Proxy::new(&server.address(), |_, seen| (seen.method == "PUT").then_some(Fault::Answer(200, "")));
    let error = open(&proxy.address(), "job").probe().await.expect_err("it has no fence");
    assert_eq!(error.kind().exit_code(), 2);
    assert!(error.to_string().contains("creates an object although it exists"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_finds_the_job_that_its_user_means() {
    let server = started();
    let options = options(&server.address());
    let find = async |location: &str, job: Option<&str>| find_storage_with(location, job, &options).await;
    let error = find("s3://bucket", None).await.expect_err("empty");
    assert!(error.to_string().contains("no job in s3://bucket"), "{error}");
    for job in ["one", "two"] {
        let storage = open(&server.address(), job);
        assert!(matches!(storage.serve(create("log/1.json")).await, StorageReply::Created));
        let (name, storage) = find(&format!("s3://bucket/some/prefix/{job}/"), None).await.expect("found");
        assert_eq!((name.as_str(), storage.name()), (job, format!("s3://bucket/some/prefix/{job}").as_str()));
        if job == "one" {
            assert_eq!(find("s3://bucket/some/prefix", None).await.expect("the only one").0, "one");
        }
    }
    let error = find("s3://bucket/some/prefix", None).await.expect_err("two of them");
    assert!(error.to_string().contains("several jobs: one, two"), "{error}");
    assert_eq!(find("s3://bucket/some/prefix", Some("two")).await.expect("named").0, "two");
    let error = find("s3://bucket/some/prefix", Some("three")).await.expect_err("not there");
    assert!(error.to_string().contains("no job at s3://bucket/some/prefix/three"), "{error}");
}

/// A process of the job with its checkpoints in the bucket, asked for at this address.
fn job<'a>(site: &'a Site, address: &str) -> Start<'a> {
    variables(address).iter().fold(site.job(), |job, (name, value)| job.env(name, value.as_ref()))
}

/// The output is that of one run, and the checkpoints in the bucket are whole.
fn must_be_whole(site: &Site, server: &Server) {
    site.must_hold_one_run();
    let options = options(&server.address());
    let report = block_on(async {
        let (_, storage) = find_storage_with(&site.checkpoints().display().to_string(), None, &options).await?;
        verify(&storage, |_| ()).await
    });
    let report = report.expect("it runs").expect("verified");
    let damage: Vec<_> = report.findings.iter().filter(|found| found.severity == Severity::Damage).collect();
    assert!(damage.is_empty() && report.newest_whole.is_some(), "{report:#?}");
}

#[test]
fn a_job_killed_at_crash_points_goes_on_exactly_from_its_checkpoints_in_the_bucket() {
    let server = started();
    let points = [
        ("AfterStart", "aligned"),
        ("BeforeAck", "unaligned"),
        ("AfterManifest", "aligned"),
        ("AfterLogSlot", "stop-the-world"),
        ("DuringCollection", "aligned"),
        ("DuringRestore", "aligned"),
        ("Step(9)", "aligned"),
    ];
    for (n, (point, mode)) in points.into_iter().enumerate() {
        let site = Site::with_checkpoints_at(&format!("s3://bucket/killed/{n}"));
        let slow = || job(&site, &server.address()).rate(SLOW).with(&["--checkpoint-mode", mode]);
        slow().crash_at("BetweenCommits").start().must_crash();
        slow().crash_at(point).start().must_crash();
        job(&site, &server.address()).start().must_end_with(0);
        must_be_whole(&site, &server);
    }
}

#[test]
fn a_job_over_a_bad_network_commits_each_count_once() {
    let server = started();
    let site = Site::with_checkpoints_at("s3://bucket/bad");
    let proxy = Proxy::new(&server.address(), |n, _| match n {
        // The probe comes first; then the contest for the log.
        n if n % 11 == 5 => Some(Fault::Lost),
        n if n % 13 == 6 => Some(Fault::Answer(503, "SlowDown")),
        n if n % 17 == 7 => Some(Fault::HalfRequest),
        n if n % 19 == 8 => Some(Fault::HalfAnswer),
        _ => Some(Fault::Late(Duration::from_millis(2))),
    });
    let slow = || job(&site, &proxy.address()).rate(SLOW);
    slow().crash_at("BetweenCommits").start().must_crash();
    slow().crash_at("AfterLogSlot").start().must_crash();
    slow().start().must_end_with(0);
    must_be_whole(&site, &server);
    assert!(proxy.all().len() > 100, "it has to meet every fault: {}", proxy.all().len());
}

#[test]
fn a_savepoint_goes_to_a_bucket_and_a_job_begins_from_it_on_disk_and_in_a_bucket() {
    let server = started();
    let (first, second) = (Site::with_checkpoints_at("s3://bucket/first"), Site::new());
    let mut running = job(&first, &server.address()).rate(SLOW).start();
    let socket = running.await_socket();
    running.await_checkpoints(2);
    let ask = |directory: &str| {
        let directory = directory.to_owned();
        flott::remote::ask(&socket, &flott::remote::Request::Savepoint { directory, stop: true, drain: false })
    };
    let error = ask("s3://no-such-bucket/sp").expect_err("nowhere to go");
    assert!(error.to_string().contains("no such bucket"), "{error}");
    let error = ask("s3://bucket/first").expect_err("the job is there");
    assert!(error.to_string().contains("it is not empty"), "{error}");
    let taken = ask("s3://bucket/savepoints/one").expect("taken");
    running.must_end_with(0);
    assert_eq!(taken["path"], "s3://bucket/savepoints/one");

    // From the bucket to the disk, killed before it has a checkpoint of its own, and on from there.
    let from = || job(&second, &server.address()).with(&["--restore", "s3://bucket/savepoints/one"]);
    from().with(&["--dry-run"]).start().must_end_with(0);
    from().crash_at("AfterStart").start().must_crash();
    job(&second, &server.address()).start().must_end_with(0);
    let mut rows = first.committed();
    for (row, count) in second.committed() {
        *rows.entry(row).or_insert(0) += count;
    }
    assert_eq!(rows, Site::expected());

    // From one place in the bucket to another, and the output with it.
    let third = Site::with_checkpoints_at("s3://bucket/third");
    let third_output = first.output().display().to_string();
    let claim = ["--restore", "s3://bucket/savepoints/one", "--claim", "--output", third_output.as_str()];
    job_without_output(&third, &server.address()).with(&claim).start().must_end_with(0);
    first.must_hold_one_run();
}

/// What is committed below a prefix of the bucket, and names of what is not.
fn output(server: &Server, prefix: &str) -> (process::Rows, Vec<String>) {
    let storage = open_storage_with("s3://bucket", prefix, &options(&server.address())).expect("opened");
    block_on(async {
        let list = storage.serve(StorageRequest::List { prefix: String::new() }).await;
        let StorageReply::Listed(objects) = list else { panic!("{list:?}") };
        let (mut rows, mut hidden) = (process::Rows::new(), Vec::new());
        for (path, _) in objects {
            if path.starts_with('.') {
                hidden.push(path);
                continue;
            }
            let StorageReply::Read(bytes) = storage.serve(read(&path)).await else { panic!("{path} is listed") };
            for row in String::from_utf8(bytes.to_vec()).expect("UTF-8").lines().skip(1) {
                *rows.entry(row.to_owned()).or_insert(0) += 1;
            }
        }
        (rows, hidden)
    })
    .expect("it runs")
}

#[test]
fn output_in_a_bucket_is_committed_exactly_once_through_kills_at_each_step_of_a_commit() {
    let server = started();
    let points = ["BeforeAck", "AfterLogSlot", "BetweenCommits", "BetweenLinkAndUnlink"];
    for (n, point) in points.into_iter().enumerate() {
        let site = Site::new();
        let (place, program) =
            (format!("s3://bucket/out-{n}"), std::path::Path::new(env!("CARGO_BIN_EXE_flott-test-job")));
        let start = || {
            let job = site.job_of(program).with(&["--output", &place]);
            variables(&server.address()).iter().fold(job, |job, (name, value)| job.env(name, value.as_ref()))
        };
        start().rate(SLOW).crash_at("BetweenCommits").start().must_crash();
        start().rate(SLOW).crash_at(point).start().must_crash();
        start().start().must_end_with(0);
        let (rows, hidden) = output(&server, &format!("out-{n}"));
        assert!(rows == Site::expected(), "{point}: {} rows", rows.len());
        assert_eq!(hidden, Vec::<String>::new(), "{point}: pending parts are left behind");
        // Another incarnation does not mix its output with this.
        let mut refused = start().with(&["--restore", "none"]).start();
        refused.must_end_with(2);
        assert!(refused.stderr().contains("holds output of an earlier job"), "{}", refused.stderr());
    }
}

#[test]
fn input_output_and_checkpoints_in_a_bucket_over_a_bad_network_give_each_count_once() {
    let server = started();
    let mut site = Site::with_checkpoints_at("s3://bucket/all/checkpoints");
    let input = open_storage_with("s3://bucket", "in", &options(&server.address())).expect("opened");
    for (name, bytes) in site.read_from("s3://bucket/in/input-*.txt") {
        let created = block_on(input.serve(StorageRequest::Create { path: name, bytes: bytes.into() }));
        assert!(matches!(created, Ok(StorageReply::Created)), "{created:?}");
    }
    let proxy = Proxy::new(&server.address(), |n, _| match n {
        n if n % 17 == 5 => Some(Fault::Lost),
        n if n % 19 == 6 => Some(Fault::Answer(503, "SlowDown")),
        n if n % 23 == 7 => Some(Fault::HalfRequest),
        n if n % 29 == 8 => Some(Fault::HalfAnswer),
        _ => None,
    });
    let start = || job_without_output(&site, &proxy.address()).with(&["--output", "s3://bucket/all-out"]);
    start().rate(SLOW).crash_at("BetweenLinkAndUnlink").start().must_crash();
    start().rate(SLOW).crash_at("AfterLogSlot").start().must_crash();
    start().start().must_end_with(0);
    assert!(output(&server, "all-out").0 == Site::expected());
}

#[test]
fn an_output_bucket_that_is_not_there_is_refused_before_anything_runs() {
    let server = started();
    let site = Site::new();
    let mut job = job_without_output(&site, &server.address()).with(&["--output", "s3://no-such-bucket/out"]).start();
    job.must_end_with(2);
    assert!(job.stderr().contains("no such bucket: make it"), "{}", job.stderr());
}

fn job_without_output<'a>(site: &'a Site, address: &str) -> Start<'a> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_flott-test-job"));
    variables(address).iter().fold(site.job_of(program), |job, (name, value)| job.env(name, value.as_ref()))
}

#[test]
fn a_job_that_cannot_use_its_bucket_ends_with_2_and_says_what_to_do() {
    let server = started();
    for (place, variable, words) in [
        ("s3://no-such-bucket/x", None, "no such bucket: make it"),
        ("s3://bucket/x", Some(("AWS_ALLOW_HTTP", "false")), "AWS_ALLOW_HTTP"),
        ("s3://bucket/x", Some(("AWS_ENDPOINT_URL", "http://127.0.0.1:1")), "AWS_ENDPOINT_URL"),
    ] {
        let site = Site::with_checkpoints_at(place);
        let job = job(&site, &server.address());
        let job = variable.into_iter().fold(job, |job, (name, value)| job.env(name, value.as_ref()));
        let mut job = job.start();
        job.must_end_with(2);
        assert!(job.stderr().contains(words), "{}", job.stderr());
    }
}
