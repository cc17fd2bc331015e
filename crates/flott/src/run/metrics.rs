//! Metrics for Prometheus: a snapshot as text, for each `GET /metrics`.
//!
//! Written by hand from the meters that there are (`docs/decisions/025`). A client that is slow or wrong costs one task for a
//! bounded time; the job does not notice.

use super::status::{CheckpointStatus, Shared, Status};
use super::task::task;
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::io::clock::SystemClock;
use flott_runtime::io::net::listen;
use flott_runtime::meter::{Hot, Reading};
use flott_runtime::plan::Plan;
use flott_runtime::time::{Clock, Time};
use litemap::LiteMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// Clients at a time.
const MOST_CLIENTS: usize = 16;
/// A client that neither asks nor reads for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// No head of a request is longer, in bytes.
const LONGEST_HEAD: u64 = 8 << 10;
/// Between two tries to accept when that fails.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Where the numbers come from.
pub(super) struct Numbers {
    pub(super) plan: Arc<Plan>,
    pub(super) heartbeats: Heartbeats,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: SystemClock,
}

/// A port that is taken, and serves nobody yet.
pub(super) struct Exporter(flott_runtime::io::net::Listener);

impl Exporter {
    /// Takes the port.
    ///
    /// # Errors
    /// `Refused`, if it is in use or no address of this machine.
    pub(super) fn open(address: &str) -> Result<Exporter> {
        listen(address).map(Exporter).map_err(|error| {
            Error::refused(format!("metrics cannot be served at {address}: {error}"))
                .hint("name another address with --metrics, as 127.0.0.1:9184; port 0 takes a free one")
        })
    }

    /// Serves until the runtime ends; says where.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub(super) fn serve(self, runtime: &Handle, numbers: Numbers) -> Result<String> {
        let address = self.0.address();
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(self.0.into_inner())
            .map_err(|error| Error::failed(format!("metrics cannot be served: {error}")))?;
        runtime.spawn(task(serve(listener, Arc::new(numbers))));
        Ok(address)
    }
}

async fn serve(listener: TcpListener, numbers: Arc<Numbers>) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let numbers = Arc::clone(&numbers);
                tokio::spawn(task(async move {
                    let _ = timeout(PATIENCE, answer(client, &numbers)).await;
                    drop(place);
                }));
            }
            Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
}

async fn answer(mut client: TcpStream, numbers: &Numbers) -> std::io::Result<()> {
    let (from, mut to) = client.split();
    let mut head = BufReader::new(from.take(LONGEST_HEAD));
    let mut request = String::new();
    head.read_line(&mut request).await?;
    loop {
        // The rest of the head says nothing that is needed, and is read so that nobody's answer is reset.
        let mut line = Vec::new();
        if head.read_until(b'\n', &mut line).await? == 0 || line.trim_ascii().is_empty() {
            break;
        }
    }
    let mut words = request.split_whitespace();
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", numbers.text()),
        (Some("GET"), Some("/")) => ("200 OK", "metrics are at /metrics\n".to_owned()),
        (Some("GET"), _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is served\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    to.write_all(head.as_bytes()).await?;
    to.write_all(body.as_bytes()).await?;
    to.shutdown().await
}

impl Numbers {
    fn text(&self) -> String {
        let names: Vec<&str> = self.plan.vertices.iter().map(|vertex| vertex.name.as_str()).collect();
        let (meters, status) = (self.heartbeats.meters(), self.shared.status());
        let mut text = exposition(&self.plan.job, &names, &meters, &status, self.clock.now());
        hot_keys(&mut text, &self.plan.job, &self.heartbeats.hot());
        text
    }
}

/// A metric of a subtask: its name, its kind, what it is, and its value.
type OfSubtask = (&'static str, &'static str, &'static str, fn(&Reading, Time) -> Option<f64>);

const OF_SUBTASKS: [OfSubtask; 10] = [
    ("records_in_total", "counter", "records taken; of a source, given out", |r, _| Some(count(r.sum.records_in))),
    ("records_out_total", "counter", "records sent or taken by a sink", |r, _| Some(count(r.sum.records_out))),
    ("bytes_in_total", "counter", "weight of the records that came in", |r, _| Some(count(r.sum.bytes_in))),
    ("bytes_out_total", "counter", "weight of the records sent", |r, _| Some(count(r.sum.bytes_out))),
    ("busy_seconds_total", "counter", "time within steps", |r, _| Some(seconds(r.sum.busy))),
    ("backpressured_seconds_total", "counter", "time between steps without credit", |r, _| {
        Some(seconds(r.sum.backpressured))
    }),
    ("idle_seconds_total", "counter", "other time between steps", |r, _| Some(seconds(r.sum.idle))),
    ("channels_without_credit", "gauge", "output channels without credit", |r, _| {
        Some(count(r.channels_without_credit))
    }),
    ("least_credit_bytes", "gauge", "credit of the output channel that has least", |r, _| {
        r.least_credit.map(count_signed)
    }),
    ("watermark_lag_seconds", "gauge", "how far the watermark is behind the clock", |r, now| {
        r.watermark.map(|at| seconds(now.0) - count_signed(at) / 1_000.0)
    }),
];

/// A gauge of hot keys: its name, what it is, and its value.
type OfHotKeys = (&'static str, &'static str, fn(&Hot) -> f64);

/// Two gauges for each subtask with keys. The keys themselves are in `flott status --json`: as labels they would be without
/// number.
fn hot_keys(text: &mut String, job: &str, hot: &[LiteMap<u16, Hot>]) {
    let job = label(job);
    let gauges: [OfHotKeys; 2] = [
        ("hottest_key_share", "share of the records that the heaviest key has at least, by samples", |hot| {
            hot.keys.first().map_or(0.0, |(_, share)| *share)
        }),
        (
            "hot_keys_share",
            "share of the records that all keys with a hundredth or more have at least, by samples",
            |hot| hot.keys.iter().map(|(_, share)| share).sum(),
        ),
    ];
    for (name, help, value) in gauges {
        head(text, name, "gauge", help);
        for (worker, hot) in hot.iter().enumerate().flat_map(|(worker, hot)| hot.values().map(move |hot| (worker, hot)))
        {
            let (operator, value) = (label(&hot.operator), value(hot));
            let _ =
                writeln!(text, "flott_{name}{{job=\"{job}\",operator=\"{operator}\",subtask=\"{worker}\"}} {value}");
        }
    }
}

/// The text format of Prometheus, version 0.0.4.
fn exposition(job: &str, vertices: &[&str], meters: &[LiteMap<u16, Reading>], status: &Status, now: Time) -> String {
    let (mut text, job) = (String::new(), label(job));
    for (name, kind, help, value) in OF_SUBTASKS {
        head(&mut text, name, kind, help);
        for (worker, vertex, reading) in meters
            .iter()
            .enumerate()
            .flat_map(|(worker, meters)| meters.iter().map(move |(vertex, reading)| (worker, *vertex, reading)))
        {
            let chain = vertices.get(usize::from(vertex)).copied().unwrap_or_default();
            if let Some(value) = value(reading, now) {
                let chain = label(chain);
                let _ = writeln!(
                    text,
                    "flott_{name}{{job=\"{job}\",chain=\"{chain}\",vertex=\"{vertex}\",subtask=\"{worker}\"}} {value}"
                );
            }
        }
    }
    let mut of_job = |name: &str, kind: &str, help: &str, value: f64| {
        head(&mut text, name, kind, help);
        let _ = writeln!(text, "flott_{name}{{job=\"{job}\"}} {value}");
    };
    of_job("restarts_total", "counter", "restarts in this process", count(status.restarts));
    of_job("checkpoints_completed_total", "counter", "completed checkpoints", count(status.completed_checkpoints));
    of_job("checkpoints_failed_total", "counter", "checkpoints given up", count(status.aborted_checkpoints));
    if let Some(CheckpointStatus { id, duration, bytes, phases, .. }) = status.last_checkpoint {
        of_job("last_checkpoint_id", "gauge", "the newest completed checkpoint", count(id.0));
        of_job("last_checkpoint_bytes", "gauge", "bytes written for it", count(bytes));
        of_job("last_checkpoint_seconds", "gauge", "from its trigger to the log", duration.as_secs_f64());
        let help = "each phase of it, at the subtask where it took longest";
        head(&mut text, "last_checkpoint_phase_seconds", "gauge", help);
        for (phase, micros) in phases.named() {
            let value = seconds(micros);
            let _ = writeln!(text, "flott_last_checkpoint_phase_seconds{{job=\"{job}\",phase=\"{phase}\"}} {value}");
        }
    }
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP flott_{name} {help}\n# TYPE flott_{name} {kind}");
}

/// A value of a label, escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
fn count(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
fn count_signed(count: i64) -> f64 {
    count as f64
}

fn seconds(micros: u64) -> f64 {
    count(micros) / 1e6
}
