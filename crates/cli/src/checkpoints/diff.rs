//! `flott checkpoints diff A B`: what differs in the state of two checkpoints, by operator and state, and which keys.

use crate::json::{self, Shown};
use crate::output::{Failure, Table, bytes, json_line};
use crate::progress::Meter;
use crate::reading::{Which, reading_both};
use clap::Args;
use flott_runtime::Error;
use flott_runtime::io::runtime::block_on;
use flott_runtime::segment::{StateKind, StateName};
use flott_runtime::state_reader::{Below, Checkpoint, Datum, Difference, Entry, StateChanges, StateInfo, changes};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

/// What to compare.
#[derive(Args)]
pub struct Options {
    /// The first: a savepoint or a job's directory (path or URL), then the newest checkpoint is meant, or `DIR@ID`.
    a: String,
    /// The second; `@ID` is another checkpoint of the first one's directory.
    b: String,
    /// Only states of this operator.
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Only the state of this name.
    #[arg(long, value_name = "NAME")]
    state: Option<String>,
    /// List every entry that differs.
    #[arg(long)]
    keys: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// `DIR` or `DIR@ID`.
fn which(text: &str) -> Which<'_> {
    let parts = text.rsplit_once('@').and_then(|(directory, id)| Some((directory, id.parse().ok()?)));
    match parts {
        Some((directory, id)) => Which { directory, job: None, id: Some(id) },
        None => Which { directory: text, job: None, id: None },
    }
}

/// A state, as it is told.
#[derive(Serialize)]
struct Told<'a> {
    operator: &'a str,
    state: &'a str,
    #[serde(flatten)]
    changes: StateChanges,
}

/// An entry, as it is told.
#[derive(Serialize)]
struct Entered<'a> {
    change: &'static str,
    operator: &'a str,
    state: &'a str,
    /// Not of a broadcast map: its key says only which worker's copy was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map_key: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let first = which(&options.a);
    let mut second = which(&options.b);
    if second.directory.is_empty() {
        second.directory = first.directory;
    }
    let mut out = io::stdout().lock();
    block_on(reading_both((first, second), "checkpoints diff", async |before: &Checkpoint, after: &Checkpoint| {
        compare(options, before, after, &mut out).await
    }))??;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn compare(
    options: &Options,
    before: &Checkpoint,
    after: &Checkpoint,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (old, new) = (before.states()?, after.states()?);
    let is_meant = |name: &&StateName| {
        options.operator.as_ref().is_none_or(|operator| name.operator == *operator)
            && options.state.as_ref().is_none_or(|state| name.state == *state)
    };
    let names: BTreeSet<&StateName> = old.iter().chain(&new).map(|info| &info.name).filter(is_meant).collect();
    if names.is_empty() && (options.operator.is_some() || options.state.is_some()) {
        return Err(Error::refused("neither of the two has a state of this name")
            .hint("`flott state list` shows those that there are")
            .into());
    }
    let mut meter = Meter::new("diff", old.iter().chain(&new).map(|info| info.bytes).sum());
    let mut table = Table::new(&["OPERATOR", "STATE", "BEFORE>", "AFTER>", "ADDED>", "REMOVED>", "CHANGED>", "BYTES>"]);
    for name in names {
        // A signal is seen here, however fast the storage answers.
        tokio::task::yield_now().await;
        let info = |states: &[StateInfo]| states.iter().find(|info| info.name == *name).cloned();
        let (one, other) = (info(&old), info(&new));
        let is_copy = one.as_ref().or(other.as_ref()).is_some_and(|info| info.shape.kind == StateKind::Broadcast);
        let mut told: io::Result<()> = Ok(());
        let changes = changes(
            (before, one.as_ref()),
            (after, other.as_ref()),
            &mut |bytes| meter.add(bytes),
            &mut |difference| {
                if options.keys && told.is_ok() {
                    told = tell(out, options.json, (name, is_copy), difference)?;
                }
                // A reader that went away ends the walk.
                if told.is_err() { Err(Error::failed("the output cannot be written")) } else { Ok(()) }
            },
        )
        .await;
        told?;
        let changes = changes?;
        if options.json {
            json_line(out, &Told { operator: &name.operator, state: &name.state, changes })?;
        } else {
            let StateChanges { before, after, added, removed, changed, bytes: size } = changes;
            let numbers = [before, after, added, removed, changed].map(|number| number.to_string());
            let names = [name.operator.clone(), name.state.clone()];
            table.row(names.into_iter().chain(numbers).chain([bytes(size)]).collect());
        }
    }
    if !options.json {
        table.print(out)?;
    }
    Ok(())
}

fn tell(
    out: &mut impl Write,
    as_json: bool,
    (name, is_copy): (&StateName, bool),
    difference: Difference<'_>,
) -> Result<io::Result<()>, Error> {
    let (change, sign, entry) = match difference {
        Difference::Added(entry) => ("added", '+', entry),
        Difference::Removed(entry) => ("removed", '-', entry),
        Difference::Changed(entry) => ("changed", '~', entry),
    };
    let Entry { below, .. } = entry;
    let key = if is_copy { None } else { Some(Datum::read(entry.key)?) };
    let field = if let Below::Field(field) = below { Some(Datum::read(field)?) } else { None };
    if !as_json {
        let below = match (below, &field) {
            (Below::Position(position), _) => format!(" [{position}]"),
            (Below::Time(time), _) => format!(" timer at {time} ms"),
            (_, Some(field)) => format!(" {}", json::text(field)),
            _ => String::new(),
        };
        let key = key.map(|key| format!(" {}", json::text(&key))).unwrap_or_default();
        return Ok(writeln!(out, "{sign} {name}{key}{below}"));
    }
    let line = Entered {
        change,
        operator: &name.operator,
        state: &name.state,
        key: key.as_ref().map(Shown),
        map_key: field.as_ref().map(Shown),
        position: if let Below::Position(position) = below { Some(position) } else { None },
        time_ms: if let Below::Time(time) = below { Some(time) } else { None },
    };
    Ok(json_line(out, &line))
}
