//! Drives the workers as a job manager would, without any of its caution: triggers, collects acks, resolves.

use super::job::{self, Committed};
use crate::attempt::{Attempt, Restore, RestoredManifest, WorkerOptions, World};
use crate::control::{Captured, Order, Report, SubtaskPart, ToWorker};
use crate::io::{BlockingCall, FileInfo, Files, ReadFile, StorageReply, StorageRequest, Ticket, WriteFile};
use crate::operator::Quantum;
use crate::plan::Plan;
use crate::source::Threads;
use crate::testing::{DeterministicHost, Random, VirtualClock};
use crate::time::{Clock, Time};
use crate::whereabouts::{Stage, Standing};
use crate::worker::Mail;
use bytes::Bytes;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode, SubtaskId};
use litemap::LiteMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const WORKERS: u16 = 2;

/// What a run is made of, besides its seed.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) plan: Arc<Plan>,
    pub(super) committed: Committed,
    pub(super) files: Arc<dyn Files>,
    pub(super) workers: u16,
    pub(super) mode: Mode,
    pub(super) credit_window: usize,
    /// So many checkpoints are aborted before one may be completed.
    pub(super) aborts: u32,
    /// Blocking calls are made and come back in any order.
    pub(super) reorders_calls: bool,
    /// Each checkpoint is taken in any mode, but the last one before the end, and the final one, in `mode`.
    pub(super) switches: bool,
    /// Subtasks are asked where they stand at each trigger and each ack.
    pub(super) asks: bool,
}

impl Setting {
    pub(super) fn new(mode: Mode, shows: job::Shows) -> Setting {
        let committed = Committed::default();
        Setting {
            plan: Arc::new(job::plan(&committed, shows)),
            committed,
            files: Arc::new(Nothing),
            workers: WORKERS,
            mode,
            credit_window: 256,
            aborts: 0,
            reorders_calls: false,
            switches: false,
            asks: false,
        }
    }
}

/// A checkpoint to restore, and what the storage holds.
pub(super) type From = (Restore, BTreeMap<String, Vec<u8>>);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Finish,
    Crash,
}

/// What a run left behind.
pub(super) struct Run {
    committed: Committed,
    storage: BTreeMap<String, Vec<u8>>,
    completed: Vec<(CheckpointId, LiteMap<SubtaskId, SubtaskPart>)>,
    base: Option<Restore>,
    plan: Arc<Plan>,
    pub(super) cuts: usize,
    /// What subtasks that were asked said of themselves.
    pub(super) stages: BTreeSet<&'static str>,
    pub(super) records_in_stopped_world: usize,
    /// What each worker read of the storage.
    pub(super) read: BTreeMap<u16, BTreeSet<String>>,
    /// The most reads that a worker asked for at once.
    pub(super) most_reads_at_once: usize,
}

impl Run {
    pub(super) fn committed(&self) -> Vec<(u64, u64)> {
        self.committed.lock().unwrap().values().flatten().copied().collect()
    }

    /// The highest count that was committed, by key.
    pub(super) fn counts(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for (key, count) in self.committed() {
            let highest = counts.entry(key).or_insert(0);
            *highest = count.max(*highest);
        }
        counts
    }

    /// What was in flight at the cuts of all its checkpoints.
    pub(super) fn captured(&self) -> Captured {
        Captured::of(self.completed.iter().flat_map(|(_, parts)| parts.values()))
    }

    pub(super) fn restore(&self) -> Option<From> {
        let mut manifests = self.base.as_ref().map(|base| base.manifests.clone()).unwrap_or_default();
        let operators = self.plan.operators.iter();
        let vertex_of: LiteMap<String, u16> = operators.map(|it| (it.name.clone(), it.vertex)).collect();
        for (id, parts) in &self.completed {
            manifests.insert(*id, RestoredManifest { vertex_of: vertex_of.clone(), parts: parts.clone() });
        }
        let (checkpoint, _) = self.completed.last()?;
        Some((
            Restore {
                checkpoint: *checkpoint,
                manifests,
                same_topology: true,
                own: true,
                commits: true,
                looks_only: false,
            },
            self.storage.clone(),
        ))
    }
}

struct Script {
    host: DeterministicHost,
    clock: VirtualClock,
    random: Random,
    run: Run,
    setting: Setting,
    /// Of the pending checkpoint.
    mode: Mode,
    /// Calls that are not made yet.
    calls: Vec<(u16, Ticket, BlockingCall)>,
    pending: Option<(CheckpointId, LiteMap<SubtaskId, SubtaskPart>)>,
    next_id: u64,
    last: Option<CheckpointId>,
    restored: BTreeSet<u16>,
    finished: u16,
    committed: BTreeMap<CheckpointId, u16>,
    final_id: Option<CheckpointId>,
    unfinished_blobs: BTreeMap<String, Vec<u8>>,
    attempt: AttemptId,
    /// So many checkpoints are still aborted instead of completed.
    aborts: u32,
}

pub(super) fn run(seed: u64, mode: Mode, checkpoints: u32, ending: Ending, from: Option<From>) -> Run {
    run_with(seed, mode, checkpoints, ending, from, 256)
}

pub(super) fn run_with(
    seed: u64,
    mode: Mode,
    checkpoints: u32,
    ending: Ending,
    from: Option<From>,
    credit_window: usize,
) -> Run {
    play(seed, Setting { credit_window, ..Setting::new(mode, job::Shows::Commits) }, checkpoints, ending, from)
}

pub(super) fn play(seed: u64, setting: Setting, checkpoints: u32, ending: Ending, from: Option<From>) -> Run {
    let mut script = Script::begin(seed, setting, from);
    script.play(checkpoints, ending, seed);
    script.run
}

pub(super) fn run_aborting(seed: u64, mode: Mode) -> Run {
    play(seed, Setting { aborts: 3, ..Setting::new(mode, job::Shows::Commits) }, 5, Ending::Finish, None)
}

/// So many checkpoints in any modes, then one in `last`.
pub(super) fn run_switching(seed: u64, checkpoints: u32, last: Mode, ending: Ending, from: Option<From>) -> Run {
    let setting = Setting { switches: true, ..Setting::new(last, job::Shows::Commits) };
    play(seed, setting, checkpoints + 1, ending, from)
}

/// Asks all subtasks again and again where they stand.
pub(super) fn run_asking(seed: u64, mode: Mode) -> Run {
    let setting = Setting { asks: true, ..Setting::new(mode, job::Shows::Commits) };
    play(seed, setting, 4, Ending::Finish, None)
}

/// A new incarnation, with a sink that has no committer.
pub(super) fn run_showing(seed: u64, mode: Mode) -> Run {
    play(seed, Setting::new(mode, job::Shows::AtOnce), 2, Ending::Finish, None)
}

fn world(setting: &Setting) -> World {
    World {
        files: Arc::clone(&setting.files),
        threads: Arc::new(Nothing),
        stdout: Arc::new(|_: &str| ()),
        heartbeats: Default::default(),
        stores: None,
    }
}

impl Script {
    fn begin(seed: u64, setting: Setting, from: Option<From>) -> Script {
        let mut random = Random::new(seed);
        let (restore, storage) = from.map_or((None, BTreeMap::new()), |(restore, storage)| (Some(restore), storage));
        let next_id = restore.as_ref().map_or(1, |restore| restore.checkpoint.0 + 1);
        let last = restore.as_ref().map(|restore| restore.checkpoint);
        let attempt = AttemptId(next_id * 100);
        let options = WorkerOptions {
            credit_window: setting.credit_window,
            batch_records: 4,
            quantum: Quantum { time: Duration::from_secs(1), records: 5 },
            scan_budget: 64,
            // Some alignments end before it, some do not.
            alignment_timeout: Duration::from_micros(random.below(1_500)),
            ..WorkerOptions::default()
        };
        let base = restore.clone();
        let attempt_plan = Arc::new(Attempt {
            id: attempt,
            plan: Arc::clone(&setting.plan),
            workers: setting.workers,
            incarnation: "i".into(),
            key_seed: 7,
            key_groups: 128,
            first_checkpoint: CheckpointId(next_id),
            restore,
            claim: Some(crate::attempt::Claim { overwrite: false }),
            adopted: Vec::new(),
            options,
            world: world(&setting),
        });
        let clock = VirtualClock::default();
        clock.move_to(Time(1_000_000));
        let host = DeterministicHost::start(&attempt_plan, clock.clone()).expect("the plan builds");
        let run = Run {
            committed: Arc::clone(&setting.committed),
            storage,
            completed: vec![],
            base,
            plan: Arc::clone(&setting.plan),
            cuts: 0,
            stages: BTreeSet::new(),
            records_in_stopped_world: 0,
            read: BTreeMap::new(),
            most_reads_at_once: 0,
        };
        Script {
            host,
            clock,
            random,
            run,
            mode: setting.mode,
            aborts: setting.aborts,
            setting,
            calls: Vec::new(),
            pending: None,
            next_id,
            last,
            restored: BTreeSet::new(),
            finished: 0,
            committed: BTreeMap::new(),
            final_id: None,
            unfinished_blobs: BTreeMap::new(),
            attempt,
        }
    }

    fn play(&mut self, checkpoints: u32, ending: Ending, seed: u64) {
        let mut left = checkpoints;
        for _ in 0..200_000 {
            match self.host.turn(&mut self.random) {
                Some(turn) => {
                    let moment = self.clock.now().after(Duration::from_micros(self.random.below(40)));
                    self.clock.move_to(moment);
                    let worker = turn.worker.unwrap_or_default();
                    let reads = turn.storage.iter().filter_map(|(_, request)| match request {
                        StorageRequest::Read { path, .. } => Some(path.clone()),
                        _ => None,
                    });
                    let reads: Vec<String> = reads.collect();
                    self.run.most_reads_at_once = self.run.most_reads_at_once.max(reads.len());
                    self.run.read.entry(worker).or_default().extend(reads);
                    for (ticket, request) in turn.storage {
                        let reply = self.serve(request);
                        self.host.mail(worker, Mail::Storage(ticket, reply));
                    }
                    self.calls.extend(turn.calls.into_iter().map(|(ticket, call)| (worker, ticket, call)));
                    turn.reports.into_iter().for_each(|report| self.on_report(worker, report));
                }
                None if !self.calls.is_empty() => self.make_calls(),
                // All is at rest until the next trigger comes.
                None if left > 0 && self.pending.is_none() && self.final_id.is_none() && self.is_open() => {}
                None => {
                    let moment =
                        self.host.next_moment().unwrap_or_else(|| panic!("seed {seed}: nothing moves any more"));
                    self.clock.move_to(moment);
                }
            }
            if !self.setting.reorders_calls || self.random.one_in(4) {
                self.make_calls();
            }
            if self.is_open() && left > 0 && self.pending.is_none() && self.final_id.is_none() && self.random.one_in(8)
            {
                left -= 1;
                let any = Mode::ALL[self.random.below(5) as usize];
                self.mode = if self.setting.switches && left > 0 { any } else { self.setting.mode };
                self.trigger(Kind::Checkpoint);
            }
            if ending == Ending::Crash && left == 0 && self.pending.is_none() {
                return;
            }
            if self.finished == self.subtasks()
                && self.pending.is_none()
                && self.final_id.is_none()
                && ending == Ending::Finish
            {
                self.final_id = Some(CheckpointId(self.next_id));
                self.mode = self.setting.mode;
                self.trigger(Kind::Final);
            }
            if self.final_id.is_some_and(|id| self.committed.get(&id) == Some(&self.subtasks())) {
                return;
            }
        }
        panic!(
            "seed {seed}: the job does not come to its end at {:?}; restored {:?}, finished {}, pending {:?}, final {:?}, calls {}, committed {:?}",
            self.clock.now(),
            self.restored,
            self.finished,
            self.pending.is_some(),
            self.final_id,
            self.calls.len(),
            self.committed
        );
    }

    fn is_open(&self) -> bool {
        self.restored.len() == usize::from(self.setting.workers)
    }

    fn subtasks(&self) -> u16 {
        self.setting.workers * u16::try_from(self.setting.plan.vertices.len()).expect("a handful of vertices")
    }

    /// Makes all calls in the order in which they came, or one of them.
    fn make_calls(&mut self) {
        let one_of = |random: &mut Random, calls: &Vec<_>| random.below(calls.len() as u64) as usize;
        while !self.calls.is_empty() {
            let index = if self.setting.reorders_calls { one_of(&mut self.random, &self.calls) } else { 0 };
            let (worker, ticket, call) = self.calls.remove(index);
            self.host.mail(worker, Mail::Call(ticket, (call.0)()));
            if self.setting.reorders_calls {
                return;
            }
        }
    }

    fn tell(&mut self, order: &Order) {
        for worker in 0..self.setting.workers {
            self.host.mail(worker, Mail::Order(ToWorker { attempt: self.attempt, order: order.clone() }));
        }
    }

    fn trigger(&mut self, kind: Kind) {
        let id = CheckpointId(self.next_id);
        self.next_id += 1;
        self.pending = Some((id, LiteMap::new_vec()));
        let triggered_at = self.clock.now().millis();
        let barrier = Barrier { id, attempt: self.attempt, mode: self.mode, kind, base: self.last, triggered_at };
        self.tell(&Order::Trigger(barrier));
        self.ask(id);
    }

    fn ask(&mut self, id: CheckpointId) {
        if self.setting.asks {
            self.tell(&Order::Locate(id));
        }
    }

    fn on_report(&mut self, worker: u16, report: Report) {
        match report {
            Report::Restored => {
                // It is said again and again until the worker is told to open.
                if self.restored.insert(worker) && self.is_open() {
                    self.tell(&Order::Open);
                }
            }
            Report::Acked { id, part } => {
                let Some((pending, parts)) = &mut self.pending else { return };
                assert_eq!(*pending, id);
                let is_news = parts.insert(part.subtask, *part).is_none();
                if is_news {
                    self.ask(id);
                }
                let Some((_, parts)) = &mut self.pending else { return };
                if parts.len() == usize::from(self.setting.workers) * self.setting.plan.vertices.len() {
                    self.resolve();
                }
            }
            Report::Finished { .. } => self.finished += 1,
            Report::Committed { id, .. } => *self.committed.entry(id).or_insert(0) += 1,
            Report::Failed(error) => panic!("{error}"),
            Report::Located { id, standings } => self.on_located(id, &standings),
            Report::Declined { id, reason, .. } if self.pending.as_ref().is_some_and(|(pending, _)| *pending == id) => {
                panic!("{reason}")
            }
            // A newer barrier came before it was heard that this one is over.
            Report::Declined { .. } => {}
            Report::Triggered { .. }
            | Report::Resolved { .. }
            | Report::Hindered { .. }
            | Report::Progress(_)
            | Report::Closed => {}
        }
    }

    /// What a subtask says of itself agrees with what it has done.
    fn on_located(&mut self, id: CheckpointId, standings: &[Standing]) {
        let Some((_, parts)) = self.pending.as_ref().filter(|(pending, _)| *pending == id) else { return };
        for standing in standings {
            let acked = parts.contains_key(&standing.subtask);
            let says_so = standing.stage == Stage::Acked;
            assert_eq!(says_so, acked, "{standing:?} of checkpoint {id}");
            assert_ne!(standing.stage, Stage::Over, "{standing:?} of checkpoint {id}");
            self.run.stages.insert(match standing.stage {
                Stage::Arriving(_) => "arriving",
                Stage::Acked => "acked",
                _ => "cut",
            });
        }
    }

    fn resolve(&mut self) {
        let (id, parts) = self.pending.take().expect("all parts are in");
        self.run.cuts += 1;
        if self.mode == Mode::StopTheWorld && self.host.carries_records() {
            self.run.records_in_stopped_world += 1;
        }
        let completed = self.aborts == 0 || self.final_id == Some(id);
        self.aborts = self.aborts.saturating_sub(1);
        if completed {
            self.run.completed.push((id, parts));
            self.last = Some(id);
        }
        self.tell(&Order::Resolved { id, completed });
    }

    fn serve(&mut self, request: StorageRequest) -> StorageReply {
        match request {
            StorageRequest::Append { path, bytes } => {
                self.unfinished_blobs.entry(path).or_default().extend_from_slice(&bytes);
                StorageReply::Done
            }
            StorageRequest::Finish { path } => {
                let bytes = self.unfinished_blobs.remove(&path).unwrap_or_default();
                self.run.storage.insert(path, bytes);
                StorageReply::Done
            }
            StorageRequest::Discard { .. } => StorageReply::Done,
            StorageRequest::Read { path, range } => {
                let Some(bytes) = self.run.storage.get(&path) else { return StorageReply::NotFound };
                let range = range.map_or(0..bytes.len(), |range| range.start as usize..range.end as usize);
                StorageReply::Read(Bytes::copy_from_slice(&bytes[range]))
            }
            other => panic!("a worker does not ask for {other:?}"),
        }
    }
}

/// A world without anything in it.
pub(super) struct Nothing;

impl Threads for Nothing {
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> crate::Result<()> {
        unreachable!("this job has no use for threads")
    }
}

impl Files for Nothing {
    fn open(&self, _: &Path) -> std::io::Result<Box<dyn ReadFile>> {
        unreachable!()
    }
    fn create_new(&self, _: &Path) -> std::io::Result<Box<dyn WriteFile>> {
        unreachable!()
    }
    fn info(&self, _: &Path) -> std::io::Result<FileInfo> {
        unreachable!()
    }
    fn list(&self, _: &Path) -> std::io::Result<Vec<String>> {
        unreachable!()
    }
    fn glob(&self, _: &str) -> std::io::Result<Vec<PathBuf>> {
        unreachable!()
    }
    fn create_dir_all(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }
    fn sync_dir(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }
    fn sync_file(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }
    fn link(&self, _: &Path, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }
    fn remove(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }
}
