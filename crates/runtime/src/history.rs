//! The history: one object for each checkpoint that was tried, also for those that failed, so that no failure is silent and
//! none is forgotten by a restart (D14).
//!
//! Nothing is ever decided by the history; losing it costs only insight.

use crate::control::{Captured, SubtaskPart};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::layout;
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointId, LiteSet, Outcome, SubtaskId, Tried};
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// The version of the history format that this program writes, and the newest one that it reads.
pub const HISTORY_FORMAT: u32 = 1;

/// So many entries are kept, whatever they say (G3).
pub const KEPT: usize = 1_000;

/// Failures are kept for so long (G3).
pub const FAILURES_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const ENVELOPE: Envelope = Envelope { kind: "history", format: HISTORY_FORMAT };

/// What became of one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The barrier, when it ended, and how: with reason, subtask and step if it failed.
    pub tried: Tried,
    /// How many workers the attempt had.
    pub workers: u16,
    /// Where the time went, as far as parts arrived.
    pub phases: Phases,
    /// What was in flight at the cuts, all channels together.
    #[serde(default, skip_serializing_if = "Captured::is_nothing")]
    pub captured: Captured,
}

/// The phases of a checkpoint in microseconds: of each, the slowest subtask and how long it took there. Phases of different
/// subtasks overlap, so they do not add up to the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Phases {
    /// From the trigger to the first barrier.
    pub start_delay: Slowest,
    /// From the first barrier to the cut.
    pub alignment: Slowest,
    /// The cut.
    pub cut: Slowest,
    /// From the cut to the end of the scan.
    pub scan: Slowest,
    /// From the end of the scan to the durable part.
    pub upload: Slowest,
    /// From the last ack to the log slot: the manifest and the entry.
    pub record: u64,
}

/// The slowest subtask of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Slowest {
    /// How long it took.
    pub micros: u64,
    /// Which subtask; `None` if there was no part.
    pub subtask: Option<SubtaskId>,
}

impl Slowest {
    fn or(self, micros: u64, subtask: SubtaskId) -> Slowest {
        if self.subtask.is_some() && self.micros >= micros { self } else { Slowest { micros, subtask: Some(subtask) } }
    }
}

impl Phases {
    /// Each phase by its name, and its microseconds.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("start-delay", self.start_delay.micros),
            ("alignment", self.alignment.micros),
            ("cut", self.cut.micros),
            ("scan", self.scan.micros),
            ("upload", self.upload.micros),
            ("record", self.record),
        ]
    }

    /// The slowest subtask of each phase.
    #[must_use]
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a SubtaskPart>, record: u64) -> Phases {
        let start = Phases { record, ..Phases::default() };
        parts.into_iter().fold(start, |phases, part| Phases {
            start_delay: phases.start_delay.or(part.timings.start_delay, part.subtask),
            alignment: phases.alignment.or(part.timings.alignment, part.subtask),
            cut: phases.cut.or(part.timings.cut, part.subtask),
            scan: phases.scan.or(part.timings.scan, part.subtask),
            upload: phases.upload.or(part.timings.upload, part.subtask),
            record: phases.record,
        })
    }
}

impl HistoryEntry {
    /// The checkpoint that was tried.
    #[must_use]
    pub fn id(&self) -> CheckpointId {
        self.tried.barrier.id
    }

    /// The attempt that tried it.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.tried.barrier.attempt
    }

    /// Its path in the job's directory.
    #[must_use]
    pub fn path(&self) -> String {
        layout::history(self.id(), self.attempt())
    }

    /// Whether the checkpoint was recorded.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self.tried.outcome, Outcome::Completed { .. })
    }

    /// Why it was not recorded, for people: subtask, step and cause.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match &self.tried.outcome {
            Outcome::Completed { .. } => None,
            Outcome::Aborted(reason) => Some(reason.to_string()),
            Outcome::Unknown { reason } => Some(format!("nobody knows whether it was recorded: {reason}")),
        }
    }

    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        ENVELOPE.seal(self)
    }

    /// Reads an entry back. Never panics; every flipped bit is found.
    ///
    /// # Errors
    /// `Unusable`: damaged, of a newer format, or not what its path says.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<HistoryEntry> {
        let entry = ENVELOPE.open::<HistoryEntry>(bytes).and_then(|entry| {
            if entry.path() == path {
                return Ok(entry);
            }
            let what = format!("it is that of checkpoint {} of attempt {}", entry.id(), entry.attempt());
            Err(Error::unusable(format!("the history entry contradicts its name: {what}")))
        });
        entry.map_err(|error| error.at_position(path))
    }
}

/// The name of an entry in the order of age: ids grow over the whole log, and an id is tried again only by a later attempt.
pub type HistoryKey = (CheckpointId, AttemptId);

/// What must be known of an old entry before it can be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The checkpoint was not recorded.
    pub failed: bool,
    /// When it ended, in milliseconds since the epoch.
    pub ended_at: u64,
}

impl From<&HistoryEntry> for Seen {
    fn from(entry: &HistoryEntry) -> Seen {
        Seen { failed: !entry.is_completed(), ended_at: entry.tried.ended_at }
    }
}

/// Which entries can be forgotten (G3: the newest 1,000 and all failures of 7 days stay), and which must be read first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// To be deleted.
    pub delete: Vec<HistoryKey>,
    /// Old ones of which nothing is known yet.
    pub read: Vec<HistoryKey>,
}

/// Rule G3. `seen` is what is known of entries, `None` of one that cannot be read: that is no proof of anything, and it goes.
#[must_use]
pub fn expired(
    entries: impl IntoIterator<Item = HistoryKey>,
    seen: &LiteMap<HistoryKey, Option<Seen>>,
    now_millis: u64,
) -> Expired {
    let keys: LiteSet<HistoryKey> = entries.into_iter().collect();
    let old = keys.len().saturating_sub(KEPT);
    let kept_for = u64::try_from(FAILURES_KEPT_FOR.as_millis()).unwrap_or(u64::MAX);
    let mut expired = Expired::default();
    for key in keys.into_iter().take(old) {
        match seen.get(&key) {
            None => expired.read.push(key),
            Some(Some(seen)) if seen.failed && now_millis.saturating_sub(seen.ended_at) < kept_for => {}
            Some(_) => expired.delete.push(key),
        }
    }
    expired
}
