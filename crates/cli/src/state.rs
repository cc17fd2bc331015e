//! `flott state list|get|count|export|import`: looks into the state of a checkpoint or savepoint without the job's program,
//! and puts state from a file into one.
//!
//! Reads beside a running job: what is read is pinned. Nothing but the pin, and the savepoint that `import` makes, is written.

mod columns;
mod import;
mod rows;

use crate::output::{Failure, Table, bytes, json_line};
use crate::progress::Meter;
use crate::reading::{Which, reading};
use clap::{Args, Subcommand, ValueEnum};
use flott_runtime::Error;
use flott_runtime::io::runtime::block_on;
use flott_runtime::key::group_range;
use flott_runtime::segment::StateKind;
use flott_runtime::state_reader::{Checkpoint, Datum, Entry, StateInfo, fit, group_of, leaf_of_text, windows};
use rows::Rows;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

/// What to do with state.
#[derive(Subcommand)]
pub enum Command {
    /// The states of a checkpoint: kinds, types of keys and values, sizes. Reads the indexes only.
    List(Selected),
    /// One key: its value, or all that its map, list or timers hold. Exit code 1 if it has nothing.
    Get {
        /// Where.
        #[command(flatten)]
        selected: Selected,
        /// The key: a text, a number, or JSON for anything else.
        #[arg(long)]
        key: String,
    },
    /// Keys and entries of each state, counted.
    Count(Selected),
    /// All entries as JSON lines or CSV, in canonical order, to stdout or a file.
    Export(Export),
    /// Writes a savepoint with entries of a file in the place of those of one state, or on top of them.
    Import(import::Options),
}

/// Which states.
#[derive(Args)]
pub struct Selected {
    /// A checkpoint directory (path or URL), a job's directory in it, or a savepoint.
    directory: String,
    /// The job, if the directory holds several.
    job: Option<String>,
    /// Only states of this operator.
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Only the state of this name.
    #[arg(long, value_name = "NAME")]
    state: Option<String>,
    /// Which checkpoint; the newest if not given.
    #[arg(long, value_name = "ID")]
    checkpoint: Option<u64>,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// What to export, and how.
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    selected: Selected,
    /// Only this key.
    #[arg(long)]
    key: Option<String>,
    /// JSON lines, or CSV of one state.
    #[arg(long, value_enum, default_value = "json")]
    format: Format,
    /// Write to this file; it appears when it is whole.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A format of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// One object a line.
    Json,
    /// A column for each field of key and value.
    Csv,
}

impl Selected {
    fn which(&self) -> Which<'_> {
        Which { directory: &self.directory, job: self.job.as_deref(), id: self.checkpoint }
    }

    /// The states that are meant, at least one.
    fn states(&self, checkpoint: &Checkpoint) -> Result<Vec<StateInfo>, Error> {
        chosen(checkpoint, self.operator.as_deref(), self.state.as_deref())
    }

    /// Of them those in which a key is looked for. What a worker has for itself lies under a key that is none of the job's: it is
    /// meant only if it is named.
    fn keyed_states(&self, checkpoint: &Checkpoint) -> Result<Vec<StateInfo>, Error> {
        let mut states = self.states(checkpoint)?;
        states.retain(|info| self.state.is_some() || columns::is_keyed(info.shape.kind));
        Ok(states)
    }
}

/// The states of this name; those that there are, in the message, if there is none.
fn chosen(checkpoint: &Checkpoint, operator: Option<&str>, state: Option<&str>) -> Result<Vec<StateInfo>, Error> {
    let all = checkpoint.states()?;
    let is_meant = |info: &&StateInfo| {
        operator.is_none_or(|name| info.name.operator == name) && state.is_none_or(|name| info.name.state == name)
    };
    let chosen: Vec<StateInfo> = all.iter().filter(is_meant).cloned().collect();
    if chosen.is_empty() && (operator.is_some() || state.is_some()) {
        let wanted = format!("{}/{}", operator.unwrap_or("*"), state.unwrap_or("*"));
        let what = format!("checkpoint {} has no state {wanted}", checkpoint.entry().id);
        return Err(Error::refused(what).hint(format!("there are: {}", names(&all))));
    }
    Ok(chosen)
}

fn names(states: &[StateInfo]) -> String {
    match states {
        [] => "none".to_owned(),
        states => states.iter().map(|info| info.name.to_string()).collect::<Vec<_>>().join(", "),
    }
}

/// Does it.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(selected) => list(selected),
        Command::Get { selected, key } => get(selected, key),
        Command::Count(selected) => count(selected),
        Command::Export(options) => export(options),
        Command::Import(options) => import::run(options),
    }
}

/// A line of `list`.
#[derive(Serialize)]
struct Listed<'a> {
    operator: &'a str,
    state: &'a str,
    kind: &'a str,
    key: String,
    value: String,
    /// Of all increments: at least as many as there are.
    entries: u64,
    bytes: u64,
}

impl<'a> Listed<'a> {
    fn of(info: &'a StateInfo) -> Listed<'a> {
        Listed {
            operator: &info.name.operator,
            state: &info.name.state,
            kind: &info.shape.word,
            key: info.shape.key.to_string(),
            value: info.shape.value_text(),
            entries: info.stored,
            bytes: info.bytes,
        }
    }
}

fn list(selected: &Selected) -> Result<ExitCode, Failure> {
    let states = block_on(reading(selected.which(), "state list", async |checkpoint: &Checkpoint| {
        Ok(selected.states(checkpoint)?)
    }))??;
    let rows: Vec<Listed<'_>> = states.iter().map(Listed::of).collect();
    let mut out = io::stdout().lock();
    if selected.json {
        rows.iter().try_for_each(|row| json_line(&mut out, row))?;
    } else {
        let mut table = Table::new(&["OPERATOR", "STATE", "KIND", "KEY", "VALUE", "ENTRIES>", "SIZE>"]);
        for row in rows {
            let (operator, state, kind) = (row.operator.to_owned(), row.state.to_owned(), row.kind.to_owned());
            table.row(vec![operator, state, kind, row.key, row.value, row.entries.to_string(), bytes(row.bytes)]);
        }
        table.print(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A line of `count`.
#[derive(Serialize, Default)]
struct Counted {
    operator: String,
    state: String,
    kind: String,
    keys: u64,
    entries: u64,
}

fn count(selected: &Selected) -> Result<ExitCode, Failure> {
    let counted = block_on(reading(selected.which(), "state count", async |checkpoint: &Checkpoint| {
        let states = selected.states(checkpoint)?;
        let mut meter = Meter::new("count", states.iter().map(|info| info.bytes).sum());
        let mut all = Vec::new();
        for info in &states {
            let (operator, state) = (info.name.operator.clone(), info.name.state.clone());
            let mut counted = Counted { operator, state, kind: info.shape.word.clone(), keys: 0, entries: 0 };
            let mut last: Vec<u8> = Vec::new();
            walk(checkpoint, info, None, &mut meter, &mut |entry| {
                counted.entries += 1;
                if last != entry.key {
                    counted.keys += 1;
                    last.clear();
                    last.extend_from_slice(entry.key);
                }
                Ok(())
            })
            .await?;
            all.push(counted);
        }
        Ok(all)
    }))??;
    let mut out = io::stdout().lock();
    if selected.json {
        counted.iter().try_for_each(|row| json_line(&mut out, row))?;
    } else {
        let mut table = Table::new(&["OPERATOR", "STATE", "KIND", "KEYS>", "ENTRIES>"]);
        for Counted { operator, state, kind, keys, entries } in counted {
            table.row(vec![operator, state, kind, keys.to_string(), entries.to_string()]);
        }
        table.print(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn get(selected: &Selected, key: &str) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    let found = block_on(reading(selected.which(), "state get", async |checkpoint: &Checkpoint| {
        let states = selected.keyed_states(checkpoint)?;
        let mut meter = Meter::new("get", 0);
        let mut found = 0u64;
        let mut table = Table::new(&["STATE", "", "VALUE"]);
        for info in &states {
            let wanted = match Wanted::new(checkpoint, info, key) {
                Ok(wanted) => wanted,
                Err(error) if states.len() == 1 => return Err(error.into()),
                // A key of another type is in this state as little as one that is not there.
                Err(_) => continue,
            };
            walk(checkpoint, info, Some(&wanted), &mut meter, &mut |entry| {
                found += 1;
                if selected.json {
                    return rows::json(&mut out, info, entry);
                }
                let (below, value) = rows::texts(entry)?;
                table.row(vec![info.name.to_string(), below, value]);
                Ok(())
            })
            .await?;
        }
        if found > 0 && !selected.json {
            table.print(&mut out)?;
        }
        Ok(found)
    }))??;
    out.flush()?;
    if found == 0 {
        eprintln!("flott: there is nothing for the key {key}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn export(options: &Export) -> Result<ExitCode, Failure> {
    match &options.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            export_to(options, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut out = BufWriter::new(new_file_in(directory)?);
            let entries = export_to(options, &mut out)?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            eprintln!("{entries} entries in {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file that gets its name when it is whole. Who may read it, the umask says, as of any other.
fn new_file_in(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory)
}

fn export_to(options: &Export, out: &mut impl Write) -> Result<u64, Failure> {
    let selected = &options.selected;
    block_on(reading(selected.which(), "state export", async |checkpoint: &Checkpoint| {
        let states =
            if options.key.is_some() { selected.keyed_states(checkpoint)? } else { selected.states(checkpoint)? };
        let one = match (options.format, states.as_slice()) {
            (Format::Csv, [] | [_, _, ..]) => {
                let what = format!("CSV has the columns of one state: name it, of {}", names(&states));
                return Err(Error::refused(what).hint("use --operator and --state, or --format json").into());
            }
            (Format::Csv, [info]) => Some(info),
            (Format::Json, _) => None,
        };
        let mut rows = Rows::new(out, one)?;
        let mut meter = Meter::new("export", states.iter().map(|info| info.bytes).sum());
        for info in &states {
            let wanted = options.key.as_ref().map(|key| Wanted::new(checkpoint, info, key)).transpose()?;
            walk(checkpoint, info, wanted.as_ref(), &mut meter, &mut |entry| rows.row(info, entry)).await?;
        }
        rows.end()
    }))?
}

/// A key that is looked for.
struct Wanted {
    stored: Vec<u8>,
    /// Unknown if the type of the key has holes.
    group: Option<u16>,
}

impl Wanted {
    fn new(checkpoint: &Checkpoint, info: &StateInfo, text: &str) -> Result<Wanted, Error> {
        let shape = &info.shape.key;
        let key = match leaf_of_text(text, shape) {
            Some(key) => key,
            None => {
                let read = crate::json::parse(text).unwrap_or_else(|_| Datum::Text(text.to_owned()));
                fit(read, shape).map_err(|misfit| {
                    let place = if misfit.place.is_empty() { String::new() } else { format!(" at {}", misfit.place) };
                    Error::refused(format!("`{text}` is no key of state {}: {misfit}{place}", info.name))
                        .hint(format!("its keys are {shape}"))
                })?
            }
        };
        let manifest = checkpoint.manifest();
        let group = group_of(&key, shape, manifest.key_seed.0, manifest.key_groups).ok();
        Ok(Wanted { stored: key.stored(), group })
    }
}

/// Shows all entries of a state, or those of one key, in canonical order.
async fn walk(
    checkpoint: &Checkpoint,
    info: &StateInfo,
    wanted: Option<&Wanted>,
    meter: &mut Meter,
    look: &mut dyn FnMut(&Entry<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let manifest = checkpoint.manifest();
    let within = match wanted.and_then(|wanted| wanted.group) {
        Some(group) => group..group + 1,
        // Each worker has a copy, and they are alike.
        None if info.shape.kind == StateKind::Broadcast => group_range(manifest.key_groups, manifest.workers.into(), 0),
        None => 0..manifest.key_groups,
    };
    for groups in windows(&checkpoint.weights(&info.name)?, within) {
        // A signal is seen here, however fast the storage answers.
        tokio::task::yield_now().await;
        let merged = checkpoint.merged(info, groups, &mut |bytes| meter.add(bytes)).await?;
        for entry in merged.entries() {
            if wanted.is_none_or(|wanted| wanted.stored == entry.key) {
                look(&entry)?;
            }
        }
    }
    Ok(())
}
