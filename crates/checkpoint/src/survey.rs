//! What a new attempt learns from the log before it makes its claim (rules L3, L6, R3).
//!
//! The survey holds one listing and the entries read so far; [`Survey::claim`] either knows the claim or names the one
//! slot that it must see next. Entries never change, so asking again from the start is cheap and has no order to get wrong.
//!
//! `parent` is never followed here: what is restored is what the head says, or what the caller named.

use crate::contest::{Claim, ContestError, Restore};
use crate::ids::{AttemptId, CheckpointId, Slot};
use crate::lite::LiteSet;
use crate::log::{CheckpointEntry, EntryError, Incarnation, LogEntry, Savepoint, StartEntry};
use litemap::LiteMap;

/// What is missing for a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// This slot must be read.
    Read(Slot),
    /// There will be no claim.
    Impossible(ContestError),
}

/// One listing of the log and what was read of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Survey {
    slots: LiteSet<Slot>,
    nonce: u64,
    entries: LiteMap<Slot, Result<LogEntry, EntryError>>,
}

impl Survey {
    pub(crate) fn new(slots: Vec<Slot>, nonce: u64) -> Survey {
        Survey { slots: slots.into_iter().collect(), nonce, entries: LiteMap::new_vec() }
    }

    /// The nonce of the entry that may follow.
    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(crate) fn add(&mut self, slot: Slot, entry: Result<LogEntry, EntryError>) {
        let entry = entry.and_then(|entry| entry.check_slot(slot).map(|()| entry));
        self.entries.insert(slot, entry);
    }

    /// The claim of an attempt that starts above the head of this listing.
    pub(crate) fn claim(&self, restore: &Restore, fresh: Incarnation) -> Result<Box<Claim>, Need> {
        let Some(&head) = self.slots.last() else { return self.first_claim(restore, fresh) };
        let head_entry = self.entry(head)?;
        let newest_start = self.start(head_entry.attempt())?;
        let (head_says, from, next_id) = match head_entry {
            LogEntry::Start(start) => (start.restored_from, start.savepoint.as_ref(), start.next_id),
            LogEntry::Checkpoint(checkpoint) => {
                (Some(checkpoint.id), None, CheckpointId(checkpoint.id.0.saturating_add(1)))
            }
        };
        let (target, savepoint) = match restore {
            Restore::Latest => (head_says, from),
            Restore::Id(id) => (Some(*id), None),
            Restore::None => (None, None),
            Restore::Savepoint(elsewhere) => (None, Some(&elsewhere.savepoint)),
        };
        let found = target.map(|id| self.checkpoint(head, id)).transpose()?;
        let begins = begins(restore, fresh);
        let incarnation = match (&found, restore, begins) {
            (_, _, Some(begins)) => begins,
            (Some((_, checkpoint)), Restore::Id(_), _) => self.began(self.start(checkpoint.attempt)?.incarnation)?,
            _ => self.began(newest_start.incarnation)?,
        };
        let first_is_full = match &found {
            Some((slot, checkpoint)) => target != head_says || !self.only_restarts_since(*slot, head, checkpoint.id)?,
            None => true,
        };
        let attempt = AttemptId(head.0.saturating_add(1));
        Ok(Box::new(Claim {
            attempt,
            start: StartEntry {
                attempt,
                nonce: self.nonce,
                incarnation: incarnation.id,
                restored_from: target,
                next_id: above(savepoint, next_id),
                began: begins,
                savepoint: savepoint.cloned(),
            },
            restore: found.map(|(_, checkpoint)| checkpoint.clone()),
            incarnation,
            head_says,
            previous: Some((newest_start.attempt, newest_start.nonce)),
            first_is_full,
        }))
    }

    /// The claim on an empty log: an incarnation begins.
    fn first_claim(&self, restore: &Restore, fresh: Incarnation) -> Result<Box<Claim>, Need> {
        let savepoint = match restore {
            Restore::Id(id) => return Err(Need::Impossible(ContestError::NoSuchCheckpoint { id: *id })),
            Restore::Savepoint(elsewhere) => Some(&elsewhere.savepoint),
            Restore::Latest | Restore::None => None,
        };
        let attempt = AttemptId(1);
        let incarnation = begins(restore, fresh).unwrap_or(fresh);
        let start = StartEntry {
            attempt,
            nonce: self.nonce,
            incarnation: incarnation.id,
            restored_from: None,
            next_id: above(savepoint, CheckpointId(1)),
            began: Some(incarnation),
            savepoint: savepoint.cloned(),
        };
        Ok(Box::new(Claim {
            attempt,
            start,
            restore: None,
            incarnation,
            head_says: None,
            previous: None,
            first_is_full: true,
        }))
    }

    /// An entry without which there is no claim.
    fn entry(&self, slot: Slot) -> Result<&LogEntry, Need> {
        match self.entries.get(&slot) {
            Some(Ok(entry)) => Ok(entry),
            Some(Err(error)) => Err(Need::Impossible(ContestError::Damaged { slot, error: error.clone() })),
            None => Err(Need::Read(slot)),
        }
    }

    fn start(&self, attempt: AttemptId) -> Result<&StartEntry, Need> {
        let slot = Slot(attempt.0);
        match self.entry(slot)? {
            LogEntry::Start(start) => Ok(start),
            LogEntry::Checkpoint(_) => {
                let error = EntryError::Malformed(format!("a checkpoint where the Start of attempt {attempt} must be"));
                Err(Need::Impossible(ContestError::Damaged { slot, error }))
            }
        }
    }

    /// The newest entry at or below the head that recorded this id. Damaged slots on the way hinder only if it is not found.
    fn checkpoint(&self, head: Slot, id: CheckpointId) -> Result<(Slot, &CheckpointEntry), Need> {
        self.search(self.slots.iter().rev().filter(|slot| **slot <= head), |slot, entry| match entry {
            LogEntry::Checkpoint(checkpoint) if checkpoint.id == id => Some((slot, checkpoint)),
            _ => None,
        })?
        .ok_or(Need::Impossible(ContestError::NoSuchCheckpoint { id }))
    }

    /// What the Start that began this incarnation says. Most jobs have one, at the very bottom.
    fn began(&self, incarnation: u64) -> Result<Incarnation, Need> {
        self.search(self.slots.iter(), |_, entry| match entry {
            LogEntry::Start(start) => start.began.filter(|began| began.id == incarnation),
            LogEntry::Checkpoint(_) => None,
        })?
        .ok_or(Need::Impossible(ContestError::NoSuchIncarnation { incarnation }))
    }

    fn search<'a, T>(
        &'a self,
        slots: impl Iterator<Item = &'a Slot>,
        wanted: impl Fn(Slot, &'a LogEntry) -> Option<T>,
    ) -> Result<Option<T>, Need> {
        let mut damaged = None;
        for &slot in slots {
            match self.entries.get(&slot) {
                None => return Err(Need::Read(slot)),
                Some(Ok(entry)) => {
                    if let Some(found) = wanted(slot, entry) {
                        return Ok(Some(found));
                    }
                }
                Some(Err(error)) => damaged = damaged.or(Some((slot, error.clone()))),
            }
        }
        match damaged {
            Some((slot, error)) => Err(Need::Impossible(ContestError::Damaged { slot, error })),
            None => Ok(None),
        }
    }

    /// Whether every slot above the checkpoint's is there and is a Start that restored it: then it is the head in the
    /// sense of R3, and an increment may build on it.
    fn only_restarts_since(&self, slot: Slot, head: Slot, id: CheckpointId) -> Result<bool, Need> {
        for above in (slot.0..head.0).map(|below| Slot(below.saturating_add(1))) {
            if !self.slots.contains(&above) {
                return Ok(false);
            }
            match self.entries.get(&above) {
                None => return Err(Need::Read(above)),
                Some(Ok(LogEntry::Start(start))) if start.restored_from == Some(id) => {}
                Some(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The incarnation that begins here whatever the head says: with a savepoint its key seed and key groups stay (R3).
fn begins(restore: &Restore, fresh: Incarnation) -> Option<Incarnation> {
    match restore {
        Restore::Latest | Restore::Id(_) => None,
        Restore::None => Some(fresh),
        Restore::Savepoint(elsewhere) => Some(Incarnation { id: fresh.id, ..elsewhere.incarnation }),
    }
}

/// Ids also exceed that of a restored savepoint: tokens and states tell epochs by them.
fn above(savepoint: Option<&Savepoint>, next_id: CheckpointId) -> CheckpointId {
    savepoint.map_or(next_id, |savepoint| next_id.max(CheckpointId(savepoint.id.0.saturating_add(1))))
}
