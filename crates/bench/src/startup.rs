//! From the start of a process to its first record: bar < 0.1 s. This binary starts itself, so the program is as large as any.

use crate::report::Figure;
use flott::prelude::*;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The argument by which the child knows itself.
pub(crate) const CHILD: &str = "--first-record-child";

pub(crate) fn run(runs: usize) -> Result<Vec<Figure>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let began = (Instant::now(), now());
        let mut child = Command::new(&own);
        child.arg(CHILD).arg(directory.path()).stdin(Stdio::null()).stderr(Stdio::null());
        let output = child.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let first: u64 = text.parse().map_err(|_| format!("the child said `{text}` after {:?}", began.0.elapsed()))?;
        times.push(Duration::from_micros(first.saturating_sub(began.1)).as_secs_f64());
    }
    Ok(vec![Figure::of("startup", "process start to first record, checkpoints on, 2 workers", &times, "s", Some(0.1))])
}

/// Microseconds since the Unix epoch, the same clock in every process.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// What the child does: runs a job and says when its first record came through.
pub(crate) fn child(directory: &str) -> flott::Result<()> {
    let job = Job::new("startup");
    job.workers(2).checkpoint_dir(directory.to_owned());
    job.source("numbers", Generator::new(1, 1, |number, _| number))
        .key_by(|number| *number)
        .fold("count", 0u64, |count, _| *count += 1)
        .inspect(|_| println!("{}", now()))
        .sink("out", MemorySink::new());
    job.run().map(|_| ())
}
