//! The command line that every job has. Each flag is also a `FLOTT_*` variable and a method of [`crate::Job`].

use crate::settings::{
    Settings, Wanted, parse_alignment_timeout, parse_directory, parse_interval, parse_mode, parse_require,
    parse_restart_delay, parse_restore, parse_state_backend, parse_state_memory, parse_stop_timeout, parse_workers,
};
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, value_parser};
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(test)]
mod tests;
mod variables;

/// An option of every job, and its variable.
fn option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).env(variable(name)).value_name(value)
}

/// One without a value; its variable may hold any word for yes or no.
fn switch(name: &'static str) -> Arg {
    let switch = Arg::new(name).long(name).env(variable(name));
    switch.action(ArgAction::SetTrue).value_parser(BoolishValueParser::new())
}

fn variable(name: &str) -> String {
    format!("FLOTT_{}", name.replace('-', "_").to_uppercase())
}

/// Checkpoints, and what is restored.
fn how_it_recovers() -> [Arg; 12] {
    [
        option("workers", "N")
            .value_parser(parse_workers)
            .help("Threads that run the job [default: those of the restored checkpoint, else the cores]"),
        option("checkpoint-dir", "DIR")
            .value_parser(parse_directory)
            .help("Directory for checkpoints: a path, file:///path, or an object store (s3://, gs://, az://) [default: none, checkpoints are off]"),
        option("checkpoint-mode", "MODE")
            .value_parser(parse_mode)
            .help("stop-the-world, aligned, at-least-once, aligned-then-unaligned or unaligned [default: aligned]"),
        option("alignment-timeout", "TIME").value_parser(parse_alignment_timeout).help(
            "Mode aligned-then-unaligned: how long after its trigger a checkpoint stays aligned \
                 [default: 200ms]",
        ),
        option("checkpoint-interval", "TIME")
            .value_parser(parse_interval)
            .help("Time between two checkpoints [default: 1s]"),
        option("restore", "WHAT").value_parser(parse_restore).help(
            "latest, the number of a checkpoint, the path of a savepoint as ./DIR, or none to start \
                 over [default: latest]",
        ),
        switch("claim")
            .help("With --restore PATH: commit output that is pending there, and go on with output that is committed"),
        switch("dry-run").help("Check everything about what would be restored, start nothing and write nothing"),
        option("require", "GUARANTEE")
            .value_parser(parse_require)
            .help("Refuse to run with less than exactly-once or at-least-once"),
        switch("no-fallback").help("A damaged checkpoint ends the job, instead of falling back to an older one"),
        switch("allow-duplicates").help("A fallback may pass output that is already committed"),
        switch("allow-unclaimed-state").help("Leave behind state in the checkpoint that no operator claims"),
    ]
}

/// The rest.
fn how_it_runs() -> [Arg; 9] {
    [
        switch("overwrite")
            .help("Take over output directories that hold foreign output, and remove it after the first commit"),
        option("stop-timeout", "TIME").value_parser(parse_stop_timeout).help("How long a stop may take [default: 30s]"),
        option("longest-restart-delay", "TIME").value_parser(parse_restart_delay).help(
            "The longest pause before a restart in the process; pauses begin with 50ms and double \
                 [default: 60s]",
        ),
        switch("hot-keys")
            .help("Sample records for the heaviest keys of each keyed operator: see `flott status` and --metrics"),
        option("work-dir", "DIR").value_parser(value_parser!(PathBuf)).help(
            "Directory for local working files, which are those of RocksDB [default: $TMPDIR, else \
                 that of the system]",
        ),
        option("state-backend", "BACKEND")
            .value_parser(parse_state_backend)
            .help("Where keyed state lies: heap or rocksdb [default: heap]"),
        option("state-memory", "SIZE")
            .value_parser(parse_state_memory)
            .help("Memory for state that is not on the heap, of all workers together [default: 256MiB]"),
        switch("json").help("Events as JSON on stdout, one object a line"),
        option("metrics", "ADDR").help("Serve metrics for Prometheus here, as 127.0.0.1:9184 [default: nowhere]"),
    ]
}

/// What the flags of every job say.
fn settings(matches: &mut ArgMatches) -> Settings {
    let (restore, restore_from) = match matches.remove_one("restore") {
        Some(Wanted::Own(restore)) => (Some(restore), None),
        Some(Wanted::From(path)) => (None, Some(path)),
        None => (None, None),
    };
    // A switch can only be on: that it is off says nothing.
    let switch = |name| matches.get_flag(name).then_some(true);
    Settings {
        claim: switch("claim"),
        dry_run: switch("dry-run"),
        no_fallback: switch("no-fallback"),
        allow_duplicates: switch("allow-duplicates"),
        allow_unclaimed_state: switch("allow-unclaimed-state"),
        overwrite: switch("overwrite"),
        hot_keys: switch("hot-keys"),
        json: switch("json"),
        workers: matches.remove_one("workers"),
        checkpoint_dir: matches.remove_one("checkpoint-dir"),
        checkpoint_mode: matches.remove_one("checkpoint-mode"),
        alignment_timeout: matches.remove_one("alignment-timeout"),
        credit_window: None,
        checkpoint_interval: matches.remove_one("checkpoint-interval"),
        restore,
        restore_from,
        require: matches.remove_one("require"),
        stop_timeout: matches.remove_one("stop-timeout"),
        longest_restart_delay: matches.remove_one("longest-restart-delay"),
        work_dir: matches.remove_one("work-dir"),
        state_backend: matches.remove_one("state-backend"),
        state_memory: matches.remove_one("state-memory"),
        metrics: matches.remove_one("metrics"),
    }
}

/// Parses a command line, program name first.
pub(crate) fn parse<A: Args>(job: &str, line: Vec<OsString>) -> Result<(A, Settings), clap::Error> {
    let mut own = None;
    let settings = parse_beside(command::<A>(job), without_run(line), &mut |matches| {
        own = Some(A::from_arg_matches_mut(matches)?);
        Ok(())
    })?;
    Ok((own.expect("the job's own arguments were taken"), settings))
}

/// Takes the job's own arguments and then those of every job. The type of the own ones is forgotten here: what knows it is
/// compiled with each program.
fn parse_beside(
    mut command: Command,
    line: Vec<OsString>,
    take_own: &mut dyn FnMut(&mut ArgMatches) -> Result<(), clap::Error>,
) -> Result<Settings, clap::Error> {
    let parsed = command.try_get_matches_from_mut(line.iter());
    let mut matches = parsed.map_err(|error| of_variable(&mut command, &line, &error).unwrap_or(error))?;
    take_own(&mut matches).map_err(|error| error.format(&mut command))?;
    Ok(settings(&mut matches))
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
pub(crate) fn mistyped_variables(command: &Command) -> Vec<String> {
    let known = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    variables::mistyped(&known.collect::<Vec<_>>(), set)
}

/// What the environment says, for a job that has no command line.
///
/// # Errors
/// Which variable is wrong, and how.
pub(crate) fn from_environment(job: &str) -> Result<Settings, String> {
    let parsed = parse::<()>(job, vec![job.into()]);
    parsed.map(|(_, settings)| settings).map_err(|error| {
        // Its other lines are about a command line that there is none of.
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// The job's own arguments come first.
pub(crate) fn command<A: Args>(job: &str) -> Command {
    with_flags(A::augment_args(Command::new(job.to_owned())))
}

fn with_flags(command: Command) -> Command {
    let command = command.next_help_heading("Options of every job").args(how_it_recovers()).args(how_it_runs());
    // `#[command(version)]` at the job's own arguments tells its package's version; flott knows no more than its own.
    let flott = concat!("flott ", env!("CARGO_PKG_VERSION"));
    let version = command.get_version().map_or_else(|| format!("({flott})"), |own| format!("{own} ({flott})"));
    let command = command.version(version);
    command.after_help(
        "The defaults are those of flott; a program may set others for its job. The word `run` may stand before the options. Ctrl-C stops with a final checkpoint, a second one at once. \
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
