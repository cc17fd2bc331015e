//! The processes of `rocksdb-large` and `state`: one fills its state and takes checkpoints, one restores.

use crate::backend::Backend;
use crate::keyed_count::WORKERS;
use crate::measure::{median, mix, process_cpu};
use crate::memory::resident;
use flott::connector::{CheckpointId, Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott::prelude::*;
use flott::{CheckpointStatus, JobHandle, Phase};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The argument by which a child knows itself.
pub(crate) const CHILD: &str = "--large-child";
pub(crate) const FILL: &str = "fill";
pub(crate) const RESTORE: &str = "restore";
/// Keys that may not have been counted yet: each writer of the sink counts in portions.
pub(crate) const SLACK: u64 = 2 * PORTION;

const SPLITS: u16 = 32;
const PORTION: u64 = 256;
const INTERVAL: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1_800);

/// What a child is told.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) backend: String,
    pub(crate) directory: PathBuf,
    pub(crate) keys: u64,
    pub(crate) budget: u64,
}

impl Spec {
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.directory.join("checkpoints")
    }
}

/// What the one that fills measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Filled {
    pub(crate) peak: f64,
    pub(crate) fill_rate: f64,
    pub(crate) fill_cpu_us: f64,
    pub(crate) idle_rate: f64,
    pub(crate) busy_rate: f64,
    pub(crate) median_ms: f64,
    pub(crate) longest_ms: f64,
    pub(crate) longest_cut_ms: f64,
    pub(crate) full_bytes: f64,
    pub(crate) full_seconds: f64,
}

/// What the one that restores measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Restored {
    pub(crate) peak: f64,
    pub(crate) seconds: f64,
    pub(crate) rate: f64,
    /// Keys that had no state.
    pub(crate) absent: u64,
}

/// 32 bytes that do not compress: how often the key came, and three numbers made of that.
type Wide = (u64, u64, u64, u64);

fn touch(wide: &mut Wide, key: u64) {
    let count = wide.0 + 1;
    *wide = (count, mix(key ^ count), mix(key.wrapping_mul(3) ^ count), mix(key.wrapping_mul(5) ^ count));
}

/// First each key once, in no order, then keys at random.
fn key(number: u64, keys: u64) -> u64 {
    mix(if number < keys { number } else { mix(number ^ 0x5EED) % keys })
}

#[derive(Default)]
struct Shared {
    records: AtomicU64,
    /// Records that found no state of their key.
    absent: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records a second for a while.
    fn rate(&self) -> f64 {
        let (before, began) = (self.records(), Instant::now());
        std::thread::sleep(WINDOW);
        (self.records() - before) as f64 / began.elapsed().as_secs_f64()
    }
}

pub(crate) fn child(what: &str, spec: &str) -> std::result::Result<(), String> {
    let spec: Spec = serde_json::from_str(spec).map_err(|error| error.to_string())?;
    let measured = match what {
        FILL => serde_json::to_string(&fill(&spec)?),
        _ => serde_json::to_string(&restore(&spec)?),
    };
    println!("{}", measured.map_err(|error| error.to_string())?);
    Ok(())
}

fn start(spec: &Spec, shared: &Arc<Shared>) -> std::result::Result<JobHandle, String> {
    let job = Job::new("large");
    job.workers(WORKERS)
        .checkpoint_dir(spec.checkpoints().display().to_string())
        .checkpoint_interval(INTERVAL)
        .state_backend(Backend::of(&spec.backend)?.of_jobs())
        .state_memory(usize::try_from(spec.budget).map_err(|error| error.to_string())?)
        .work_dir(spec.directory.join("work"));
    let keys = spec.keys;
    job.source("numbers", Generator::unbounded(1, move |number, _| key(number, keys)).splits(SPLITS))
        .key_by(|key| *key)
        .fold("state", Wide::default(), touch)
        .sink("out", Looks(Arc::clone(shared)));
    job.spawn().map_err(|error| error.to_string())
}

fn wait_until(handle: &JobHandle, what: &str, reached: impl Fn() -> bool) -> std::result::Result<(), String> {
    let began = Instant::now();
    while !reached() {
        if began.elapsed() > PATIENCE || handle.status().phase == Phase::Ended {
            return Err(format!("the job did not {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn fill(spec: &Spec) -> std::result::Result<Filled, String> {
    let shared = Arc::new(Shared::default());
    let (began, cpu) = (Instant::now(), process_cpu());
    let handle = start(spec, &shared)?;
    let (mut checkpoints, mut full) = (Vec::new(), None);
    let (fill, cpu, idle_rate, busy_rate) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| watch(&handle, &shared.over));
        let measured = (|| {
            wait_until(&handle, "fill its state", || shared.absent.load(Ordering::Relaxed) + SLACK >= spec.keys)?;
            let (fill, cpu) = (shared.records() as f64 / began.elapsed().as_secs_f64(), process_cpu() - cpu);
            let cpu = cpu.as_secs_f64() * 1e6 / shared.records() as f64;
            let settled = handle.status().completed_checkpoints + 1;
            wait_until(&handle, "take a checkpoint", || handle.status().completed_checkpoints >= settled)?;
            handle.set_interval(PATIENCE).map_err(|error| error.to_string())?;
            let idle_rate = shared.rate();
            let (before, began) = (shared.records(), Instant::now());
            full = Some(handle.checkpoint(true).map_err(|error| error.to_string())?);
            let busy_rate = (shared.records() - before) as f64 / began.elapsed().as_secs_f64();
            Ok::<_, String>((fill, cpu, idle_rate, busy_rate))
        })();
        shared.over.store(true, Ordering::SeqCst);
        checkpoints = watched.join().map_err(|_| "the thread that watches checkpoints panicked")?;
        measured
    })?;
    let peak = resident("VmHWM")?;
    handle.cancel();
    handle.wait().map_err(|error| error.to_string())?;
    let of_full = checkpoints.iter().find(|checkpoint| Some(checkpoint.id) == full).ok_or("no full checkpoint")?;
    let ms = |checkpoint: &&CheckpointStatus| checkpoint.duration.as_secs_f64() * 1e3;
    let of_filling: Vec<f64> =
        checkpoints.iter().filter(|checkpoint| Some(checkpoint.id) != full).map(|one| ms(&one)).collect();
    let cuts = checkpoints.iter().map(|checkpoint| checkpoint.phases.cut.micros as f64 / 1e3);
    Ok(Filled {
        peak,
        fill_rate: fill,
        fill_cpu_us: cpu,
        idle_rate,
        busy_rate,
        longest_ms: of_filling.iter().copied().fold(0.0, f64::max),
        median_ms: median(of_filling),
        longest_cut_ms: cuts.fold(0.0, f64::max),
        full_bytes: of_full.bytes as f64,
        full_seconds: of_full.duration.as_secs_f64(),
    })
}

/// All checkpoints until it is over.
fn watch(handle: &JobHandle, over: &AtomicBool) -> Vec<CheckpointStatus> {
    let mut seen: Vec<CheckpointStatus> = Vec::new();
    loop {
        let last = over.load(Ordering::SeqCst);
        if let Some(newest) = handle.status().last_checkpoint
            && seen.last().is_none_or(|seen| seen.id != newest.id)
        {
            seen.push(newest);
        }
        if last {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn restore(spec: &Spec) -> std::result::Result<Restored, String> {
    let shared = Arc::new(Shared::default());
    let began = Instant::now();
    let handle = start(spec, &shared)?;
    wait_until(&handle, "restore its state", || {
        let status = handle.status();
        status.phase == Phase::Running && status.restored.is_some()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    wait_until(&handle, "go on after its restore", || shared.records() > 0)?;
    let rate = shared.rate();
    let peak = resident("VmHWM")?;
    handle.cancel();
    handle.wait().map_err(|error| error.to_string())?;
    Ok(Restored { peak, seconds, rate, absent: shared.absent.load(Ordering::Relaxed) })
}

/// Takes records and keeps nothing; counts those whose key came for the first time.
struct Looks(Arc<Shared>);

struct Looking {
    shared: Arc<Shared>,
    records: u64,
    absent: u64,
}

impl Sink<(u64, Wide)> for Looks {
    type Writer = Looking;

    fn open(&self, _: &SinkContext) -> flott::Result<Looking> {
        Ok(Looking { shared: Arc::clone(&self.0), records: 0, absent: 0 })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

impl SinkWriter<(u64, Wide)> for Looking {
    fn write(&mut self, (_, wide): (u64, Wide), _: Time) -> flott::Result<()> {
        self.records += 1;
        self.absent += u64::from(wide.0 == 1);
        if self.records == PORTION {
            self.shared.records.fetch_add(PORTION, Ordering::Relaxed);
            self.shared.absent.fetch_add(std::mem::take(&mut self.absent), Ordering::Relaxed);
            self.records = 0;
        }
        Ok(())
    }

    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }
}
