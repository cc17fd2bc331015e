//! Collection beside the running job: one run after the start and one after each completed checkpoint (G1-G3). It delays
//! nothing, for nobody waits for it; what it cannot delete is a warning, once.

use super::desk::Cx;
use super::recorder::Recorder;
use super::running::{Note, Running, Stage};
use crate::collector::{Collected, Collector};
use crate::io::{StorageReply, Ticket};
use flott_checkpoint::{AttemptId, CheckpointId, Claim, InUse, Kind, LiteSet, Outcome};

/// The tickets of collectors are above all others …
const FIRST_TICKET: u64 = 1 << 48;
/// … and each collector of this process has so many.
const TICKETS_EACH: u64 = 1 << 32;

/// The collector of the attempt that owns the log, if there is one.
#[derive(Default)]
pub(super) struct Gatherer {
    collector: Option<Collector>,
    /// How many collectors there have been.
    collectors: u64,
    attempt: Option<AttemptId>,
    restored_from: Option<CheckpointId>,
    /// Answers that came while a slot was unsettled: until it is settled, nothing more is deleted (L5).
    held: Vec<(Ticket, StorageReply)>,
    /// What was warned of last.
    warned: String,
    /// Savepoints of this process that are still being copied.
    copied: LiteSet<CheckpointId>,
}

impl Gatherer {
    /// A new attempt owns the log. Answers to the requests of an older one are ignored from now on.
    pub(super) fn owned(&mut self, claim: &Claim) {
        self.collectors += 1;
        self.held.clear();
        self.attempt = Some(claim.attempt);
        self.restored_from = claim.start.restored_from;
        self.collector = Some(Collector::new(claim.attempt, FIRST_TICKET + self.collectors * TICKETS_EACH));
    }

    /// Whether these notes call for a run: something was completed.
    pub(super) fn is_due(notes: &[Note]) -> bool {
        notes.iter().any(|note| matches!(note.tried.outcome, Outcome::Completed { .. }))
    }

    /// Begins a run, or has it follow the one under way.
    pub(super) fn collect(&mut self, running: &Running, cx: &mut Cx<'_>) {
        let (Some(collector), Stage::Open(open)) = (&mut self.collector, &running.stage) else { return };
        if self.attempt != Some(running.attempt.id) {
            return;
        }
        let in_use = InUse {
            attempt: running.attempt.id,
            newest: open.coordinator.newest(),
            restored_from: self.restored_from,
            pending: open.coordinator.in_use(),
            pins: self.copied.clone(),
            retained: cx.desk.settings.coordinator.retained,
        };
        collector.collect(in_use, cx.now, &mut cx.out.storage);
    }

    /// A savepoint is kept until whoever asked for it has copied it.
    pub(super) fn hold(&mut self, note: &Note) {
        if note.completed.is_some() && note.tried.barrier.kind == Kind::Savepoint {
            self.copied.insert(note.tried.barrier.id);
        }
    }

    /// It is copied, or will not be.
    pub(super) fn release(&mut self, id: CheckpointId) {
        self.copied.remove(&id);
    }

    /// Takes an answer, or keeps it for later.
    pub(super) fn hear(&mut self, ticket: Ticket, reply: StorageReply) {
        if self.collector.as_ref().is_some_and(|collector| collector.owns(ticket)) {
            self.held.push((ticket, reply));
        }
    }

    /// Goes on, unless a slot of the attempt is unsettled (L5).
    pub(super) fn go_on(&mut self, running: &Running, cx: &mut Cx<'_>) {
        if running.recorder.as_ref().is_some_and(Recorder::is_unsettled) {
            return;
        }
        for (ticket, reply) in std::mem::take(&mut self.held) {
            self.on_storage(ticket, reply, cx);
        }
    }

    fn on_storage(&mut self, ticket: Ticket, reply: StorageReply, cx: &mut Cx<'_>) {
        let Some(collector) = self.collector.as_mut().filter(|collector| collector.owns(ticket)) else { return };
        match collector.on(ticket, reply, &mut cx.out.storage) {
            Some(Collected::Incomplete { reason, .. }) if reason != self.warned => {
                cx.warn(format!("old checkpoints are not all deleted: {reason}"));
                self.warned = reason;
            }
            // The next append finds out for itself, and says who owns the job now.
            Some(Collected::Fenced | Collected::Incomplete { .. } | Collected::Done { .. }) | None => {}
        }
    }
}
