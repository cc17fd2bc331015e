//! A job for the tests with real processes: counts its lines by what stands before their comma, as fast as it is told.
//!
//! For each line one row `key,count`, so the rows of all runs are the same multiset, however the records interleave. On
//! demand its code panics or never returns.

#![forbid(unsafe_code)]

use flott::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(clap::Args)]
struct Args {
    /// Files to read, a glob
    #[arg(long)]
    input: String,
    /// Directory for the output
    #[arg(long)]
    output: PathBuf,
    /// Read only so many lines a second
    #[arg(long)]
    rate: Option<u64>,
    /// Panic on this line …
    #[arg(long)]
    panic_on: Option<String>,
    /// … so often in this process
    #[arg(long, default_value_t = 1)]
    panics: u64,
    /// Never return from this line
    #[arg(long)]
    hang_on: Option<String>,
}

/// What this job's code does wrong.
struct Trouble {
    panic_on: Option<String>,
    panics_left: AtomicU64,
    hang_on: Option<String>,
}

impl Trouble {
    fn make(&self, line: &str) {
        let take_one = |left: u64| left.checked_sub(1);
        if self.panic_on.as_deref() == Some(line)
            && self.panics_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok()
        {
            panic!("no good line: {line}");
        }
        if self.hang_on.as_deref() == Some(line) {
            eprintln!("never returning from {line}");
            loop {
                std::thread::park();
            }
        }
    }
}

fn main() -> flott::Result<()> {
    flott::main_with::<Args>("counted", |args, job| {
        let Args { input, output, rate, panic_on, panics, hang_on } = args;
        let trouble = Trouble { panic_on, panics_left: AtomicU64::new(panics), hang_on };
        let mut lines = job.source("lines", FileSource::lines(input));
        if let Some(rate) = rate {
            lines = lines.throttle(rate);
        }
        lines
            .inspect(move |line| trouble.make(line))
            .key_by(|line| line.split(',').next().unwrap_or_default().to_owned())
            .fold("count", 0u64, |count, _line| *count += 1)
            .sink("out", FileSink::csv(output).header(["key", "count"]));
    })
}
