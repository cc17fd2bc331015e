//! The storage calls of the two log machines (contest and append), one at a time: requests out, outcomes in.
//!
//! "It exists" alone tells nothing: the slot is read, and what it holds is the outcome (L5). "It exists" followed by "not
//! found" is no answer. An unknown outcome is repeated only after a pause.

use super::desk::Cx;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout;
use crate::time::Time;
use bytes::Bytes;
use flott_checkpoint::{CreateOutcome, EntryError, LogEntry, Slot};
use std::time::Duration;

/// The pause before the first repeat of an unknown outcome; doubled by each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The call that is under way.
#[derive(Debug, Default)]
pub(super) struct LogCalls {
    state: State,
    /// Unknown outcomes in a row.
    unknown: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Quiet,
    Listing(Ticket),
    Reading(Ticket, Slot),
    Creating(Ticket, Slot),
    /// The slot was taken: by what?
    Comparing(Ticket, Slot),
    Pausing(Time, Slot, Bytes),
}

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum LogAnswer {
    Listed(Vec<Slot>),
    Read(Slot, Option<Result<LogEntry, EntryError>>),
    Created(CreateOutcome),
    Failed(String),
}

impl LogCalls {
    pub(super) fn list(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Listing(cx.ask(StorageRequest::List { prefix: layout::LOG.to_owned() }));
    }

    pub(super) fn read(&mut self, slot: Slot, cx: &mut Cx<'_>) {
        self.state = State::Reading(read(slot, cx), slot);
    }

    /// Creates a slot; at once, or after a pause if the last outcome was unknown.
    pub(super) fn create(&mut self, slot: Slot, entry: &LogEntry, cx: &mut Cx<'_>) {
        let bytes = Bytes::from(entry.encode());
        if self.unknown == 0 {
            self.send(slot, bytes, cx);
        } else {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.unknown.min(16)).min(LONGEST_PAUSE);
            self.state = State::Pausing(cx.now.after(pause), slot, bytes);
        }
    }

    fn send(&mut self, slot: Slot, bytes: Bytes, cx: &mut Cx<'_>) {
        self.state = State::Creating(cx.ask(StorageRequest::Create { path: layout::slot(slot), bytes }), slot);
    }

    /// A slot may have been written, and nobody knows yet whether it was.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unknown > 0
    }

    /// When something must be done without an answer.
    pub(super) fn due(&self) -> Option<Time> {
        match &self.state {
            State::Pausing(at, ..) => Some(*at),
            _ => None,
        }
    }

    /// The time has moved on.
    pub(super) fn on_time(&mut self, cx: &mut Cx<'_>) {
        match std::mem::take(&mut self.state) {
            State::Pausing(at, slot, bytes) if at <= cx.now => self.send(slot, bytes, cx),
            state => self.state = state,
        }
    }

    /// Whether the answer to this ticket is waited for here.
    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        match &self.state {
            State::Listing(mine) | State::Reading(mine, _) | State::Creating(mine, _) | State::Comparing(mine, _) => {
                *mine == ticket
            }
            State::Quiet | State::Pausing(..) => false,
        }
    }

    /// Takes the answer to the call under way; `None` if another call has to follow first.
    pub(super) fn on_reply(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Option<LogAnswer> {
        let state = std::mem::take(&mut self.state);
        match (state, reply) {
            (_, StorageReply::Failed(why)) => Some(LogAnswer::Failed(why)),
            (State::Listing(_), StorageReply::Listed(objects)) => Some(LogAnswer::Listed(layout::slots(&objects))),
            (State::Reading(_, slot), StorageReply::Read(bytes)) => {
                Some(LogAnswer::Read(slot, Some(LogEntry::read(slot, &bytes))))
            }
            (State::Reading(_, slot), StorageReply::Obstructed(what)) => {
                Some(LogAnswer::Read(slot, Some(Err(EntryError::Obstructed(what)))))
            }
            (State::Creating(..) | State::Comparing(..), StorageReply::Obstructed(what)) => {
                Some(self.created(CreateOutcome::Taken(Err(EntryError::Obstructed(what)))))
            }
            (State::Reading(_, slot), StorageReply::NotFound) => Some(LogAnswer::Read(slot, None)),
            (State::Creating(..), StorageReply::Created) => Some(self.created(CreateOutcome::Won)),
            (State::Creating(_, slot), StorageReply::Exists) => {
                self.state = State::Comparing(read(slot, cx), slot);
                None
            }
            (State::Comparing(_, slot), StorageReply::Read(bytes)) => {
                Some(self.created(CreateOutcome::Taken(LogEntry::read(slot, &bytes))))
            }
            (State::Creating(..), StorageReply::Unknown(_)) | (State::Comparing(..), StorageReply::NotFound) => {
                Some(self.created(CreateOutcome::Unknown))
            }
            (state, reply) => Some(LogAnswer::Failed(format!("the storage answered {reply:?} to {state:?}"))),
        }
    }

    fn created(&mut self, outcome: CreateOutcome) -> LogAnswer {
        self.unknown = if outcome == CreateOutcome::Unknown { self.unknown.saturating_add(1) } else { 0 };
        LogAnswer::Created(outcome)
    }
}

fn read(slot: Slot, cx: &mut Cx<'_>) -> Ticket {
    cx.ask(StorageRequest::Read { path: layout::slot(slot), range: None })
}
