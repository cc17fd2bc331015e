//! What a run has seen, and what follows from it: which objects are garbage. Pure.

use super::Memory;
use crate::layout::{self, Name};
use flott_checkpoint::{AttemptId, CheckpointId, InUse, LogEntry, Recorded, Retention, Slot, retain};
use std::collections::BTreeSet;

/// What one run has seen of the directory.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) slots: BTreeSet<Slot>,
    pub(super) manifests: BTreeSet<(CheckpointId, AttemptId)>,
    /// Sorted, so that all segments of an attempt and checkpoint are together.
    pub(super) segments: BTreeSet<(AttemptId, CheckpointId, u16)>,
    pub(super) pins: BTreeSet<String>,
}

impl Sight {
    pub(super) fn add(&mut self, path: String) {
        match layout::parse(&path) {
            Some(Name::Slot(slot)) => drop(self.slots.insert(slot)),
            Some(Name::Manifest(id, attempt)) => drop(self.manifests.insert((id, attempt))),
            Some(Name::Segment { attempt, id, worker }) => drop(self.segments.insert((attempt, id, worker))),
            Some(Name::Pin(_)) => drop(self.pins.insert(path)),
            // The history has a pass of its own; what does not parse is not ours.
            Some(Name::History(..)) | None => {}
        }
    }

    /// The paths of all segments of a checkpoint.
    pub(super) fn segments_of(&self, id: CheckpointId, attempt: AttemptId) -> Vec<String> {
        let all = self.segments.range((attempt, id, 0)..=(attempt, id, u16::MAX));
        all.map(|&(attempt, id, worker)| layout::segment(attempt, id, worker)).collect()
    }
}

/// Which checkpoints go, and which objects belong to none.
#[derive(Debug)]
pub(super) struct Garbage {
    pub(super) retention: Retention,
    /// The highest slot seen: never deleted (L7).
    pub(super) highest: Slot,
    /// Manifests of nothing, and after them segments of nothing.
    pub(super) orphans: Vec<String>,
}

/// Sorts what was seen.
///
/// # Errors
/// If a needed manifest cannot be read: then nobody knows what it needs, and nothing may go.
pub(super) fn sort(sight: &Sight, memory: &Memory, in_use: &InUse) -> Result<Garbage, String> {
    let known = sight.slots.iter().filter_map(|slot| memory.recorded.get(slot));
    let recorded: Vec<Recorded> = known.clone().map(|(recorded, _)| recorded.clone()).collect();
    let retention = retain(&recorded, in_use);
    for (recorded, readable) in known {
        if let (Err(reason), true) = (readable, retention.needed.contains(&recorded.id)) {
            return Err(format!(
                "nothing is collected, because checkpoint {} is needed and unreadable: {reason}",
                recorded.id
            ));
        }
    }
    let of_the_log: BTreeSet<(CheckpointId, AttemptId)> =
        recorded.iter().map(|known| (known.id, known.attempt)).collect();
    // A listing is no snapshot: what was recorded while it ran may be missing beside something newer. What was recorded
    // before the run began is certain to be in it.
    let own = recorded.iter().filter(|known| known.attempt == in_use.attempt).map(|known| known.id).max();
    let own = own.zip(in_use.newest).map(|(listed, before)| listed.min(before));
    let is_orphan = |id: CheckpointId, attempt: AttemptId| {
        // Of the own attempt, what is newer than the newest checkpoint recorded then may be recorded by now.
        let is_over = attempt < in_use.attempt || (attempt == in_use.attempt && own.is_some_and(|own| id < own));
        is_over && !of_the_log.contains(&(id, attempt)) && !retention.needed.contains(&id)
    };
    let manifests = sight.manifests.iter().filter(|(id, attempt)| is_orphan(*id, *attempt));
    let segments = sight.segments.iter().filter(|(attempt, id, _)| is_orphan(*id, *attempt));
    let orphans = manifests
        .map(|&(id, attempt)| layout::manifest(id, attempt))
        .chain(segments.map(|&(attempt, id, worker)| layout::segment(attempt, id, worker)))
        .collect();
    let highest = sight.slots.last().copied().unwrap_or(Slot(0));
    Ok(Garbage { retention, highest, orphans })
}

/// A checkpoint of the log, as far as its entry says; the manifest adds base and kind.
pub(super) fn recorded(slot: Slot, entry: &LogEntry) -> Option<Recorded> {
    match entry {
        LogEntry::Start(_) => None,
        LogEntry::Checkpoint(entry) => Some(Recorded {
            id: entry.id,
            slot,
            attempt: entry.attempt,
            parent: entry.parent,
            base: None,
            savepoint: false,
        }),
    }
}
