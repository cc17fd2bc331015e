//! I10: an attempt that lost the log records nothing, and commits nothing but what it had itself recorded or restored.

use super::{Checked, Ledger, broken};
use flott_checkpoint::{AttemptId, CheckpointEntry, LogEntry};

const TAG: &str = "I10 fencing";

pub(super) fn appended(ledger: &Ledger, slot: u64, entry: &CheckpointEntry) -> Checked {
    let starts = ledger.slots.range(..slot).rev().filter(|(slot, _)| !ledger.void.contains(slot));
    let owner = starts.filter(|(_, entry)| matches!(entry, LogEntry::Start(_))).map(|(slot, _)| *slot).next();
    if owner != Some(entry.attempt.0) {
        let text =
            format!("attempt {} records checkpoint {}, and the log belongs to {owner:?}", entry.attempt, entry.id);
        return broken(TAG, text);
    }
    if ledger.slots.keys().next_back().is_some_and(|&top| top > slot) {
        return broken(TAG, format!("checkpoint {} is recorded in slot {slot}, below the head", entry.id));
    }
    Ok(())
}

pub(super) fn commits(ledger: &Ledger, attempt: AttemptId, new: &[(u64, u64, u64)]) -> Checked {
    let own = ledger.own.get(&attempt).map_or(0, |id| id.0);
    match new.iter().find(|(checkpoint, ..)| *checkpoint > own) {
        Some((checkpoint, ..)) => broken(
            TAG,
            format!("attempt {attempt} commits output of checkpoint {checkpoint}, and {own} is the newest of its own"),
        ),
        None => Ok(()),
    }
}
