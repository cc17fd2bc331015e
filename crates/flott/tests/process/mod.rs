//! Jobs in processes of their own: a place for each test, a process that dies with the test, and what both leave behind.
//!
//! Nothing here waits for a length of time: whatever is waited for is looked at again and again, until a deadline that only
//! a failure reaches.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::disallowed_methods, reason = "real processes need the real clock")]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test may end where it stands")]

use flott_checkpoint::{CheckpointId, LogEntry, Mode};
use flott_runtime::history::HistoryEntry;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::open_storage;
use flott_runtime::verify::{Directory, Severity, verify};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::chown;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The job of `jobs/counted.rs`.
const COUNTED: &str = "counted";
/// Only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Files that the job reads, and lines in each.
const FILES: usize = 3;
const LINES: usize = 1_000;
/// Different keys.
const KEYS: usize = 61;

/// Lines in all.
pub(crate) const ALL_LINES: u64 = (FILES * LINES) as u64;

/// A row of the output, and how often it is there.
pub(crate) type Rows = BTreeMap<String, u64>;

/// Input, checkpoints and output of one test.
pub(crate) struct Site {
    dir: TempDir,
    job: &'static str,
    checkpoints: PathBuf,
    input: String,
    processes: std::cell::Cell<u32>,
}

impl Site {
    pub(crate) fn new() -> Site {
        let site = Site::of(COUNTED);
        for file in 0..FILES {
            let lines = (0..LINES).map(|line| format!("{}\n", text_of(file, line)));
            fs::write(site.path(&format!("input-{file}.txt")), lines.collect::<String>()).expect("written");
        }
        site
    }

    /// Checkpoints go to a place of their own, the URL of an object store. What looks at them does not look there.
    pub(crate) fn with_checkpoints_at(place: &str) -> Site {
        Site { checkpoints: PathBuf::from(place), ..Site::new() }
    }

    /// A place without input for a job of this name.
    pub(crate) fn of(job: &'static str) -> Site {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("run")).expect("made");
        let checkpoints = dir.path().join("checkpoints");
        let input = dir.path().join("input-*.txt").display().to_string();
        Site { dir, job, checkpoints, input, processes: std::cell::Cell::new(0) }
    }

    /// What an undisturbed run commits.
    pub(crate) fn expected() -> Rows {
        let mut counts = [0u64; KEYS];
        let mut rows = Rows::new();
        for line in (0..FILES).flat_map(|file| (0..LINES).map(move |line| key_of(file, line))) {
            counts[line] += 1;
            rows.insert(format!("k{line},{}", counts[line]), 1);
        }
        rows
    }

    /// The input is read from somewhere else; gives back what is in it, by name.
    pub(crate) fn read_from(&mut self, pattern: &str) -> BTreeMap<String, Vec<u8>> {
        self.input = pattern.to_owned();
        let mut input = files(self.dir.path());
        input.retain(|name, _| name.starts_with("input-"));
        input
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.path("out")
    }

    fn job_dir(&self) -> PathBuf {
        self.checkpoints.join(self.job)
    }

    /// A process of the job at this place, not started yet.
    pub(crate) fn job(&self) -> Start<'_> {
        let output = self.output().display().to_string();
        self.job_of(Path::new(env!("CARGO_BIN_EXE_flott-test-job"))).with(&["--output", &output])
    }

    /// A process of the job at this place, whose output goes somewhere else.
    pub(crate) fn job_to(&self, output: &str) -> Start<'_> {
        self.job_of(Path::new(env!("CARGO_BIN_EXE_flott-test-job"))).with(&["--output", output])
    }

    /// The checkpoint directory.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.checkpoints.clone()
    }

    /// A process of another program over the same input.
    pub(crate) fn job_of(&self, program: &Path) -> Start<'_> {
        self.program(program).with(&["--input", &self.input])
    }

    /// A process of another program, which is told nothing of this place but where its checkpoints go.
    pub(crate) fn program(&self, program: &Path) -> Start<'_> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FLOTT_")) {
            command.env_remove(name);
        }
        command.arg("--json");
        // A flag overrules it.
        command.env("FLOTT_WORKERS", "2");
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        // A flag overrules it.
        command.env("FLOTT_CHECKPOINT_INTERVAL", "20ms");
        command.arg("--checkpoint-dir").arg(&self.checkpoints);
        Start { site: self, command, by_pipe: false }
    }

    /// Runs the job to its end, which must be a good one.
    pub(crate) fn run_to_the_end(&self) {
        self.job().start().must_end_with(0);
    }

    /// The modes of the completed checkpoints that the history remembers, by id; each is that of its manifest, if that is there.
    pub(crate) fn modes(&self) -> BTreeMap<CheckpointId, Mode> {
        self.read(|directory| {
            let completed = directory.history().filter(|entry| entry.is_completed());
            let modes = completed.map(|entry| {
                let mode = entry.tried.barrier.mode;
                let manifest = directory.manifest(entry.id(), entry.attempt());
                assert!(manifest.is_none_or(|manifest| manifest.mode == mode), "{entry:?}");
                (entry.id(), mode)
            });
            modes.collect()
        })
    }

    /// What the history remembers, in the order of ids.
    pub(crate) fn history(&self) -> Vec<HistoryEntry> {
        self.read(|directory| directory.history().cloned().collect())
    }

    /// Manifests and segments that no entry of the log leads to.
    pub(crate) fn garbage(&self) -> Vec<String> {
        let storage = open_storage(&self.checkpoints.display().to_string(), self.job).expect("opened");
        let report = block_on(async { verify(&storage, |_| ()).await }).expect("it runs").expect("verified");
        let garbage = report.findings.into_iter().filter(|found| found.what.contains("no entry of the log names it"));
        garbage.map(|found| found.path).collect()
    }

    fn read<T>(&self, what: impl FnOnce(&Directory) -> T) -> T {
        let storage = open_storage(&self.checkpoints.display().to_string(), self.job).expect("opened");
        let directory = block_on(async { Directory::read(&storage, &mut |_| ()).await });
        what(&directory.expect("it runs").expect("read"))
    }

    /// Where sockets lie.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.path("run/flott")
    }

    /// The committed rows: of all parts whose names do not begin with a dot.
    pub(crate) fn committed(&self) -> Rows {
        let mut rows = Rows::new();
        for bytes in self.committed_files().into_values() {
            for row in String::from_utf8(bytes).expect("UTF-8").lines().skip(1) {
                *rows.entry(row.to_owned()).or_insert(0) += 1;
            }
        }
        rows
    }

    /// The committed rows of a sink that writes no header into a directory below the output's, as they are or not.
    pub(crate) fn rows_of(&self, sink: &str) -> Vec<String> {
        let mut parts = files(&self.output().join(sink));
        parts.retain(|name, _| !name.starts_with('.'));
        let texts = parts.into_values().map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The committed parts.
    pub(crate) fn committed_files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = files(&self.output());
        files.retain(|name, _| !name.starts_with('.'));
        files
    }

    /// The log as it stands.
    pub(crate) fn log(&self) -> BTreeMap<String, Vec<u8>> {
        let mut slots = files(&self.job_dir().join("log"));
        // Beside them lie files that get such a name when they are whole.
        slots.retain(|name, _| name.ends_with(".json"));
        slots
    }

    pub(crate) fn has_slot(&self, slot: u64) -> bool {
        self.job_dir().join(format!("log/{slot}.json")).exists()
    }

    /// The highest slot of the log; 0 if there is none.
    pub(crate) fn head(&self) -> u64 {
        let slots = self.log().into_keys().filter_map(|name| name.strip_suffix(".json")?.parse().ok());
        slots.max().unwrap_or(0)
    }

    /// Everything in the job's checkpoint directory but the history and what is being written (`#`), by path.
    pub(crate) fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let mut objects = BTreeMap::new();
        let mut left = vec![PathBuf::new()];
        while let Some(below) = left.pop() {
            for entry in fs::read_dir(self.job_dir().join(&below)).expect("listed").flatten() {
                let path = below.join(entry.file_name());
                if entry.path().is_dir() {
                    left.push(path);
                } else if !path.starts_with("history") && !path.to_string_lossy().contains('#') {
                    objects.insert(path.display().to_string(), fs::read(entry.path()).expect("read"));
                }
            }
        }
        objects
    }

    /// The output is that of one undisturbed run, the checkpoints are whole, and nothing lies about that nobody will ever
    /// commit.
    pub(crate) fn must_be_whole(&self) {
        self.must_hold_one_run();
        let hidden: Vec<String> = files(&self.output()).into_keys().filter(|name| name.starts_with('.')).collect();
        assert_eq!(hidden, Vec::<String>::new(), "pending parts are left behind");
        self.must_verify();
    }

    /// The output is that of one undisturbed run.
    pub(crate) fn must_hold_one_run(&self) {
        let (expected, committed) = (Site::expected(), self.committed());
        let lost: Vec<&String> = expected.keys().filter(|row| !committed.contains_key(*row)).collect();
        let doubled: Vec<_> = committed.iter().filter(|(row, count)| expected.get(*row) != Some(count)).collect();
        let differ = lost.len() + doubled.len();
        let shown = (lost.iter().take(5).collect::<Vec<_>>(), doubled.iter().take(5).collect::<Vec<_>>());
        assert_eq!(differ, 0, "{} rows are lost, {} too many: {shown:?}", lost.len(), doubled.len());
    }

    /// No object is damaged or missing.
    pub(crate) fn must_verify(&self) {
        let storage = open_storage(&self.checkpoints.display().to_string(), self.job).expect("opened");
        let report = block_on(async { verify(&storage, |_| ()).await }).expect("it runs").expect("verified");
        let damage: Vec<_> = report.findings.iter().filter(|found| found.severity == Severity::Damage).collect();
        assert!(damage.is_empty(), "{damage:#?}");
        assert!(report.newest_whole.is_some() || report.checkpoints == 0, "no checkpoint is whole");
    }
}

fn text_of(file: usize, line: usize) -> String {
    format!("k{},{file}-{line}", key_of(file, line))
}

/// The text of a line; lines of a file are counted from 0.
pub(crate) fn line(file: usize, line: usize) -> String {
    text_of(file, line)
}

fn key_of(file: usize, line: usize) -> usize {
    (file * 7 + line * line) % KEYS
}

/// The files right in a directory, by name. One that goes while this looks is not there.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeMap::new() };
    let entries = entries.flatten().filter(|entry| entry.path().is_file());
    let read = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?));
    entries.filter_map(read).collect()
}

/// Looks again and again until there is something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// A process that is about to be started.
pub(crate) struct Start<'a> {
    site: &'a Site,
    command: Command,
    by_pipe: bool,
}

impl Start<'_> {
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &Path) -> Self {
        self.command.env(name, value);
        self
    }

    /// Its checkpoint storage is a bad one, as `FLOTT_STORAGE_TROUBLE` says.
    pub(crate) fn trouble(mut self, trouble: &str) -> Self {
        self.command.env("FLOTT_STORAGE_TROUBLE", trouble);
        self
    }

    /// What it says goes through pipes, so that no limit for files concerns it.
    pub(crate) fn by_pipe(mut self) -> Self {
        self.by_pipe = true;
        self
    }

    /// By a shell that does something first; `exec "$0" "$@"` is the program.
    pub(crate) fn in_shell(self, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Start { command, ..self }
    }

    /// As a user to whom permissions mean something: nobody, if the test is run by root. The place is that user's from now on.
    pub(crate) fn by_nobody(mut self) -> Self {
        const NOBODY: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return self;
        }
        // Where the programs of the tests lie may be closed to others.
        let copy = self.site.path("job");
        fs::copy(self.command.get_program(), &copy).expect("copied");
        let mut left = vec![self.site.path("")];
        while let Some(path) = left.pop() {
            chown(&path, Some(NOBODY), Some(NOBODY)).expect("given away");
            if path.is_dir() {
                left.extend(fs::read_dir(&path).expect("listed").map(|entry| entry.expect("an entry").path()));
            }
        }
        let mut command = Command::new(copy);
        command
            .args(self.command.get_args())
            .envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.command = command;
        self.command.uid(NOBODY).gid(NOBODY);
        self
    }

    /// So many lines a second.
    pub(crate) fn rate(self, rate: u64) -> Self {
        self.with(&["--rate", &rate.to_string()])
    }

    /// It kills itself there.
    pub(crate) fn crash_at(mut self, point: &str) -> Self {
        self.command.env("FLOTT_CRASH_AT", point);
        self
    }

    /// It stops itself there.
    pub(crate) fn stop_at(mut self, point: &str) -> Self {
        self.command.env("FLOTT_STOP_AT", point);
        self
    }

    pub(crate) fn start(mut self) -> Process {
        let number = self.site.processes.get() + 1;
        self.site.processes.set(number);
        let (stdout, stderr) =
            (self.site.path(&format!("{number}.stdout")), self.site.path(&format!("{number}.stderr")));
        let create = |path: &Path| Stdio::from(File::create(path).expect("created"));
        self.command.stdin(Stdio::null());
        if !self.by_pipe {
            self.command.stdout(create(&stdout)).stderr(create(&stderr));
            return Process { child: self.command.spawn().expect("started"), stdout, stderr };
        }
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        write_down(child.stdout.take().expect("piped"), &stdout);
        write_down(child.stderr.take().expect("piped"), &stderr);
        Process { child, stdout, stderr }
    }
}

/// Writes what comes into a file, until nothing comes any more.
fn write_down(mut from: impl Read + Send + 'static, to: &Path) {
    let mut file = File::create(to).expect("created");
    std::thread::spawn(move || std::io::copy(&mut from, &mut file));
}

/// A process of the job. It is killed if the test forgets it.
pub(crate) struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended, which is as well. Our child is not reaped before: the number is no other's.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a number")).expect("not 0");
        kill_process(pid, signal).expect("it lives");
    }

    /// Like [`Process::interrupt`], if it has not ended.
    pub(crate) fn interrupt_if_it_lives(&mut self) {
        if !self.has_ended() {
            self.interrupt();
        }
    }

    /// SIGINT and SIGTERM.
    pub(crate) fn two_signals(&self) {
        self.interrupt();
        self.terminate();
    }

    /// Does something to it while it is stopped, then lets it go on.
    pub(crate) fn stop_and_go_on(&mut self, what: impl FnOnce(&Process)) {
        self.signal(Signal::STOP);
        self.await_stop();
        what(self);
        self.go_on();
    }

    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// All it said in JSON so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.stdout).unwrap_or_default();
        // The last line may be half there.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Its local socket, once it has said where that is.
    pub(crate) fn await_socket(&mut self) -> String {
        let begun = |process: &Process| {
            let begun =
                process.events().into_iter().find(|event| event["event"] == "started" || event["event"] == "restored");
            begun.and_then(|event| event["socket"].as_str().map(str::to_owned))
        };
        self.await_that("it has a socket", |process| begun(process).is_some());
        begun(self).expect("just seen")
    }

    /// Checkpoints that it says it completed.
    pub(crate) fn completed(&self) -> usize {
        self.events_of("checkpoint").iter().filter(|event| event["status"] == "completed").count()
    }

    /// Waits until it has completed so many checkpoints.
    pub(crate) fn await_checkpoints(&mut self, count: usize) {
        self.await_that("it completes checkpoints", |process| process.completed() >= count);
    }

    /// Waits for something while it runs.
    pub(crate) fn await_that(&mut self, what: &str, is: impl Fn(&Process) -> bool) {
        wait_for(what, || {
            if is(self) {
                return Some(());
            }
            if let Some(status) = self.child.try_wait().expect("asked") {
                panic!("the job ended ({status}) before {what}: {}", self.stderr());
            }
            None
        });
    }

    /// Waits until it has stopped itself.
    pub(crate) fn await_stop(&mut self) {
        let stat = PathBuf::from(format!("/proc/{}/stat", self.child.id()));
        self.await_that("it stops itself", |_| {
            let text = fs::read_to_string(&stat).unwrap_or_default();
            // The name before the state is in brackets, and may hold anything.
            text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        });
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("asked").is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        wait_for("the job ends", || self.child.try_wait().expect("asked"))
    }

    /// Waits for its end, and for this exit code.
    pub(crate) fn must_end_with(&mut self, code: i32) {
        let status = self.end();
        assert_eq!(status.code(), Some(code), "{status}: {}", self.stderr());
    }

    /// Kills it, as nobody can help.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.end();
    }

    /// Waits until it has killed itself.
    pub(crate) fn must_crash(&mut self) {
        let status = self.end();
        assert_eq!(status.signal(), Some(9), "it did not reach its crash point, {status}: {}", self.stderr());
    }
}

/// All that was ever seen in the log of a place: what is written stays as it is until it is collected, and what was
/// collected never comes again.
#[derive(Default)]
pub(crate) struct LogWatch {
    slots: BTreeMap<String, Vec<u8>>,
    /// By checkpoint: the slot that records it.
    recorded: BTreeMap<CheckpointId, String>,
}

impl LogWatch {
    /// Looks at the log. Nothing in it may have changed.
    pub(crate) fn look(&mut self, site: &Site) {
        let slots = site.log();
        for (slot, bytes) in &slots {
            if let Some(before) = self.slots.get(slot) {
                assert_eq!(before, bytes, "{slot} was overwritten");
            }
            let entry = LogEntry::decode(bytes).unwrap_or_else(|error| panic!("{slot} is no entry: {error}"));
            if let LogEntry::Checkpoint(entry) = entry {
                let recorded = self.recorded.entry(entry.id).or_insert_with(|| slot.clone());
                assert_eq!(recorded, slot, "checkpoint {} was recorded twice", entry.id);
            }
        }
        self.slots = slots;
    }

    /// Slots seen in the last look.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &String> {
        self.slots.keys()
    }
}
