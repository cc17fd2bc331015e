//! Names of the objects in a job's directory.

use flott_checkpoint::{AttemptId, CheckpointId};

/// A worker's segment.
#[must_use]
pub fn segment(attempt: AttemptId, id: CheckpointId, worker: u16) -> String {
    format!("data/{attempt}/{id}-{worker}.seg")
}
