//! What must hold in every run, whatever goes wrong, checked while it happens. One file per invariant.
//!
//! - I1 (nothing behind a barrier influences the cut before it) is asserted by the gate at each cut, and seen by I2 as well.
//! - The second half of I8 (what nobody needs goes in the end) is checked after the end, by [`crate::aftermath`].
//! - I13 (another number of workers changes nothing) is what I2, I6 and I11 say when each process has another number.
//! - I12 and I14 belong to event time and loops.

mod i02_exact_state;
mod i03_stopped_world;
mod i04_in_flight;
mod i05_never_less;
mod i06_output;
mod i07_log;
mod i08_durable;
mod i09_progress;
mod i10_fencing;
mod i11_finished;

pub use i03_stopped_world::check as stopped_world;
pub use i06_output::Visible;
pub use i09_progress::{outcome, stuck};

use crate::checkpoints::Chain;
use crate::jobs::{Job, Row};
use crate::oracle::{Yield, fold, whole};
use crate::storage::Storage;
use flott_checkpoint::{AttemptId, CheckpointEntry, CheckpointId, LogEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Something happened that must never happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which promise is broken.
    pub invariant: &'static str,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// All is well, or not.
pub type Checked = Result<(), Violation>;

/// Says what is broken.
///
/// # Errors
/// Always.
pub fn broken(invariant: &'static str, text: impl Into<String>) -> Checked {
    Err(Violation { invariant, text: text.into() })
}

/// What the checks remember of a run.
pub struct Ledger {
    job: Arc<Job>,
    /// No checkpoint of the run is taken without alignment.
    exact: bool,
    whole: Yield,
    /// The rows that must come out, by what tells them apart.
    rows: BTreeMap<(u32, u64, u64, u16), Row>,
    slots: BTreeMap<u64, LogEntry>,
    /// Slots that retention deleted.
    deleted_slots: BTreeSet<u64>,
    /// Starts that fill a hole: they own nothing (L2).
    void: BTreeSet<u64>,
    newest: Option<CheckpointEntry>,
    /// The newest checkpoint that an attempt recorded or restored.
    own: BTreeMap<AttemptId, CheckpointId>,
    /// What a restore from the newest checkpoint needs.
    needed: BTreeSet<String>,
    /// The committed parts that were seen: checkpoint, subtask, number.
    seen: BTreeSet<(u64, u64, u64)>,
    /// Checkpoints recorded so far.
    pub recorded: u64,
    /// Those of them with rows in flight.
    pub in_flight: u64,
    /// The newest attempt that owns the log.
    owner: Option<AttemptId>,
}

impl Ledger {
    /// Nothing happened yet.
    #[must_use]
    pub fn new(job: &Arc<Job>, workers: u16, exact: bool) -> Ledger {
        let whole = fold(job, workers, &whole(job));
        let rows = whole.output.values().flatten().map(|row| (crate::oracle::identity(row), row.clone())).collect();
        Ledger {
            job: job.clone(),
            exact,
            whole,
            rows,
            slots: BTreeMap::new(),
            deleted_slots: BTreeSet::new(),
            void: BTreeSet::new(),
            newest: None,
            own: BTreeMap::new(),
            needed: BTreeSet::new(),
            seen: BTreeSet::new(),
            recorded: 0,
            in_flight: 0,
            owner: None,
        }
    }

    /// A create of a log slot succeeded, whoever asked for it.
    ///
    /// # Errors
    /// The invariant that is broken.
    pub fn slot_written(&mut self, path: &str, storage: &Storage) -> Checked {
        let (slot, entry) = i07_log::read(path, storage)?;
        i07_log::check(self, slot, &entry)?;
        let below = slot == 1 || storage.get(&format!("log/{}.json", slot - 1)).is_some();
        let above = self.slots.keys().next_back().is_some_and(|&top| top > slot);
        match &entry {
            // It fills a hole that retention left, too late to mean anything.
            _ if above => drop(self.void.insert(slot)),
            LogEntry::Start(_) if !below => drop(self.void.insert(slot)),
            LogEntry::Start(start) => {
                i07_log::check_start(self, start)?;
                self.owner = Some(start.attempt);
                self.own.extend(start.restored_from.map(|id| (start.attempt, id)));
            }
            LogEntry::Checkpoint(checkpoint) => {
                i07_log::check_id(self, checkpoint.id)?;
                i10_fencing::appended(self, slot, checkpoint)?;
                self.checkpoint_recorded(checkpoint, storage)?;
            }
        }
        self.slots.insert(slot, entry);
        Ok(())
    }

    fn checkpoint_recorded(&mut self, entry: &CheckpointEntry, storage: &Storage) -> Checked {
        let chain = i08_durable::recorded(entry, storage)?;
        i04_in_flight::check(&chain)?;
        if self.exact {
            i02_exact_state::check(&self.job, &chain, storage)?;
        } else {
            i05_never_less::check(&self.job, &chain, storage)?;
        }
        self.needed = chain.paths().collect();
        self.own.insert(entry.attempt, entry.id);
        self.newest = Some(entry.clone());
        self.recorded += 1;
        self.in_flight += u64::from(chain.top().captured().records > 0);
        Ok(())
    }

    /// Whether a newer attempt owns the log.
    #[must_use]
    pub fn is_superseded(&self, attempt: AttemptId) -> bool {
        self.owner.is_some_and(|owner| owner > attempt)
    }

    /// An object is about to be deleted.
    ///
    /// # Errors
    /// If a restore needs it.
    pub fn deleting(&mut self, path: &str) -> Checked {
        i08_durable::deleting(self, path)?;
        let slot = path.strip_prefix("log/").and_then(|name| name.strip_suffix(".json"));
        self.deleted_slots.extend(slot.and_then(|slot| slot.parse::<u64>().ok()));
        Ok(())
    }

    /// An attempt made a call that may have committed something.
    ///
    /// # Errors
    /// If something is visible that must not be.
    pub fn output(&mut self, by: Option<AttemptId>, visible: &Visible) -> Checked {
        let new: Vec<(u64, u64, u64)> =
            visible.parts.iter().filter(|part| !self.seen.contains(part)).copied().collect();
        if new.is_empty() && visible.parts.len() == self.seen.len() {
            return Ok(());
        }
        i06_output::committed(self, &new)?;
        i06_output::in_order(self, &new)?;
        if let Some(attempt) = by {
            i10_fencing::commits(self, attempt, &new)?;
        }
        i06_output::rows(self, visible)?;
        self.seen.extend(new);
        Ok(())
    }

    /// The job says that it is finished.
    ///
    /// # Errors
    /// If its output or its state is not that of an undisturbed run.
    pub fn finished(&self, visible: &Visible, storage: &Storage) -> Checked {
        i11_finished::check(self, visible, storage)
    }

    /// The newest checkpoint that was recorded.
    #[must_use]
    pub fn newest(&self) -> Option<&CheckpointEntry> {
        self.newest.as_ref()
    }

    /// The manifest of the newest checkpoint.
    #[must_use]
    pub fn chain(&self, storage: &Storage) -> Option<Chain> {
        Chain::read(storage, self.newest.as_ref()?).ok()
    }
}
