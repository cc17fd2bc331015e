//! `flott checkpoints gc`: deletes what a job's dead attempts have left and nobody needs.
//!
//! The job collects by itself; this is for what it could not get to. It may run beside the job, and touches nothing of the
//! attempt that owns the log.

use super::{Place, open};
use crate::output::{Failure, bytes, json_line};
use crate::reading::unless_interrupted;
use clap::Args;
use flott_checkpoint::CheckpointId;
use flott_runtime::collector::{Sweep, collect_beside};
use flott_runtime::io::clock::SystemClock;
use flott_runtime::io::runtime::block_on;
use flott_runtime::time::Clock;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// What to collect.
#[derive(Args)]
pub struct Options {
    /// Which job.
    #[command(flatten)]
    place: Place,
    /// How many checkpoints of the current line are kept. No checkpoint says how many its job retains: give the job's own number if
    /// that is more than three, or those beyond it are deleted.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    retain: u32,
    /// Say what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
}

/// An object that goes.
#[derive(Serialize)]
struct Gone<'a> {
    deleted: &'a str,
    bytes: u64,
}

/// A reader that holds something.
#[derive(Serialize)]
struct Held<'a> {
    pin: &'a str,
    checkpoint: CheckpointId,
    holder: &'a str,
}

/// The last line.
#[derive(Serialize)]
struct Verdict<'a> {
    dry_run: bool,
    attempt: u64,
    objects: u64,
    bytes: u64,
    incomplete: Option<&'a str>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Options { place, retain, dry_run } = options;
    let (name, storage) = open(place)?;
    let now = SystemClock::new().now();
    let sweep = block_on(unless_interrupted(async { Ok(collect_beside(&storage, *retain, now, *dry_run).await?) }))??;
    let mut out = io::stdout().lock();
    print(&mut out, &name, &sweep, options)?;
    out.flush()?;
    Ok(if sweep.incomplete.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, name: &str, sweep: &Sweep, options: &Options) -> io::Result<()> {
    let Sweep { attempt, deleted, incomplete, pins } = sweep;
    let size = deleted.iter().map(|(_, length)| length).sum();
    let objects = deleted.len() as u64;
    if options.place.json {
        deleted.iter().try_for_each(|(path, length)| json_line(out, &Gone { deleted: path, bytes: *length }))?;
        for (pin, checkpoint, holder) in pins {
            json_line(out, &Held { pin, checkpoint: *checkpoint, holder })?;
        }
        let (dry_run, incomplete) = (options.dry_run, incomplete.as_deref());
        return json_line(out, &Verdict { dry_run, attempt: attempt.0, objects, bytes: size, incomplete });
    }
    if options.dry_run {
        deleted.iter().try_for_each(|(path, length)| writeln!(out, "{path}  {}", bytes(*length)))?;
    }
    for (pin, checkpoint, holder) in pins {
        writeln!(out, "checkpoint {checkpoint} is held by {pin}: {holder}")?;
    }
    let verb = if options.dry_run { "would be deleted" } else { "deleted" };
    writeln!(out, "job {name}: {objects} objects, {}, {verb}; nothing of attempt {attempt} is touched", bytes(size))?;
    match incomplete {
        Some(reason) => writeln!(out, "more is there than is needed: {reason}"),
        None => Ok(()),
    }
}
