//! One run of the compared job: one mode, one load, one crash.
//!
//! The job is an ordinary one: a generator, a branch that goes on directly, one that is held back by a throttle, their union,
//! a count by key, a sink that measures. Two thirds of a second behind its third checkpoint it is made to fail once; without
//! checkpoints it is not restarted, and everything is lost.

use super::flow::{Flow, Numbers};
use super::meter::{Measured, Meter, SLICE_MS, Tally, Verdict, key, millis, mix};
use flott::{Job, JobHandle, Mode, OnError, Phase, Result};
use flott_checkpoint::Outcome;
use flott_runtime::history::HistoryEntry;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::find_storage;
use flott_runtime::verify::Directory;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time between two checkpoints.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// One of so many records takes the branch that is held back.
const SLOW_SHARE: u64 = 4;
/// Records a second that this branch lets through.
const SLOW_RATE: u64 = 200_000;
/// Checkpoints before the crash.
const BEFORE_CRASH: u64 = 3;
/// From the third checkpoint to the crash.
const TO_CRASH: Duration = Duration::from_millis(600);
/// How long the job goes on after it runs again.
const TAIL: Duration = Duration::from_millis(1_000);
/// From the first record to the first measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Between two looks at the job.
const LOOK: Duration = Duration::from_millis(10);
/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// A completed checkpoint, in microseconds and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// From trigger to log slot.
    pub(super) took: u64,
    /// The longest alignment of a subtask.
    pub(super) alignment: u64,
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
}

impl Trial {
    /// The slices of time between the warm-up and the crash.
    pub(super) fn before_crash(&self) -> impl Iterator<Item = &Vec<u32>> {
        let slice_of = |time: Duration| usize::try_from(millis(time) / SLICE_MS).unwrap_or(0);
        self.slices.iter().take(slice_of(self.crashed)).skip(slice_of(WARM_UP))
    }
}

/// Runs it. `tick` is called now and then.
pub(super) fn run(subject: Subject, rate: Option<f64>, tick: &mut dyn FnMut()) -> Result<Trial> {
    let scratch = tempfile::tempdir()
        .map_err(|error| flott::Error::failed(format!("cannot make a temporary directory: {error}")))?;
    let flow = Flow::new(rate);
    let meter = Meter::new(&flow);
    let job = build(&flow, &meter, subject, scratch.path());
    let mut trial = Trial::default();
    let survived = Watch { handle: job.spawn()?, flow: &flow, meter: &meter, trial: &mut trial, tick }.watch()?;
    trial.longest_pause = flow.longest_pause();
    trial.slices = meter.take_slices();
    if subject.is_some() {
        trial.checkpoints = taken(scratch.path())?;
    }
    trial.verdict = if survived {
        meter.judge()
    } else {
        // What was counted went with the job, and no file holds it.
        Verdict { lost: flow.numbers().count() as u64, over_counted: 0 }
    };
    Ok(trial)
}

fn build(flow: &Arc<Flow>, meter: &Arc<Meter>, subject: Subject, directory: &Path) -> Job {
    let job = Job::new("compare");
    job.workers(2);
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
        .try_map(OnError::Fail, move |number| if doomed.is_doomed() { Err("the injected crash") } else { Ok(number) })
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
    handle: JobHandle,
    flow: &'a Flow,
    meter: &'a Meter,
    trial: &'a mut Trial,
    tick: &'a mut dyn FnMut(),
}

impl Watch<'_> {
    /// Whether the job came through the crash.
    fn watch(mut self) -> Result<bool> {
        let mut crash_at = None;
        let mut restarts = false;
        loop {
            if let Some(result) = self.handle.wait_for(LOOK) {
                // Without checkpoints the crash is the end.
                return match result {
                    Err(_) if self.trial.crashed > Duration::ZERO && !restarts => Ok(false),
                    result => result.map(|_| true),
                };
            }
            (self.tick)();
            let now = self.look();
            if now > PATIENCE {
                return Err(flott::Error::failed("the compared job does not end"));
            }
            let due = *crash_at.get_or_insert(Duration::MAX);
            if self.trial.crashed == Duration::ZERO {
                self.flow.watch(now > WARM_UP);
                crash_at = Some(due.min(self.crash_time(now)));
                if now >= due {
                    self.flow.watch(false);
                    self.trial.crashed = now;
                    self.flow.crash();
                }
            } else if self.handle.status().restarts > 0 {
                restarts = true;
                self.after_restart(now);
            }
        }
    }

    /// Takes a sample.
    fn look(&mut self) -> Duration {
        let now = self.flow.elapsed();
        self.trial.progress.push((now, self.meter.arrived()));
        let completed = self.handle.status().completed_checkpoints;
        while (self.trial.completed.len() as u64) < completed {
            self.trial.completed.push(now);
        }
        now
    }

    /// When to crash, as far as that is known.
    fn crash_time(&self, now: Duration) -> Duration {
        if self.handle.status().completed_checkpoints >= BEFORE_CRASH {
            return now + TO_CRASH;
        }
        // Without checkpoints there is nothing to wait for.
        if self.handle.status().completed_checkpoints == 0 && now > INTERVAL * 4 { now } else { Duration::MAX }
    }

    /// Notices when records flow again, and ends the job a while later.
    fn after_restart(&mut self, now: Duration) {
        let status = self.handle.status();
        if self.trial.recovered.is_none() && status.phase == Phase::Running && status.records_out > 0 {
            self.trial.recovered = Some(now);
        }
        if self.trial.recovered.is_some_and(|recovered| now >= recovered + TAIL) && self.flow.is_open() {
            self.flow.end();
        }
    }
}

/// What the job's history says about its checkpoints.
fn taken(directory: &Path) -> Result<Vec<Taken>> {
    let (_, storage) = find_storage(&directory.display().to_string(), Some("compare"))?;
    let directory = block_on(Directory::read(&storage, &mut |_| {}))??;
    Ok(directory.history().filter_map(completed).collect())
}

fn completed(entry: &HistoryEntry) -> Option<Taken> {
    let Outcome::Completed { bytes, .. } = entry.tried.outcome else { return None };
    let took = entry.tried.ended_at.saturating_sub(entry.tried.barrier.triggered_at) * 1_000;
    Some(Taken { took, alignment: entry.phases.alignment.micros, bytes })
}

/// A time as milliseconds with a fraction.
pub(super) fn in_millis(time: Duration) -> f64 {
    let whole = millis(time);
    whole as f64 + f64::from(time.subsec_micros() % 1_000) / 1_000.0
}
