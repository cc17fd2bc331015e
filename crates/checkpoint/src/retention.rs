//! Which recorded checkpoints are needed and which may go (rule G1).
//!
//! Counted along `parent` from the newest of this line, so that a branch abandoned by a fallback does not use up the
//! number; and closed over `base`, so that an increment keeps everything below it, down to the full one. Before an attempt
//! has recorded anything nothing goes: until then the abandoned branch may be all there is.
//!
//! It decides about checkpoints, not about objects, and deletes nothing; [`crate::Collection`] does that in the right order.

use crate::ids::{AttemptId, CheckpointId, Slot};
use crate::lite::{LiteSet, lite_map};
use litemap::LiteMap;

#[cfg(test)]
mod tests;

/// A checkpoint that is in the log, as far as retention goes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Recorded {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Its slot.
    pub slot: Slot,
    /// The attempt that recorded it.
    pub attempt: AttemptId,
    /// The checkpoint before it in its line; `None` also for the first one of an incarnation.
    pub parent: Option<CheckpointId>,
    /// The checkpoint that a part of it builds on; `None`: it is full.
    pub base: Option<CheckpointId>,
    /// It was taken to be copied elsewhere: nothing builds on it, and it does not use up the number of those that are kept.
    pub savepoint: bool,
}

/// What is in use besides the newest checkpoints.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InUse {
    /// The attempt that decides; checkpoints of newer ones are none of its business (G2).
    pub attempt: AttemptId,
    /// The checkpoint recorded last by this attempt, or the restored one.
    pub newest: Option<CheckpointId>,
    /// What the newest Start restored (`restored_from`).
    pub restored_from: Option<CheckpointId>,
    /// The pending checkpoint and its base ([`crate::Coordinator::in_use`]).
    pub pending: Option<(CheckpointId, Option<CheckpointId>)>,
    /// Checkpoints that readers hold.
    pub pins: LiteSet<CheckpointId>,
    /// How many of this line are kept.
    pub retained: u32,
}

/// What retention says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Retention {
    /// Checkpoints of which nothing may be deleted.
    pub needed: LiteSet<CheckpointId>,
    /// Checkpoints that may go, oldest first.
    pub expendable: Vec<Recorded>,
}

/// Sorts the recorded checkpoints into those that are needed and those that may go.
#[must_use]
pub fn retain(recorded: &[Recorded], in_use: &InUse) -> Retention {
    let by_id = lite_map(recorded.iter().map(|known| (known.id, known)));
    let mut needed: LiteSet<CheckpointId> = in_use.pins.clone();
    needed.extend(in_use.pending.iter().flat_map(|&(id, base)| [Some(id), base]).flatten());
    // What is said to be in use may be older than what was seen: own checkpoints may have been recorded in between.
    let own = |known: &Recorded| known.attempt == in_use.attempt;
    let is_newer = |known: &Recorded| known.attempt > in_use.attempt || (own(known) && Some(known.id) > in_use.newest);
    needed.extend(recorded.iter().filter(|known| is_newer(known)).map(|known| known.id));
    let has_recorded = recorded.iter().any(|known| own(known) && !known.savepoint && !is_newer(known));
    if has_recorded {
        needed.extend(newest(&by_id, in_use.newest, in_use.retained));
    } else {
        needed.extend(in_use.newest);
        needed.extend(in_use.restored_from);
        needed.extend(by_id.keys().copied());
    }
    close_over_bases(&by_id, &mut needed);
    let expendable = by_id.values().filter(|known| !needed.contains(&known.id)).map(|&known| known.clone()).collect();
    Retention { needed, expendable }
}

/// The newest `retained` checkpoints of a line; savepoints lie on it but do not count.
fn newest(by_id: &LiteMap<CheckpointId, &Recorded>, from: Option<CheckpointId>, retained: u32) -> Vec<CheckpointId> {
    let mut kept = Vec::new();
    let mut left = retained.max(1);
    let mut next = from;
    while let Some(known) = next.and_then(|id| by_id.get(&id)).filter(|_| left > 0) {
        kept.push(known.id);
        left -= u32::from(!known.savepoint);
        // Parents are older: a damaged log cannot make this a circle.
        next = known.parent.filter(|parent| *parent < known.id);
    }
    kept
}

/// An increment needs its base, and that one its own.
fn close_over_bases(by_id: &LiteMap<CheckpointId, &Recorded>, needed: &mut LiteSet<CheckpointId>) {
    let mut open: Vec<CheckpointId> = needed.iter().copied().collect();
    while let Some(id) = open.pop() {
        if let Some(base) = by_id.get(&id).and_then(|known| known.base)
            && needed.insert(base)
        {
            open.push(base);
        }
    }
}
