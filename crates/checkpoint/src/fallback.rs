//! Whether a job may go on from an older checkpoint than the newest recorded one (rule R2, D16).
//!
//! Two ways lead here: the checkpoint that the log says cannot be read, or the user names an older one. Either way output
//! of later epochs would be produced again; where a transactional sink may have published it already, that doubles it,
//! so nobody does it silently.

use crate::guarantee::Guarantee;
use crate::ids::CheckpointId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(test)]
mod tests;

/// A recorded checkpoint, as far as a fallback goes. All of it stands in the log, not in the manifest that may be damaged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ancestor {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The one before it in its line.
    pub parent: Option<CheckpointId>,
    /// The incarnation of its attempt. A fallback never leaves it (L3).
    pub incarnation: u64,
}

/// The newest epoch that a transactional sink may have committed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SinkEpoch {
    /// The sink.
    pub sink: String,
    /// The epoch, which is the id of the checkpoint that ends it.
    pub epoch: CheckpointId,
}

/// What is known of commits when nothing better is: each transactional sink may have committed whatever is recorded,
/// in any incarnation, since a commit follows the record at once.
#[must_use]
pub fn may_have_committed<'a>(
    transactional_sinks: impl IntoIterator<Item = &'a str>,
    newest_recorded: Option<CheckpointId>,
) -> Vec<SinkEpoch> {
    let Some(epoch) = newest_recorded else { return Vec::new() };
    transactional_sinks.into_iter().map(|sink| SinkEpoch { sink: sink.to_owned(), epoch }).collect()
}

/// What the user allows (`--no-fallback`, `--allow-duplicates`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Allowed {
    /// No fallback by itself.
    pub no_fallback: bool,
    /// Output may be doubled.
    pub duplicates: bool,
}

/// The older checkpoint may be restored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GoBack {
    /// This one.
    pub to: CheckpointId,
    /// Output that may come twice, allowed by `--allow-duplicates`; empty: none.
    pub doubled: Vec<SinkEpoch>,
}

impl GoBack {
    /// What the restored state and output are worth at most: at least once if output may be doubled.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        if self.doubled.is_empty() { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce }
    }
}

/// The older checkpoint may not be restored. Exit code 4.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// A sink may have committed a later epoch.
    Committed {
        /// What would be restored.
        to: CheckpointId,
        /// The sink and its epoch.
        committed: SinkEpoch,
    },
    /// The newest checkpoint is damaged and the user wants no fallback.
    NotWanted {
        /// The damaged one.
        damaged: CheckpointId,
        /// Where it would have gone.
        to: CheckpointId,
    },
    /// There is no older one in this incarnation.
    NoneLeft {
        /// The newest damaged one.
        damaged: CheckpointId,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Committed { to, committed: SinkEpoch { sink, epoch } } => write!(
                f,
                "checkpoint {to} is not restored, because sink {sink} may have committed output up to checkpoint {epoch} \
                 and would write it again; --allow-duplicates permits that"
            ),
            Refusal::NotWanted { damaged, to } => write!(
                f,
                "checkpoint {damaged} is damaged; without --no-fallback the job would go on from checkpoint {to}"
            ),
            Refusal::NoneLeft { damaged } => write!(
                f,
                "checkpoint {damaged} is damaged and there is no older one to go back to; --restore none --overwrite starts over"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// The checkpoint of `--restore ID`, or of a fallback, if it lies before what is committed.
///
/// # Errors
/// When a transactional sink may have committed a later epoch and duplicates are not allowed.
pub fn judge_going_back(to: CheckpointId, committed: &[SinkEpoch], allowed: Allowed) -> Result<GoBack, Refusal> {
    let later: Vec<SinkEpoch> = committed.iter().filter(|sink| sink.epoch > to).cloned().collect();
    match later.first() {
        Some(first) if !allowed.duplicates => Err(Refusal::Committed { to, committed: first.clone() }),
        _ => Ok(GoBack { to, doubled: later }),
    }
}

/// Where to go when `damaged` cannot be restored: along `parent` to the first checkpoint that is not in `unusable`.
///
/// # Errors
/// When there is none in this incarnation, when none is wanted, or when output would be doubled.
pub fn fall_back(
    damaged: CheckpointId,
    unusable: &BTreeSet<CheckpointId>,
    recorded: &[Ancestor],
    committed: &[SinkEpoch],
    allowed: Allowed,
) -> Result<GoBack, Refusal> {
    let by_id: BTreeMap<CheckpointId, &Ancestor> = recorded.iter().map(|known| (known.id, known)).collect();
    let none_left = Refusal::NoneLeft { damaged };
    let Some(&from) = by_id.get(&damaged) else { return Err(none_left) };
    let mut at = from;
    let to = loop {
        let parent = at.parent.filter(|parent| *parent < at.id).and_then(|parent| by_id.get(&parent));
        match parent {
            Some(older) if older.incarnation != from.incarnation => return Err(none_left),
            Some(older) if unusable.contains(&older.id) => at = older,
            Some(older) => break older.id,
            None => return Err(none_left),
        }
    };
    if allowed.no_fallback { Err(Refusal::NotWanted { damaged, to }) } else { judge_going_back(to, committed, allowed) }
}
