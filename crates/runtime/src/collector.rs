//! Deletes what no restore can need any more (rules G1 to G3): checkpoints beyond the retained ones, what dead attempts and
//! aborted checkpoints left behind, old history.
//!
//! A state machine by value: storage requests out, replies in. Which checkpoints are needed is decided by
//! [`flott_checkpoint::retain`], and in which order they go by [`flott_checkpoint::Collection`]; this file finds out what
//! there is, and guards each batch. What cannot be read holds all that it may stand for, and nothing else; the run then ends
//! with a reason, for a user should know. One run at a time; a run that fails is simply over, for the next one looks anew.
//! It never delays a checkpoint, touches nothing of attempts above its own, and stops for good once it is fenced.

#[cfg(any(test, feature = "tools"))]
mod beside;
mod plan;
mod run;

#[cfg(any(test, feature = "tools"))]
pub use beside::{Sweep, collect_beside};

use crate::history::{HistoryKey, Seen};
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::time::Time;
use flott_checkpoint::{AttemptId, CheckpointId, InUse, LogEntry, Recorded, Slot};
use litemap::LiteMap;
use run::{End, Run};

#[cfg(test)]
mod tests;

/// How many requests are in flight at most.
const IN_FLIGHT: usize = 16;

/// Every so many runs, the history is looked at too: it is long, and its end is not urgent.
const HISTORY_EACH: u64 = 64;

/// The collector of one attempt.
#[derive(Debug)]
pub struct Collector {
    first_ticket: u64,
    next_ticket: u64,
    memory: Memory,
    runs: u64,
    run: Option<Box<Run>>,
    next: Option<(InUse, Time)>,
    fenced: bool,
}

/// What stays true from one run to the next, because entries and manifests never change. Only an emptied slot may be filled
/// once more, by a Start that is void (L2) and stays like any other (L7).
#[derive(Debug)]
struct Memory {
    attempt: AttemptId,
    /// The newest attempt whose objects may be deleted.
    reach: AttemptId,
    entries: LiteMap<Slot, LogEntry>,
    /// By slot; `Err` says why the manifest cannot be read.
    recorded: LiteMap<Slot, (Recorded, Result<(), Unreadable>)>,
    /// By path: pins that cannot be read, and the newest checkpoint that each of them can hold.
    dubious_pins: LiteMap<String, CheckpointId>,
    history: LiteMap<HistoryKey, Option<Seen>>,
}

/// Why a manifest tells nothing.
#[derive(Debug)]
struct Unreadable {
    /// There is none: nothing can be lost with it.
    missing: bool,
    why: String,
}

impl Memory {
    /// This slot was to be deleted, whatever the answer.
    fn forget(&mut self, slot: Slot) {
        self.entries.remove(&slot);
        self.recorded.remove(&slot);
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Collected {
    /// Everything that could go is gone.
    Done {
        /// How many objects were deleted.
        deleted: u64,
    },
    /// Something could not be done; the next run tries again. The text says what.
    Incomplete {
        /// How many objects were deleted nevertheless.
        deleted: u64,
        /// What could not be done.
        reason: String,
    },
    /// Another attempt owns the log: this collector does nothing more, ever.
    Fenced,
}

impl Collector {
    /// The collector of an attempt that has won its Start. Its tickets are `first_ticket` and above.
    #[must_use]
    pub fn new(attempt: AttemptId, first_ticket: u64) -> Collector {
        Collector::reaching(attempt, attempt, first_ticket)
    }

    /// A collector that is not the attempt's own, for a tool: it deletes only objects of attempts below that one, which owns the
    /// log and may be running (G2).
    #[must_use]
    pub fn beside(attempt: AttemptId, first_ticket: u64) -> Collector {
        Collector::reaching(attempt, AttemptId(attempt.0.saturating_sub(1)), first_ticket)
    }

    fn reaching(attempt: AttemptId, reach: AttemptId, first_ticket: u64) -> Collector {
        Collector {
            first_ticket,
            next_ticket: first_ticket,
            memory: Memory {
                attempt,
                reach,
                entries: LiteMap::new_vec(),
                recorded: LiteMap::new_vec(),
                dubious_pins: LiteMap::new_vec(),
                history: LiteMap::new_vec(),
            },
            runs: 0,
            run: None,
            next: None,
            fenced: false,
        }
    }

    /// Whether an answer is for this collector.
    #[must_use]
    pub fn owns(&self, ticket: Ticket) -> bool {
        (self.first_ticket..self.next_ticket).contains(&ticket.0)
    }

    /// Whether a run is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Begins a run, after each completed checkpoint and once after the start. While one is under way the newest wish
    /// waits for its end. `in_use.pins` may be empty: the collector reads the pins itself.
    pub fn collect(&mut self, in_use: InUse, now: Time, out: &mut Vec<(Ticket, StorageRequest)>) {
        if self.fenced {
            return;
        }
        self.next = Some((in_use, now));
        if self.run.is_none() {
            self.begin(out);
        }
    }

    /// Takes the answer to one request. Says how the run ended, when it did. Answers of a run that is over are ignored.
    pub fn on(
        &mut self,
        ticket: Ticket,
        reply: StorageReply,
        out: &mut Vec<(Ticket, StorageRequest)>,
    ) -> Option<Collected> {
        let run = self.run.as_mut()?;
        let end = run.on(ticket, reply, &mut self.memory).or_else(|| run.go_on(&mut self.memory));
        let deleted = run.deleted();
        let ended = end.map(|end| match end {
            End::Done => Collected::Done { deleted },
            End::Incomplete(reason) => Collected::Incomplete { deleted, reason },
            End::Fenced => Collected::Fenced,
        });
        match &ended {
            None => self.ask(out),
            Some(ended) => {
                self.run = None;
                self.fenced = *ended == Collected::Fenced;
                if !self.fenced {
                    self.begin(out);
                }
            }
        }
        ended
    }

    fn begin(&mut self, out: &mut Vec<(Ticket, StorageRequest)>) {
        let Some((in_use, now)) = self.next.take() else { return };
        let with_history = self.runs.is_multiple_of(HISTORY_EACH);
        self.runs += 1;
        self.run = Some(Box::new(Run::new(in_use, now, with_history)));
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Vec<(Ticket, StorageRequest)>) {
        let Some(run) = &mut self.run else { return };
        while let Some(request) = run.next_request(Ticket(self.next_ticket), IN_FLIGHT) {
            out.push((Ticket(self.next_ticket), request));
            self.next_ticket += 1;
        }
    }
}
