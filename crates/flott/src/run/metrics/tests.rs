//! What is exported of a job that runs, and what clients of all kinds get.

use super::*;
use crate::connector::{Generator, MemorySink, MemorySource};
use crate::{Job, JobHandle};
use flott_runtime::meter::Portion;
use litemap::LiteMap;
use std::io::{Read, Write as _};
use std::net::TcpStream as Client;

fn serving() -> (JobHandle, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job::new("counting");
    job.workers(2).metrics("127.0.0.1:0").hot_keys(true).checkpoint_interval(Duration::from_millis(20));
    job.checkpoint_dir(dir.path().display().to_string());
    job.source("numbers", Generator::unbounded(1, |n, _| n).rate(10_000.0))
        .key_by(|n| n % 10)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", MemorySink::new());
    (job.spawn().expect("it starts"), dir)
}

fn say(handle: &JobHandle, request: &[u8]) -> String {
    let mut client = Client::connect(handle.metrics_address().expect("served")).expect("connected");
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    client.write_all(request).expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("answered");
    answer
}

fn scrape(handle: &JobHandle) -> String {
    say(handle, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
}

/// The sum of a metric over all its lines.
fn sum(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(&format!("flott_{name}{{")));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn a_running_job_exports_what_its_subtasks_and_checkpoints_do() {
    let (handle, _dir) = serving();
    let text = loop {
        let text = scrape(&handle);
        if sum(&text, "checkpoints_completed_total") >= 2.0 && sum(&text, "records_out_total") > 100.0 {
            break text;
        }
        assert!(handle.wait_for(Duration::from_millis(5)).is_none(), "it ended: {text}");
    };
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for name in ["records_in_total", "bytes_in_total", "bytes_out_total", "busy_seconds_total", "idle_seconds_total"] {
        assert!(sum(&text, name) > 0.0, "{name}: {text}");
    }
    for phase in ["start-delay", "alignment", "cut", "scan", "upload", "record"] {
        assert!(text.contains(&format!("phase=\"{phase}\"")), "{phase}: {text}");
    }
    assert!(sum(&text, "least_credit_bytes") > 0.0, "{text}");
    // No samples yet, or ten keys of which all are hot: never more than all records of two subtasks.
    assert!(text.contains("flott_hottest_key_share{job=\"counting\",operator=\"count\",subtask=\"0\"}"), "{text}");
    assert!(sum(&text, "hot_keys_share") <= 2.0, "{text}");
    assert!(text.contains("flott_records_in_total{job=\"counting\",chain=\"numbers"), "{text}");
    let again = scrape(&handle);
    assert!(sum(&again, "records_in_total") >= sum(&text, "records_in_total"), "a counter does not fall");
}

#[test]
fn what_is_no_request_for_metrics_is_told_so() {
    let (handle, _dir) = serving();
    assert!(say(&handle, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(say(&handle, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(say(&handle, b"\r\n\r\n").starts_with("HTTP/1.1 405"));
    // Hanging clients have places of their own, and are left.
    let address = handle.metrics_address().expect("served").to_owned();
    let hanging: Vec<Client> = (0..4).map(|_| Client::connect(&address).expect("connected")).collect();
    assert!(scrape(&handle).starts_with("HTTP/1.1 200"));
    drop(hanging);
}

#[test]
fn a_port_in_use_is_refused_before_the_job_starts() {
    let (handle, _dir) = serving();
    let address = handle.metrics_address().expect("served").to_owned();
    let job = Job::new("second");
    job.metrics(address.clone());
    let numbers = job.source("numbers", MemorySource::new(vec![1u64]));
    numbers.inspect(|_| panic!("nothing runs")).sink("out", MemorySink::new());
    let error = job.spawn().map(|_| ()).expect_err("in use");
    assert_eq!(error.kind().exit_code(), 2);
    assert!(error.to_string().contains(&format!("metrics cannot be served at {address}")), "{error}");
    for wrong in ["nowhere", "127.0.0.1:123456", ""] {
        job.metrics(wrong);
        assert_eq!(job.spawn().map(|_| ()).expect_err("no address").kind().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn names_are_escaped_and_what_is_not_known_is_left_out() {
    let reading =
        Reading { sum: Portion { records_in: 3, busy: 1_500_000, ..Portion::default() }, ..Reading::default() };
    let mut late = reading;
    late.watermark = Some(8_000);
    let meters = [LiteMap::from_iter([(0, reading)]), LiteMap::from_iter([(0, late)])];
    let text = exposition("a \"job\"", &["one\\two"], &meters, &Status::default(), Time(10_000_000));
    assert!(
        text.contains(r#"flott_records_in_total{job="a \"job\"",chain="one\\two",vertex="0",subtask="1"} 3"#),
        "{text}"
    );
    assert_eq!(sum(&text, "busy_seconds_total"), 3.0);
    let lags: Vec<&str> = text.lines().filter(|line| line.starts_with("flott_watermark_lag_seconds{")).collect();
    assert_eq!(lags.len(), 1, "{text}");
    assert!(lags[0].ends_with(" 2"), "{text}");
    assert!(!text.contains("last_checkpoint"), "there was none: {text}");
}

#[test]
fn a_hot_key_is_named_by_the_status_and_its_share_is_exported_without_its_name() {
    let job = Job::new("uneven");
    job.workers(2).metrics("127.0.0.1:0").hot_keys(true);
    job.source("clicks", Generator::unbounded(1, |n, _| if n % 2 == 0 { "hot".to_owned() } else { n.to_string() }))
        .key_by(|page| page.clone())
        .fold("views", 0u64, |views, _| *views += 1)
        .filter(|_| false)
        .sink("out", crate::connector::print());
    let handle = job.spawn().expect("it starts");
    let hot = loop {
        if let Some(hot) = handle.status().hot_keys.first().cloned() {
            break hot;
        }
        assert!(handle.wait_for(Duration::from_millis(5)).is_none(), "it ended");
    };
    assert_eq!((hot.operator.as_str(), hot.key.as_str()), ("views", "hot"));
    assert!(hot.share > 0.4, "{hot:?}");
    let text = scrape(&handle);
    assert!(sum(&text, "hottest_key_share") > 0.4, "{text}");
    assert!(!text.contains("\"hot\""), "{text}");
    handle.cancel();
    let _ = handle.wait();
}
