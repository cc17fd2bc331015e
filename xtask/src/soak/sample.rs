//! What a job uses at a moment: of its process, and of its directories.

use std::fs;
use std::path::Path;

/// What is measured, in this order. The pool for blocking calls keeps as many threads as were once needed at a time, so a few
/// more of them are no leak. Objects
/// are those besides one Start an attempt. The history fills up to its thousand entries and keeps failures beside, and is in no other figure.
pub(super) const FIGURES: [Figure; 9] = [
    Figure { name: "rss", unit: "MiB", may: May::Add(6.0) },
    Figure { name: "threads", unit: "", may: May::Add(16.0) },
    Figure { name: "files", unit: "", may: May::Add(4.0) },
    Figure { name: "objects", unit: "", may: May::Add(12.0) },
    Figure { name: "stored", unit: "KiB", may: May::Add(512.0) },
    Figure { name: "history", unit: "", may: May::FillUpTo(1_200.0) },
    Figure { name: "staged", unit: "", may: May::Add(8.0) },
    Figure { name: "parts", unit: "", may: May::Add(12.0) },
    Figure { name: "output", unit: "KiB", may: May::Add(256.0) },
];

/// One of the figures.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) may: May,
}

/// What is no growth.
#[derive(Clone, Copy, Debug)]
pub(super) enum May {
    /// So much more besides the share.
    Add(f64),
    /// Whatever is less than this.
    FillUpTo(f64),
}

/// What was seen at a moment; `None` where there was no process to look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Seconds since the begin.
    pub(super) at: f64,
    pub(super) figures: [Option<f64>; FIGURES.len()],
    pub(super) counts: Counts,
}

/// What only ever grows, and is not judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Restarts within processes.
    pub(super) restarts: u64,
    /// Processes that were killed or stopped.
    pub(super) deaths: u64,
    /// Completed checkpoints.
    pub(super) completed: u64,
    /// Checkpoints given up.
    pub(super) aborted: u64,
    /// Rows of the output that were read and are right.
    pub(super) rows: u64,
}

/// Looks at a process, if there is one, and at its directories.
pub(super) fn take(at: f64, pid: Option<u32>, checkpoints: &Path, output: &Path, counts: Counts) -> Sample {
    let process = pid.and_then(process);
    let (mut stored, mut written) = (Directory::default(), Directory::default());
    stored.add(checkpoints, &|name| name.contains('#'));
    written.add(output, &|name| name.starts_with('.'));
    let kib = |bytes: u64| Some(bytes as f64 / 1024.0);
    let figures = [
        process.map(|process| process.rss_kib as f64 / 1024.0),
        process.map(|process| process.threads as f64),
        process.map(|process| process.files as f64),
        // Each attempt leaves its Start in the log for ever, by rule (`docs/formats.md`): these are counted as restarts and deaths.
        Some(stored.files as f64 - (counts.restarts + counts.deaths) as f64),
        kib(stored.bytes),
        Some(stored.history as f64),
        Some((stored.staged + written.staged) as f64),
        Some(written.files as f64),
        kib(written.bytes),
    ];
    Sample { at, figures, counts }
}

#[derive(Clone, Copy)]
struct Process {
    rss_kib: u64,
    threads: u64,
    files: u64,
}

/// `None` if it has ended meanwhile.
fn process(pid: u32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    Some(Process { rss_kib: number("VmRSS:")?, threads: number("Threads:")?, files })
}

/// What lies in a directory and below.
#[derive(Default)]
struct Directory {
    files: u64,
    bytes: u64,
    /// Files that nobody is to see yet; counted in `files` too.
    staged: u64,
    /// Entries of the history; counted nowhere else.
    history: u64,
}

impl Directory {
    /// What vanishes while it is looked at is not there.
    fn add(&mut self, path: &Path, is_staged: &dyn Fn(&str) -> bool) {
        let is_history = path.file_name().is_some_and(|name| name == "history");
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let is_staged_one = is_staged(&entry.file_name().to_string_lossy());
            if is_history && !is_staged_one {
                self.history += 1;
                continue;
            }
            // An empty directory that stays behind is litter as well.
            self.files += 1;
            if metadata.is_dir() {
                self.add(&entry.path(), is_staged);
            } else {
                self.bytes += metadata.len();
                self.staged += u64::from(is_staged_one);
            }
        }
    }
}
