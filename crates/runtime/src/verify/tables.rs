//! The rows that tools print: checkpoints of a job, subtasks of a checkpoint. The secret seed is in none of them.

use super::directory::Directory;
use crate::control::{Captured, PartTimings, SplitPart};
use crate::history::HistoryEntry;
use crate::manifest::Manifest;
use flott_checkpoint::{AttemptId, CheckpointId, Guarantee, Kind, LiteSet, Mode, Slot, SubtaskId};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Whatever is printed as JSON has times in milliseconds, with a fraction.
fn in_millis<S: Serializer>(micros: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(millis(*micros))
}

fn perhaps_in_millis<S: Serializer>(micros: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    micros.map(millis).serialize(serializer)
}

#[expect(clippy::cast_precision_loss, reason = "a moment of today has 51 bits")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

fn steps_in_millis<S: Serializer>(timings: &PartTimings, serializer: S) -> Result<S::Ok, S::Error> {
    let PartTimings { start_delay, alignment, cut, scan, upload } = *timings;
    let steps =
        [("start_delay", start_delay), ("alignment", alignment), ("cut", cut), ("scan", scan), ("upload", upload)];
    serializer.collect_map(steps.map(|(step, micros)| (step, millis(micros))))
}

/// A checkpoint in a list.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CheckpointRow {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The attempt that took it.
    pub attempt: AttemptId,
    /// Its slot in the log.
    pub slot: Slot,
    /// The checkpoint before it in its line.
    pub parent: Option<CheckpointId>,
    /// What its manifest says; `None` if that is damaged or missing.
    pub details: Option<CheckpointDetails>,
}

/// What a manifest says, in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CheckpointDetails {
    /// The incarnation of the job.
    pub incarnation: String,
    /// What it is for.
    pub kind: Kind,
    /// How its cuts were taken.
    pub mode: Mode,
    /// What state restored from it is worth.
    pub guarantee: Guarantee,
    /// The checkpoint it builds on; `None`: it is full.
    pub base: Option<CheckpointId>,
    /// The job is finished.
    pub finished: bool,
    /// How many workers the job had.
    pub workers: u16,
    /// Bytes written for it.
    pub bytes: u64,
    /// What was in flight at its cuts.
    pub captured: Captured,
    /// When it was complete, in microseconds since the epoch; as JSON in milliseconds.
    #[serde(rename = "completed_at_ms", serialize_with = "in_millis")]
    pub completed_at: u64,
    /// From the trigger to completion, in microseconds; as JSON in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "in_millis")]
    pub duration: u64,
}

impl From<&Manifest> for CheckpointDetails {
    fn from(manifest: &Manifest) -> CheckpointDetails {
        CheckpointDetails {
            incarnation: manifest.incarnation.clone(),
            kind: manifest.kind,
            mode: manifest.mode,
            guarantee: manifest.guarantee,
            base: manifest.base.map(|base| base.id),
            finished: manifest.finished,
            workers: manifest.workers,
            bytes: manifest.bytes(),
            captured: manifest.captured(),
            completed_at: manifest.timings.completed_at,
            duration: manifest.timings.completed_at.saturating_sub(manifest.timings.started_at),
        }
    }
}

/// All checkpoints of the log, oldest first.
#[must_use]
pub fn checkpoint_rows(directory: &Directory) -> Vec<CheckpointRow> {
    let row = |(slot, entry): (Slot, &flott_checkpoint::CheckpointEntry)| CheckpointRow {
        id: entry.id,
        attempt: entry.attempt,
        slot,
        parent: entry.parent,
        details: directory.manifest(entry.id, entry.attempt).map(CheckpointDetails::from),
    };
    directory.checkpoints().map(row).collect()
}

/// A checkpoint that was tried and is not in the log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FailedRow {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The attempt that tried it.
    pub attempt: AttemptId,
    /// What it was for; `None` if that is not known.
    pub kind: Option<Kind>,
    /// How its cuts were to be taken; `None` if that is not known.
    pub mode: Option<Mode>,
    /// How many workers the job had.
    pub workers: u16,
    /// When it was given up, in microseconds since the epoch; as JSON in milliseconds.
    #[serde(rename = "ended_at_ms", serialize_with = "in_millis")]
    pub ended_at: u64,
    /// From the trigger until then, in microseconds, if that is known; as JSON in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "perhaps_in_millis")]
    pub duration: Option<u64>,
    /// Why: who, at which step, and what happened.
    pub reason: String,
}

/// The checkpoints that the history remembers and the log does not have, oldest first.
#[must_use]
pub fn failed_rows(directory: &Directory) -> Vec<FailedRow> {
    let recorded: LiteSet<_> = directory.checkpoints().map(|(_, entry)| (entry.id, entry.attempt)).collect();
    let failed = directory.history().filter(|entry| !recorded.contains(&(entry.id(), entry.attempt())));
    // One that was recorded and is collected by now has no reason.
    let row = |entry: &HistoryEntry| {
        let barrier = entry.tried.barrier;
        // What another attempt found of a dead one's checkpoint has no trigger.
        let known = barrier.triggered_at > 0;
        entry.reason().map(|reason| FailedRow {
            id: entry.id(),
            attempt: entry.attempt(),
            kind: known.then_some(barrier.kind),
            mode: known.then_some(barrier.mode),
            workers: entry.workers,
            ended_at: entry.tried.ended_at.saturating_mul(1_000),
            duration: known.then(|| entry.tried.ended_at.saturating_sub(barrier.triggered_at).saturating_mul(1_000)),
            reason,
        })
    };
    failed.filter_map(row).collect()
}

/// How long the log took for a checkpoint after its last part was durable, in microseconds, if the history remembers it.
#[must_use]
pub fn record_time(directory: &Directory, id: CheckpointId, attempt: AttemptId) -> Option<u64> {
    directory.history().find(|entry| (entry.id(), entry.attempt()) == (id, attempt)).map(|entry| entry.phases.record)
}

/// One subtask's part of a checkpoint.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PartRow {
    /// The subtask.
    pub subtask: SubtaskId,
    /// Its chain.
    pub vertex: String,
    /// The checkpoint that this part builds on; `None`: it is full.
    pub base: Option<CheckpointId>,
    /// The subtask had finished.
    pub finished: bool,
    /// The segment, which may be shared with other subtasks of the worker.
    pub segment: Option<String>,
    /// Bytes of that segment.
    pub bytes: u64,
    /// What was in flight to the subtask at its cut.
    pub captured: Captured,
    /// How long the steps took, in microseconds; as JSON in milliseconds.
    #[serde(rename = "timings_ms", serialize_with = "steps_in_millis")]
    pub timings: PartTimings,
    /// Positions by source operator and split.
    pub splits: BTreeMap<String, BTreeMap<String, SplitPart>>,
}

/// All subtasks of a checkpoint, in order.
#[must_use]
pub fn part_rows(manifest: &Manifest) -> Vec<PartRow> {
    let names: Vec<&str> = manifest.vertices.iter().map(|vertex| vertex.name.as_str()).collect();
    let rows = manifest.parts.iter().map(|part| PartRow {
        subtask: part.subtask,
        vertex: names.get(usize::from(part.subtask.vertex)).copied().unwrap_or_default().to_owned(),
        base: part.base,
        finished: part.finished,
        segment: part.segment.as_ref().map(|blob| blob.path.clone()),
        bytes: part.segment.as_ref().map_or(0, |blob| blob.length),
        captured: Captured::of([part]),
        timings: part.timings,
        splits: part.splits.clone(),
    });
    rows.collect()
}
