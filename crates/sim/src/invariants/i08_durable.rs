//! I8: all that a recorded checkpoint names is there and whole, until no restore can need it.

use super::{Checked, Ledger, Violation, broken};
use crate::checkpoints::Chain;
use crate::storage::Storage;
use flott_checkpoint::CheckpointEntry;

const TAG: &str = "I8 durable";

pub(super) fn recorded(entry: &CheckpointEntry, storage: &Storage) -> Result<Chain, Violation> {
    let wrong =
        |text: String| Violation { invariant: TAG, text: format!("checkpoint {} is recorded: {text}", entry.id) };
    let chain = Chain::read(storage, entry).map_err(wrong)?;
    chain.verify(storage).map_err(wrong)?;
    Ok(chain)
}

pub(super) fn deleting(ledger: &Ledger, path: &str) -> Checked {
    if ledger.needed.contains(path) {
        let newest = ledger.newest.as_ref().map(|entry| entry.id);
        return broken(TAG, format!("{path} is deleted, and {newest:?} needs it"));
    }
    Ok(())
}
