//! The command line that every job has. Each flag is also a `FLOTT_*` variable and a method of [`crate::Job`].

use crate::settings::{
    Settings, StateBackend, Wanted, parse_alignment_timeout, parse_directory, parse_interval, parse_mode,
    parse_require, parse_restart_delay, parse_restore, parse_state_backend, parse_state_memory, parse_stop_timeout,
    parse_workers,
};
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser};
use flott_checkpoint::{Guarantee, Mode};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(test)]
mod tests;
mod variables;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every job")]
pub(crate) struct Flags {
    /// Threads that run the job [default: those of the restored checkpoint, else the cores]
    #[arg(long, env = "FLOTT_WORKERS", value_name = "N", value_parser = parse_workers)]
    workers: Option<u16>,
    /// Local directory for checkpoints: a path or file:///path [default: none, checkpoints are off]
    #[arg(long, env = "FLOTT_CHECKPOINT_DIR", value_name = "DIR", value_parser = parse_directory)]
    checkpoint_dir: Option<String>,
    /// stop-the-world, aligned, at-least-once, aligned-then-unaligned or unaligned [default: aligned]
    #[arg(long, env = "FLOTT_CHECKPOINT_MODE", value_name = "MODE", value_parser = parse_mode)]
    checkpoint_mode: Option<Mode>,
    /// Mode aligned-then-unaligned: how long after its trigger a checkpoint stays aligned [default: 200ms]
    #[arg(long, env = "FLOTT_ALIGNMENT_TIMEOUT", value_name = "TIME", value_parser = parse_alignment_timeout)]
    alignment_timeout: Option<Duration>,
    /// Time between two checkpoints [default: 1s]
    #[arg(long, env = "FLOTT_CHECKPOINT_INTERVAL", value_name = "TIME", value_parser = parse_interval)]
    checkpoint_interval: Option<Duration>,
    /// latest, the number of a checkpoint, the path of a savepoint as ./DIR, or none to start over [default: latest]
    #[arg(long, env = "FLOTT_RESTORE", value_name = "WHAT", value_parser = parse_restore)]
    restore: Option<Wanted>,
    /// With --restore PATH: commit output that is pending there, and go on with output that is committed
    #[arg(long, env = "FLOTT_CLAIM", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    claim: bool,
    /// Check everything about what would be restored, start nothing and write nothing
    #[arg(long, env = "FLOTT_DRY_RUN", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    dry_run: bool,
    /// Refuse to run with less than exactly-once or at-least-once
    #[arg(long, env = "FLOTT_REQUIRE", value_name = "GUARANTEE", value_parser = parse_require)]
    require: Option<Guarantee>,
    /// A damaged checkpoint ends the job, instead of falling back to an older one
    #[arg(long, env = "FLOTT_NO_FALLBACK", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    no_fallback: bool,
    /// A fallback may pass output that is already committed
    #[arg(long, env = "FLOTT_ALLOW_DUPLICATES", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    allow_duplicates: bool,
    /// Leave behind state in the checkpoint that no operator claims
    #[arg(long, env = "FLOTT_ALLOW_UNCLAIMED_STATE", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    allow_unclaimed_state: bool,
    /// Take over output directories that hold foreign output, and remove it after the first commit
    #[arg(long, env = "FLOTT_OVERWRITE", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    overwrite: bool,
    /// How long a stop may take [default: 30s]
    #[arg(long, env = "FLOTT_STOP_TIMEOUT", value_name = "TIME", value_parser = parse_stop_timeout)]
    stop_timeout: Option<Duration>,
    /// The longest pause before a restart in the process; pauses begin with 50ms and double [default: 60s]
    #[arg(long, env = "FLOTT_LONGEST_RESTART_DELAY", value_name = "TIME", value_parser = parse_restart_delay)]
    longest_restart_delay: Option<Duration>,
    /// Sample records for the heaviest keys of each keyed operator: see `flott status` and --metrics
    #[arg(long, env = "FLOTT_HOT_KEYS", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    hot_keys: bool,
    /// Directory for local working files, which are those of RocksDB [default: $TMPDIR, else that of the system]
    #[arg(long, env = "FLOTT_WORK_DIR", value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Where keyed state lies: heap or rocksdb [default: heap]
    #[arg(long, env = "FLOTT_STATE_BACKEND", value_name = "BACKEND", value_parser = parse_state_backend)]
    state_backend: Option<StateBackend>,
    /// Memory for state that is not on the heap, of all workers together [default: 256MiB]
    #[arg(long, env = "FLOTT_STATE_MEMORY", value_name = "SIZE", value_parser = parse_state_memory)]
    state_memory: Option<usize>,
    /// Events as JSON on stdout, one object a line
    #[arg(long, env = "FLOTT_JSON", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    json: bool,
    /// Serve metrics for Prometheus here, as 127.0.0.1:9184 [default: nowhere]
    #[arg(long, env = "FLOTT_METRICS", value_name = "ADDR")]
    metrics: Option<String>,
}

// A job's whole command line: its own arguments and those of every job. No doc comments here and below: clap would open the
// help with them. Those of a job's own arguments do open it.
#[derive(Parser, Debug)]
struct CommandLine<A: Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    flags: Flags,
}

// A job without arguments of its own.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct NoArguments {}

/// Parses a command line, program name first.
pub(crate) fn parse<A: Args>(job: &str, line: Vec<OsString>) -> Result<(A, Settings), clap::Error> {
    let mut command = command::<A>(job);
    let line = without_run(line);
    let parsed = command.try_get_matches_from_mut(line.clone());
    let matches = parsed.map_err(|error| of_variable(&mut command, &line, &error).unwrap_or(error))?;
    let parsed = CommandLine::<A>::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((parsed.own, parsed.flags.into()))
}

/// The error in the name of the variable that holds the wrong value, if it is not a flag of the line that does.
fn of_variable(command: &mut Command, line: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let wrong = text(ContextKind::InvalidArg)?;
    let flag = wrong.split_whitespace().next()?;
    let given = |word: &OsString| {
        let word = word.to_string_lossy();
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let argument = command.get_arguments().find(|argument| argument.get_long() == flag.strip_prefix("--"))?;
    let variable = argument.get_env()?.to_string_lossy().into_owned();
    if line.iter().any(given) || std::env::var_os(&variable).is_none() {
        return None;
    }
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let reason = std::error::Error::source(error).map_or_else(|| error.kind().to_string(), ToString::to_string);
    let message = format!("the variable {variable} holds `{value}`: {reason}");
    Some(command.error(clap::error::ErrorKind::ValueValidation, message))
}

/// Warnings about variables that look like those of a job's flags and are none.
pub(crate) fn mistyped_variables<A: Args>() -> Vec<String> {
    let command = CommandLine::<A>::command();
    let known = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    variables::mistyped(&known.collect::<Vec<_>>(), set)
}

/// What the environment says, for a job that has no command line.
///
/// # Errors
/// Which variable is wrong, and how.
pub(crate) fn from_environment(job: &str) -> Result<Settings, String> {
    let parsed = parse::<NoArguments>(job, vec![job.into()]);
    parsed.map(|(_, settings)| settings).map_err(|error| {
        // Its other lines are about a command line that there is none of.
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

fn command<A: Args>(job: &str) -> Command {
    let command = CommandLine::<A>::command().name(job.to_owned()).no_binary_name(false);
    // `#[command(version)]` at the job's own arguments tells its package's version; flott knows no more than its own.
    let flott = concat!("flott ", env!("CARGO_PKG_VERSION"));
    let version = command.get_version().map_or_else(|| format!("({flott})"), |own| format!("{own} ({flott})"));
    let command = command.version(version);
    command.after_help(
        "The word `run` may stand before the options. Ctrl-C stops with a final checkpoint, a second one at once. \
         Exit codes: 0 finished, or stopped with a final checkpoint; 1 failed, or stopped without one; 2 refused; 3 fenced; \
         4 the checkpoint does not fit; 5 output cannot be made whole; 130 ended at once.",
    )
}

/// The only command there is may be named.
fn without_run(mut line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_some_and(|word| word == "run") {
        line.remove(1);
    }
    line
}

impl From<Flags> for Settings {
    fn from(flags: Flags) -> Settings {
        // A switch can only be on: that it is off says nothing.
        let switch = |on: bool| on.then_some(true);
        let (restore, restore_from) = match flags.restore {
            Some(Wanted::Own(restore)) => (Some(restore), None),
            Some(Wanted::From(path)) => (None, Some(path)),
            None => (None, None),
        };
        Settings {
            workers: flags.workers,
            checkpoint_dir: flags.checkpoint_dir,
            checkpoint_mode: flags.checkpoint_mode,
            alignment_timeout: flags.alignment_timeout,
            credit_window: None,
            checkpoint_interval: flags.checkpoint_interval,
            restore,
            restore_from,
            claim: switch(flags.claim),
            dry_run: switch(flags.dry_run),
            require: flags.require,
            no_fallback: switch(flags.no_fallback),
            allow_duplicates: switch(flags.allow_duplicates),
            allow_unclaimed_state: switch(flags.allow_unclaimed_state),
            overwrite: switch(flags.overwrite),
            stop_timeout: flags.stop_timeout,
            longest_restart_delay: flags.longest_restart_delay,
            hot_keys: switch(flags.hot_keys),
            work_dir: flags.work_dir,
            state_backend: flags.state_backend,
            state_memory: flags.state_memory,
            json: switch(flags.json),
            metrics: flags.metrics,
        }
    }
}
