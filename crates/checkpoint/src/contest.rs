//! How a new attempt wins its Start and with it the log (rules L2, L3, L5).
//!
//! List, read what the head says, create the Start in the next slot, list again. The second listing is what makes it
//! safe: a slot that retention emptied looks free, and a Start there would fence nobody. The head alone decides what is
//! restored; only a process's first Start (`--restore`) and a fallback may name something else, and both are put before
//! the caller ([`ContestAction::Consider`]) while the log is still unchanged, because the next attempt obeys what the head says.
//!
//! It draws no random numbers: nonces and the seed of a new incarnation are arguments.

use crate::append::CreateOutcome;
use crate::ids::{AttemptId, CheckpointId, Slot};
use crate::log::{CheckpointEntry, EntryError, Incarnation, LogEntry, Savepoint, StartEntry};
use crate::survey::{Need, Survey};
use std::fmt;

#[cfg(test)]
mod tests;

/// After so many lost contests an attempt gives up: something starts this job over and over.
const MAX_ROUNDS: u32 = 100;

/// What a new attempt shall restore.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Restore {
    /// What the head of the log says. Every Start but a process's first, and but a fallback.
    Latest,
    /// This checkpoint: `--restore ID`, or a fallback.
    Id(CheckpointId),
    /// Nothing: a new incarnation begins.
    None,
    /// A checkpoint of another directory: a new incarnation begins with its state, its key seed and its key groups (R3).
    Savepoint(Box<Elsewhere>),
}

/// A checkpoint of another directory, and the incarnation that it was taken in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Elsewhere {
    /// Which.
    pub savepoint: Savepoint,
    /// Whose key seed and key groups are kept.
    pub incarnation: Incarnation,
}

/// What a contest needs to know.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ContestOptions {
    /// What to restore.
    pub restore: Restore,
    /// The incarnation to begin, if one must begin: fresh random numbers.
    pub fresh: Incarnation,
    /// The nonces of all Starts that this process has tried, once it has owned the log; empty before that. If the
    /// newest Start is none of them, a newer process owns the job and this one is fenced (L4).
    pub past: Vec<u64>,
    /// How often an unknown outcome is repeated before the attempt ends.
    pub tries: u32,
}

/// What an attempt owns, or would own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    /// The attempt, which is the slot of its Start.
    pub attempt: AttemptId,
    /// Its Start.
    pub start: StartEntry,
    /// The checkpoint that it restores.
    pub restore: Option<CheckpointEntry>,
    /// The incarnation that it goes on with, or begins.
    pub incarnation: Incarnation,
    /// What the head of the log would have it restore.
    pub head_says: Option<CheckpointId>,
    /// The newest Start below, with the nonce that tells whose it is.
    pub previous: Option<(AttemptId, u64)>,
    /// The first checkpoint must be full: it is a new incarnation, or not the head is restored (R3).
    pub first_is_full: bool,
}

impl Claim {
    /// The id of the attempt's first checkpoint.
    #[must_use]
    pub fn next_id(&self) -> CheckpointId {
        self.start.next_id
    }

    /// Whether this Start begins an incarnation.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.start.began.is_some()
    }

    /// Whether it restores something else than the head says.
    #[must_use]
    pub fn departs(&self) -> bool {
        self.start.restored_from != self.head_says
    }

    /// The slot in which the attempt's first checkpoint is appended (L4).
    #[must_use]
    pub fn next_slot(&self) -> Slot {
        Slot(self.attempt.0.saturating_add(1))
    }
}

/// What the contest asks for next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ContestAction {
    /// List the slots of the log.
    List,
    /// Read one slot.
    Read(Slot),
    /// Judge the claim before it is made: R2 if it departs from what the head says, R4 if it begins an incarnation.
    Consider(Box<Claim>),
    /// Create the slot if it is absent.
    Create {
        /// Where.
        slot: Slot,
        /// What.
        entry: Box<LogEntry>,
    },
    /// The attempt owns the log.
    Owned(Box<Claim>),
    /// It does not, for this reason.
    Failed(ContestError),
}

/// What the contest is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ContestEvent {
    /// The answer to `List`, and a fresh nonce for the entry that may follow.
    Listed {
        /// All slots that exist, in any order.
        slots: Vec<Slot>,
        /// Never given before.
        nonce: u64,
    },
    /// The answer to `Read`; `None`: there is no such slot (any more).
    Read {
        /// Which.
        slot: Slot,
        /// Its content.
        entry: Option<Result<LogEntry, EntryError>>,
    },
    /// The answer to `Consider`: go on.
    Agreed,
    /// The answer to `Consider`: do not, for this reason.
    Refused(String),
    /// The answer to `Create`.
    Created(CreateOutcome),
    /// A request cannot be answered, all repeats are spent.
    StorageFailed(String),
}

/// Why an attempt does not own the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ContestError {
    /// The storage does not answer.
    Storage(String),
    /// A slot that is needed cannot be read.
    Damaged {
        /// Which.
        slot: Slot,
        /// Why.
        error: EntryError,
    },
    /// The log has no such checkpoint.
    NoSuchCheckpoint {
        /// Which.
        id: CheckpointId,
    },
    /// The Start that began an incarnation is gone.
    NoSuchIncarnation {
        /// Which.
        incarnation: u64,
    },
    /// There are entries, and not the first one: Starts are never deleted (L7), so somebody else deleted it.
    NoBeginning,
    /// Another process owns the job now.
    Fenced {
        /// Its attempt.
        by: AttemptId,
    },
    /// The caller did not agree.
    Refused(String),
    /// Nobody knows whether our Start is in this slot.
    Unsettled {
        /// Which.
        slot: Slot,
    },
    /// Lost again and again.
    Contended {
        /// How often.
        rounds: u32,
    },
    /// An answer came that was not asked for: a bug of the caller.
    OutOfOrder,
}

impl fmt::Display for ContestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContestError::Storage(why) => write!(f, "the checkpoint log cannot be read or written: {why}"),
            ContestError::Damaged { slot, error } => {
                write!(
                    f,
                    "slot {slot} of the checkpoint log is unusable: {error}; `flott checkpoints verify` tells more"
                )
            }
            ContestError::NoSuchCheckpoint { id } => {
                write!(f, "checkpoint {id} is not in the log; `flott checkpoints list` shows those that are")
            }
            ContestError::NoSuchIncarnation { incarnation } => write!(
                f,
                "the log does not hold the entry that began incarnation {incarnation:016x}: a Start slot was deleted"
            ),
            ContestError::NoBeginning => f.write_str(
                "the first entry of the checkpoint log is missing: something else than this engine deleted it; restore the directory, or move it \
                 away and start over with --restore none --overwrite",
            ),
            ContestError::Fenced { by } => write!(f, "attempt {by} of another process owns this job now"),
            ContestError::Refused(why) => f.write_str(why),
            ContestError::Unsettled { slot } => {
                write!(f, "the storage never said whether slot {slot} of the checkpoint log was written")
            }
            ContestError::Contended { rounds } => {
                write!(f, "{rounds} other attempts of this job came first: is it started in a loop elsewhere?")
            }
            ContestError::OutOfOrder => f.write_str("an answer came to a question that the contest had not asked"),
        }
    }
}

impl std::error::Error for ContestError {}

/// The contest of one attempt. It ends with [`ContestAction::Owned`] or [`ContestAction::Failed`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contest {
    options: ContestOptions,
    phase: Phase,
    rounds: u32,
    nonces: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Listing,
    Reading(Box<Survey>),
    Considering(Box<Claim>),
    Creating { claim: Box<Claim>, tries_left: u32 },
    ListingAgain(Box<Claim>),
    Over,
}

impl Contest {
    /// A contest that has not asked for anything yet.
    #[must_use]
    pub fn new(options: ContestOptions) -> Contest {
        Contest { options, phase: Phase::Listing, rounds: 0, nonces: Vec::new() }
    }

    /// The first request. Every later one is an answer of [`Contest::on`].
    pub fn begin(&mut self) -> ContestAction {
        self.begin_again()
    }

    /// The nonces of all Starts that were tried so far; they belong into [`ContestOptions::past`] of this process's
    /// later contests, once one was won.
    #[must_use]
    pub fn nonces(&self) -> &[u64] {
        &self.nonces
    }

    /// What the attempt would own, or owns: known from [`ContestAction::Consider`] or [`ContestAction::Create`] on.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Considering(claim) | Phase::Creating { claim, .. } | Phase::ListingAgain(claim) => Some(claim),
            Phase::Listing | Phase::Reading(_) | Phase::Over => None,
        }
    }

    /// Takes the answer to the last request and gives the next one.
    pub fn on(&mut self, event: ContestEvent) -> ContestAction {
        match (std::mem::replace(&mut self.phase, Phase::Over), event) {
            (_, ContestEvent::StorageFailed(why)) => ContestAction::Failed(ContestError::Storage(why)),
            (Phase::Listing, ContestEvent::Listed { slots, .. }) if !slots.is_empty() && !slots.contains(&Slot(1)) => {
                ContestAction::Failed(ContestError::NoBeginning)
            }
            // Once owned, a log is never empty: somebody took it away.
            (Phase::Listing, ContestEvent::Listed { slots, .. })
                if slots.is_empty() && !self.options.past.is_empty() =>
            {
                ContestAction::Failed(ContestError::NoBeginning)
            }
            (Phase::Listing, ContestEvent::Listed { slots, nonce }) => self.read(Box::new(Survey::new(slots, nonce))),
            (Phase::Reading(mut survey), ContestEvent::Read { slot, entry: Some(entry) }) => {
                survey.add(slot, entry);
                self.read(survey)
            }
            // Deleted since the listing: the log has moved on.
            (Phase::Reading(_), ContestEvent::Read { entry: None, .. }) => self.begin_again(),
            (Phase::Considering(claim), ContestEvent::Agreed) => self.create(claim, self.options.tries),
            (Phase::Considering(_), ContestEvent::Refused(why)) => ContestAction::Failed(ContestError::Refused(why)),
            (Phase::Creating { claim, tries_left }, ContestEvent::Created(outcome)) => {
                self.created(claim, tries_left, outcome)
            }
            (Phase::ListingAgain(claim), ContestEvent::Listed { slots, .. }) => self.listed_again(claim, &slots),
            _ => ContestAction::Failed(ContestError::OutOfOrder),
        }
    }

    fn begin_again(&mut self) -> ContestAction {
        if self.rounds >= MAX_ROUNDS {
            self.phase = Phase::Over;
            return ContestAction::Failed(ContestError::Contended { rounds: self.rounds });
        }
        self.rounds += 1;
        self.phase = Phase::Listing;
        ContestAction::List
    }

    /// Goes on reading until the claim is known.
    fn read(&mut self, survey: Box<Survey>) -> ContestAction {
        match survey.claim(&self.options.restore, self.fresh(survey.nonce())) {
            Err(Need::Read(slot)) => {
                self.phase = Phase::Reading(survey);
                ContestAction::Read(slot)
            }
            Err(Need::Impossible(error)) => ContestAction::Failed(error),
            Ok(claim) => match claim.previous {
                Some((by, nonce)) if !self.options.past.is_empty() && !self.options.past.contains(&nonce) => {
                    ContestAction::Failed(ContestError::Fenced { by })
                }
                _ if claim.begins() || claim.departs() => {
                    self.phase = Phase::Considering(claim.clone());
                    ContestAction::Consider(claim)
                }
                _ => self.create(claim, self.options.tries),
            },
        }
    }

    /// A Start that was lost may have counted all the same, and another attempt may have gone on in the incarnation that
    /// it began: the next round begins a different one.
    fn fresh(&self, nonce: u64) -> Incarnation {
        let Incarnation { id, key_seed, key_groups } = self.options.fresh;
        Incarnation { id: if self.nonces.is_empty() { id } else { id ^ nonce }, key_seed, key_groups }
    }

    fn create(&mut self, claim: Box<Claim>, tries: u32) -> ContestAction {
        let slot = Slot(claim.attempt.0);
        if tries == 0 {
            return ContestAction::Failed(ContestError::Unsettled { slot });
        }
        if self.nonces.last() != Some(&claim.start.nonce) {
            self.nonces.push(claim.start.nonce);
        }
        let entry = Box::new(LogEntry::Start(claim.start.clone()));
        self.phase = Phase::Creating { claim, tries_left: tries - 1 };
        ContestAction::Create { slot, entry }
    }

    fn created(&mut self, claim: Box<Claim>, tries_left: u32, outcome: CreateOutcome) -> ContestAction {
        match outcome {
            CreateOutcome::Won => self.list_again(claim),
            CreateOutcome::Taken(Ok(LogEntry::Start(found))) if found == claim.start => self.list_again(claim),
            CreateOutcome::Taken(_) => self.begin_again(),
            CreateOutcome::Unknown => self.create(claim, tries_left),
        }
    }

    fn list_again(&mut self, claim: Box<Claim>) -> ContestAction {
        self.phase = Phase::ListingAgain(claim);
        ContestAction::List
    }

    /// A missing slot below or any slot above: ours was a hole, and the Start in it is void (L2).
    fn listed_again(&mut self, claim: Box<Claim>, slots: &[Slot]) -> ContestAction {
        let mine = claim.attempt.0;
        let top = slots.iter().map(|slot| slot.0).max().unwrap_or(0);
        let below = mine == 1 || slots.contains(&Slot(mine - 1));
        if top == mine && below { ContestAction::Owned(claim) } else { self.begin_again() }
    }
}
