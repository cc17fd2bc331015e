//! A simulated world: processes, a storage, a file system, messages under way, and one clock for all.
//!
//! Discrete events: what happens next is taken from the agenda, and the clock jumps to its moment. Between two events the
//! workers have their turns. All that is random comes from the seed, so a seed replays to the last bit. The code that runs is
//! the production job manager, coordinator, workers, sinks and collector; only what surrounds them is simulated.

mod disasters;
mod input;
mod mail;
mod questions;
mod serving;

use crate::aftermath;
use crate::disk::Disk;
use crate::faults::{Coverage, Faults};
use crate::happening::{Agenda, Asker, Happening, Request};
use crate::incidents::{Act, Incidents};
use crate::invariants::{Checked, Ledger, Violation, Visible, broken, outcome, stuck};
use crate::jobs::output::Output;
use crate::jobs::{OUTPUT, Row, SinkKind, plan};
use crate::mutation::Mutation;
use crate::process::{Life, Process};
use crate::setup::{BEGIN, Setup};
use crate::storage::Storage;
use flott_checkpoint::{AttemptId, CheckpointId};
use flott_runtime::attempt::World as Outside;
use flott_runtime::error::Error;
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::job_manager::{JobEvent, JobManager, ManagerEvent, ManagerOutbox, Outcome};
use flott_runtime::plan::Plan;
use flott_runtime::source::Threads;
use flott_runtime::testing::memory_files::MemoryFiles;
use flott_runtime::testing::{DeterministicHost, Random, VirtualClock};
use flott_runtime::time::{Clock, Time};
use questions::Questions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a job may take to come to its end when nothing fails any more.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long after the last fault checkpoints may still fail because of it: late answers, time-outs.
const CONVALESCENCE: Duration = Duration::from_secs(7);
/// How long those that lost the job may go on after its end.
const AFTERMATH: Duration = Duration::from_secs(4);
/// More than this cannot sensibly happen while the clock stands still.
const MOST_AT_ONCE: u32 = 20_000;
/// When so many processes were started, things have gone wrong for long enough.
const MOST_PROCESSES: usize = 40;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The job is not finished.
    Going,
    /// It is; those that lost it go on until then.
    Finished(Time),
    /// A last process was started, to see that the job stays finished.
    Again(usize, Time),
    Over,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What must never happen and did.
    pub violation: Option<Violation>,
    /// Faults and incidents that happened.
    pub coverage: Coverage,
    /// The same for the same seed.
    pub digest: u64,
    /// Checkpoints recorded.
    pub recorded: u64,
    /// Those of them with records in flight.
    pub in_flight: u64,
    /// Answers that said where a pending checkpoint was.
    pub told: u64,
    /// Processes started.
    pub processes: usize,
    /// Attempts whose workers were started.
    pub attempts: u64,
    /// Those of them that restored a checkpoint of another number of workers.
    pub rescaled: u64,
    /// Processes that went on after another one had taken the job.
    pub zombies: u64,
    /// Simulated time.
    pub lasted: Duration,
}

/// See the head of this file.
pub struct World {
    setup: Setup,
    /// Prints everything that happens.
    trace: bool,
    clock: VirtualClock,
    agenda: Agenda,
    random: Random,
    faults: Faults,
    incidents: Incidents,
    storage: Storage,
    files: MemoryFiles,
    disk: Disk,
    output: Output,
    plan: Arc<Plan>,
    processes: Vec<Process>,
    ledger: Ledger,
    questions: Questions,
    /// When the last call about a blob takes effect.
    busy: BTreeMap<String, Time>,
    stage: Stage,
    attempts: u64,
    rescaled: u64,
    zombies: u64,
    digest: u64,
    /// When the clock last moved on, and how much happened since.
    at_once: (Time, u32),
    violation: Option<Violation>,
}

impl World {
    /// A world in which nothing has happened yet.
    #[must_use]
    pub fn new(mut setup: Setup, trace: bool) -> World {
        let files = MemoryFiles::new();
        let mut random = setup.random.fork();
        let disk = Disk::of(&files, setup.has_bad_disk(), &mut random);
        let output = Output::default();
        let plan = Arc::new(plan(&setup.job, &output));
        let ledger = Ledger::new(&setup.job, setup.workers, setup.is_exact());
        let mut storage = Storage::default();
        storage.replaces_slots = setup.mutation == Some(Mutation::NoFence);
        let clock = VirtualClock::default();
        clock.move_to(BEGIN);
        let (faults, incidents) = (setup.faults.clone(), setup.incidents.clone());
        let mut world = World {
            setup,
            trace,
            clock,
            agenda: Agenda::default(),
            random,
            faults,
            incidents,
            storage,
            files,
            disk,
            output,
            plan,
            processes: Vec::new(),
            ledger,
            questions: Questions::default(),
            busy: BTreeMap::new(),
            stage: Stage::Going,
            attempts: 0,
            rescaled: 0,
            zombies: 0,
            digest: 0,
            at_once: (BEGIN, 0),
            violation: None,
        };
        world.agenda.at(BEGIN, Happening::Launch);
        world.agenda.at(world.setup.heal_at, Happening::Heal);
        world.plan_troubles();
        world.plan_input();
        world.plan_questions();
        world
    }

    /// Lets everything happen.
    pub fn run(mut self) -> Ran {
        while self.stage != Stage::Over && self.violation.is_none() {
            if let Err(violation) = self.next() {
                self.violation = Some(violation);
            }
        }
        if self.violation.is_none()
            && let Some(newest) = self.ledger.newest()
        {
            let retained = self.setup.settings.coordinator.retained;
            self.violation = aftermath::check(&mut self.storage, newest, retained, self.clock.now()).err();
        }
        let mut coverage = self.faults.hit;
        coverage.extend(self.incidents.hit);
        Ran {
            violation: self.violation,
            coverage,
            digest: self.digest,
            recorded: self.ledger.recorded,
            in_flight: self.ledger.in_flight,
            told: self.questions.told,
            processes: self.processes.len(),
            attempts: self.attempts,
            rescaled: self.rescaled,
            zombies: self.zombies,
            lasted: self.clock.now().since(BEGIN),
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// A moment between so many microseconds from now.
    fn soon(&mut self, least: u64, most: u64) -> Time {
        Time(self.now().0 + least + self.random.below(most - least))
    }

    fn next(&mut self) -> Checked {
        let deadline = self.setup.heal_at.after(PATIENCE);
        match self.agenda.pop() {
            Some((moment, happening)) => {
                self.clock.move_to(moment);
                let (since, count) = self.at_once;
                self.at_once = if self.now() > since { (self.now(), 0) } else { (since, count + 1) };
                if count > MOST_AT_ONCE {
                    return stuck(&format!("{} happens again and again", happening.describe()));
                }
                self.write_down(&happening);
                self.happen(happening)?;
            }
            None if self.stage == Stage::Going => return stuck(&self.describe()),
            None => self.clock.move_to(deadline),
        }
        match self.stage {
            Stage::Going if self.now() > deadline => stuck(&self.describe()),
            Stage::Finished(until) if self.now() >= until => self.start_again(),
            Stage::Again(_, until) if self.now() >= until => {
                stuck("a finished job was started again, and does not say so")
            }
            _ => Ok(()),
        }
    }

    fn write_down(&mut self, happening: &Happening) {
        let text = happening.describe();
        let moment = self.now().since(BEGIN).as_micros();
        self.digest = xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), self.digest ^ moment as u64);
        if self.trace && !matches!(happening, Happening::Turn(..) | Happening::Tick(_)) {
            println!("{moment:>10} {text}");
        }
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>10}    {}", self.now().since(BEGIN).as_micros(), text());
        }
    }

    fn describe(&self) -> String {
        let lives: Vec<String> = self
            .processes
            .iter()
            .enumerate()
            .filter(|(_, process)| process.life != Life::Gone)
            .map(|(index, process)| {
                let attempt = process.host.as_ref().map(|(attempt, _)| attempt.0);
                format!("process {index} {:?}, attempt {attempt:?}", process.life)
            })
            .collect();
        format!("{} checkpoints are recorded; {}", self.ledger.recorded, lives.join("; "))
    }

    fn happen(&mut self, happening: Happening) -> Checked {
        if let Some(process) = happening.process() {
            let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
            match it.life {
                Life::Gone => return Ok(()),
                Life::Stopped => {
                    it.deferred.push(happening);
                    return Ok(());
                }
                Life::Runs => {}
            }
        }
        match happening {
            Happening::Turn(process, turn) => self.turn(process, turn),
            Happening::Tick(process) => self.tick(process),
            Happening::Send(request) => self.send(request),
            Happening::Effect(request, fault) => self.effect(request, fault),
            Happening::Answer(process, asker, ticket, reply) => match asker {
                Asker::Manager => self.manage(process, ManagerEvent::Storage(ticket, reply)),
                Asker::Worker(attempt, worker) => self.answer_worker(process, attempt, worker, ticket, reply),
            },
            Happening::Order(process, worker, mail) => self.deliver_order(process, worker, mail),
            Happening::Report(process, mail) => {
                self.questions.heard(process, mail.attempt, &mail.report);
                self.manage(process, ManagerEvent::Worker(mail))
            }
            Happening::Call(process, attempt, worker, ticket, call) => {
                self.call(process, attempt, worker, ticket, call)
            }
            Happening::CallDone(process, attempt, worker, ticket, answer) => {
                self.call_done(process, attempt, worker, ticket, answer)
            }
            Happening::AttemptEnded(process, attempt, error) => self.attempt_ended(process, attempt, error),
            Happening::Launch => self.launch(),
            Happening::Continue(process) => self.go_on(process),
            Happening::Trouble => self.trouble(),
            Happening::Full => self.ask_for_full(),
            Happening::BadRow => {
                self.setup.job.fails_next.store(self.faults.active, Ordering::Relaxed);
                Ok(())
            }
            Happening::FileComes(origin) => {
                self.put_file(origin);
                Ok(())
            }
            Happening::Ask => self.ask(),
            Happening::Death(process) => self.act(process, Act::Crash),
            Happening::Heal => self.heal(),
        }
    }

    // ---- processes ----

    fn launch(&mut self) -> Checked {
        if self.processes.len() >= MOST_PROCESSES && self.faults.active {
            self.heal()?;
        }
        let mut random = self.random.fork();
        let files = Arc::new(self.files.clone());
        let outside = Outside {
            files,
            threads: Arc::new(NoThreads),
            stdout: Arc::new(|_: &str| ()),
            heartbeats: Heartbeats::default(),
            stores: None,
        };
        let entropy = Box::new(move || random.draw());
        let settings = self.setup.settings_of_a_process();
        let manager = JobManager::new(settings, self.plan.clone(), outside, entropy);
        self.processes.push(Process::new(manager));
        self.manage(self.processes.len() - 1, ManagerEvent::Begin)
    }

    fn start_again(&mut self) -> Checked {
        self.heal()?;
        self.stage = Stage::Again(self.processes.len(), self.now().after(PATIENCE));
        let mut random = self.random.fork();
        if random.one_in(2) {
            self.stage = Stage::Over;
            return Ok(());
        }
        self.launch()
    }

    fn tick(&mut self, process: usize) -> Checked {
        let now = self.now();
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        if it.wake.take_if(|wake| *wake <= now).is_none() {
            return Ok(());
        }
        self.manage(process, ManagerEvent::Tick)
    }

    /// Something happens to a job manager, and what it wants is set going.
    fn manage(&mut self, process: usize, event: ManagerEvent) -> Checked {
        let now = self.now();
        let mut out = ManagerOutbox::default();
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        it.manager.on(now, event, &mut out);
        if let Some(wake) = out.wake_at {
            it.wake = Some(wake);
            self.agenda.at(wake.max(now), Happening::Tick(process));
        }
        for (ticket, request) in out.storage {
            self.agenda.at(now, Happening::Send(Request { process, asker: Asker::Manager, ticket, request }));
        }
        for (request, located) in &out.located {
            self.located(process, *request, located)?;
        }
        for event in out.events {
            if let JobEvent::Aborted { id, reason } = &event {
                self.aborted(process, *id, reason)?;
            }
            self.say(|| format!("process {process}: {}", tell(&event)));
        }
        if let Some(attempt) = out.stop_attempt {
            let moment = self.soon(10, 2_000);
            if let Some(it) = self.processes.get_mut(process) {
                it.host.take_if(|(running, _)| *running == attempt);
            }
            self.agenda.at(moment, Happening::AttemptEnded(process, attempt, None));
        }
        if let Some(attempt) = out.start {
            self.rescaled += u64::from(attempt.rescaled_from().is_some());
            self.start(process, &attempt);
        }
        for (worker, mail) in out.mail {
            self.post_order(process, worker, mail);
        }
        match out.done {
            Some(done) => self.done(process, &done),
            None => Ok(()),
        }
    }

    /// A checkpoint will not be recorded: some time after everything went well again there is no reason for that.
    fn aborted(&self, process: usize, id: CheckpointId, reason: &str) -> Checked {
        let healed = self.setup.heal_at.after(CONVALESCENCE);
        let attempt = self.processes.get(process).and_then(|it| it.attempt);
        let owns = attempt.is_some_and(|attempt| !self.ledger.is_superseded(attempt));
        if self.stage == Stage::Going && owns && self.now() > healed {
            return stuck(&format!("checkpoint {id} is aborted: {reason}"));
        }
        Ok(())
    }

    fn start(&mut self, process: usize, attempt: &Arc<flott_runtime::attempt::Attempt>) {
        self.attempts += 1;
        let moment = self.soon(10, 500);
        let started = DeterministicHost::start(attempt, self.clock.clone());
        let Some(it) = self.processes.get_mut(process) else { return };
        assert!(it.host.is_none(), "an attempt starts only when none runs");
        match started {
            Ok(host) => {
                it.host = Some((attempt.id, host));
                self.wake_workers(process, moment);
            }
            Err(error) => self.agenda.at(moment, Happening::AttemptEnded(process, attempt.id, Some(error))),
        }
    }

    fn attempt_ended(&mut self, process: usize, attempt: AttemptId, error: Option<Error>) -> Checked {
        self.manage(process, ManagerEvent::AttemptEnded { attempt, error })
    }

    /// A process says that the job is over for it.
    fn done(&mut self, process: usize, done: &Outcome) -> Checked {
        self.say(|| format!("process {process}: {done:?}"));
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        it.life = Life::Gone;
        it.host = None;
        let superseded = it.attempt.is_none_or(|attempt| self.ledger.is_superseded(attempt));
        outcome(done, superseded, it.told_to_stop)?;
        self.all_answered(process)?;
        if let Outcome::Finished { before, .. } = done {
            self.check_output(None)?;
            self.ledger.finished(&self.visible(), &self.storage)?;
            match self.stage {
                Stage::Going => self.stage = Stage::Finished(self.now().after(AFTERMATH)),
                Stage::Again(last, _) if last == process => {
                    if !before {
                        return broken("I11 finished", "a finished job ran again");
                    }
                    self.stage = Stage::Over;
                }
                _ => {}
            }
        }
        self.supervise();
        Ok(())
    }

    /// Somebody starts the job again when no process runs.
    fn supervise(&mut self) {
        let runs = self.processes.iter().any(|process| process.life == Life::Runs);
        let coming = self.agenda.has(|happening| matches!(happening, Happening::Launch));
        if self.stage == Stage::Going && !runs && !coming {
            let moment = self.soon(10_000, 300_000);
            self.agenda.at(moment, Happening::Launch);
        }
    }

    // ---- output ----

    fn check_output(&mut self, by: Option<AttemptId>) -> Checked {
        let visible = self.visible();
        self.ledger.output(by, &visible)
    }

    fn visible(&self) -> Visible {
        let mut visible = Visible::default();
        if !matches!(self.setup.job.sink, SinkKind::Files { .. }) {
            for (checkpoint, subtask, rows) in self.output.epochs() {
                visible.parts.insert((checkpoint, subtask, 0));
                visible.rows.extend(rows.into_iter().map(Ok));
            }
            return visible;
        }
        let committed = format!("{OUTPUT}/part-");
        for path in self.files.all_files().into_iter().filter(|path| path.contains(&committed)) {
            let mut fields = path.rsplitn(4, '-');
            let mut number = || fields.next()?.split('.').next()?.parse::<u64>().ok();
            let (n, subtask, checkpoint) = (number(), number(), number());
            visible
                .parts
                .extend(checkpoint.zip(subtask).zip(n).map(|((checkpoint, subtask), n)| (checkpoint, subtask, n)));
            let text = String::from_utf8_lossy(&self.files.get(&path).unwrap_or_default()).into_owned();
            visible.rows.extend(text.lines().map(|line| Row::parse(line).ok_or_else(|| line.to_owned())));
        }
        visible
    }
}

/// An event without what is secret or long.
fn tell(event: &JobEvent) -> String {
    let mut text = format!("{event:?}");
    text.truncate(text.char_indices().map(|(at, _)| at).nth(400).unwrap_or(text.len()));
    text
}

struct NoThreads;

impl Threads for NoThreads {
    fn spawn(&self, name: &str, _: Box<dyn FnOnce() + Send>) -> flott_runtime::Result<()> {
        Err(Error::failed(format!("there is no thread `{name}` in a simulated world")))
    }
}
