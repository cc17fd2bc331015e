//! A job as a program: command line, signals, exit code.

use crate::console::{Console, Opening, failure_line, write_log};
use crate::flags;
use crate::graph::Frozen;
use crate::handle::JobHandle;
use crate::job::Job;
use crate::run::{self, Ended, Report, Status};
use crate::run::{blocking, task};
use crate::settings::Settings;
use clap::Args;
use doorbell::Doorbell;
use flott_checkpoint::{Guarantee, Options};
use flott_runtime::error::{Error, Result};
use flott_runtime::job_manager::{check_required, promises};
use std::io::{IsTerminal, Write};
use std::process::exit;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

mod doorbell;
#[cfg(test)]
mod tests;

/// The exit code of a second Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Signals within this time of the first one are still the first.
const ONE_WISH: Duration = Duration::from_millis(100);

/// How long the end waits for its last line to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The exit code of a stop that took no checkpoint: what was done is lost, as with a failure.
const STOPPED_WITHOUT_CHECKPOINT: i32 = 1;

/// Runs a job as a program: reads the command line that every job has, runs what `build` describes, and ends the process
/// with its exit code if that is not 0. Returns when the job has finished, or has stopped with a final checkpoint.
///
/// ```no_run
/// use flott::prelude::*;
///
/// fn main() -> flott::Result<()> {
///     flott::main("word-count", |job| {
///         job.source("lines", FileSource::lines("input/*.txt"))
///             .flat_map(|line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
///             .key_by(|word| word.clone())
///             .fold("count", 0u64, |count, _word| *count += 1)
///             .sink("out", FileSink::csv("counts"));
///     })
/// }
/// ```
///
/// # Errors
/// None at present: a job that fails ends the process. The result makes `main` one line, and `?` possible.
pub fn main(name: &str, build: impl FnOnce(&Job)) -> Result<()> {
    main_with::<()>(name, |_, job| build(job))
}

/// As [`main()`], for a job with arguments of its own: a type that derives `clap::Args`. With `#[command(version)]` at that
/// type `--version` tells the job's version beside flott's.
///
/// # Errors
/// As [`main()`].
pub fn main_with<A: Args>(name: &str, build: impl FnOnce(A, &Job)) -> Result<()> {
    let (own, flags) = flags::parse::<A>(name, std::env::args_os().collect()).unwrap_or_else(|error| error.exit());
    let job = Job::new(name);
    build(own, &job);
    run_described(&job, flags, flags::mistyped_variables(&flags::command::<A>(name)))
}

/// What is left when the job is described; apart, because what has the user's types in it is compiled with each program.
fn run_described(job: &Job, flags: Settings, typos: Vec<String>) -> Result<()> {
    log_to_stderr();
    if flags.clone().over(job.settings.borrow().clone()).dry_run == Some(true) {
        return look_only(job, flags);
    }
    let socket = Doorbell::hang(job.name());
    let ended = begin(job, flags, typos, &socket).and_then(|(handle, checkpoints)| {
        if let Some(address) = handle.metrics_address() {
            write_log(&format!("metrics: http://{address}/metrics"));
        }
        socket.listen(&handle, job.name());
        listen_for_signals(&handle, checkpoints, socket.clone());
        handle.wait()
    });
    socket.remove();
    match ended {
        Ok(Report { ended: Ended::Cancelled, .. }) => leave(INTERRUPTED),
        // Nothing was committed: not what code 0 stands for. The console has said so.
        Ok(Report { ended: Ended::Stopped, checkpoint: None, .. }) => leave(STOPPED_WITHOUT_CHECKPOINT),
        Ok(_) => Ok(()),
        Err(error) => leave(i32::from(error.kind().exit_code())),
    }
}

/// Ends the process while threads of the job may still be at work.
fn leave(code: i32) -> ! {
    // Destructors of the C++ library would run below threads that use it, and abort the process.
    #[cfg(feature = "rocksdb")]
    {
        let _ = std::io::stdout().flush();
        signal_hook::low_level::exit(code)
    }
    #[cfg(not(feature = "rocksdb"))]
    exit(code)
}

/// Says what would be restored, and ends the process if that cannot be.
fn look_only(job: &Job, flags: Settings) -> Result<()> {
    let settings = flags.over(job.settings.borrow().clone());
    let looked = job.freeze().and_then(|frozen| run::dry_run(&frozen, &settings));
    let found = looked.unwrap_or_else(|error| {
        write_log(&failure_line(&error));
        exit(i32::from(error.kind().exit_code()))
    });
    let lines = match (&found, settings.json.unwrap_or(false)) {
        (Some(found), true) => vec![found.json().to_string()],
        (Some(found), false) => found.lines(),
        (None, true) => vec![serde_json::json!({"event": "dry-run", "restores": null}).to_string()],
        (None, false) => vec!["nothing would be restored: the job would begin anew".to_owned()],
    };
    let mut out = std::io::stdout().lock();
    // Whoever does not read it does not care.
    let _ = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    Ok(())
}

/// Starts the job, and says whether it takes checkpoints; a refusal is told here, everything later by the console.
fn begin(job: &Job, flags: Settings, typos: Vec<String>, socket: &Doorbell) -> Result<(JobHandle, bool)> {
    let start = || {
        let settings = flags.over(job.settings.borrow().clone());
        let frozen = job.freeze()?;
        run::manager_settings(&settings, &frozen.plan)?;
        let mut opening = opening(job, &frozen, &settings)?;
        opening.socket = socket.path();
        opening.warnings.extend(typos);
        opening.warnings.extend(socket.warning());
        let checkpoints = opening.checkpoint_dir.is_some();
        let handle = run::start(frozen, &settings, Box::new(Console::new(opening, &settings)))?;
        Ok((handle, checkpoints))
    };
    start().inspect_err(|error| write_log(&failure_line(error)))
}

/// What is known before anything runs; refuses what `--require` rules out.
fn opening(job: &Job, frozen: &Frozen, settings: &Settings) -> Result<Opening> {
    let defaults = Options::default();
    let mode = settings.checkpoint_mode.unwrap_or(defaults.mode);
    let checkpoints = settings.checkpoint_dir.as_ref().map(|_| mode);
    let paths = promises(&frozen.plan, checkpoints, Guarantee::ExactlyOnce);
    check_required(&paths, settings.require)?;
    Ok(Opening {
        job: job.name().to_owned(),
        checkpoint_dir: settings.checkpoint_dir.clone(),
        mode,
        interval: settings.checkpoint_interval.or(defaults.interval).unwrap_or_default(),
        paths,
        outputs: frozen.outputs.clone(),
        warnings: warnings(frozen, flott_timely::PANICS_END_ONLY_THE_ATTEMPT),
        socket: None,
    })
}

/// What the user should know before the job runs.
fn warnings(frozen: &Frozen, panics_end_only_the_attempt: bool) -> Vec<String> {
    let mut warnings = frozen.warnings.clone();
    if !panics_end_only_the_attempt {
        warnings.push(
            "this program is built with panic = \"abort\": restarts after a panic are off, a panic ends the process, and only \
             a supervisor can start it again"
                .to_owned(),
        );
    }
    warnings
}

/// The first signal stops with a final checkpoint, the second ends the process at once.
fn listen_for_signals(handle: &JobHandle, checkpoints: bool, socket: Doorbell) {
    let commands = handle.commands();
    handle.spawn(task(async move {
        let Ok(mut signals) = Signals::new() else {
            write_log("warning: signals cannot be caught: Ctrl-C ends the job without a final checkpoint");
            return;
        };
        signals.next().await;
        let how = if checkpoints { "with a final checkpoint" } else { "without a checkpoint" };
        // Beside the rest: a log that nobody reads must not keep the job from stopping, nor the second signal from ending it.
        blocking(move || write_log(&format!("stopping {how}; Ctrl-C again ends at once")));
        commands.stop();
        // What comes together is one wish: `timeout` and some shells signal the process, and its group again.
        let _ = tokio::time::timeout(ONE_WISH, async {
            loop {
                signals.next().await;
            }
        })
        .await;
        signals.next().await;
        let last = blocking(move || write_log(&farewell(checkpoints, &commands.status())));
        // A log that nobody reads does not hold up the end either.
        let _ = tokio::time::timeout(LAST_WORDS, last).await;
        socket.remove();
        leave(INTERRUPTED);
    }));
}

/// What is left of a job that a second signal ends.
fn farewell(checkpoints: bool, status: &Status) -> String {
    let newest = status.last_checkpoint.map(|checkpoint| checkpoint.id).or(status.restored);
    let then = match (checkpoints, newest, status.attempt) {
        (false, ..) => "nothing was committed, and nothing is kept of this run".to_owned(),
        (true, Some(id), _) => format!("started again, the job goes on from checkpoint {id}"),
        (true, None, Some(_)) => "no checkpoint is complete: started again, the job begins anew".to_owned(),
        (true, None, None) => "started again, the job goes on from its last completed checkpoint".to_owned(),
    };
    format!("ended at once by a second signal: {then}")
}

/// SIGINT and SIGTERM alike.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C, where there are no signals.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The engine's own log, at the level of `FLOTT_LOG`, warnings by default. A program that has set one up keeps it.
fn log_to_stderr() {
    let wish = std::env::var("FLOTT_LOG").unwrap_or_default();
    let level = log_level(&wish);
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|wish| wish.is_empty()))
        .try_init();
    if level.is_none() {
        tracing::warn!(target: "flott", "FLOTT_LOG is `{wish}`, which is no level: it can be off, error, warn, info, debug or trace");
    }
}

/// A level by its name; `None` if there is none of that name. One level for all, because filters by module need regular
/// expressions, which take longer to build than the engine.
fn log_level(wish: &str) -> Option<LevelFilter> {
    match wish {
        "" => Some(LevelFilter::WARN),
        // Also digits would be levels, with meanings that nobody knows.
        _ => wish.parse().ok().filter(|_| wish.bytes().all(|byte| byte.is_ascii_alphabetic())),
    }
}

impl Job {
    /// Runs the job to its end, with the settings of the program and of the `FLOTT_*` variables. Nothing is printed.
    ///
    /// # Errors
    /// Why it was refused or failed.
    pub fn run(&self) -> Result<Report> {
        self.spawn()?.wait()
    }

    /// Starts the job and goes on, as [`Job::run`]. May be called inside of a tokio runtime.
    ///
    /// # Errors
    /// Why it was refused; a failure comes by [`JobHandle::wait`].
    pub fn spawn(&self) -> Result<JobHandle> {
        let environment = flags::from_environment(self.name()).map_err(Error::refused)?;
        let settings = environment.over(self.settings.borrow().clone());
        if settings.dry_run == Some(true) {
            return Err(Error::refused("a dry run is for a job's command line; unset FLOTT_DRY_RUN to run the job"));
        }
        let frozen = self.freeze()?;
        let opening = opening(self, &frozen, &settings)?;
        for warning in opening.warnings.iter().chain(&flags::mistyped_variables(&flags::command::<()>(self.name()))) {
            tracing::warn!(target: "flott", job = self.name(), "{warning}");
        }
        run::start(frozen, &settings, Box::new(run::Quiet(self.name().to_owned())))
    }
}
