//! `flott checkpoints convert`: a checkpoint, with all that it builds on, as one full savepoint in another place.

use super::Place;
use crate::output::{Failure, bytes, json_line};
use crate::progress::Meter;
use crate::reading::{Which, reading};
use clap::Args;
use flott_runtime::convert::{Converted, abandon, convert};
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::create_savepoint_storage;
use flott_runtime::state_reader::Checkpoint;
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
    let (path, id, converted) = block_on(async {
        let mut begun = None;
        let result = reading(which, "checkpoints convert", async |checkpoint: &Checkpoint| {
            let (path, to) = create_savepoint_storage(target).await?;
            let (to, _, claimed) = begun.insert((to, checkpoint.entry().attempt, false));
            let mut meter = Meter::new("convert", checkpoint.states()?.iter().map(|info| info.bytes).sum());
            let converted = convert(checkpoint, to, None, claimed, &mut |bytes| meter.add(bytes)).await?;
            Ok((path, checkpoint.entry().id, converted))
        })
        .await;
        if let (Err(Failure::Interrupted), Some((to, attempt, true))) = (&result, &begun) {
            abandon(to, *attempt).await;
        }
        result
    })??;
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
