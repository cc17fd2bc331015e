//! One process in a test: a job manager, scripted workers, a clock that jumps to the next wish.

use super::store::Store;
use crate::attempt::{Attempt, World};
use crate::control::{BlobRef, Order, Progress, Report, SubtaskPart, ToManager, ToWorker};
use crate::error::{Error, Result};
use crate::heartbeat::Heartbeats;
use crate::io::{FileInfo, Files, ReadFile, WriteFile};
use crate::job_manager::{Command, JobEvent, JobManager, JobSettings, Located, ManagerEvent, ManagerOutbox, Outcome};
use crate::plan::{Edge, OperatorPlan, Partitioning, Plan, Role, StatePlan, Vertex};
use crate::record::TypedCodec;
use crate::source::Threads;
use crate::time::Time;
use crate::whereabouts::{Held, MissingBarrier, Stage, Standing};
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, RequestId, SubtaskId};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A process under test.
pub(super) struct Rig {
    pub(super) manager: JobManager,
    pub(super) store: Store,
    pub(super) now: Time,
    pub(super) script: Script,
    pub(super) events: Vec<JobEvent>,
    pub(super) answers: Vec<(RequestId, Result<CheckpointId, Error>)>,
    pub(super) located: Vec<(RequestId, Located)>,
    pub(super) done: Option<Outcome>,
    /// Every attempt that was started.
    pub(super) attempts: Vec<Arc<Attempt>>,
    /// What sinks were told to commit: attempt and checkpoint, once per sink subtask.
    pub(super) committed: Vec<(AttemptId, CheckpointId)>,
    /// Which worker committed which checkpoint.
    pub(super) committed_by: BTreeSet<(u16, CheckpointId)>,
    pub(super) queue: VecDeque<ManagerEvent>,
    /// How often a worker was told to open.
    pub(super) opens: u32,
    /// How often a worker was told to trigger.
    pub(super) triggers: u32,
    workers: Vec<Worker>,
    wake: Option<Time>,
    random: u64,
}

/// What the workers do.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// The sources come to their end after so many completed checkpoints of the process; `None`: never.
    pub(super) ends_after: Option<u64>,
    /// This attempt fails when it is told to do this.
    pub(super) fails: Vec<(u64, When, Error)>,
    /// Declines so many checkpoints.
    pub(super) declines: u32,
    /// Mail is lost, and doubled, each with this chance in percent.
    pub(super) lossy: u64,
    /// Subtasks of this worker never ack.
    pub(super) silent: Option<u16>,
    /// The subtasks of a worker share a segment of 1,000 bytes.
    pub(super) segments: bool,
    /// This worker needs longer than the others to restore.
    pub(super) slow: Option<u16>,
    /// The sources have nothing to read.
    pub(super) idle: bool,
    /// This worker never says where a checkpoint is.
    pub(super) mute: Option<u16>,
}

/// When a scripted failure happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Restoring,
    Triggered,
    Committing,
}

struct Worker {
    attempt: AttemptId,
    restored: bool,
    open: bool,
    closed: bool,
    finished: BTreeSet<SubtaskId>,
    acked: BTreeSet<CheckpointId>,
}

impl Rig {
    pub(super) fn new(store: &Store, seed: u64) -> Rig {
        Rig::with(store, seed, plan(), settings())
    }

    pub(super) fn with(store: &Store, seed: u64, plan: Plan, settings: JobSettings) -> Rig {
        let mut state = seed;
        let entropy = Box::new(move || next(&mut state));
        Rig {
            manager: JobManager::new(settings, Arc::new(plan), world(), entropy),
            store: store.clone(),
            now: Time(1_000_000_000),
            script: Script {
                ends_after: None,
                fails: Vec::new(),
                declines: 0,
                lossy: 0,
                silent: None,
                slow: None,
                segments: false,
                idle: false,
                mute: None,
            },
            events: Vec::new(),
            answers: Vec::new(),
            located: Vec::new(),
            done: None,
            attempts: Vec::new(),
            committed: Vec::new(),
            committed_by: BTreeSet::new(),
            queue: VecDeque::from([ManagerEvent::Begin]),
            opens: 0,
            triggers: 0,
            workers: Vec::new(),
            wake: None,
            random: seed ^ 0x5eed,
        }
    }

    /// Handles events until the job is over.
    pub(super) fn run(&mut self) -> Outcome {
        self.run_until(|rig| rig.done.is_some());
        self.done.clone().expect("the job ended")
    }

    /// Handles events, and lets time pass when there is none, until something holds.
    ///
    /// # Panics
    /// If it does not come to hold: the job is stuck.
    pub(super) fn run_until(&mut self, holds: impl Fn(&Rig) -> bool) {
        for _ in 0..20_000 {
            if holds(self) {
                return;
            }
            self.step();
        }
        panic!("stuck at {:?}: {:?}", self.now, self.events);
    }

    /// Handles the next event, or the passing of time.
    pub(super) fn step(&mut self) {
        let event = self.queue.pop_front().unwrap_or_else(|| self.pass_time());
        let mut out = ManagerOutbox::default();
        self.manager.on(self.now, event, &mut out);
        self.serve(out);
    }

    pub(super) fn command(&mut self, command: Command) {
        self.queue.push_back(ManagerEvent::Command(command));
    }

    /// The checkpoints that were completed, by what the user was told.
    pub(super) fn completed(&self) -> Vec<u64> {
        let ids = self.events.iter().filter_map(|event| match event {
            JobEvent::Completed { id, .. } => Some(id.0),
            _ => None,
        });
        ids.collect()
    }

    pub(super) fn aborted(&self) -> Vec<String> {
        let reasons = self.events.iter().filter_map(|event| match event {
            JobEvent::Aborted { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        reasons.collect()
    }

    pub(super) fn warnings(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            JobEvent::Warning(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    pub(super) fn restarts(&self) -> Vec<(u64, Duration)> {
        let restarts = self.events.iter().filter_map(|event| match event {
            JobEvent::Restart { restarts, delay, .. } => Some((*restarts, *delay)),
            _ => None,
        });
        restarts.collect()
    }

    /// The checkpoint that each attempt restored.
    pub(super) fn restored(&self) -> Vec<Option<u64>> {
        self.attempts.iter().map(|attempt| attempt.restore.as_ref().map(|restore| restore.checkpoint.0)).collect()
    }

    /// A worker was told to close.
    pub(super) fn is_closing(&self) -> bool {
        self.workers.iter().any(|worker| worker.closed)
    }

    /// All workers are gone at once, and the host says why.
    pub(super) fn panic_workers(&mut self, error: Option<Error>) {
        let attempt = self.workers.first().expect("workers run").attempt;
        self.workers.clear();
        self.queue.retain(|event| !matches!(event, ManagerEvent::Worker(_)));
        self.queue.push_back(ManagerEvent::AttemptEnded { attempt, error });
    }

    fn pass_time(&mut self) -> ManagerEvent {
        // Workers that were not told to open say again that they have restored.
        let waiting = (0u16..).zip(&self.workers).filter(|(_, worker)| !worker.open && !worker.closed);
        let again: Vec<u16> = waiting.map(|(index, _)| index).collect();
        for index in again {
            self.restore_now(index);
        }
        match self.wake.take() {
            Some(wake) => self.now = self.now.max(wake),
            None => self.now = self.now.after(Duration::from_millis(100)),
        }
        ManagerEvent::Tick
    }

    fn serve(&mut self, out: ManagerOutbox) {
        self.events.extend(out.events);
        self.answers.extend(out.answers);
        self.located.extend(out.located);
        self.wake = out.wake_at.or(self.wake);
        for (ticket, request) in out.storage {
            let reply = self.store.serve(request);
            self.queue.push_back(ManagerEvent::Storage(ticket, reply));
        }
        if let Some(attempt) = out.start {
            self.start(attempt);
        }
        for (worker, mail) in out.mail {
            for _ in 0..self.copies() {
                self.deliver(worker, &mail);
            }
        }
        if let Some(attempt) = out.stop_attempt {
            assert_eq!(Some(attempt), self.workers.first().map(|worker| worker.attempt), "stops what runs");
            self.workers.clear();
            self.queue.push_back(ManagerEvent::AttemptEnded { attempt, error: None });
        }
        if out.done.is_some() {
            assert!(self.done.is_none(), "the job ends once");
            self.done = out.done;
        }
    }

    fn start(&mut self, attempt: Arc<Attempt>) {
        let running = self.workers.iter().any(|worker| !worker.closed);
        assert!(!running, "an attempt starts only when none runs");
        let worker = || Worker {
            attempt: attempt.id,
            restored: false,
            open: false,
            closed: false,
            finished: BTreeSet::new(),
            acked: BTreeSet::new(),
        };
        self.workers = (0..attempt.workers).map(|_| worker()).collect();
        self.attempts.push(attempt.clone());
        for index in 0..attempt.workers {
            if self.script.slow == Some(index) {
                continue;
            }
            if !self.fails(attempt.id, When::Restoring, index) {
                self.restore_now(index);
            }
        }
    }

    fn restore_now(&mut self, index: u16) {
        self.workers[usize::from(index)].restored = true;
        self.report(index, Report::Restored);
    }

    fn fails(&mut self, attempt: AttemptId, when: When, worker: u16) -> bool {
        let fails = self.script.fails.iter().position(|(at, then, _)| *at == attempt.0 && *then == when);
        let Some(place) = fails else { return false };
        let (_, _, error) = self.script.fails.remove(place);
        self.report(worker, Report::Failed(error));
        true
    }

    /// How many copies of a mail arrive.
    fn copies(&mut self) -> u32 {
        let lossy = self.script.lossy;
        let mut happens = || next(&mut self.random) % 100 < lossy;
        if happens() { 0 } else { 1 + u32::from(happens()) }
    }

    pub(super) fn report(&mut self, worker: u16, report: Report) {
        let attempt = self.workers[usize::from(worker)].attempt;
        for _ in 0..self.copies() {
            let mail = ToManager { attempt, worker, report: report.clone() };
            self.queue.push_back(ManagerEvent::Worker(mail));
        }
    }

    fn subtasks(index: u16) -> [SubtaskId; 2] {
        [SubtaskId { vertex: 0, index }, SubtaskId { vertex: 1, index }]
    }

    fn deliver(&mut self, index: u16, mail: &ToWorker) {
        let Some(worker) = self.workers.get_mut(usize::from(index)).filter(|w| w.attempt == mail.attempt) else {
            return;
        };
        match mail.order.clone() {
            Order::Open => {
                worker.open = true;
                self.opens += 1;
                assert!(
                    self.workers.iter().all(|worker| worker.restored),
                    "R1: no source opens before all have restored"
                );
                self.report(
                    index,
                    Report::Progress(Progress { records_in: u64::from(!self.script.idle), records_out: 0 }),
                );
                self.maybe_finish(index);
            }
            // Like a real worker: before it is open it takes no trigger.
            Order::Trigger(_) if !worker.open => {}
            Order::Trigger(barrier) => {
                self.triggers += 1;
                self.triggered(index, barrier);
            }
            Order::Resolved { id, completed } => self.resolved(index, id, completed),
            // Like a real worker: its sources end when they are open, and say so again if they are told again.
            Order::Drain if worker.open => self.finish(index),
            Order::Drain => {}
            Order::Locate(id) => self.located(index, id),
            Order::Close => {
                worker.closed = true;
                self.report(index, Report::Closed);
            }
        }
    }

    fn located(&mut self, index: u16, id: CheckpointId) {
        if self.script.mute == Some(index) {
            return;
        }
        let silent = self.script.silent == Some(index);
        let [source, sink] = Rig::subtasks(index);
        let trigger = MissingBarrier { from: None, arrived: true, batches: 0 };
        let barrier = MissingBarrier { from: Some(source), arrived: false, batches: 3 };
        let stage = |missing| if silent { Stage::Arriving(vec![missing]) } else { Stage::Acked };
        let standings = vec![
            Standing { subtask: source, stage: stage(trigger), held: Some(Held::Backpressure) },
            Standing { subtask: sink, stage: stage(barrier), held: None },
        ];
        self.report(index, Report::Located { id, standings });
    }

    fn maybe_finish(&mut self, index: u16) {
        let completed = self.completed().len() as u64;
        if self.script.ends_after.is_none_or(|after| completed < after) {
            return;
        }
        self.finish(index);
    }

    fn finish(&mut self, index: u16) {
        for subtask in Rig::subtasks(index) {
            self.workers[usize::from(index)].finished.insert(subtask);
            self.report(index, Report::Finished { subtask });
        }
    }

    fn triggered(&mut self, index: u16, barrier: Barrier) {
        let (id, attempt) = (barrier.id, barrier.attempt);
        if self.fails(attempt, When::Triggered, index) {
            return;
        }
        self.report(index, Report::Triggered { id });
        if self.script.declines > 0 && index == 0 {
            self.script.declines -= 1;
            let subtask = SubtaskId { vertex: 1, index };
            self.report(index, Report::Declined { id, subtask, reason: "prepare: disk full".to_owned() });
            return;
        }
        if self.script.silent == Some(index) {
            return;
        }
        self.workers[usize::from(index)].acked.insert(id);
        for subtask in Rig::subtasks(index) {
            let finished = self.workers[usize::from(index)].finished.contains(&subtask);
            let mut part = Box::new(part(subtask, barrier.base, finished));
            part.segment = self.script.segments.then(|| BlobRef {
                path: crate::layout::segment(attempt, id, index),
                length: 1_000,
                checksum: "00c0ffee00c0ffee".to_owned(),
            });
            self.report(index, Report::Acked { id, part });
        }
    }

    fn resolved(&mut self, index: u16, id: CheckpointId, completed: bool) {
        let attempt = self.workers[usize::from(index)].attempt;
        if completed && self.fails(attempt, When::Committing, index) {
            return;
        }
        let [source, sink] = Rig::subtasks(index);
        if completed {
            self.committed.push((attempt, id));
            self.committed_by.insert((index, id));
            self.report(index, Report::Committed { id, subtask: sink });
        }
        self.report(index, Report::Resolved { id, subtask: source });
        self.report(index, Report::Resolved { id, subtask: sink });
        if self.workers[usize::from(index)].open {
            self.maybe_finish(index);
        }
    }
}

/// A part without a segment.
pub(super) fn part(subtask: SubtaskId, base: Option<CheckpointId>, finished: bool) -> SubtaskPart {
    SubtaskPart {
        subtask,
        base,
        finished,
        channels: Vec::new(),
        splits: std::collections::BTreeMap::new(),
        segment: None,
        timings: crate::control::PartTimings::default(),
    }
}

/// Two workers, checkpoints each second.
pub(super) fn settings() -> JobSettings {
    JobSettings { default_workers: 2, ..JobSettings::default() }
}

/// A source, a keyed count in the sink's chain, a committing sink.
pub(super) fn plan() -> Plan {
    let vertex = |name: &str, is_source, inputs: Vec<u16>, outputs: Vec<u16>| Vertex {
        name: name.to_owned(),
        is_source,
        inputs,
        outputs,
        build: Arc::new(|_| Err(Error::failed("no chain is built in these tests"))),
    };
    let operator = |name: &str, vertex, role, states| OperatorPlan {
        name: name.to_owned(),
        renamed_from: None,
        vertex,
        role,
        states,
    };
    let count = StatePlan {
        name: "count".to_owned(),
        kind: "value".to_owned(),
        key: "string".to_owned(),
        value: "u64".to_owned(),
    };
    Plan {
        job: "job".to_owned(),
        vertices: vec![vertex("lines", true, vec![], vec![0]), vertex("count, out", false, vec![0], vec![])],
        edges: vec![Edge {
            from: 0,
            to: 1,
            input: 0,
            partitioning: Partitioning::Hash,
            codec: Arc::new(TypedCodec::<u64>::default()),
        }],
        operators: vec![
            operator("lines", 0, Role::Source { replayable: true, bounded: true }, vec![]),
            operator("counts", 1, Role::Stateful, vec![count]),
            operator("out", 1, Role::Sink { transactional: true }, vec![]),
        ],
    }
}

/// SplitMix64.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn world() -> World {
    let heartbeats = Heartbeats::default();
    World {
        files: Arc::new(Nothing),
        threads: Arc::new(Nothing),
        stdout: Arc::new(|_: &str| {}),
        heartbeats,
        stores: None,
    }
}

/// A world without files and threads: the job manager needs neither.
struct Nothing;

fn unsupported<T>() -> std::io::Result<T> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl Files for Nothing {
    fn open(&self, _: &Path) -> std::io::Result<Box<dyn ReadFile>> {
        unsupported()
    }
    fn create_new(&self, _: &Path) -> std::io::Result<Box<dyn WriteFile>> {
        unsupported()
    }
    fn info(&self, _: &Path) -> std::io::Result<FileInfo> {
        unsupported()
    }
    fn list(&self, _: &Path) -> std::io::Result<Vec<String>> {
        unsupported()
    }
    fn glob(&self, _: &str) -> std::io::Result<Vec<PathBuf>> {
        unsupported()
    }
    fn create_dir_all(&self, _: &Path) -> std::io::Result<()> {
        unsupported()
    }
    fn sync_dir(&self, _: &Path) -> std::io::Result<()> {
        unsupported()
    }
    fn sync_file(&self, _: &Path) -> std::io::Result<()> {
        unsupported()
    }
    fn link(&self, _: &Path, _: &Path) -> std::io::Result<()> {
        unsupported()
    }
    fn remove(&self, _: &Path) -> std::io::Result<()> {
        unsupported()
    }
}

impl Threads for Nothing {
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Result<()> {
        Err(Error::failed("no threads in these tests"))
    }
}
