//! `flott status` and `flott set`: ask a running job by its local socket.
//!
//! All that is decided here is how an answer is printed; what can be changed is the job's business.

use crate::output::{Failure, bytes, json_line};
use clap::Args;
use flott::remote::{Request, ask};
use flott_runtime::Error;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Which running job.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The job's name, or the path of its socket, which it prints at its start.
    #[arg(value_name = "JOB|SOCKET")]
    job: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What to change.
#[derive(Args, Clone, Debug)]
#[group(id = "change", required = true, multiple = true, args = ["checkpoint_mode", "checkpoint_interval"])]
pub struct Change {
    #[command(flatten)]
    place: Place,
    /// How the next checkpoints are taken: stop-the-world, aligned, at-least-once, unaligned or aligned-then-unaligned
    #[arg(long, value_name = "MODE")]
    checkpoint_mode: Option<String>,
    /// Time between two checkpoints, as 500ms
    #[arg(long, value_name = "TIME")]
    checkpoint_interval: Option<String>,
}

/// What savepoint.
#[derive(Args, Clone, Debug)]
pub struct Savepoint {
    /// The job's name, or the path of its socket, which it prints at its start.
    #[arg(value_name = "JOB|SOCKET")]
    job: String,
    /// The directory of the savepoint, new or empty.
    #[arg(value_name = "DIR")]
    directory: String,
    /// The job ends with the savepoint, which is its final checkpoint.
    #[arg(long)]
    stop: bool,
    /// Its sources end where they are, and what they gave out is processed to its end, as if the input had ended there.
    #[arg(long, requires = "stop")]
    drain: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Takes a savepoint, and waits until it is complete.
///
/// # Errors
/// If there is none, and why; or the output cannot be written.
pub fn savepoint(wanted: &Savepoint) -> Result<ExitCode, Failure> {
    let Savepoint { job, directory, stop, drain, json } = wanted;
    let directory = absolute(directory)?;
    let answer = ask(job, &Request::Savepoint { directory, stop: *stop, drain: *drain })?;
    let mut out = io::stdout().lock();
    if *json {
        json_line(&mut out, &answer)?;
    } else {
        let of = |name: &str| word(answer.get(name).unwrap_or(&Value::Null));
        let size = answer.get("bytes").and_then(Value::as_u64).map_or_else(String::new, bytes);
        writeln!(out, "savepoint of checkpoint {}, {size}, in {}", of("checkpoint"), of("path"))?;
        if *drain {
            writeln!(
                out,
                "the job has finished, as if its input had ended: a job restored from there has nothing left to read"
            )?;
        } else if *stop {
            writeln!(out, "the job has ended; a job goes on from there with --restore {}", of("path"))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The job may run in another directory than this process.
fn absolute(directory: &str) -> Result<String, Error> {
    if directory.contains("://") {
        return Ok(directory.to_owned());
    }
    let wrong = |what: &str| Error::refused(format!("`{directory}` cannot be the directory of a savepoint: {what}"));
    let path = std::path::absolute(directory).map_err(|error| wrong(&error.to_string()))?;
    path.into_os_string().into_string().map_err(|_| wrong("it is not UTF-8"))
}

/// Prints how a job stands.
///
/// # Errors
/// If it cannot be asked, or the output cannot be written.
pub fn status(place: &Place) -> Result<ExitCode, Failure> {
    let answer = ask(&place.job, &Request::Status {})?;
    print(place, &answer)
}

/// Changes mode and interval, and prints how the job stands then.
///
/// # Errors
/// If it cannot be asked or refuses, or the output cannot be written.
pub fn set(change: &Change) -> Result<ExitCode, Failure> {
    let Change { place, checkpoint_mode, checkpoint_interval } = change.clone();
    let answer = ask(&place.job, &Request::Set { checkpoint_mode, checkpoint_interval })?;
    print(&place, &answer)
}

fn print(place: &Place, answer: &Value) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    if place.json {
        json_line(&mut out, answer)?;
    } else {
        lines(answer).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The answer for people.
fn lines(answer: &Value) -> Vec<String> {
    let text = |name: &str| word(answer.get(name).unwrap_or(&Value::Null));
    let mut lines = vec![
        format!("job {} (process {}) is {}", text("job"), text("pid"), text("phase")),
        format!("  attempt      {}, with {} workers, {} restarts", text("attempt"), text("workers"), text("restarts")),
        format!("  guarantee    {}", text("guarantee")),
        format!("  records      {} in, {} out", text("records_in"), text("records_out")),
    ];
    lines.extend(hot_key_lines(answer));
    if answer.get("checkpoint_mode").is_none_or(Value::is_null) {
        lines.push("  checkpoints  off".to_owned());
        return lines;
    }
    let interval = span(answer.get("checkpoint_interval_ms"));
    lines.push(format!("  checkpoints  {}, each {interval}", text("checkpoint_mode")));
    lines.push(format!(
        "               {} completed, {} given up",
        text("completed_checkpoints"),
        text("aborted_checkpoints")
    ));
    if let Some(last) = answer.get("last_checkpoint").filter(|last| !last.is_null()) {
        let of = |name: &str| word(last.get(name).unwrap_or(&Value::Null));
        let size = last.get("bytes").and_then(Value::as_u64).map_or_else(String::new, bytes);
        let took = span(last.get("duration_ms"));
        lines.push(format!("  last         checkpoint {} ({}), {size} in {took}", of("id"), of("mode")));
    }
    if let Some(pending) = answer.get("pending").filter(|pending| !pending.is_null()) {
        let of = |name: &str| word(pending.get(name).unwrap_or(&Value::Null));
        let age = span(pending.get("age_ms"));
        lines.push(format!("  pending      checkpoint {} ({}) for {age}; what is missing:", of("id"), of("mode")));
        let missing = answer.get("pending_lines").and_then(Value::as_array).into_iter().flatten();
        lines.extend(missing.map(|line| format!("    {}", word(line))));
    }
    lines
}

/// So many hot keys are printed; `--json` has them all.
const MOST_HOT_KEYS: usize = 5;

/// The heaviest keys of all operators, if there are any.
fn hot_key_lines(answer: &Value) -> Vec<String> {
    let hot = answer.get("hot_keys").and_then(Value::as_array).into_iter().flatten();
    let share = |key: &Value| key.get("share").and_then(Value::as_f64).unwrap_or_default();
    let mut hot: Vec<&Value> = hot.collect();
    hot.sort_by(|one, other| share(other).total_cmp(&share(one)));
    let shown = hot.into_iter().take(MOST_HOT_KEYS).map(|key| {
        let of = |name: &str| word(key.get(name).unwrap_or(&Value::Null));
        let percent = share(key) * 100.0;
        let (operator, subtask) = (of("operator"), of("subtask"));
        format!("  hot key      {}: {percent:.0} % of the records of {operator}, subtask {subtask}", of("key"))
    });
    shown.collect()
}

/// A value without the quotes of JSON.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn span(millis: Option<&Value>) -> String {
    let millis = millis.and_then(Value::as_f64).filter(|millis| *millis >= 0.0);
    let time = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
    time.map_or_else(
        || "-".to_owned(),
        |time| {
            let shown = Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
            humantime::format_duration(shown).to_string()
        },
    )
}
