//! Asking a running job from another process, by its local socket: one line of JSON a request, one line an answer.
//!
//! Requests and answers, and the asking end; the answering end is in `run/server.rs`. Nothing here runs a job.

use crate::run::{CheckpointStatus, HotKey, Phase, Status};
use flott_runtime::error::{Error, Result};
use flott_runtime::whereabouts::Whereabouts;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

#[cfg(unix)]
mod client;
#[cfg(test)]
mod tests;

#[cfg(unix)]
pub use client::ask;

/// There are no local sockets on this system.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn ask(_: &str, _: &Request) -> Result<Value> {
    Err(Error::refused("there are no local sockets on this system"))
}

/// No request is longer, in bytes.
pub(crate) const LONGEST_REQUEST: usize = 4 << 10;

/// What a job can be asked by its socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// How it stands. Answer: an object with what [`Status`] says.
    Status {},
    /// Takes the next checkpoints in another way: nothing is changed if any of it cannot be. Answer: as for `Status`, when
    /// the change is made.
    Set {
        /// A mode by its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_mode: Option<String>,
        /// A duration as `500ms`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_interval: Option<String>,
    },
    /// Takes a savepoint. Answer: an object with `path`, `checkpoint` and `bytes`, when it is complete.
    Savepoint {
        /// The directory, absolute: the job may run in another one than whoever asks.
        directory: String,
        /// The job ends with it.
        #[serde(default)]
        stop: bool,
        /// And its sources end where they are.
        #[serde(default)]
        drain: bool,
    },
}

impl Request {
    /// Whether the answer may take any time.
    fn is_long(&self) -> bool {
        matches!(self, Request::Savepoint { .. })
    }
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(line: &[u8]) -> Result<Request> {
        if line.len() > LONGEST_REQUEST {
            return Err(Error::refused(format!("a request has at most {LONGEST_REQUEST} bytes")));
        }
        serde_json::from_slice(line).map_err(|error| {
            Error::refused(format!("this is no request: {error}"))
                .hint(r#"a request is one line of JSON, as {"request":"status"} or {"request":"set","checkpoint_mode":"aligned"}"#)
        })
    }
}

/// The answer to a request that failed.
pub(crate) fn refusal(error: &Error) -> Value {
    json!({"error": error.to_string(), "exit_code": error.kind().exit_code()})
}

/// A status as an answer. Fields are only ever added.
pub(crate) fn status_answer(job: &str, status: &Status, pending: Option<&Whereabouts>) -> Value {
    json!({
        "job": job,
        "pid": std::process::id(),
        "phase": phase(status.phase),
        "attempt": status.attempt,
        "restored": status.restored,
        "restarts": status.restarts,
        "workers": status.workers,
        "guarantee": status.guarantee,
        "checkpoint_mode": status.checkpoint_mode,
        "checkpoint_interval_ms": status.checkpoint_interval.map(millis),
        "pending": pending,
        "pending_lines": pending.map(Whereabouts::lines),
        "last_checkpoint": status.last_checkpoint.map(checkpoint),
        "completed_checkpoints": status.completed_checkpoints,
        "aborted_checkpoints": status.aborted_checkpoints,
        "records_in": status.records_in,
        "records_out": status.records_out,
        "skipped": status.skipped,
        "dead_letters": status.dead_letters,
        "hot_keys": status.hot_keys.iter().map(hot_key).collect::<Vec<_>>(),
    })
}

fn checkpoint(checkpoint: CheckpointStatus) -> Value {
    let CheckpointStatus { id, mode, duration, bytes, phases } = checkpoint;
    let mut phases_ms = Map::new();
    for (phase, micros) in phases.named() {
        phases_ms.insert(phase.to_owned(), millis(Duration::from_micros(micros)).into());
    }
    json!({"id": id, "mode": mode, "duration_ms": millis(duration), "bytes": bytes, "phases_ms": phases_ms})
}

fn hot_key(hot: &HotKey) -> Value {
    json!({"operator": hot.operator, "subtask": hot.subtask, "key": hot.key, "share": hot.share})
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Restarting => "restarting",
        Phase::Stopping => "stopping",
        Phase::Ended => "ended",
    }
}

/// With a fraction, as all times in JSON.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
