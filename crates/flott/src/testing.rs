//! Jobs in tests: the production job manager and workers in one thread, in virtual time, in an order that a seed decides,
//! with crashes wherever the test wants them.
//!
//! ```
//! use flott::prelude::*;
//! use flott::testing::{Crash, Test};
//!
//! let out = MemorySink::new();
//! let job = Job::new("sum");
//! job.source("numbers", MemorySource::new((0..1_000u64).collect()))
//!     .key_by(|n| n % 10)
//!     .fold("sum", 0u64, |sum, n| *sum += n)
//!     .sink("out", out.clone());
//! let tested = Test::new(&job).seed(7).crash(Crash::AfterCheckpoint(2)).run().unwrap();
//! assert_eq!(tested.crashes, 1);
//! assert_eq!(out.committed().len(), 1_000);
//! ```

mod objects;
mod process;
#[cfg(test)]
mod tests;

use crate::graph::Frozen;
use crate::job::Job;
use crate::run::{Outlook, Report, Shared, manager_settings};
use crate::settings::Settings;
use flott_checkpoint::{CheckpointEntry, CheckpointId, Elsewhere, Incarnation, Mode, Savepoint};
use flott_runtime::error::Result;
use flott_runtime::io::Files;
use flott_runtime::job_manager::Outcome;
use flott_runtime::manifest::Manifest;
use flott_runtime::operator::Quantum;
use flott_runtime::state::store::Stores;
use flott_runtime::testing::{Random, VirtualClock};
use flott_runtime::time::Clock;
use objects::Objects;
use process::{Lived, Process};
use std::sync::Arc;
use std::time::Duration;

pub use flott_runtime::connector::{MemorySink, MemorySource};
pub use flott_runtime::testing::memory_files::MemoryFiles;

/// Records that a worker's step takes at most.
const RECORDS_A_STEP: u32 = 16;

/// Records of a batch, and how long a smaller one waits.
const RECORDS_A_BATCH: usize = 8;
const BATCH_DELAY: Duration = Duration::from_micros(200);

/// Where a process is killed, as by SIGKILL. What it had written and committed stays, everything else is gone, and a new
/// process starts the same job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// After so many turns of the process: a turn delivers one packet, or lets one worker step.
    AtTurn(u64),
    /// At this moment, counted from the start of the process.
    At(Duration),
    /// Right after this process recorded so many checkpoints, before any of the last one's output is committed.
    AfterCheckpoint(u64),
}

/// A test run of a job.
pub struct Test<'a> {
    job: &'a Job,
    seed: u64,
    settings: Settings,
    crashes: Vec<Crash>,
    /// After so many checkpoints of a process the job moves.
    moves: Vec<u64>,
    workers_later: Vec<u16>,
    /// What runs after the next crash or move, and after the one behind it.
    versions: Vec<&'a Job>,
    /// Where state lies, process by process, in turn.
    stores: Vec<Option<Arc<dyn Stores>>>,
    files: Arc<dyn Files>,
    room: Option<usize>,
}

/// What came of a test run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tested {
    /// How the last process ended.
    pub report: Report,
    /// Crashes that really happened.
    pub crashes: usize,
    /// Checkpoints recorded, by all processes.
    pub completed: u64,
    /// What each attempt that restored something restored.
    pub restored: Vec<CheckpointId>,
    /// What the job warned of, by all processes.
    pub warnings: Vec<String>,
    /// How long it all took, in virtual time.
    pub time: Duration,
}

impl<'a> Test<'a> {
    /// Two workers, aligned checkpoints each 10 ms of virtual time, seed 1, no crash, an empty file system in memory.
    #[must_use]
    pub fn new(job: &'a Job) -> Test<'a> {
        let settings = Settings {
            workers: Some(2),
            checkpoint_dir: Some("memory".to_owned()),
            checkpoint_interval: Some(Duration::from_millis(10)),
            ..Settings::default()
        };
        let files = Arc::new(MemoryFiles::new());
        Test {
            job,
            seed: 1,
            settings,
            crashes: Vec::new(),
            moves: Vec::new(),
            workers_later: Vec::new(),
            versions: Vec::new(),
            stores: vec![None],
            files,
            room: None,
        }
    }

    /// Another order of everything that can happen in several orders.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Workers.
    #[must_use]
    pub fn workers(mut self, workers: u16) -> Self {
        self.settings.workers = Some(workers);
        self
    }

    /// How many workers the process after a crash has; each call is about the next crash. Without it, as many as before.
    #[must_use]
    pub fn workers_after_crash(mut self, workers: u16) -> Self {
        self.workers_later.push(workers);
        self
    }

    /// Another version of the same job, which runs from the next crash or move on; each call is about the one behind it.
    #[must_use]
    pub fn next_version(mut self, job: &'a Job) -> Self {
        self.versions.push(job);
        self
    }

    /// Where state lies, process by process: in a store, or on the heap (`None`); when all had their turn it begins anew.
    ///
    /// # Panics
    /// If there is none.
    #[doc(hidden)]
    #[must_use]
    pub fn state_in(mut self, stores: Vec<Option<Arc<dyn Stores>>>) -> Self {
        assert!(!stores.is_empty(), "state lies somewhere");
        self.stores = stores;
        self
    }

    /// How checkpoints are taken.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.checkpoint_mode = Some(mode);
        self
    }

    /// Time between two checkpoints. A turn takes 10 to 100 microseconds.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.checkpoint_interval = Some(interval);
        self
    }

    /// No checkpoints at all.
    #[must_use]
    pub fn without_checkpoints(mut self) -> Self {
        self.settings.checkpoint_dir = None;
        self
    }

    /// Kills the process there; each call is about the next process.
    #[must_use]
    pub fn crash(mut self, crash: Crash) -> Self {
        self.crashes.push(crash);
        self
    }

    /// Kills the process at this moment of virtual time after its start; each call is about the next process.
    #[must_use]
    pub fn crash_at(self, moment: Duration) -> Self {
        self.crash(Crash::At(moment))
    }

    /// Stops the job with a savepoint after so many checkpoints of a process, and begins it from that savepoint in an empty
    /// checkpoint directory, with its output claimed; each call is about the next move. Crashes count on.
    #[must_use]
    pub fn move_by_savepoint(mut self, after_checkpoints: u64) -> Self {
        self.moves.push(after_checkpoints);
        self
    }

    /// The files that connectors see.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn Files>) -> Self {
        self.files = files;
        self
    }

    /// The checkpoint storage has room for so many bytes; then every write fails.
    #[must_use]
    pub fn storage_room(mut self, bytes: usize) -> Self {
        self.room = Some(bytes);
        self
    }

    /// Runs the job to its end, through all crashes.
    ///
    /// # Errors
    /// Why it was refused or failed.
    ///
    /// # Panics
    /// If the job neither goes on nor ends: a bug of the engine, or of a source or sink that forgets to wake its worker.
    pub fn run(self) -> Result<Tested> {
        let Frozen { mut plan, skipped, dead_letters, .. } = self.job.freeze()?;
        let mut versions = self.versions.into_iter();
        let mut stores = self.stores.iter().cycle();
        let mut settings = manager_settings(&self.settings.over(self.job.settings.borrow().clone()), &plan)?;
        // Small pieces, so that there is something to interleave.
        settings.worker.batch_records = RECORDS_A_BATCH;
        settings.worker.batch_delay = BATCH_DELAY;
        settings.worker.quantum = Quantum { time: Duration::from_secs(1), records: RECORDS_A_STEP };
        let mut random = Random::new(self.seed);
        let clock = VirtualClock::default();
        let mut objects = Objects::new(self.room);
        let shared = Shared::new(skipped, dead_letters, Outlook::new(Arc::clone(&plan), &settings));
        let (mut crashes, mut moves) = (self.crashes.into_iter(), self.moves.into_iter().peekable());
        let (mut from, mut moved) = (None, 0);
        let mut workers_later = self.workers_later.into_iter();
        let (mut happened, mut completed, mut restored, mut warnings) = (0, 0, Vec::new(), Vec::new());
        loop {
            let files = Arc::clone(&self.files);
            let outside = (files, stores.next().cloned().flatten());
            let mut process = Process::new(settings.clone(), Arc::clone(&plan), outside, clock.clone(), &shared);
            from.clone().into_iter().for_each(|from| process.begin_with(from));
            let Lived { outcome, completed: recorded, restored: read, warnings: warned } =
                process.live(crashes.next(), moves.peek().copied(), &mut objects, &mut random);
            completed += recorded;
            restored.extend(read);
            warnings.extend(warned);
            // `--restore` shapes the first start alone that is won; the next process is not told again.
            from = from.filter(|_| !objects.has_log());
            let goes_on = outcome.is_none() || moves.peek().is_some();
            if let Some(version) = versions.next().filter(|_| goes_on) {
                plan = version.freeze()?.plan;
            }
            match outcome {
                Some(Outcome::Stopped { .. }) if moves.next().is_some() => {
                    moved += 1;
                    from = objects.put_aside(&format!("/savepoint-{moved}")).map(|found| savepoint(moved, &found));
                }
                Some(outcome) => {
                    let report = shared.finish(outcome)?;
                    let time = clock.now().since(flott_runtime::time::Time(0));
                    return Ok(Tested { report, crashes: happened, completed, restored, warnings, time });
                }
                None => {
                    happened += 1;
                    settings.workers = workers_later.next().or(settings.workers);
                }
            }
        }
    }
}

/// What the next process begins from.
fn savepoint(number: u64, (entry, manifest): &(CheckpointEntry, Manifest)) -> Elsewhere {
    let &CheckpointEntry { id, attempt, checksum, .. } = entry;
    let savepoint = Savepoint { location: format!("/savepoint-{number}"), id, attempt, checksum, claim: true };
    let of = u64::from_str_radix(&manifest.incarnation, 16).unwrap_or_default();
    let incarnation = Incarnation { id: of, key_seed: manifest.key_seed.0, key_groups: manifest.key_groups };
    Elsewhere { savepoint, incarnation }
}
