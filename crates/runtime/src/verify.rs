//! Looks at a job's directory as a whole: what is in it, whether every byte is what was written, and what can be restored.
//!
//! For operators' tools. It reads through the storage only, changes nothing, and may run beside the job: what the job's
//! collector takes away meanwhile is no damage.

mod blobs;
mod checks;
mod directory;
mod tables;

pub use directory::Directory;
pub use tables::{
    CheckpointDetails, CheckpointRow, FailedRow, PartRow, checkpoint_rows, failed_rows, part_rows, record_time,
};

use crate::error::Result;
use crate::io::storage::StorageServer;
use flott_checkpoint::{CheckpointId, Slot};
use serde::Serialize;

#[cfg(test)]
mod tests;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know; nothing is wrong.
    Note,
    /// Something is not what was written.
    Damage,
}

/// One thing that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The object, relative to the job's directory.
    pub path: String,
    /// What is the matter with it.
    pub what: String,
    /// What to do about it.
    pub advice: String,
    /// The checkpoint that cannot be restored because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// The slot that made us look; if it is gone in the end, there is nothing to find.
    #[serde(skip)]
    pub(crate) because_of: Option<Slot>,
}

/// What [`verify`] has to say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Everything that was found, by path.
    pub findings: Vec<Finding>,
    /// How many objects were read.
    pub objects: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// How many checkpoints are in the log.
    pub checkpoints: u64,
    /// The newest checkpoint that is whole with all that it builds on.
    pub newest_whole: Option<CheckpointId>,
}

impl Report {
    /// Whether anything is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }
}

/// How far a verification is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes that were read.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Checks every checksum and every link of a job's directory.
///
/// # Errors
/// If the storage cannot be listed. What cannot be read is a finding.
pub async fn verify(storage: &StorageServer, mut progress: impl FnMut(Progress)) -> Result<Report> {
    let directory = Directory::read(storage, &mut progress).await?;
    let mut findings = checks::check(&directory);
    let blobs = blobs::check(storage, &directory, &mut progress).await;
    findings.extend(blobs.findings);
    // Beside a running job: what was collected meanwhile went slot first.
    if !directory.is_savepoint {
        let slots = directory::slots(storage).await?;
        findings.retain(|finding| finding.because_of.is_none_or(|slot| slots.contains(&slot)));
    }
    findings.sort_by(|a, b| (&a.path, &a.what).cmp(&(&b.path, &b.what)));
    findings.dedup_by(|a, b| (&a.path, &a.what) == (&b.path, &b.what));
    Ok(Report {
        newest_whole: checks::newest_whole(&directory, &findings),
        objects: directory.objects_read() + blobs.objects,
        bytes: directory.bytes_read() + blobs.bytes,
        checkpoints: directory.checkpoints().count() as u64,
        findings,
    })
}
