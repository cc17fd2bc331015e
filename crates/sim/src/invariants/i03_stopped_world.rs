//! I3: when a stopped world's checkpoint is complete, no record is anywhere between two subtasks.

use super::{Checked, broken};
use flott_checkpoint::CheckpointId;

/// Checks a checkpoint that stopped the world, at the moment when it is recorded.
///
/// # Errors
/// If a record is on its way.
pub fn check(id: CheckpointId, carries_records: bool) -> Checked {
    if carries_records {
        return broken("I3 stopped world", format!("records are on their way while checkpoint {id} is recorded"));
    }
    Ok(())
}
