//! What a user sees of a run: log and progress on stderr, and with `--json` one object a line on stdout.
//!
//! Only words: it hears of everything and changes nothing.

mod json;
mod progress;
#[cfg(test)]
mod tests;

use crate::run::{Ended, Listen, Report, Status};
use crate::settings::Settings;
use flott_checkpoint::guarantee::{PathGuarantee, by_reason, of_job};
use flott_checkpoint::{Dropped, Guarantee, Mode};
use flott_runtime::error::{Error, Result};
use flott_runtime::job_manager::JobEvent;
use flott_runtime::time::Time;
use flott_runtime::whereabouts::Whereabouts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use progress::Progress;
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// What the start says about a job.
pub(crate) struct Opening {
    pub(crate) job: String,
    /// Where checkpoints go; `None` if they are off.
    pub(crate) checkpoint_dir: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) interval: Duration,
    /// What each path promises if nothing lesser is restored.
    pub(crate) paths: Vec<PathGuarantee>,
    /// Where sinks put their output, as far as they say.
    pub(crate) outputs: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// Where the job can be asked while it runs.
    pub(crate) socket: Option<String>,
}

/// See the head of this file.
pub(crate) struct Console {
    opening: Opening,
    json: bool,
    /// Events cannot be printed any more.
    is_deaf: Cell<bool>,
    progress: Progress,
    /// What was last said to be promised.
    promised: Option<Guarantee>,
    /// Only on a terminal.
    bar: Option<ProgressBar>,
}

impl Console {
    pub(crate) fn new(opening: Opening, settings: &Settings) -> Console {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::default_spinner());
            bar
        });
        Console {
            opening,
            json: settings.json.unwrap_or(false),
            is_deaf: Cell::new(false),
            progress: Progress::default(),
            promised: None,
            bar,
        }
    }

    /// A line of the log.
    fn log(&self, line: &str) {
        match &self.bar {
            // The bar would overwrite what is printed beside it.
            Some(bar) => bar.suspend(|| write_log(line)),
            None => write_log(line),
        }
    }

    fn emit(&self, event: &serde_json::Value) {
        if self.json && !self.is_deaf.get() {
            let mut stdout = std::io::stdout().lock();
            let written = writeln!(stdout, "{event}").and_then(|()| stdout.flush());
            drop(stdout);
            if let Err(error) = written {
                self.is_deaf.set(true);
                // Somebody who has read enough is no reason to say anything, and nothing here is one to end the job.
                if error.kind() != std::io::ErrorKind::BrokenPipe {
                    self.log(&format!(
                        "warning: no more events are printed: cannot write to the standard output: {error}"
                    ));
                }
            }
        }
    }

    fn open(&self, status: &Status) {
        for line in opening_lines(&self.opening, status) {
            self.log(&line);
        }
    }

    fn show_progress(&mut self, now: Time, status: &Status) {
        if let Some(line) = self.progress.line(now, status, self.bar.is_some()) {
            match &self.bar {
                Some(bar) => {
                    bar.set_message(line);
                    bar.tick();
                }
                None => write_log(&line),
            }
        }
    }
}

impl Listen for Console {
    fn on_event(&mut self, now: Time, event: &JobEvent, status: &Status) {
        let promised = status.guarantee.unwrap_or_else(|| of_job(&self.opening.paths));
        self.emit(&json::event(&self.opening, promised, event, status));
        match event {
            JobEvent::Started { .. } | JobEvent::Restored { .. } => {
                self.progress.begin(now);
                self.open(status);
            }
            JobEvent::Changed { mode, interval } => {
                let interval = humantime::format_duration(interval.unwrap_or_default());
                self.log(&format!("checkpoints: {mode}, each {interval}, from the next one on"));
            }
            JobEvent::Completed { id, duration, .. } => {
                self.progress.completed(now, *duration);
                if self.promised.is_some_and(|before| before < promised) {
                    self.log(&format!("guarantee: {promised} again, since checkpoint {id}"));
                    self.promised = Some(promised);
                }
            }
            JobEvent::Delayed(whereabouts) => {
                delayed_lines(whereabouts).iter().for_each(|line| self.log(&format!("warning: {line}")));
            }
            JobEvent::Aborted { id, reason } => self.log(&format!("warning: checkpoint {id} was given up: {reason}")),
            JobEvent::Restart { restarts, delay, error } => {
                let delay = humantime::format_duration(*delay);
                self.log(&format!("error: {error}"));
                self.log(&format!("restart {restarts} in {delay}"));
            }
            JobEvent::Warning(warning) => self.log(&format!("warning: {warning}")),
            JobEvent::Progress { .. } => {}
        }
        if self.promised.is_some_and(|before| promised < before) {
            self.log(&lesser_line(promised, event));
        }
        self.promised = Some(promised);
        self.show_progress(now, status);
    }

    fn on_end(&mut self, result: &Result<Report>) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.emit(&json::end(result));
        match result {
            Ok(report) => {
                for line in closing_lines(&self.opening, report) {
                    self.log(&line);
                }
            }
            Err(error) => self.log(&failure_line(error)),
        }
    }
}

/// How an error that ends a process is printed.
pub(crate) fn failure_line(error: &Error) -> String {
    format!("error: {error}")
}

/// Stderr is the log: if it is gone, nothing can be said about it.
pub(crate) fn write_log(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// So many of the things that a checkpoint waits for are printed.
const MOST_DELAYS: usize = 8;

/// Where a checkpoint is that takes long.
pub(crate) fn delayed_lines(whereabouts: &Whereabouts) -> Vec<String> {
    let age = humantime::format_duration(Duration::from_secs(whereabouts.age.as_secs()));
    let mut lines = vec![format!("checkpoint {} has been pending for {age}; what is missing:", whereabouts.id)];
    let all = whereabouts.lines();
    lines.extend(all.iter().take(MOST_DELAYS).map(|line| format!("  {line}")));
    if let Some(more @ 1..) = all.len().checked_sub(MOST_DELAYS) {
        lines.push(format!("  and {more} more: `flott status` names them all"));
    }
    lines
}

/// Why less is promised than before.
fn lesser_line(promised: Guarantee, event: &JobEvent) -> String {
    match event {
        JobEvent::Restored { checkpoint, .. } => {
            format!("guarantee: {promised} from now on, because checkpoint {checkpoint} is worth no more")
        }
        _ => format!("guarantee: {promised}, until an exact checkpoint is completed"),
    }
}

fn opening_lines(opening: &Opening, status: &Status) -> Vec<String> {
    // Attempts are numbered by their slots in the log; a reader of the console counts those that he sees.
    let attempt = status.restarts + 1;
    let workers = status.workers;
    let begun = match status.restored {
        Some(checkpoint) => match status.rescaled_from {
            Some(before) => {
                format!("restored from checkpoint {checkpoint}, rescaled from {before} to {workers} workers")
            }
            None => format!("restored from checkpoint {checkpoint}"),
        },
        None => "started from nothing".to_owned(),
    };
    let mut lines =
        vec![format!("{}: attempt {attempt} of this process, with {workers} workers, {begun}", opening.job)];
    if status.restarts > 0 {
        return lines;
    }
    lines.push(match &opening.checkpoint_dir {
        Some(directory) => {
            let interval = humantime::format_duration(opening.interval);
            format!("checkpoints: {}, each {interval}, in {directory}", opening.mode)
        }
        None => "checkpoints are off: output is committed once, at the end; a failure or a stop ends the job, and nothing of it \
                 is kept (--checkpoint-dir turns them on)"
            .to_owned(),
    });
    let (meant, promised) = (of_job(&opening.paths), status.guarantee);
    lines.push(match promised.filter(|promised| *promised < meant) {
        Some(promised) => format!("guarantee: {promised}, because the restored checkpoint is worth no more"),
        None => format!("guarantee: {meant}"),
    });
    let lesser = opening.paths.iter().filter(|path| path.limit.is_some());
    lines.extend(by_reason(lesser).iter().map(|line| format!("  {line}")));
    lines.extend(opening.socket.iter().map(|socket| format!("socket: {socket}")));
    lines.extend(opening.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines
}

fn closing_lines(opening: &Opening, report: &Report) -> Vec<String> {
    let at = report.checkpoint.map(|id| format!(" at checkpoint {id}")).unwrap_or_default();
    let outputs = opening.outputs.join(", ");
    let output = if outputs.is_empty() { String::new() } else { format!(", output in {outputs}") };
    let counts = format!("{} records in, {} out, {} restarts", report.records_in, report.records_out, report.restarts);
    let mut lines = vec![match report.ended {
        Ended::Finished => format!("finished{at}{output}: {counts}"),
        Ended::FinishedBefore => format!("finished{at}{output}; --restore none --overwrite starts over"),
        Ended::Stopped if report.checkpoint.is_none() => {
            format!("stopped without a checkpoint: {counts}; nothing was committed, and nothing is kept of this run")
        }
        Ended::Stopped => format!("stopped{at}: {counts}; started again, the job goes on from there"),
        Ended::Cancelled => format!("stopped at once, without a checkpoint: {counts}"),
    }];
    if report.ended == Ended::FinishedBefore {
        lines.insert(0, "warning: nothing was read or computed: the job had finished before this start".to_owned());
    }
    let Dropped { late, foreign, repeated } = report.ignored;
    if late + foreign > 0 {
        lines.push(format!(
            "messages about checkpoints that were ignored: {late} late, {foreign} foreign, {repeated} repeated (harmless; \
             many of them show that something delays or repeats mail)"
        ));
    }
    for (operator, count) in &report.skipped {
        lines.push(format!("warning: `{operator}` skipped {count} records"));
    }
    for (operator, count) in &report.dead_letters {
        lines.push(format!("`{operator}` made dead letters of {count} records"));
    }
    lines
}
