//! Drives the workers as a job manager would, without any of its caution: triggers, collects acks, resolves.

use super::job::{self, Committed};
use crate::attempt::{Attempt, Restore, RestoredManifest, WorkerOptions, World};
use crate::control::{Captured, Order, Report, SubtaskPart, ToWorker};
use crate::io::{FileInfo, Files, ReadFile, StorageReply, StorageRequest, WriteFile};
use crate::operator::Quantum;
use crate::source::Threads;
use crate::testing::{DeterministicHost, Random, VirtualClock};
use crate::time::{Clock, Time};
use crate::worker::Mail;
use bytes::Bytes;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode, SubtaskId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const WORKERS: u16 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Finish,
    Crash,
}

/// What a run left behind.
pub(super) struct Run {
    committed: Committed,
    storage: BTreeMap<String, Vec<u8>>,
    completed: Vec<(CheckpointId, BTreeMap<SubtaskId, SubtaskPart>)>,
    base: Option<Restore>,
    pub(super) cuts: usize,
    pub(super) records_in_stopped_world: usize,
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

    pub(super) fn restore(&self) -> Option<(Restore, BTreeMap<String, Vec<u8>>)> {
        let mut manifests = self.base.as_ref().map(|base| base.manifests.clone()).unwrap_or_default();
        let vertex_of: BTreeMap<String, u16> = [("numbers".into(), 0), ("count".into(), 1), ("out".into(), 1)].into();
        for (id, parts) in &self.completed {
            manifests.insert(*id, RestoredManifest { vertex_of: vertex_of.clone(), parts: parts.clone() });
        }
        let (checkpoint, _) = self.completed.last()?;
        Some((Restore { checkpoint: *checkpoint, manifests, same_topology: true }, self.storage.clone()))
    }
}

struct Script {
    host: DeterministicHost,
    clock: VirtualClock,
    random: Random,
    run: Run,
    mode: Mode,
    pending: Option<(CheckpointId, BTreeMap<SubtaskId, SubtaskPart>)>,
    next_id: u64,
    last: Option<CheckpointId>,
    restored: u16,
    finished: u16,
    committed: BTreeMap<CheckpointId, u16>,
    final_id: Option<CheckpointId>,
    unfinished_blobs: BTreeMap<String, Vec<u8>>,
    attempt: AttemptId,
    /// So many checkpoints are aborted instead of completed.
    aborts: u32,
    /// Each checkpoint is taken in any mode, but the last one before the end, and the final one, in `last_mode`.
    switches: bool,
    last_mode: Mode,
}

pub(super) fn run(
    seed: u64,
    mode: Mode,
    checkpoints: u32,
    ending: Ending,
    from: Option<(Restore, BTreeMap<String, Vec<u8>>)>,
) -> Run {
    run_with(seed, mode, checkpoints, ending, from, 256)
}

pub(super) fn run_with(
    seed: u64,
    mode: Mode,
    checkpoints: u32,
    ending: Ending,
    from: Option<(Restore, BTreeMap<String, Vec<u8>>)>,
    credit_window: usize,
) -> Run {
    let mut script = Script::begin(seed, mode, from, credit_window, job::Shows::Commits);
    script.play(checkpoints, ending, seed);
    script.run
}

pub(super) fn run_aborting(seed: u64, mode: Mode) -> Run {
    let mut script = Script::begin(seed, mode, None, 256, job::Shows::Commits);
    script.aborts = 3;
    script.play(5, Ending::Finish, seed);
    script.run
}

/// So many checkpoints in any modes, then one in `last`.
pub(super) fn run_switching(
    seed: u64,
    checkpoints: u32,
    last: Mode,
    ending: Ending,
    from: Option<(Restore, BTreeMap<String, Vec<u8>>)>,
) -> Run {
    let mut script = Script::begin(seed, last, from, 256, job::Shows::Commits);
    script.switches = true;
    script.play(checkpoints + 1, ending, seed);
    script.run
}

/// A new incarnation, with a sink that has no committer.
pub(super) fn run_showing(seed: u64, mode: Mode) -> Run {
    let mut script = Script::begin(seed, mode, None, 256, job::Shows::AtOnce);
    script.play(2, Ending::Finish, seed);
    script.run
}

impl Script {
    fn begin(
        seed: u64,
        mode: Mode,
        from: Option<(Restore, BTreeMap<String, Vec<u8>>)>,
        credit_window: usize,
        shows: job::Shows,
    ) -> Script {
        let mut random = Random::new(seed);
        let committed = Committed::default();
        let (restore, storage) = from.map_or((None, BTreeMap::new()), |(restore, storage)| (Some(restore), storage));
        let next_id = restore.as_ref().map_or(1, |restore| restore.checkpoint.0 + 1);
        let last = restore.as_ref().map(|restore| restore.checkpoint);
        let attempt = AttemptId(next_id * 100);
        let options = WorkerOptions {
            credit_window,
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
            plan: Arc::new(job::plan(&committed, shows)),
            workers: WORKERS,
            incarnation: "i".into(),
            key_seed: 7,
            key_groups: 128,
            first_checkpoint: CheckpointId(next_id),
            restore,
            claim: Some(crate::attempt::Claim { overwrite: false }),
            options,
            world: World {
                files: Arc::new(Nothing),
                threads: Arc::new(Nothing),
                stdout: Arc::new(|_: &str| ()),
                heartbeats: Default::default(),
            },
        });
        let clock = VirtualClock::default();
        clock.move_to(Time(1_000_000));
        let host = DeterministicHost::start(&attempt_plan, clock.clone()).expect("the plan builds");
        let run = Run { committed, storage, completed: vec![], base, cuts: 0, records_in_stopped_world: 0 };
        Script {
            host,
            clock,
            random,
            run,
            mode,
            pending: None,
            next_id,
            last,
            restored: 0,
            finished: 0,
            committed: BTreeMap::new(),
            final_id: None,
            unfinished_blobs: BTreeMap::new(),
            attempt,
            aborts: 0,
            switches: false,
            last_mode: mode,
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
                    for (ticket, request) in turn.storage {
                        let reply = self.serve(request);
                        self.host.mail(worker, Mail::Storage(ticket, reply));
                    }
                    for (ticket, call) in turn.calls {
                        self.host.mail(worker, Mail::Call(ticket, (call.0)()));
                    }
                    turn.reports.into_iter().for_each(|report| self.on_report(report));
                }
                None => {
                    let moment =
                        self.host.next_moment().unwrap_or_else(|| panic!("seed {seed}: nothing moves any more"));
                    self.clock.move_to(moment);
                }
            }
            let running = self.restored == WORKERS;
            if running && left > 0 && self.pending.is_none() && self.final_id.is_none() && self.random.one_in(8) {
                left -= 1;
                let any = Mode::ALL[self.random.below(5) as usize];
                self.mode = if self.switches && left > 0 { any } else { self.last_mode };
                self.trigger(Kind::Checkpoint);
            }
            if ending == Ending::Crash && left == 0 && self.pending.is_none() {
                return;
            }
            if self.finished == WORKERS * 2
                && self.pending.is_none()
                && self.final_id.is_none()
                && ending == Ending::Finish
            {
                self.final_id = Some(CheckpointId(self.next_id));
                self.mode = self.last_mode;
                self.trigger(Kind::Final);
            }
            if self.final_id.is_some_and(|id| self.committed.get(&id) == Some(&(WORKERS * 2))) {
                return;
            }
        }
        panic!("seed {seed}: the job does not come to its end");
    }

    fn tell(&mut self, order: &Order) {
        for worker in 0..WORKERS {
            self.host.mail(worker, Mail::Order(ToWorker { attempt: self.attempt, order: order.clone() }));
        }
    }

    fn trigger(&mut self, kind: Kind) {
        let id = CheckpointId(self.next_id);
        self.next_id += 1;
        self.pending = Some((id, BTreeMap::new()));
        let triggered_at = self.clock.now().millis();
        let barrier = Barrier { id, attempt: self.attempt, mode: self.mode, kind, base: self.last, triggered_at };
        self.tell(&Order::Trigger(barrier));
    }

    fn on_report(&mut self, report: Report) {
        match report {
            Report::Restored => {
                self.restored += 1;
                if self.restored == WORKERS {
                    self.tell(&Order::Open);
                }
            }
            Report::Acked { id, part } => {
                let Some((pending, parts)) = &mut self.pending else { return };
                assert_eq!(*pending, id);
                parts.insert(part.subtask, *part);
                if parts.len() == usize::from(WORKERS * 2) {
                    self.resolve();
                }
            }
            Report::Finished { .. } => self.finished += 1,
            Report::Committed { id, .. } => *self.committed.entry(id).or_insert(0) += 1,
            Report::Failed(error) => panic!("{error}"),
            Report::Declined { id, reason, .. } if self.pending.as_ref().is_some_and(|(pending, _)| *pending == id) => {
                panic!("{reason}")
            }
            // A newer barrier came before it was heard that this one is over.
            Report::Declined { .. } => {}
            Report::Triggered { .. } | Report::Resolved { .. } | Report::Progress(_) | Report::Closed => {}
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
struct Nothing;

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
