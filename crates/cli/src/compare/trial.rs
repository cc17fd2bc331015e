//! One run of the compared job: one mode, one load, one crash.
//!
//! The job is an ordinary one: a generator, a branch that goes on directly, one that is held back by a throttle, their union,
//! a count by key, a sink that measures. A little behind its third checkpoint it is made to fail once; without checkpoints
//! it is not restarted, and everything is lost. A job that ends otherwise is an error, never a figure.

use super::flow::{Flow, Numbers};
use super::meter::{Measured, Meter, SLICE_MS, Tally, Verdict, key, millis, mix};
use flott::{Error, Job, JobHandle, Mode, OnError, Phase, Result, Status};
use flott_checkpoint::Outcome;
use flott_runtime::history::HistoryEntry;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::find_storage;
use flott_runtime::time::Time;
use flott_runtime::verify::Directory;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Workers of the job.
const WORKERS: u16 = 2;
/// Time between two checkpoints.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// One of so many records takes the branch that is held back.
const SLOW_SHARE: u64 = 4;
/// Records a second that this branch lets through.
const SLOW_RATE: u64 = 200_000;
/// Checkpoints before the crash.
const BEFORE_CRASH: u32 = 3;
/// From the third checkpoint to the crash; without checkpoints, from when the third would be.
const TO_CRASH: Duration = Duration::from_millis(600);
/// How long the job goes on after it runs again.
const TAIL: Duration = Duration::from_millis(1_000);
/// From the first record to the first measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Between two looks at the job.
const LOOK: Duration = Duration::from_millis(10);
/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the job fails with.
const CRASH: &str = "the injected crash";

/// A checkpoint algorithm, or none.
pub(super) type Subject = Option<Mode>;

/// What was seen of a run; times count from its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Records that had arrived, at a time.
    pub(super) progress: Vec<(Duration, u64)>,
    /// When each checkpoint was known to be complete.
    pub(super) completed: Vec<Duration>,
    /// When the job was made to fail.
    pub(super) crashed: Duration,
    /// When records flowed again; `None` if they never did.
    pub(super) recovered: Option<Duration>,
    /// The longest time before the crash for which a split gave out nothing.
    pub(super) longest_pause: Duration,
    /// Latencies in microseconds, by slices of time.
    pub(super) slices: Vec<Vec<u32>>,
    /// Completed checkpoints.
    pub(super) checkpoints: Vec<Taken>,
    /// Against the oracle.
    pub(super) verdict: Verdict,
}

/// A completed checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// From trigger to log slot.
    pub(super) took: Duration,
    /// The longest alignment of a subtask.
    pub(super) alignment: Duration,
    /// All parts together.
    pub(super) bytes: u64,
}

impl Trial {
    /// Records a second that arrived between the warm-up and the crash.
    pub(super) fn throughput(&self) -> f64 {
        let measured = |(at, _): &&(Duration, u64)| *at >= WARM_UP && *at <= self.crashed;
        let mut all = self.progress.iter().filter(measured);
        match (all.next(), all.next_back()) {
            (Some((from, first)), Some((to, last))) if to > from => (last - first) as f64 / (*to - *from).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// The slices of time between the warm-up and the crash.
    pub(super) fn before_crash(&self) -> impl Iterator<Item = &Vec<u32>> {
        let slice_of = |time: Duration| usize::try_from(millis(time) / SLICE_MS).unwrap_or(0);
        self.slices.iter().take(slice_of(self.crashed)).skip(slice_of(WARM_UP))
    }
}

/// Runs it. `tick` is called now and then.
pub(super) fn run(subject: Subject, rate: Option<f64>, tick: &mut dyn FnMut()) -> Result<Trial> {
    let scratch =
        tempfile::tempdir().map_err(|error| Error::failed(format!("cannot make a temporary directory: {error}")))?;
    let flow = Flow::new(rate);
    let meter = Meter::new(&flow);
    let job = build(&flow, &meter, subject, scratch.path());
    let mut trial = Trial::default();
    let handle = job.spawn()?;
    Watch { subject, handle, flow: &flow, meter: &meter, trial: &mut trial, tick }.watch()?;
    trial.longest_pause = flow.longest_pause();
    trial.slices = meter.take_slices();
    if subject.is_some() {
        trial.checkpoints = taken(scratch.path())?;
    }
    trial.verdict = match subject {
        Some(_) => meter.judge(),
        // What was counted went with the job, and no file holds it.
        None => Verdict { lost: flow.numbers().count() as u64, over_counted: 0 },
    };
    Ok(trial)
}

fn build(flow: &Arc<Flow>, meter: &Arc<Meter>, subject: Subject, directory: &Path) -> Job {
    let job = Job::new("compare");
    job.workers(WORKERS);
    if let Some(mode) = subject {
        job.checkpoint_dir(directory.display().to_string()).checkpoint_mode(mode).checkpoint_interval(INTERVAL);
    }
    let doomed = Arc::clone(flow);
    let numbers = job.source("numbers", Numbers(Arc::clone(flow)));
    let is_slow = |number: &u64| mix(number.wrapping_mul(3)).is_multiple_of(SLOW_SHARE);
    let direct = numbers.clone().filter(move |number| !is_slow(number));
    let slow = numbers.filter(is_slow).rebalance().throttle(SLOW_RATE);
    direct
        .union(slow)
        .try_map(OnError::Fail, move |number| if doomed.is_doomed() { Err(CRASH) } else { Ok(number) })
        .key_by(|number| key(*number))
        .fold("count", Tally::default(), |tally, number| {
            tally.count += 1;
            tally.last = number;
        })
        .sink("measure", Measured(Arc::clone(meter)));
    job
}

/// Looks at a running job and decides when it crashes and when it ends.
struct Watch<'a> {
    subject: Subject,
    handle: JobHandle,
    flow: &'a Flow,
    meter: &'a Meter,
    trial: &'a mut Trial,
    tick: &'a mut dyn FnMut(),
}

impl Watch<'_> {
    /// Sees the job through its crash to its end.
    fn watch(mut self) -> Result<()> {
        let mut crash_at = None;
        loop {
            if let Some(result) = self.handle.wait_for(LOOK) {
                return match (result, self.subject) {
                    (Err(error), None) if self.has_crashed() && error.to_string().contains(CRASH) => Ok(()),
                    (Err(error), _) => Err(error),
                    (Ok(_), Some(_)) if self.trial.recovered.is_some() => Ok(()),
                    (Ok(_), _) => Err(Error::failed("the compared job ended without its crash")),
                };
            }
            (self.tick)();
            let status = self.handle.status();
            self.check_settings(&status)?;
            let now = self.look(&status);
            if now > PATIENCE {
                return Err(Error::failed(format!("the compared job does not end: {status:?}")));
            }
            if self.has_crashed() {
                self.after_crash(now, &status);
            } else {
                self.flow.watch(now > WARM_UP);
                crash_at = crash_at.or_else(|| self.crash_time(now, &status));
                if crash_at.is_some_and(|due| now >= due) {
                    self.crash(now);
                }
            }
        }
    }

    /// A variable overrules what the builder says: then another job would run than the one that the figures name.
    fn check_settings(&self, status: &Status) -> Result<()> {
        let interval = self.subject.map(|_| INTERVAL);
        let workers = [0, WORKERS].contains(&status.workers);
        if workers && status.checkpoint_mode == self.subject && status.checkpoint_interval == interval {
            return Ok(());
        }
        Err(Error::refused("a FLOTT_* variable overrules a setting of the compared job")
            .hint("unset FLOTT_WORKERS and all FLOTT_CHECKPOINT_* variables"))
    }

    fn has_crashed(&self) -> bool {
        self.trial.crashed > Duration::ZERO
    }

    fn crash(&mut self, now: Duration) {
        self.flow.watch(false);
        self.trial.crashed = now;
        self.flow.crash();
    }

    /// Takes a sample.
    fn look(&mut self, status: &Status) -> Duration {
        let now = self.flow.elapsed();
        self.trial.progress.push((now, self.meter.arrived()));
        while (self.trial.completed.len() as u64) < status.completed_checkpoints {
            self.trial.completed.push(now);
        }
        now
    }

    /// When to crash, once that is known.
    fn crash_time(&self, now: Duration, status: &Status) -> Option<Duration> {
        match self.subject {
            Some(_) => (status.completed_checkpoints >= u64::from(BEFORE_CRASH)).then_some(now + TO_CRASH),
            None => Some(INTERVAL * BEFORE_CRASH + TO_CRASH),
        }
    }

    /// Notices when records flow again, and ends the job a while later.
    fn after_crash(&mut self, now: Duration, status: &Status) {
        if self.trial.recovered.is_none()
            && status.restarts > 0
            && status.phase == Phase::Running
            && status.records_out > 0
        {
            self.trial.recovered = Some(now);
        }
        if self.trial.recovered.is_some_and(|recovered| now >= recovered + TAIL) && self.flow.is_open() {
            self.flow.end();
        }
    }
}

/// What the job's history says about its checkpoints.
fn taken(directory: &Path) -> Result<Vec<Taken>> {
    let (_, storage) = block_on(find_storage(&directory.display().to_string(), Some("compare")))??;
    let directory = block_on(Directory::read(&storage, &mut |_| {}))??;
    Ok(directory.history().filter_map(completed).collect())
}

fn completed(entry: &HistoryEntry) -> Option<Taken> {
    let Outcome::Completed { bytes, .. } = entry.tried.outcome else { return None };
    let began = Time::of_millis(entry.tried.barrier.triggered_at);
    Some(Taken {
        took: Time::of_millis(entry.tried.ended_at).since(began),
        alignment: Duration::from_micros(entry.phases.alignment.micros),
        bytes,
    })
}
