//! From a crash to the first record that comes out of the restarted job, which has 1 M keys to restore: bars < 0.3 s if the process
//! lives (an operator panics), < 1 s if it is killed and another one is started. What is replayed counts as a record, as in Flink's
//! figure; the pause before a restart is part of it.

use crate::Options;
use crate::backend::Backend;
use crate::keyed_count::{KEYS, WORKERS, key};
use crate::report::Figure;
use crate::startup::now;
use flott::connector::{CheckpointId, Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott::prelude::*;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The argument by which the child knows itself.
pub(crate) const CHILD: &str = "--recovery-child";
const SPLITS: u16 = 32;
/// After so many records, with keys drawn at random, every key was met.
const ENOUGH: u64 = 20 * KEYS;
/// Checkpoints to wait for after that: the second holds all of it.
const CHECKPOINTS: u64 = 2;
/// The crash comes half way between two checkpoints.
const HALF_WAY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(300);
const PORTION: u64 = 1_024;

pub(crate) fn run(options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for backend in options.backends()? {
        figures.extend(run_in(backend, options)?);
    }
    Ok(figures)
}

fn run_in(backend: Backend, options: &Options) -> std::result::Result<Vec<Figure>, String> {
    let (mut inside, mut outside, mut flink) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        inside.push(panic_once(backend)?);
        outside.push(kill_once(backend)?);
        if let Some(engine) = options.flink.as_ref().filter(|_| backend == Backend::Heap) {
            flink.push(engine.recovery()?);
        }
    }
    let state = backend.name();
    let figure = |what: &str, runs: &[f64], bar| {
        let bar = (backend == Backend::Heap).then_some(bar);
        Figure::of("recovery", format!("{state}: {what}"), runs, "s", bar)
    };
    let mut figures = vec![
        figure("panic to first record, same process, 1 M keys", &inside, 0.3),
        figure("SIGKILL to first record of the next process, 1 M keys", &outside, 1.0),
    ];
    if !flink.is_empty() {
        let ratio: Vec<f64> = inside.iter().zip(&flink).map(|(ours, theirs)| ours / theirs).collect();
        figures.push(Figure::of("recovery", "Flink 2.3, exception to first record", &flink, "s", None));
        figures.push(Figure::of("recovery", "flott / Flink, in process", &ratio, "x", None));
    }
    Ok(figures)
}

/// What the job tells whoever measures it.
#[derive(Default)]
struct Shared {
    records: AtomicU64,
    /// The next record is to panic.
    armed: AtomicBool,
    crashed: OnceLock<Instant>,
    /// The first record of an attempt that began after the crash.
    back: OnceLock<Instant>,
    /// The first record of this process, in microseconds since the Unix epoch.
    first: OnceLock<u64>,
}

impl Shared {
    #[inline]
    fn may_panic(&self) {
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::SeqCst) {
            let _ = self.crashed.set(Instant::now());
            panic!("a crash that the bench asked for");
        }
    }
}

fn start(backend: Backend, directory: &Path, shared: &Arc<Shared>) -> std::result::Result<flott::JobHandle, String> {
    let job = Job::new("recovery");
    job.workers(WORKERS)
        .state_backend(backend.of_jobs())
        .work_dir(directory.join("work"))
        .checkpoint_dir(directory.join("checkpoints").to_string_lossy().into_owned())
        .checkpoint_interval(Duration::from_secs(1));
    let in_map = Arc::clone(shared);
    job.source("numbers", Generator::unbounded(1, |number, _| key(number)).splits(SPLITS))
        .map(move |key| {
            in_map.may_panic();
            key
        })
        .key_by(|key| *key)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", Noticing(Arc::clone(shared)));
    job.spawn().map_err(|error| error.to_string())
}

/// Until all keys are in a completed checkpoint, and half of the next interval is over.
fn fill(handle: &flott::JobHandle, shared: &Shared) -> std::result::Result<(), String> {
    wait_until("fill its state", || shared.records.load(Ordering::Relaxed) >= ENOUGH)?;
    let settled = handle.status().completed_checkpoints + CHECKPOINTS;
    wait_until("complete its checkpoints", || handle.status().completed_checkpoints >= settled)?;
    std::thread::sleep(HALF_WAY);
    Ok(())
}

fn wait_until(what: &str, reached: impl Fn() -> bool) -> std::result::Result<(), String> {
    let began = Instant::now();
    while !reached() {
        if began.elapsed() > PATIENCE {
            return Err(format!("the job that is to crash did not {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Seconds.
fn panic_once(backend: Backend) -> std::result::Result<f64, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared::default());
    let handle = start(backend, directory.path(), &shared)?;
    fill(&handle, &shared)?;
    shared.armed.store(true, Ordering::SeqCst);
    wait_until("come back", || shared.back.get().is_some())?;
    let restored = handle.status().restored;
    handle.cancel();
    handle.wait().map_err(|error| format!("the job that crashed failed: {error}"))?;
    if restored.is_none() {
        return Err("the job came back without its state".into());
    }
    let (crashed, back) = (shared.crashed.get(), shared.back.get());
    let (crashed, back) = crashed.zip(back).ok_or("the job came back without a crash")?;
    Ok(back.duration_since(*crashed).as_secs_f64())
}

/// Seconds.
fn kill_once(backend: Backend) -> std::result::Result<f64, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut victim = Process::start(backend, directory.path())?;
    victim.expect("ready")?;
    let killed = now();
    victim.kill();
    let mut next = Process::start(backend, directory.path())?;
    let first = next.expect("first")?;
    next.kill();
    let first: u64 = first.parse().map_err(|_| format!("the second process said `first {first}`"))?;
    Ok(Duration::from_micros(first.saturating_sub(killed)).as_secs_f64())
}

/// This program as a child, which ends when its stdin does.
struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Process {
    fn start(backend: Backend, directory: &Path) -> std::result::Result<Process, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(own);
        child
            .arg(CHILD)
            .arg(backend.word())
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = child.spawn().map_err(|error| error.to_string())?;
        let says = BufReader::new(child.stdout.take().ok_or("a child without stdout")?);
        Ok(Process { child, says })
    }

    /// The rest of the next line that begins so.
    fn expect(&mut self, word: &str) -> std::result::Result<String, String> {
        let mut line = String::new();
        while self.says.read_line(&mut line).map_err(|error| error.to_string())? > 0 {
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
            line.clear();
        }
        Err(format!("the process that is to crash ended before it said `{word}`"))
    }

    fn kill(&mut self) {
        // Only one that is gone already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the child does: runs the job, says when its first record came out if it has restored something, and when its state is
/// full.
pub(crate) fn child(backend: &str, directory: &str) -> std::result::Result<(), String> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let shared = Arc::new(Shared::default());
    let handle = start(Backend::of(backend)?, Path::new(directory), &shared)?;
    wait_until("begin", || shared.first.get().is_some())?;
    if handle.status().restored.is_some() {
        println!("first {}", shared.first.get().copied().unwrap_or(0));
    }
    fill(&handle, &shared)?;
    println!("ready");
    handle.wait().map(|_| ()).map_err(|error| error.to_string())
}

/// Notices the first record after a crash.
struct Noticing(Arc<Shared>);

struct NoticingWriter {
    shared: Arc<Shared>,
    after_crash: bool,
    records: u64,
}

impl Sink<(u64, u64)> for Noticing {
    type Writer = NoticingWriter;

    fn open(&self, _: &SinkContext) -> flott::Result<NoticingWriter> {
        // A worker that did not crash goes on for a while: what it writes belongs to the old attempt.
        let after_crash = self.0.crashed.get().is_some();
        Ok(NoticingWriter { shared: Arc::clone(&self.0), after_crash, records: 0 })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

impl SinkWriter<(u64, u64)> for NoticingWriter {
    #[inline]
    fn write(&mut self, _: (u64, u64), _: Time) -> flott::Result<()> {
        if self.records == 0 {
            let _ = self.shared.first.set(now());
            if self.after_crash {
                let _ = self.shared.back.set(Instant::now());
            }
        }
        self.records += 1;
        if self.records.is_multiple_of(PORTION) {
            self.shared.records.fetch_add(PORTION, Ordering::Relaxed);
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}
