//! I7: the log only grows; ids in it only rise; what is restored is never older than what was recorded before.

use super::{Checked, Ledger, Violation, broken};
use crate::storage::Storage;
use flott_checkpoint::{CheckpointId, LogEntry, Slot, StartEntry};

const TAG: &str = "I7 log";

pub(super) fn read(path: &str, storage: &Storage) -> Result<(u64, LogEntry), Violation> {
    let wrong = |text: String| Violation { invariant: TAG, text };
    let slot = path.strip_prefix("log/").and_then(|name| name.strip_suffix(".json")).and_then(|slot| slot.parse().ok());
    let slot = slot.ok_or_else(|| wrong(format!("{path} is not the name of a slot")))?;
    let bytes = storage.get(path).ok_or_else(|| wrong(format!("{path} was written and is not there")))?;
    let entry = LogEntry::read(Slot(slot), bytes).map_err(|error| wrong(format!("{path}: {error}")))?;
    Ok((slot, entry))
}

pub(super) fn check(ledger: &Ledger, slot: u64, entry: &LogEntry) -> Checked {
    if let Some(before) = ledger.slots.get(&slot)
        && before != entry
        && !ledger.deleted_slots.contains(&slot)
    {
        return broken(TAG, format!("slot {slot} held {before:?} and holds {entry:?} now"));
    }
    Ok(())
}

/// Recorded ids only rise.
pub(super) fn check_id(ledger: &Ledger, id: CheckpointId) -> Checked {
    match &ledger.newest {
        Some(newest) if newest.id >= id => broken(TAG, format!("checkpoint {id} is recorded after {}", newest.id)),
        _ => Ok(()),
    }
}

/// A Start that owns the log restores the newest checkpoint, and counts on from it.
pub(super) fn check_start(ledger: &Ledger, start: &StartEntry) -> Checked {
    let newest = ledger.newest.as_ref().map(|entry| entry.id);
    if start.restored_from != newest {
        let text = format!("attempt {} restores {:?}, and {newest:?} is recorded", start.attempt, start.restored_from);
        return broken(TAG, text);
    }
    if newest.is_some_and(|newest| start.next_id <= newest) {
        return broken(TAG, format!("attempt {} begins with id {}, after {newest:?}", start.attempt, start.next_id));
    }
    Ok(())
}
