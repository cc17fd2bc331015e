//! Everything about a run that its seed decides before it begins: the job, the settings, the length of the trouble.

use crate::faults::Faults;
use crate::incidents::Incidents;
use crate::jobs::{Input, Job, KEY_GROUPS, Shape, SinkKind};
use crate::mutation::Mutation;
use flott_checkpoint::{Mode, Options, RestartOptions};
use flott_runtime::attempt::WorkerOptions;
use flott_runtime::job_manager::JobSettings;
use flott_runtime::operator::Quantum;
use flott_runtime::testing::Random;
use flott_runtime::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// When all runs begin.
pub const BEGIN: Time = Time(1_000_000_000);

/// Sets what is drawn about numbers of workers apart from all else.
const RESCALES: u64 = 0x2E5C_A1E5;

/// Sets what is drawn about unaligned checkpoints apart from all else.
const UNALIGNED: u64 = 0x0F11008E;

/// Sets what is drawn about files as input apart from all else.
const INPUT: u64 = 0x0F11_0F11;

/// Sets what is drawn about the kinds of jobs that came last apart from all else.
const KINDS: u64 = 0x0C1D_5C1D;

/// Sets what is drawn about lines that cannot be read apart from all else.
const BROKEN: u64 = 0x0B70_4E17;

/// What a seed may mean. What is simulated grows, and each new kind of job changes what the draws of a seed come to; so a seed
/// that found something is kept with the era that it was found in, and the kinds of an era that is over never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Era {
    /// Six kinds of jobs on rows that are made up; files and memory as sinks; no checkpoint is unaligned.
    First,
    /// Everything.
    Current,
}

impl Era {
    /// The graphs that are drawn from.
    fn shapes(self) -> &'static [Shape] {
        const FIRST: [Shape; 6] =
            [Shape::Count, Shape::Union, Shape::TwoShuffles, Shape::Rebalance, Shape::Broadcast, Shape::Timers];
        match self {
            Era::First => &FIRST,
            Era::Current => &Shape::DRAWN,
        }
    }
}

/// A run, before it begins.
pub struct Setup {
    /// What is drawn from.
    pub era: Era,
    /// The seed.
    pub seed: u64,
    /// The rule that is broken, if one is.
    pub mutation: Option<Mutation>,
    /// The job.
    pub job: Arc<Job>,
    /// How many workers, unless each process has another number.
    pub workers: u16,
    /// Each process is told how many workers it has, or nothing. Only where no record is ever in flight in a checkpoint, for that
    /// cannot be restored then; and where what comes out does not depend on the number of workers.
    pub rescales: Option<Random>,
    /// The modes that the run's checkpoints are taken in.
    pub modes: Vec<Mode>,
    /// How every process runs the job.
    pub settings: JobSettings,
    /// When everything begins to go well.
    pub heal_at: Time,
    /// What goes wrong with calls and messages.
    pub faults: Faults,
    /// What goes wrong at named moments.
    pub incidents: Incidents,
    /// For everything else.
    pub random: Random,
}

impl Setup {
    /// What a seed says.
    #[must_use]
    pub fn new(seed: u64, mutation: Option<Mutation>) -> Setup {
        Setup::of(Era::Current, seed, mutation)
    }

    /// What a seed said in an era.
    #[must_use]
    pub fn of(era: Era, seed: u64, mutation: Option<Mutation>) -> Setup {
        let mut random = Random::new(seed ^ 0x5EED_F10D);
        let faults = Faults::new(seed, &mut random);
        let incidents = Incidents::new(seed, &mut random);
        // Only without alignment can a receiver be ahead of its sender: there this broken rule is looked for.
        let exact = !random.one_in(3) && mutation != Some(Mutation::RestoreTrustsReceiversEnd);
        let mut modes = vec![Mode::Aligned, Mode::StopTheWorld];
        if !exact {
            modes = vec![Mode::AtLeastOnce, Mode::Aligned, Mode::StopTheWorld];
        } else if random.one_in(2) {
            modes.swap(0, 1);
        }
        // Drawn apart, so that seeds that found something before mean what they meant.
        let mut apart = Random::new(seed ^ UNALIGNED);
        let mut slow = Duration::ZERO;
        if apart.one_in(2) && era > Era::First {
            slow = Duration::from_micros(apart.below(8_000));
            let place = number(0, modes.len() as u64 + 1, &mut apart);
            modes.splice(place..place, [Mode::Unaligned, Mode::AlignedThenUnaligned]);
            let turn = number(0, modes.len() as u64, &mut apart);
            modes.rotate_left(turn);
        }
        let workers = 1 + u16::try_from(random.below(3)).expect("a small number");
        let mut job = job(era, exact, incidents.need_files() || faults.favourite().0 == "failed", &mut random);
        job.slow = slow;
        if era > Era::First {
            job.input = input(seed);
            job.broken_every = broken_every(seed);
        }
        if era == Era::Current && mutation.is_none() {
            job.shape = later_shape(seed).unwrap_or(job.shape);
        }
        let job = Arc::new(job);
        let mut settings = settings(workers, modes.first().copied().unwrap_or(Mode::Aligned), &mut random);
        if era > Era::First {
            settings.worker.alignment_timeout = millis(0, 60, &mut apart);
        }
        if incidents.rival {
            settings.coordinator.retained = 1;
        }
        // Some runs must end while things still go wrong, for the end has messages of its own.
        let of_the_end = ["closed", "order-close"].contains(&faults.favourite().0) || incidents.need_the_end();
        let ends_in_trouble = seed.is_multiple_of(4) || of_the_end;
        let trouble = Duration::from_millis(if ends_in_trouble { 30_000 } else { 800 + random.below(4_000) });
        let heal_at = BEGIN.after(trouble);
        let in_flight = modes.iter().any(|mode| mode.acts_on_arrival());
        // Broken rules are looked for in the runs in which they were noticed first.
        let rescales = era == Era::Current
            && !in_flight
            && job.shape != Shape::Broadcast
            && mutation.is_none_or(|mutation| mutation == Mutation::GroupsLeftBehind);
        let rescales = rescales.then(|| Random::new(seed ^ RESCALES));
        Setup { era, rescales, seed, mutation, job, workers, modes, settings, heal_at, faults, incidents, random }
    }

    /// Whether the file system fails all the time: so that workers fail, and say so.
    #[must_use]
    pub fn has_bad_disk(&self) -> bool {
        self.faults.favourite().0 == "failed"
    }

    /// How a process that begins now runs the job.
    pub fn settings_of_a_process(&mut self) -> JobSettings {
        let mut settings = self.settings.clone();
        if let Some(random) = &mut self.rescales {
            let most = u64::from(KEY_GROUPS).min(5);
            let workers = 1 + u16::try_from(random.below(most)).expect("a small number");
            settings.workers = Some(workers).filter(|_| !random.one_in(4));
            settings.default_workers = workers;
        }
        settings
    }

    /// Whether no checkpoint of the run is taken without alignment.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.modes.iter().all(|mode| mode.is_exact())
    }
}

fn millis(least: u64, most: u64, random: &mut Random) -> Duration {
    Duration::from_millis(least + random.below(most - least))
}

fn number(least: u64, most: u64, random: &mut Random) -> usize {
    usize::try_from(least + random.below(most - least)).expect("a small number")
}

/// Files every other time, of each kind.
fn input(seed: u64) -> Input {
    let mut random = Random::new(seed ^ INPUT);
    let (made, gzip, watched) = (random.one_in(2), random.one_in(2), random.one_in(2));
    let between = millis(0, 700, &mut random);
    if made { Input::Made } else { Input::Files { gzip, watched: watched.then_some(between) } }
}

/// Every fourth seed or so is one of a job of these kinds.
fn later_shape(seed: u64) -> Option<Shape> {
    let later = [Shape::Folds, Shape::Waiting];
    later.get(number(0, 8, &mut Random::new(seed ^ KINDS))).copied()
}

/// Every other time some lines cannot be read.
fn broken_every(seed: u64) -> u64 {
    let mut random = Random::new(seed ^ BROKEN);
    if random.one_in(2) { 0 } else { 2 + random.below(9) }
}

fn job(era: Era, exact: bool, need_files: bool, random: &mut Random) -> Job {
    let shapes = era.shapes();
    let shape = shapes.get(number(0, shapes.len() as u64, random)).copied().unwrap_or(Shape::Count);
    let deletes = exact && shape != Shape::Rebalance && random.one_in(2);
    let part_size = if random.one_in(3) { 200 + random.below(2_000) } else { u64::MAX };
    let sink = if need_files || !random.one_in(3) {
        SinkKind::Files { part_size, part_age: Duration::MAX }
    } else {
        SinkKind::Memory
    };
    let mut job = Job {
        shape,
        splits: 1 + u32::try_from(random.below(4)).expect("a small number"),
        rows: 30 + random.below(150),
        keys: 1 + random.below(40),
        delete_every: if deletes { 2 + random.below(9) } else { 0 },
        pause: Duration::from_micros(1_000 + random.below(12_000)),
        slow: Duration::ZERO,
        bounded: random.one_in(2),
        timer: millis(1, 400, random),
        input: Input::Made,
        broken_every: 0,
        all_there: Arc::default(),
        sink,
        fails_next: Arc::default(),
    };
    if era == Era::First {
        return job;
    }
    // Not drawn, so that a seed that found something stays what it is.
    let (third, age) = (job.rows.is_multiple_of(3), job.pause * 4);
    match &mut job.sink {
        SinkKind::Files { part_age, .. } => *part_age = if third { age } else { Duration::MAX },
        sink if third => *sink = SinkKind::Staged,
        _ => {}
    }
    job
}

fn settings(workers: u16, mode: Mode, random: &mut Random) -> JobSettings {
    let coordinator = Options {
        mode,
        interval: Some(millis(30, 250, random)),
        timeout: millis(700, 2_000, random),
        min_pause: Duration::ZERO,
        tolerable_failures: u32::try_from(random.below(12)).expect("a small number"),
        retained: 1 + u32::try_from(random.below(3)).expect("a small number"),
        repeat: millis(50, 300, random),
    };
    let restart = RestartOptions {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(300),
        failures: 20,
        ..RestartOptions::default()
    };
    let records = u32::try_from(1 + random.below(20)).expect("a small number");
    let worker = WorkerOptions {
        credit_window: number(1, 600, random),
        batch_records: number(1, 12, random),
        quantum: Quantum { time: Duration::from_secs(1), records },
        scan_budget: number(4, 64, random),
        segment_buffer: if random.one_in(3) { number(64, 600, random) } else { 8 << 20 },
        progress_interval: millis(20, 200, random),
        ..WorkerOptions::default()
    };
    JobSettings {
        workers: Some(workers),
        default_workers: workers,
        key_groups: KEY_GROUPS,
        coordinator,
        restart,
        settle_tries: 3 + u32::try_from(random.below(6)).expect("a small number"),
        worker,
        ..JobSettings::default()
    }
}
