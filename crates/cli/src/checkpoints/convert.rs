//! `flott checkpoints convert`: a checkpoint, with all that it builds on, as one full savepoint in another place.

use super::Place;
use crate::conversion::Conversion;
use crate::output::{Failure, bytes, json_line};
use crate::reading::Which;
use clap::Args;
use flott_runtime::convert::Converted;
use flott_runtime::io::runtime::block_on;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// What to convert, and where to.
#[derive(Args)]
pub struct Options {
    /// Which job.
    #[command(flatten)]
    place: Place,
    /// The directory of the new savepoint: new or empty.
    #[arg(long, value_name = "DIR")]
    to: String,
    /// Which checkpoint; the newest if not given.
    #[arg(long, value_name = "ID")]
    checkpoint: Option<u64>,
}

#[derive(Serialize)]
struct Done<'a> {
    path: &'a str,
    checkpoint: u64,
    entries: u64,
    bytes: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Options { place, to: target, checkpoint } = options;
    let which = Which { directory: &place.directory, job: place.job.as_deref(), id: *checkpoint };
    let (path, id, converted) =
        block_on(Conversion::of(which, "checkpoints convert", async |checkpoint, conversion| {
            let (path, converted) = conversion.write(checkpoint, target, "convert", None).await?;
            Ok((path, checkpoint.entry().id, converted))
        }))??;
    let Converted { entries, bytes: size } = converted;
    let mut out = io::stdout().lock();
    if place.json {
        json_line(&mut out, &Done { path: &path, checkpoint: id.0, entries, bytes: size })?;
    } else {
        writeln!(out, "checkpoint {id} as a savepoint of {entries} entries, {}: {path}", bytes(size))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
