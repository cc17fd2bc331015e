//! `flott state import`: a savepoint with entries of a file in one state, made from another savepoint or checkpoint.
//!
//! That one is the template: it says what the job would otherwise have to say, the types of keys and values, the key groups
//! and the seed that divides keys among them. Everything else of it stays: positions, other states, pending output. The file
//! is read through before anything is written, into temporary files by key group, so that memory stays flat.

mod file;
mod spill;

use super::Format;
use crate::conversion::Conversion;
use crate::output::{Failure, bytes, json_line};
use crate::reading::Which;
use clap::Args;
use file::Imported;
use flott_runtime::Error;
use flott_runtime::convert::Converted;
use flott_runtime::io::runtime::block_on;
use flott_runtime::state_reader::{Checkpoint, StateInfo};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to import, and into what.
#[derive(Args)]
pub struct Options {
    /// JSON lines or CSV, as `flott state export` writes them; `-` is stdin.
    file: PathBuf,
    /// The template: a savepoint, a checkpoint directory (path or URL), or a job's directory in it.
    #[arg(long, value_name = "DIR")]
    from: String,
    /// The job, if the template's directory holds several.
    #[arg(long)]
    job: Option<String>,
    /// Which checkpoint of the template; the newest if not given.
    #[arg(long, value_name = "ID")]
    checkpoint: Option<u64>,
    /// The directory of the new savepoint: new or empty.
    #[arg(long, value_name = "DIR")]
    to: String,
    /// The operator whose state it is.
    #[arg(long, value_name = "NAME")]
    operator: String,
    /// The state, if the operator has several.
    #[arg(long, value_name = "NAME")]
    state: Option<String>,
    /// Keep what the template has under other keys; without it, only what is in the file is there afterwards.
    #[arg(long)]
    merge: bool,
    /// The format of the file; if not given, CSV if its name ends in `.csv`, else JSON lines.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was done.
#[derive(Serialize)]
struct Done<'a> {
    path: &'a str,
    operator: &'a str,
    state: &'a str,
    imported: u64,
    entries: u64,
    bytes: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let which = Which { directory: &options.from, job: options.job.as_deref(), id: options.checkpoint };
    let (path, info, imported, converted) =
        block_on(Conversion::of(which, "state import", async |checkpoint, conversion| {
            let info = one_state(options, checkpoint)?;
            let mut file = Imported::check(&options.file, format(options), options.merge, checkpoint, &info).await?;
            let (path, converted) = conversion.write(checkpoint, &options.to, "import", Some(&mut file)).await?;
            Ok((path, info, file.entries(), converted))
        }))??;
    let Converted { entries, bytes: size } = converted;
    let mut out = io::stdout().lock();
    if options.json {
        let (operator, state) = (info.name.operator.as_str(), info.name.state.as_str());
        json_line(&mut out, &Done { path: &path, operator, state, imported, entries, bytes: size })?;
    } else {
        writeln!(out, "{imported} entries of {} in a savepoint of {entries}, {}: {path}", info.name, bytes(size))?;
        writeln!(out, "begin a job with it: --restore {path}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn format(options: &Options) -> Format {
    let is_csv = options.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    options.format.unwrap_or(if is_csv { Format::Csv } else { Format::Json })
}

fn one_state(options: &Options, checkpoint: &Checkpoint) -> Result<StateInfo, Error> {
    let mut states = super::chosen(checkpoint, Some(&options.operator), options.state.as_deref())?;
    match (states.pop(), states.is_empty()) {
        (Some(info), true) => Ok(info),
        (Some(last), false) => {
            states.push(last);
            let what = format!("operator `{}` has several states: {}", options.operator, super::names(&states));
            Err(Error::refused(what).hint("name one with --state"))
        }
        (None, _) => Err(Error::refused(format!("operator `{}` has no state", options.operator))),
    }
}
