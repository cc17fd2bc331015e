//! Every step that a process can take, and the mutations.

use crate::world::{Process, Run, Seat, Truth, World, checkpoint};
use flott_checkpoint::{
    AppendAction, AppendEvent, AppendOutcome, Contest, ContestAction, ContestEvent, ContestOptions,
    CoordinatorAction as Order, CoordinatorEvent as Event, CreateOutcome, InUse, Incarnation, LiteSet, LogEntry,
    Restore, Slot, retain,
};
use stateright::{Model, Property};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FIRST: Incarnation = Incarnation { id: 0x100, key_seed: 1, key_groups: 4 };
const SECOND: Incarnation = Incarnation { id: 0x200, key_seed: 2, key_groups: 4 };
pub(crate) const TRIES: u32 = 3;

/// How far an exploration goes.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) processes: usize,
    pub(crate) slots: u64,
    pub(crate) checkpoints: usize,
    /// First listings of contests, over all processes.
    pub(crate) contests: u64,
    /// Answers that are lost.
    pub(crate) faults: u8,
    /// Starts that name something else than the head does.
    pub(crate) departures: u8,
    /// A listing and the reads after it are one step.
    pub(crate) atomic_reads: bool,
}

impl Bounds {
    pub(crate) const THREE: Bounds =
        Bounds { processes: 3, slots: 7, checkpoints: 4, contests: 4, faults: 0, departures: 0, atomic_reads: true };
    pub(crate) const TWO: Bounds = Bounds { processes: 2, slots: 6, checkpoints: 3, ..Bounds::THREE };
    pub(crate) const UNKNOWN: Bounds = Bounds { faults: 2, contests: 3, ..Bounds::TWO };
    pub(crate) const DEPARTURES: Bounds = Bounds { departures: 1, ..Bounds::TWO };
    pub(crate) const READS: Bounds =
        Bounds { atomic_reads: false, contests: 3, faults: 1, departures: 1, ..Bounds::TWO };
    /// Everything at once; two million states more.
    pub(crate) const DEEP: Bounds = Bounds { processes: 3, contests: 3, faults: 1, departures: 1, ..Bounds::TWO };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutation {
    NoRelist,
    NoHeadRule,
    DeleteStarts,
}

/// What the exploration has walked through; no part of the state.
#[derive(Default)]
pub(crate) struct Coverage {
    pub(crate) void_start: AtomicBool,
    pub(crate) start_in_hole: AtomicBool,
    pub(crate) fenced: AtomicBool,
    pub(crate) two_running: AtomicBool,
    pub(crate) zombie_commit: AtomicBool,
    pub(crate) deleted: AtomicBool,
    pub(crate) landed: AtomicBool,
    pub(crate) found_own: AtomicBool,
    pub(crate) settled: AtomicBool,
    pub(crate) hole_after_repeat: AtomicBool,
    pub(crate) void_checkpoint: AtomicBool,
    pub(crate) departed: AtomicBool,
    pub(crate) vanished: AtomicBool,
}

#[derive(Clone)]
pub(crate) struct LogModel {
    bounds: Bounds,
    mutation: Option<Mutation>,
    pub(crate) coverage: Arc<Coverage>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A process begins and lists the log.
    Begin(usize, Restore),
    /// The storage call that a process asks for is made and answered.
    Call(usize),
    /// The call takes effect, its answer is lost.
    CallAnswerLost(usize),
    /// The call is lost, or late.
    CallLost(usize),
    /// The late call lands.
    Land,
    /// Trigger, ack, manifest.
    Checkpoint(usize),
    Commit(usize),
    Probe(usize, Slot),
    Delete(usize),
    Crash(usize),
}

impl LogModel {
    pub(crate) fn new(bounds: Bounds, mutation: Option<Mutation>) -> LogModel {
        LogModel { bounds, mutation, coverage: Arc::default() }
    }

    fn steps_of(&self, world: &World, i: usize, process: &Process, steps: &mut Vec<Step>) {
        match process {
            Process::Idle => {
                if world.contests < self.bounds.contests {
                    steps.push(Step::Begin(i, Restore::Latest));
                    if world.departures > 0 && !world.log.is_empty() {
                        steps.push(Step::Begin(i, Restore::None));
                        let older = world.recorded_in_log();
                        steps.extend(older.iter().map(|known| Step::Begin(i, Restore::Id(known.id))));
                    }
                }
            }
            Process::Contending { action, second_listing, .. } => {
                let lists = matches!(action, ContestAction::List) && !second_listing;
                let creates = matches!(action, ContestAction::Create { .. });
                if lists && world.contests == self.bounds.contests {
                    return;
                }
                if let ContestAction::Create { slot, .. } = action
                    && slot.0 > self.bounds.slots
                {
                    return;
                }
                self.call(world, i, creates, steps);
                steps.push(Step::Crash(i));
            }
            Process::Running(run) => self.steps_of_run(world, i, run, steps),
        }
    }

    fn call(&self, world: &World, i: usize, creates: bool, steps: &mut Vec<Step>) {
        steps.push(Step::Call(i));
        if creates && world.faults > 0 {
            steps.push(Step::CallAnswerLost(i));
            steps.push(Step::CallLost(i));
        }
    }

    fn steps_of_run(&self, world: &World, i: usize, run: &Run, steps: &mut Vec<Step>) {
        match &run.append {
            Some((_, action)) => self.call(world, i, matches!(action, AppendAction::Create { .. }), steps),
            None if run.last.0 < self.bounds.slots && world.truth.recorded.len() < self.bounds.checkpoints => {
                steps.push(Step::Checkpoint(i));
            }
            None => {}
        }
        if run.commit.is_some() {
            steps.push(Step::Commit(i));
        }
        match run.doomed {
            Some(_) => steps.push(Step::Delete(i)),
            None if !world.taken_by_another(run) => {
                steps.extend(self.victims(world, run).into_iter().map(|slot| Step::Probe(i, slot)));
            }
            None => {}
        }
        steps.push(Step::Crash(i));
    }

    /// The slots that this attempt's retention lets go.
    fn victims(&self, world: &World, run: &Run) -> Vec<Slot> {
        let in_use = InUse {
            attempt: run.attempt,
            newest: run.coordinator.newest(),
            restored_from: run.restored,
            pending: run.coordinator.in_use(),
            pins: LiteSet::new(),
            retained: 1,
        };
        let expendable = retain(&world.recorded_in_log(), &in_use).expendable;
        let mut slots: Vec<Slot> = expendable.iter().map(|known| known.slot).filter(|slot| *slot < run.last).collect();
        if self.mutation == Some(Mutation::DeleteStarts) {
            let starts =
                world.log.iter().filter(|(slot, entry)| **slot < run.last && matches!(***entry, LogEntry::Start(_)));
            slots.extend(starts.map(|(slot, _)| *slot));
        }
        slots
    }

    fn contest_listing(&self, world: &mut World, claimed: Option<Slot>) -> ContestEvent {
        let slots: Vec<Slot> = match claimed {
            Some(mine) if self.mutation == Some(Mutation::NoRelist) => vec![Slot(mine.0 - 1), mine],
            _ => world.log.keys().copied().collect(),
        };
        if claimed.is_none() {
            world.contests += 1;
        }
        ContestEvent::Listed { slots, nonce: world.contests }
    }

    fn contest_read(&self, world: &World, slot: Slot) -> ContestEvent {
        let mut entry = world.log.get(&slot).map(|entry| (**entry).clone());
        if self.mutation == Some(Mutation::NoHeadRule)
            && world.log.last_key_value().is_some_and(|(head, _)| *head == slot)
            && let Some(LogEntry::Start(start)) = &mut entry
        {
            start.restored_from = world.recorded_in_log().last().map(|known| known.id);
        }
        self.coverage.vanished.fetch_or(entry.is_none(), Ordering::Relaxed);
        ContestEvent::Read { slot, entry: entry.map(Ok) }
    }

    /// Makes the call that a contest asks for. Reads after a listing may belong to the same step.
    fn contend(
        &self,
        world: &mut World,
        mut contest: Contest,
        action: ContestAction,
        second: bool,
        fault: Option<bool>,
    ) -> Process {
        let mut claimed = None;
        let mut next = match action {
            ContestAction::List => {
                let mine = second.then(|| world.claimed_by(&contest)).flatten();
                contest.on(self.contest_listing(world, mine))
            }
            ContestAction::Read(slot) => contest.on(self.contest_read(world, slot)),
            ContestAction::Create { slot, entry } => {
                let outcome = world.create(slot, &Arc::new(*entry.clone()), fault, &self.coverage);
                let mine = outcome == CreateOutcome::Won || outcome == CreateOutcome::Taken(Ok(*entry));
                claimed = mine.then_some(slot);
                contest.on(ContestEvent::Created(outcome))
            }
            other => unreachable!("no call: {other:?}"),
        };
        loop {
            next = match next {
                ContestAction::Consider(_) => {
                    self.coverage.departed.store(world.departures < self.bounds.departures, Ordering::Relaxed);
                    contest.on(ContestEvent::Agreed)
                }
                ContestAction::Read(slot) if self.bounds.atomic_reads => contest.on(self.contest_read(world, slot)),
                ContestAction::Owned(claim) => return Process::Running(Box::new(world.run(&claim))),
                ContestAction::Failed(_) => return Process::Idle,
                action => {
                    if second && action == ContestAction::List {
                        self.coverage.void_start.store(true, Ordering::Relaxed);
                    }
                    return Process::Contending { contest, action, second_listing: claimed.is_some() };
                }
            };
        }
    }

    fn append(&self, world: &mut World, run: &mut Run, fault: Option<bool>) {
        let Some((mut append, action)) = run.append.take() else { return };
        let repeated = matches!(action, AppendAction::List);
        let mut next = match action {
            AppendAction::Create { slot, entry } => {
                append.on(AppendEvent::Created(world.create(slot, &Arc::new(*entry), fault, &self.coverage)))
            }
            AppendAction::List => append.on(AppendEvent::Listed(world.log.keys().copied().collect())),
            AppendAction::Read(_) | AppendAction::Done(_) => unreachable!("no call of its own"),
        };
        // Starts stay, and what an append reads besides decides nothing: no step of its own.
        while let AppendAction::Read(slot) = next {
            let entry = world.log.get(&slot).map(|entry| Ok((**entry).clone()));
            next = append.on(AppendEvent::Read { slot, entry });
        }
        let AppendAction::Done(outcome) = next else {
            run.append = Some((append, next));
            return;
        };
        let Some((id, _)) = run.coordinator.in_use() else { return world.violate("an append of nothing") };
        let event = match outcome {
            AppendOutcome::Recorded(slot) => {
                self.coverage.settled.fetch_or(repeated, Ordering::Relaxed);
                if !world.truth.recorded.contains(&(id, run.attempt)) {
                    world.violate("a zombie believes that it has recorded");
                }
                run.last = slot;
                Event::Recorded { id }
            }
            AppendOutcome::Fenced { by, .. } => {
                self.coverage.fenced.store(true, Ordering::Relaxed);
                self.coverage.hole_after_repeat.fetch_or(repeated, Ordering::Relaxed);
                Event::Fenced { by }
            }
            AppendOutcome::Unsettled(_) => Event::Unsettled { id },
            outcome => {
                world.violate("an append says that the log is damaged");
                Event::AttemptFailed { reason: format!("{outcome:?}") }
            }
        };
        for order in run.coordinator.on(0, event) {
            if let Order::SendResolved { id, completed: true, .. } = order {
                run.commit = Some(id);
            }
        }
    }
}

fn options(restore: Restore, first: bool) -> ContestOptions {
    ContestOptions { restore, fresh: if first { FIRST } else { SECOND }, past: Vec::new(), tries: TRIES }
}

impl Model for LogModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            log: BTreeMap::new(),
            in_flight: None,
            processes: (0..self.bounds.processes).map(|_| Seat::new(Process::Idle)).collect(),
            contests: 0,
            faults: self.bounds.faults,
            departures: self.bounds.departures,
            truth: Truth::default(),
            violation: None,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.violation.is_some() {
            return;
        }
        let mut before = None;
        for (i, seat) in world.processes.iter().enumerate() {
            // Of processes in the same state one is enough.
            if before != Some(seat) {
                self.steps_of(world, i, &seat.process, steps);
            }
            before = Some(seat);
        }
        if world.in_flight.is_some() {
            steps.push(Step::Land);
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        let (i, fault) = match step {
            Step::Land => {
                let (slot, entry) = world.in_flight.take()?;
                self.coverage.landed.store(true, Ordering::Relaxed);
                if !world.log.contains_key(&slot) {
                    let in_hole = world.log.last_key_value().is_some_and(|(head, _)| *head > slot);
                    let is_checkpoint = matches!(*entry, LogEntry::Checkpoint(_));
                    self.coverage.void_checkpoint.fetch_or(in_hole && is_checkpoint, Ordering::Relaxed);
                    world.write(slot, entry);
                }
                return Some(world);
            }
            Step::CallAnswerLost(i) => (i, Some(true)),
            Step::CallLost(i) => (i, Some(false)),
            Step::Begin(i, _) | Step::Call(i) | Step::Checkpoint(i) | Step::Commit(i) => (i, None),
            Step::Probe(i, _) | Step::Delete(i) | Step::Crash(i) => (i, None),
        };
        let process = match ((*world.processes.get(i)?.process).clone(), step) {
            (_, Step::Crash(_)) => Process::Idle,
            (Process::Idle, Step::Begin(_, restore)) => {
                world.departures -= u8::from(restore != Restore::Latest);
                let mut contest = Contest::new(options(restore, world.log.is_empty()));
                let list = contest.begin();
                self.contend(&mut world, contest, list, false, None)
            }
            (Process::Contending { contest, action, second_listing }, _) => {
                self.contend(&mut world, contest, action, second_listing, fault)
            }
            (Process::Running(mut run), step) => {
                match step {
                    Step::Checkpoint(_) => checkpoint(&mut world, &mut run),
                    Step::Commit(_) => world.commit(&mut run, &self.coverage),
                    Step::Probe(_, slot) => run.doomed = Some(slot),
                    Step::Delete(_) => {
                        let slot = run.doomed.take()?;
                        self.coverage.deleted.store(true, Ordering::Relaxed);
                        world.log.remove(&slot);
                    }
                    _ => self.append(&mut world, &mut run, fault),
                }
                if run.coordinator.is_over() { Process::Idle } else { Process::Running(run) }
            }
            (process, step) => unreachable!("{step:?} of {process:?}"),
        };
        world.seat(i, process);
        if world.runs().count() > 1 {
            self.coverage.two_running.store(true, Ordering::Relaxed);
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("holds", |_, world: &World| world.violation.is_none())]
    }
}
