//! The store, the processes, and what an observer of the store knows.

use crate::model::{Coverage, TRIES};
use flott_checkpoint::{
    Ack, Append, AppendAction, AttemptId, CheckpointEntry, CheckpointId, Claim, Contest, ContestAction, Coordinator,
    CoordinatorAction as Order, CoordinatorEvent as Event, CreateOutcome, Guarantee, LogEntry, Options, Origin,
    Recorded, RequestId, Slot, SubtaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SUBTASK: SubtaskId = SubtaskId { vertex: 0, index: 0 };

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) log: BTreeMap<Slot, Arc<LogEntry>>,
    /// A request whose sender has given up on it; it may still land.
    pub(crate) in_flight: Option<(Slot, Arc<LogEntry>)>,
    /// In an order of their own, so that worlds that differ in names alone are one.
    pub(crate) processes: Vec<Seat>,
    pub(crate) contests: u64,
    pub(crate) faults: u8,
    pub(crate) departures: u8,
    pub(crate) truth: Truth,
    pub(crate) violation: Option<String>,
}

/// What an observer of the store knows. Only what was written above all else counts.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Truth {
    pub(crate) recorded: BTreeSet<(CheckpointId, AttemptId)>,
    /// What the next attempt must restore.
    pub(crate) line: Option<CheckpointId>,
    /// The newest Start, and what was to be restored when it was written.
    pub(crate) owner: Option<AttemptId>,
    pub(crate) line_before_owner: Option<CheckpointId>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Process {
    Idle,
    Contending { contest: Contest, action: ContestAction, second_listing: bool },
    Running(Box<Run>),
}

/// A process beside its fingerprint, which stands for it when worlds are compared by theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seat {
    fingerprint: u64,
    pub(crate) process: Arc<Process>,
}

impl Seat {
    pub(crate) fn new(process: Process) -> Seat {
        let mut hasher = DefaultHasher::new();
        process.hash(&mut hasher);
        Seat { fingerprint: hasher.finish(), process: Arc::new(process) }
    }
}

impl Hash for Seat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Run {
    pub(crate) coordinator: Coordinator<()>,
    pub(crate) attempt: AttemptId,
    pub(crate) restored: Option<CheckpointId>,
    pub(crate) last: Slot,
    pub(crate) append: Option<(Append, AppendAction)>,
    pub(crate) commit: Option<CheckpointId>,
    /// The batch that the collector is about to delete.
    pub(crate) doomed: Option<Slot>,
}

impl World {
    pub(crate) fn violate(&mut self, what: &str) {
        self.violation.get_or_insert_with(|| what.to_owned());
    }

    pub(crate) fn recorded_in_log(&self) -> Vec<Recorded> {
        let checkpoints = self.log.iter().filter_map(|(&slot, entry)| match &**entry {
            LogEntry::Checkpoint(entry) => Some(Recorded {
                id: entry.id,
                slot,
                attempt: entry.attempt,
                parent: entry.parent,
                base: None,
                savepoint: false,
            }),
            LogEntry::Start(_) => None,
        });
        checkpoints.collect()
    }

    /// The slot of the Start that this contest has just created.
    pub(crate) fn claimed_by(&self, contest: &Contest) -> Option<Slot> {
        let mine =
            |entry: &LogEntry| matches!(entry, LogEntry::Start(start) if contest.nonces().last() == Some(&start.nonce));
        self.log.iter().rev().find(|(_, entry)| mine(entry)).map(|(slot, _)| *slot)
    }

    pub(crate) fn taken_by_another(&self, run: &Run) -> bool {
        self.log.get(&Slot(run.last.0 + 1)).is_some_and(|entry| entry.attempt() != run.attempt)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.processes.iter().filter_map(|seat| match &*seat.process {
            Process::Running(run) => Some(&**run),
            _ => None,
        })
    }

    /// Creates a slot if it is absent. `fault`: the answer is lost, after the effect (`true`) or before it (`false`).
    pub(crate) fn create(
        &mut self,
        slot: Slot,
        entry: &Arc<LogEntry>,
        fault: Option<bool>,
        coverage: &Coverage,
    ) -> CreateOutcome {
        if fault.is_some() {
            self.faults -= 1;
        }
        if fault == Some(false) {
            self.in_flight = Some((slot, Arc::clone(entry)));
            return CreateOutcome::Unknown;
        }
        let outcome = match self.log.get(&slot) {
            Some(found) => {
                coverage.found_own.fetch_or(found == entry, Ordering::Relaxed);
                CreateOutcome::Taken(Ok((**found).clone()))
            }
            None => {
                let in_hole = self.log.last_key_value().is_some_and(|(head, _)| *head > slot);
                coverage.start_in_hole.fetch_or(in_hole && matches!(**entry, LogEntry::Start(_)), Ordering::Relaxed);
                self.write(slot, Arc::clone(entry));
                CreateOutcome::Won
            }
        };
        if fault == Some(true) { CreateOutcome::Unknown } else { outcome }
    }

    /// What the observer sees when an entry appears.
    pub(crate) fn write(&mut self, slot: Slot, entry: Arc<LogEntry>) {
        let head = self.log.last_key_value().map_or(0, |(slot, _)| slot.0);
        if slot.0 == head + 1 {
            match &*entry {
                LogEntry::Start(start) => {
                    self.truth.line_before_owner = self.truth.line;
                    self.truth.owner = Some(start.attempt);
                    self.truth.line = start.restored_from;
                }
                LogEntry::Checkpoint(checkpoint) => {
                    if self.runs().any(|run| run.attempt > checkpoint.attempt) {
                        self.violate("a zombie records beside a newer running attempt");
                    }
                    if self.truth.recorded.iter().any(|(id, _)| *id >= checkpoint.id) {
                        self.violate("an id does not exceed all recorded ones");
                    }
                    self.truth.recorded.insert((checkpoint.id, checkpoint.attempt));
                    self.truth.line = Some(checkpoint.id);
                }
            }
        } else if slot.0 > head {
            self.violate("the log is not dense");
        }
        self.log.insert(slot, entry);
    }

    /// An attempt starts running.
    pub(crate) fn run(&mut self, claim: &Claim) -> Run {
        let restored = claim.start.restored_from;
        if self.truth.owner != Some(claim.attempt) || self.truth.line != restored {
            self.violate("an attempt runs though its Start is not the newest, or something was recorded since");
        }
        if claim.head_says != self.truth.line_before_owner {
            self.violate("an attempt took something else than the newest checkpoint for the head");
        }
        if restored.is_some() && claim.restore.as_ref().map(|checkpoint| checkpoint.id) != restored {
            self.violate("an attempt runs without the checkpoint that it names");
        }
        let of_this_incarnation = |entry: &LogEntry| matches!(entry, LogEntry::Start(start) if start.attempt != claim.attempt && start.incarnation == claim.incarnation.id);
        if claim.begins() && self.log.values().any(|entry| of_this_incarnation(entry)) {
            self.violate("an attempt begins an incarnation that another one has begun");
        }
        let origin = Origin {
            attempt: claim.attempt,
            next_id: claim.next_id(),
            parent: restored,
            base: restored.filter(|_| !claim.first_is_full),
            inherited: Guarantee::ExactlyOnce,
        };
        let options = Options { interval: None, retained: 1, ..Options::default() };
        let coordinator = Coordinator::new(options, origin, [SUBTASK], [SUBTASK], 0).expect("the options make sense");
        Run {
            coordinator,
            attempt: claim.attempt,
            restored,
            last: Slot(claim.attempt.0),
            append: None,
            commit: restored,
            doomed: None,
        }
    }

    pub(crate) fn commit(&mut self, run: &mut Run, coverage: &Coverage) {
        let Some(id) = run.commit.take() else { return };
        if Some(id) != run.restored && !self.truth.recorded.contains(&(id, run.attempt)) {
            self.violate("a commit of what the attempt has not itself recorded");
        }
        if self.runs().any(|other| other.attempt > run.attempt) {
            coverage.zombie_commit.store(true, Ordering::Relaxed);
        }
        if Some(id) != run.restored {
            let (subtask, attempt) = (SUBTASK, run.attempt);
            run.coordinator.on(0, Event::ResolvedAcked { subtask, attempt, id });
            run.coordinator.on(0, Event::CommitDone { subtask, attempt, id });
        }
    }
}

/// Trigger, the ack of the only subtask, and the manifest: up to the first storage call that others can see.
pub(crate) fn checkpoint(world: &mut World, run: &mut Run) {
    let orders = run.coordinator.on(0, Event::Trigger { request: RequestId(0), full: false });
    let Some(Order::SendTrigger { barrier, .. }) = orders.first() else { return world.violate("no trigger") };
    let ack = Ack {
        subtask: SUBTASK,
        attempt: run.attempt,
        id: barrier.id,
        base: barrier.base,
        finished: false,
        bytes: 1,
        part: (),
    };
    let orders = run.coordinator.on(0, Event::Acked(ack));
    let record =
        orders.into_iter().find_map(|order| if let Order::Record(record) = order { Some(record) } else { None });
    let Some(record) = record else { return world.violate("all parts are there, but nothing is recorded") };
    let slot = Slot(run.last.0 + 1);
    let entry = LogEntry::Checkpoint(CheckpointEntry {
        slot,
        id: record.barrier.id,
        attempt: run.attempt,
        nonce: run.attempt.0 * 100 + record.barrier.id.0,
        parent: record.parent,
        manifest: String::new(),
        checksum: 0,
    });
    let mut append = Append::new(slot, entry, TRIES);
    let action = append.begin();
    run.append = Some((append, action));
}

impl World {
    pub(crate) fn seat(&mut self, i: usize, process: Process) {
        if let Some(seat) = self.processes.get_mut(i) {
            *seat = Seat::new(process);
        }
        self.processes.sort_by_key(|seat| seat.fingerprint);
    }
}
