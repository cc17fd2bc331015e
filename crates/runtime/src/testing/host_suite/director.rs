//! A job manager without log and storage: opens the sources, triggers when a source asks for it, ends with a final checkpoint.

use super::ledger::Book;
use crate::attempt::Attempt;
use crate::control::{Order, Report, ToManager, ToWorker};
use crate::host::Mailbox;
use crate::worker::Mail;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode, SubtaskId};
use std::collections::BTreeSet;
use std::fmt;

/// See the head of this file.
pub struct Director {
    attempt: AttemptId,
    mailboxes: Vec<Mailbox>,
    subtasks: usize,
    mode: Mode,
    restored: BTreeSet<u16>,
    finished: BTreeSet<SubtaskId>,
    pending: Option<Barrier>,
    acked: BTreeSet<SubtaskId>,
    resolved: BTreeSet<SubtaskId>,
    last_id: u64,
    completed: u64,
    is_last: bool,
    closed: BTreeSet<u16>,
}

impl Director {
    /// A director of an attempt whose workers have these mailboxes.
    #[must_use]
    pub fn new(attempt: &Attempt, mailboxes: Vec<Mailbox>, mode: Mode) -> Director {
        let subtasks = attempt.plan.vertices.len() * mailboxes.len();
        let empty = BTreeSet::new;
        Director {
            attempt: attempt.id,
            mailboxes,
            subtasks,
            mode,
            restored: BTreeSet::new(),
            finished: empty(),
            pending: None,
            acked: empty(),
            resolved: empty(),
            last_id: 0,
            completed: 0,
            is_last: false,
            closed: BTreeSet::new(),
        }
    }

    /// The attempt.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Checkpoints that every subtask has acknowledged.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether all workers have obeyed `Close`.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.len() == self.mailboxes.len()
    }

    /// Reads what is new in the book and does what follows; true once all workers are closed.
    pub fn advance(&mut self, book: &mut Book) -> bool {
        while let Some(ToManager { attempt, worker, report }) = book.reports.pop_front() {
            assert_eq!(attempt, self.attempt, "a report of another attempt");
            self.on_report(worker, report, book);
        }
        let all_restored = self.restored.len() == self.mailboxes.len();
        if all_restored && self.pending.is_none() && !self.is_last {
            if self.finished.len() == self.subtasks {
                self.is_last = true;
                self.trigger(Kind::Final);
            } else if std::mem::take(&mut book.due) {
                self.trigger(Kind::Checkpoint);
            }
        }
        self.is_closed()
    }

    fn on_report(&mut self, worker: u16, report: Report, book: &mut Book) {
        match report {
            Report::Restored => {
                self.restored.insert(worker);
                if self.restored.len() == self.mailboxes.len() {
                    self.order_all(&Order::Open);
                }
            }
            Report::Acked { id, part } => self.on_ack(id, part.subtask),
            Report::Resolved { id, subtask } => self.on_resolved(id, subtask),
            Report::Finished { subtask } => {
                self.finished.insert(subtask);
            }
            Report::Closed => {
                self.closed.insert(worker);
            }
            Report::Failed(error) => book.failures.push(error),
            Report::Declined { id, subtask, reason } => {
                book.failures
                    .push(crate::Error::failed(format!("declined: {reason}")).at_subtask(subtask).at_checkpoint(id));
            }
            Report::Triggered { .. }
            | Report::Committed { .. }
            | Report::Hindered { .. }
            | Report::Located { .. }
            | Report::Progress(_) => {}
        }
    }

    fn on_ack(&mut self, id: CheckpointId, subtask: SubtaskId) {
        if self.pending.is_none_or(|barrier| barrier.id != id) {
            return;
        }
        self.acked.insert(subtask);
        if self.acked.len() == self.subtasks {
            self.completed += 1;
            self.resolved.clear();
            self.order_all(&Order::Resolved { id, completed: true });
        }
    }

    fn on_resolved(&mut self, id: CheckpointId, subtask: SubtaskId) {
        let Some(barrier) = self.pending.filter(|barrier| barrier.id == id) else { return };
        self.resolved.insert(subtask);
        if self.resolved.len() == self.subtasks {
            self.pending = None;
            if barrier.kind == Kind::Final {
                self.order_all(&Order::Close);
            }
        }
    }

    fn trigger(&mut self, kind: Kind) {
        self.last_id += 1;
        let id = CheckpointId(self.last_id);
        let barrier = Barrier { id, attempt: self.attempt, mode: self.mode, kind, base: None, triggered_at: 0 };
        self.pending = Some(barrier);
        self.acked.clear();
        self.order_all(&Order::Trigger(barrier));
    }

    fn order_all(&self, order: &Order) {
        for mailbox in &self.mailboxes {
            mailbox.push(Mail::Order(ToWorker { attempt: self.attempt, order: order.clone() }));
        }
    }
}

impl fmt::Debug for Director {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Director")
            .field("restored", &self.restored)
            .field("finished", &self.finished.len())
            .field("pending", &self.pending)
            .field("acked", &self.acked)
            .field("resolved", &self.resolved)
            .field("completed", &self.completed)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
