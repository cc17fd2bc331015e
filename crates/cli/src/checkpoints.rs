//! `flott checkpoints list|show|verify|diff|convert|gc`: what is in a checkpoint directory, whether it is what was written, and
//! what can be made of it or go.
//!
//! May run beside the job. Only `gc` changes the directory, and readers of state put pins into it.

mod convert;
mod diff;
mod gc;

use crate::output::{Failure, Table, bytes, json_line, micros, moment, or_dash};
use crate::progress::Meter;
use crate::waterfall;
use clap::{Args, Subcommand};
use flott_checkpoint::{AttemptId, CheckpointId};
use flott_runtime::Error;
use flott_runtime::control::Captured;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{StorageServer, find_storage};
use flott_runtime::manifest::Manifest;
use flott_runtime::verify::{
    self, CheckpointDetails, CheckpointRow, Directory, FailedRow, Finding, PartRow, Progress, Report, Severity,
    checkpoint_rows, failed_rows, part_rows, record_time,
};
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// What to do with checkpoints.
#[derive(Subcommand)]
pub enum Command {
    /// All checkpoints of a job, oldest first, also those that failed, with the reason.
    List(Place),
    /// One checkpoint: its subtasks, segments and positions, and where each subtask spent its time.
    Show {
        /// Which job.
        #[command(flatten)]
        place: Place,
        /// Which checkpoint; the newest if not given.
        #[arg(long = "checkpoint", alias = "id", value_name = "ID")]
        id: Option<u64>,
    },
    /// Reads everything and compares it with all checksums; exit code 1 if anything is damaged.
    Verify(Place),
    /// What differs in the state of two checkpoints: counts and bytes by state, and the keys.
    Diff(diff::Options),
    /// Writes a checkpoint and all that it builds on as one full savepoint in another directory.
    Convert(convert::Options),
    /// Deletes what dead attempts of the job have left and nobody needs.
    Gc(gc::Options),
}

/// Which job.
#[derive(Args)]
pub struct Place {
    /// The checkpoint directory (path or URL, also of an object store), or a job's directory in it.
    directory: String,
    /// The job, if the directory holds several.
    job: Option<String>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(place) => list(place),
        Command::Show { place, id } => show(place, id.map(CheckpointId)),
        Command::Verify(place) => verify(place),
        Command::Diff(options) => diff::run(options),
        Command::Convert(options) => convert::run(options),
        Command::Gc(options) => gc::run(options),
    }
}

fn list(place: &Place) -> Result<ExitCode, Failure> {
    let (_, directory) = read(place)?;
    let completed = checkpoint_rows(&directory).into_iter().map(Listed::Completed);
    let mut rows: Vec<Listed> = completed.chain(failed_rows(&directory).into_iter().map(Listed::Failed)).collect();
    rows.sort_by_key(Listed::age);
    let mut out = io::stdout().lock();
    if place.json {
        rows.iter().try_for_each(|row| json_line(&mut out, row))?;
    } else {
        let mut table = Table::new(&[
            "ID>",
            "ATTEMPT>",
            "PARENT>",
            "BASE>",
            "KIND",
            "MODE",
            "GUARANTEE",
            "WORKERS>",
            "SIZE>",
            "TOOK>",
            "ENDED",
            "",
        ]);
        rows.iter().for_each(|row| {
            table.row(match row {
                Listed::Completed(row) => list_cells(row),
                Listed::Failed(row) => failed_cells(row),
            });
        });
        table.print(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A line of the list.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum Listed {
    Completed(CheckpointRow),
    Failed(FailedRow),
}

impl Listed {
    /// Ids grow; one is tried again only by a later attempt.
    fn age(&self) -> (CheckpointId, AttemptId) {
        match self {
            Listed::Completed(row) => (row.id, row.attempt),
            Listed::Failed(row) => (row.id, row.attempt),
        }
    }
}

fn failed_cells(row: &FailedRow) -> Vec<String> {
    let dash = || "-".to_owned();
    let unknown = || "?".to_owned();
    vec![
        row.id.to_string(),
        row.attempt.to_string(),
        dash(),
        dash(),
        row.kind.map_or_else(unknown, |kind| word(&kind)),
        row.mode.map_or_else(unknown, |mode| mode.to_string()),
        dash(),
        row.workers.to_string(),
        dash(),
        row.duration.map_or_else(unknown, micros),
        moment(row.ended_at),
        format!("FAILED: {}", row.reason),
    ]
}

fn list_cells(row: &CheckpointRow) -> Vec<String> {
    let mut cells = vec![row.id.to_string(), row.attempt.to_string(), or_dash(row.parent)];
    match &row.details {
        Some(details) => cells.extend([
            or_dash(details.base),
            word(&details.kind),
            details.mode.to_string(),
            details.guarantee.to_string(),
            details.workers.to_string(),
            bytes(details.bytes),
            micros(details.duration),
            moment(details.completed_at),
            if details.finished { "job finished".to_owned() } else { String::new() },
        ]),
        None => {
            cells.extend(std::iter::repeat_n("?".to_owned(), 8));
            cells.push("manifest damaged or missing: see `verify`".to_owned());
        }
    }
    cells
}

/// The first line of `show --json`.
#[derive(Serialize)]
struct Shown<'a> {
    job: &'a str,
    id: CheckpointId,
    attempt: AttemptId,
    parent: Option<CheckpointId>,
    #[serde(flatten)]
    details: CheckpointDetails,
    operators: Vec<&'a str>,
    /// From the last part to the log slot; not known if the history has lost it.
    record_ms: Option<f64>,
}

fn show(place: &Place, id: Option<CheckpointId>) -> Result<ExitCode, Failure> {
    let (name, directory) = read(place)?;
    let manifest = chosen(&directory, &name, id)?;
    let parts = part_rows(manifest);
    let record = record_time(&directory, manifest.id, manifest.attempt);
    let operators =
        manifest.vertices.iter().flat_map(|vertex| &vertex.operators).map(|operator| operator.name.as_str());
    let shown = Shown {
        job: &manifest.job,
        id: manifest.id,
        attempt: manifest.attempt,
        parent: manifest.parent,
        details: CheckpointDetails::from(manifest),
        operators: operators.collect(),
        record_ms: record.map(|micros| Duration::from_micros(micros).as_secs_f64() * 1_000.0),
    };
    let mut out = io::stdout().lock();
    if place.json {
        json_line(&mut out, &shown)?;
        parts.iter().try_for_each(|part| json_line(&mut out, part))?;
    } else {
        print_checkpoint(&mut out, &shown)?;
        print_parts(&mut out, &parts)?;
        writeln!(out)?;
        waterfall::print(&mut out, &parts, record)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn chosen<'a>(directory: &'a Directory, job: &str, id: Option<CheckpointId>) -> Result<&'a Manifest, Error> {
    let entry = directory.checkpoints().map(|(_, entry)| entry).rfind(|entry| id.is_none_or(|id| entry.id == id));
    let Some(entry) = entry else {
        return Err(match id {
            Some(id) => {
                let tried = failed_rows(directory).into_iter().rfind(|row| row.id == id);
                let why = tried.map_or_else(String::new, |row| format!(": it was tried, and given up: {}", row.reason));
                Error::refused(format!("job {job} has no checkpoint {id}{why}"))
                    .hint("`flott checkpoints list` shows those that there are")
            }
            None => Error::refused(format!("job {job} has no checkpoints")),
        });
    };
    directory.manifest(entry.id, entry.attempt).ok_or_else(|| {
        // Damage, so exit code 1, as for `verify`.
        Error::failed(format!("the manifest {} is damaged or missing", entry.manifest))
            .at_checkpoint(entry.id)
            .hint("`flott checkpoints verify` says more")
    })
}

fn print_checkpoint(out: &mut impl Write, shown: &Shown<'_>) -> io::Result<()> {
    let details = &shown.details;
    let base = details.base.map_or("full".to_owned(), |base| format!("builds on checkpoint {base}"));
    writeln!(out, "checkpoint {} of job {} ({}, {base})", shown.id, shown.job, word(&details.kind))?;
    writeln!(
        out,
        "  attempt      {}, incarnation {}, parent {}",
        shown.attempt,
        details.incarnation,
        or_dash(shown.parent)
    )?;
    writeln!(out, "  guarantee    {} ({})", details.guarantee, details.mode)?;
    writeln!(out, "  completed    {}, after {}", moment(details.completed_at), micros(details.duration))?;
    writeln!(out, "  size         {} on {} workers", bytes(details.bytes), details.workers)?;
    let Captured { records, bytes: in_flight, .. } = details.captured;
    if in_flight > 0 {
        writeln!(out, "  in flight    {records} records, {} before compression", bytes(in_flight))?;
    }
    writeln!(out, "  operators    {}", shown.operators.join(", "))?;
    if details.finished {
        writeln!(out, "  finished     every source is at its end")?;
    }
    writeln!(out)
}

fn print_parts(out: &mut impl Write, parts: &[PartRow]) -> io::Result<()> {
    let mut table = Table::new(&[
        "SUBTASK>",
        "CHAIN",
        "BASE>",
        "SEGMENT",
        "SIZE>",
        "IN FLIGHT>",
        "ALIGNED>",
        "CUT>",
        "SCAN>",
        "UPLOAD>",
        "",
    ]);
    for part in parts {
        let PartRow { subtask, vertex, base, timings, .. } = part;
        table.row(vec![
            subtask.to_string(),
            vertex.clone(),
            or_dash(*base),
            or_dash(part.segment.as_ref()),
            bytes(part.bytes),
            part.captured.records.to_string(),
            micros(timings.alignment),
            micros(timings.cut),
            micros(timings.scan),
            micros(timings.upload),
            if part.finished { "finished".to_owned() } else { String::new() },
        ]);
    }
    table.print(out)?;
    let mut splits = Table::new(&["SOURCE", "SPLIT", "POSITION", ""]);
    let mut any = false;
    for (source, split, part) in parts.iter().flat_map(|part| {
        part.splits.iter().flat_map(|(source, splits)| splits.iter().map(move |(split, part)| (source, split, part)))
    }) {
        any = true;
        let end = if part.finished { "at its end".to_owned() } else { String::new() };
        splits.row(vec![source.clone(), split.clone(), part.position.to_string(), end]);
    }
    if any {
        writeln!(out)?;
        splits.print(out)?;
    }
    Ok(())
}

/// The last line of `verify --json`.
#[derive(Serialize)]
struct Verdict<'a> {
    verdict: &'static str,
    job: &'a str,
    objects: u64,
    bytes: u64,
    checkpoints: u64,
    newest_whole: Option<CheckpointId>,
}

fn verify(place: &Place) -> Result<ExitCode, Failure> {
    let (name, storage) = open(place)?;
    let mut meter = Meter::new("verify", 0);
    let report = block_on(verify::verify(&storage, |Progress { done, total }| meter.set(done, total)))??;
    drop(meter);
    let mut out = io::stdout().lock();
    if place.json {
        report.findings.iter().try_for_each(|finding| json_line(&mut out, finding))?;
        let Report { objects, bytes, checkpoints, newest_whole, .. } = report;
        let verdict = if report.is_damaged() { "damaged" } else { "good" };
        json_line(&mut out, &Verdict { verdict, job: &name, objects, bytes, checkpoints, newest_whole })?;
    } else {
        report.findings.iter().try_for_each(|finding| print_finding(&mut out, finding))?;
        print_verdict(&mut out, &name, &report)?;
    }
    out.flush()?;
    Ok(if report.is_damaged() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let checkpoint = finding.checkpoint.map_or(String::new(), |id| format!(" (checkpoint {id})"));
    writeln!(out, "{}: {}: {}{checkpoint}", word(&finding.severity), finding.path, finding.what)?;
    if finding.severity == Severity::Damage {
        writeln!(out, "        what to do: {}", finding.advice)?;
    }
    Ok(())
}

fn print_verdict(out: &mut impl Write, job: &str, report: &Report) -> io::Result<()> {
    let read = format!("{} objects, {}, {} checkpoints", report.objects, bytes(report.bytes), report.checkpoints);
    let whole = report.newest_whole.map_or("no checkpoint can be restored".to_owned(), |id| {
        format!("the newest checkpoint that is whole is {id}")
    });
    match report.findings.iter().filter(|finding| finding.severity == Severity::Damage).count() {
        0 if report.checkpoints == 0 => writeln!(out, "job {job} is good: {read}"),
        0 => writeln!(out, "job {job} is good: {read}; {whole}"),
        1 => writeln!(out, "job {job} is DAMAGED in 1 place: {read}; {whole}"),
        damaged => writeln!(out, "job {job} is DAMAGED in {damaged} places: {read}; {whole}"),
    }
}

fn open(place: &Place) -> Result<(String, StorageServer), Error> {
    block_on(find_storage(&place.directory, place.job.as_deref()))?
}

fn read(place: &Place) -> Result<(String, Directory), Error> {
    let (name, storage) = open(place)?;
    let directory = block_on(Directory::read(&storage, &mut |_| {}))??;
    Ok((name, directory))
}

/// The word for a value in the stored form.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
