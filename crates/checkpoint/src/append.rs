//! How an attempt appends one checkpoint to the log, or learns that it is no longer the owner (rules L4, L5).
//!
//! The machine asks for storage calls and is told their outcomes. While it has not ended, nothing of this checkpoint may
//! be aborted or deleted and nothing new may be triggered: the entry may already be in the log.
//!
//! Before a checkpoint counts as recorded the attempt's own Start is looked at: a store makes a directory that was deleted
//! anew, and a log without its Start would be no log that anybody could restore from.
//!
//! It never waits and never counts time: pauses between repeats are the caller's business.

use crate::ids::{AttemptId, Slot};
use crate::log::{EntryError, LogEntry};

#[cfg(test)]
mod tests;

/// What became of a request to create a slot if it is absent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CreateOutcome {
    /// The store says that it created the slot now.
    Won,
    /// The slot holds an entry: this one (its bytes were read), or bytes that are no entry.
    Taken(Result<LogEntry, EntryError>),
    /// Time-out, 409, 5xx, or "exists" followed by "not found": the entry may be there or not.
    Unknown,
}

/// What the append asks for next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AppendAction {
    /// Create the slot if it is absent, with the bytes of the entry.
    Create {
        /// Where.
        slot: Slot,
        /// What.
        entry: Box<LogEntry>,
    },
    /// List the slots of the log.
    List,
    /// Read one slot.
    Read(Slot),
    /// It is over.
    Done(AppendOutcome),
}

/// What the append is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AppendEvent {
    /// The answer to `Create`.
    Created(CreateOutcome),
    /// The answer to `List`.
    Listed(Vec<Slot>),
    /// The answer to `Read`; `None`: there is no such slot (any more).
    Read {
        /// Which.
        slot: Slot,
        /// Its content.
        entry: Option<Result<LogEntry, EntryError>>,
    },
    /// A request cannot be answered, all repeats are spent.
    Failed,
}

/// How an append ends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AppendOutcome {
    /// The checkpoint is recorded in this slot, and nothing lies above it.
    Recorded(Slot),
    /// A newer attempt owns the log. This process must exit with code 3 and never restart the job itself (L4).
    Fenced {
        /// The slot that shows it.
        slot: Slot,
        /// The newer attempt, if its entry was read.
        by: Option<AttemptId>,
    },
    /// Nobody knows whether the entry is in the log. The attempt must end; the next Start contends for the slot (L5).
    Unsettled(Slot),
    /// What lies in this slot, ours or a higher one, is no entry of this log. Nobody owns a damaged log: the attempt must end.
    Damaged {
        /// Which.
        slot: Slot,
        /// What is wrong with it.
        error: EntryError,
    },
    /// The attempt's own Start, in this slot, is not in the log any more. Starts are never deleted (L7): somebody took the
    /// log away, so nothing that is written now is recorded. The attempt must end.
    Gone(Slot),
}

/// One append of one entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Append {
    slot: Slot,
    entry: LogEntry,
    tries_left: u32,
    repeated: bool,
    over: Option<AppendOutcome>,
}

impl Append {
    /// Appends `entry` at `slot`, which must be the one after the attempt's own last entry. An unknown outcome is
    /// repeated until the slot holds an entry, at most `tries` times in all.
    #[must_use]
    pub fn new(slot: Slot, entry: LogEntry, tries: u32) -> Append {
        Append { slot, entry, tries_left: tries.max(1), repeated: false, over: None }
    }

    /// The first request. Nothing else calls for it: every later one is an answer of [`Append::on`].
    pub fn begin(&mut self) -> AppendAction {
        self.create()
    }

    /// Takes the answer to the last request and gives the next one.
    pub fn on(&mut self, event: AppendEvent) -> AppendAction {
        if let Some(outcome) = &self.over {
            return AppendAction::Done(outcome.clone());
        }
        match event {
            // The first answer to the first request is the only win that needs no second look: before it, no entry of
            // ours was in this slot, so no retention can have emptied it.
            AppendEvent::Created(CreateOutcome::Won) if !self.repeated => AppendAction::Read(self.start()),
            AppendEvent::Created(CreateOutcome::Won) => AppendAction::List,
            AppendEvent::Created(CreateOutcome::Taken(Ok(found))) if found == self.entry => {
                self.repeated = true;
                AppendAction::List
            }
            AppendEvent::Created(CreateOutcome::Taken(found)) => self.foreign(self.slot, found),
            AppendEvent::Created(CreateOutcome::Unknown) => {
                self.repeated = true;
                self.create()
            }
            AppendEvent::Listed(slots) => self.listed(&slots),
            AppendEvent::Read { slot, entry: None } if slot == self.start() => self.end(AppendOutcome::Gone(slot)),
            AppendEvent::Read { slot, .. } if slot == self.start() => self.end(AppendOutcome::Recorded(self.slot)),
            AppendEvent::Read { slot, entry: Some(found) } => self.foreign(slot, found),
            // Only somebody with a higher one deletes the head.
            AppendEvent::Read { slot, entry: None } => self.end(AppendOutcome::Fenced { slot, by: None }),
            AppendEvent::Failed => self.end(AppendOutcome::Unsettled(self.slot)),
        }
    }

    /// The slot of the attempt's own Start.
    fn start(&self) -> Slot {
        Slot(self.entry.attempt().0)
    }

    /// Somebody else's entry lies where ours should, or above it; or what lies there is no entry of this log.
    fn foreign(&mut self, slot: Slot, found: Result<LogEntry, EntryError>) -> AppendAction {
        self.end(match found {
            Ok(entry) => AppendOutcome::Fenced { slot, by: Some(entry.attempt()) },
            Err(EntryError::Newer { .. }) => AppendOutcome::Fenced { slot, by: None },
            Err(error) => AppendOutcome::Damaged { slot, error },
        })
    }

    fn create(&mut self) -> AppendAction {
        match self.tries_left.checked_sub(1) {
            Some(left) => {
                self.tries_left = left;
                AppendAction::Create { slot: self.slot, entry: Box::new(self.entry.clone()) }
            }
            None => self.end(AppendOutcome::Unsettled(self.slot)),
        }
    }

    /// A win after a repeat counts only if nothing lies above: else the slot was emptied by a newer attempt's retention.
    fn listed(&mut self, slots: &[Slot]) -> AppendAction {
        match slots.iter().max() {
            Some(&top) if top > self.slot => AppendAction::Read(top),
            Some(&top) if top == self.slot && !slots.contains(&self.start()) => {
                self.end(AppendOutcome::Gone(self.start()))
            }
            Some(&top) if top == self.slot => self.end(AppendOutcome::Recorded(self.slot)),
            // A listing without our entry contradicts the answer before it: no answer at all.
            _ => self.end(AppendOutcome::Unsettled(self.slot)),
        }
    }

    fn end(&mut self, outcome: AppendOutcome) -> AppendAction {
        self.over = Some(outcome.clone());
        AppendAction::Done(outcome)
    }
}
