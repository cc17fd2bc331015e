//! `flott compare`: one job under each checkpoint algorithm, at full and at half load, with a crash in each run.
//!
//! It shows on the user's own machine what each algorithm costs, and what its guarantee is worth: what a crash lost, and what
//! it made count twice. Nothing here knows how an algorithm works.

mod figures;
mod flow;
mod meter;
mod plot;
mod trial;

pub use figures::{Figures, Latency, Spread};

use crate::output::{Failure, Table, bytes, json_line};
use clap::Args;
use flott::{Error, Mode};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plot::Curves;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use trial::{Subject, Trial};

/// What is compared, in this order.
const SUBJECTS: [Subject; 6] = [
    None,
    Some(Mode::StopTheWorld),
    Some(Mode::Aligned),
    Some(Mode::AtLeastOnce),
    Some(Mode::Unaligned),
    Some(Mode::AlignedThenUnaligned),
];

/// How to compare.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Print one JSON object a mode.
    #[arg(long)]
    pub json: bool,
    /// Draw throughput and latency over time, with the checkpoints and what the crash did, into this SVG file.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Compares, prints the figures, and draws them if asked to. Takes a little more than a minute.
///
/// # Errors
/// If a run fails, or the output cannot be written.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(path) = &options.plot {
        plot::check(path)?;
    }
    let progress = Progress::start();
    let mut full = Vec::new();
    for subject in SUBJECTS {
        full.push(progress.run(subject, "full load", None)?);
    }
    let slowest = full.iter().map(Trial::throughput).fold(f64::INFINITY, f64::min);
    let mut half = Vec::new();
    for subject in SUBJECTS {
        half.push(progress.run(subject, "half load", Some(slowest / 2.0))?);
    }
    progress.bar.finish_and_clear();
    let runs = SUBJECTS.iter().zip(full.iter().zip(&half));
    let all: Vec<Figures> = runs.map(|(subject, (full, half))| Figures::of(*subject, full, half)).collect();
    let mut out = io::stdout().lock();
    if options.json {
        all.iter().try_for_each(|figures| json_line(&mut out, figures))?;
    } else {
        table(&all).print(&mut out)?;
        writeln!(
            out,
            "\nhalf load: {:.0} records a second; a checkpoint each second; one crash after the third",
            slowest / 2.0
        )?;
    }
    out.flush()?;
    if let Some(path) = &options.plot {
        let curves = SUBJECTS.iter().zip(full.iter().zip(&half));
        let curves: Vec<Curves> = curves.map(|(subject, (full, half))| Curves::of(*subject, full, half)).collect();
        plot::draw(path, &curves)?;
        eprintln!("drawn: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn table(all: &[Figures]) -> Table {
    let mut table = Table::new(&[
        "MODE",
        "RECORDS/S>",
        "LATENCY p50>",
        "p99>",
        "p99.9>",
        "SOURCE PAUSE>",
        "ALIGNED p50>",
        "p99>",
        "CHECKPOINT p50>",
        "p99>",
        "SIZE>",
        "LOST>",
        "OVER-COUNTED>",
    ]);
    for figures in all {
        let mut cells = vec![figures.mode.clone(), format!("{:.0}", figures.records_per_s)];
        let Latency { p50, p99, p999 } = figures.latency_ms;
        cells.extend([p50, p99, p999, figures.source_pause_ms_max].map(ms));
        for spread in [figures.alignment_ms, figures.checkpoint_ms] {
            cells.extend([spread.map(|spread| spread.p50), spread.map(|spread| spread.p99)].map(dash(ms)));
        }
        cells.push(dash(bytes)(figures.checkpoint_bytes));
        cells.extend([figures.lost.to_string(), figures.over_counted.to_string()]);
        table.row(cells);
    }
    table
}

fn ms(millis: f64) -> String {
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.0} ms") }
}

fn dash<T>(show: impl Fn(T) -> String) -> impl Fn(Option<T>) -> String {
    move |value| value.map_or_else(|| "-".to_owned(), &show)
}

/// Shows which run goes on: a bar on a terminal, plain lines otherwise.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn start() -> Progress {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}");
        let bar = ProgressBar::with_draw_target(Some(2 * SUBJECTS.len() as u64), ProgressDrawTarget::stderr());
        Progress { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())) }
    }

    fn run(&self, subject: Subject, load: &str, rate: Option<f64>) -> Result<Trial, Error> {
        let what = format!("{}, {load}", figures::name(subject));
        if self.bar.is_hidden() {
            eprintln!("run {} of {}: {what}", self.bar.position() + 1, 2 * SUBJECTS.len());
        }
        self.bar.set_message(what);
        let trial = trial::run(subject, rate, &mut || self.bar.tick())?;
        self.bar.inc(1);
        Ok(trial)
    }
}
