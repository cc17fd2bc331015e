//! Whether a job may go on from an older checkpoint than the newest recorded one (rule R2, D16).
//!
//! Two ways lead here: the checkpoint that the log says cannot be read, or the user names an older one. Either way output
//! of later epochs would be produced again; where a transactional sink may have published it already, that doubles it,
//! so nobody does it silently.

use crate::ids::CheckpointId;
use crate::log::CheckpointEntry;
use std::fmt;

#[cfg(test)]
mod tests;

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

/// Where to go when `damaged` cannot be restored: to its parent, one step. If that one is damaged as well, it is judged anew.
///
/// A fallback never leaves the incarnation (L3), for the first checkpoint of one has no parent.
///
/// # Errors
/// When there is none before it, when none is wanted, or when output would be doubled.
pub fn fall_back(damaged: &CheckpointEntry, committed: &[SinkEpoch], allowed: Allowed) -> Result<GoBack, Refusal> {
    let id = damaged.id;
    // Parents are older: a damaged log cannot make this a circle.
    let Some(to) = damaged.parent.filter(|parent| *parent < id) else { return Err(Refusal::NoneLeft { damaged: id }) };
    if allowed.no_fallback {
        Err(Refusal::NotWanted { damaged: id, to })
    } else {
        judge_going_back(to, committed, allowed)
    }
}
