//! The mail between the job manager and the workers of one attempt. Everything carries the attempt, may be lost or doubled
//! on the way, and is repeated by the job manager until it is answered (C2).

use crate::error::Error;
use crate::time::Watermark;
use crate::whereabouts::Standing;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, SubtaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From the job manager to one worker.
#[derive(Clone, Debug)]
pub struct ToWorker {
    /// The sender's attempt; anything else is dropped.
    pub attempt: AttemptId,
    /// What to do.
    pub order: Order,
}

/// What a worker is told to do. Each order is idempotent.
#[derive(Clone, Debug)]
pub enum Order {
    /// All subtasks of the job hold the restored state (R1): sources may open.
    Open,
    /// Sources of this worker: put the barrier in front of the next record. Answer: [`Report::Triggered`].
    Trigger(Barrier),
    /// The checkpoint is in the log, or will never be. Every subtask of the worker answers [`Report::Resolved`].
    Resolved {
        /// The checkpoint.
        id: CheckpointId,
        /// Whether it was recorded; sinks commit what belongs to it and to earlier ones.
        completed: bool,
    },
    /// Sources of this worker: give out nothing more, and end. Answer: [`Report::Finished`] of each.
    Drain,
    /// Say where the pending checkpoint is. Answer: [`Report::Located`].
    Locate(CheckpointId),
    /// The final checkpoint is recorded and committed: the worker is done.
    Close,
}

/// From one worker to the job manager.
#[derive(Clone, Debug)]
pub struct ToManager {
    /// The sender's attempt; anything else is dropped and counted.
    pub attempt: AttemptId,
    /// The sender.
    pub worker: u16,
    /// What it says.
    pub report: Report,
}

/// What a worker says.
#[derive(Clone, Debug)]
pub enum Report {
    /// All subtasks of this worker have restored and verified their state, and restored tokens are committed.
    Restored,
    /// The order to trigger has arrived at all sources of this worker.
    Triggered {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// One subtask's part of a checkpoint is durable.
    Acked {
        /// The checkpoint.
        id: CheckpointId,
        /// Whose part, and all of it.
        part: Box<SubtaskPart>,
    },
    /// One subtask will not ack.
    Declined {
        /// The checkpoint.
        id: CheckpointId,
        /// Who.
        subtask: SubtaskId,
        /// Why: step and cause.
        reason: String,
    },
    /// One subtask has taken the outcome of a checkpoint.
    Resolved {
        /// The checkpoint.
        id: CheckpointId,
        /// Who.
        subtask: SubtaskId,
    },
    /// One sink subtask has committed everything up to a completed checkpoint.
    Committed {
        /// The checkpoint.
        id: CheckpointId,
        /// Who.
        subtask: SubtaskId,
    },
    /// One sink subtask cannot commit what is to be committed, or remove what it is to replace, and goes on trying for a while.
    Hindered {
        /// Who.
        subtask: SubtaskId,
        /// Why.
        error: Error,
    },
    /// One subtask has seen the end of all its inputs and given out all it had.
    Finished {
        /// Who.
        subtask: SubtaskId,
    },
    /// User code, a connector or storage failed: the attempt is over.
    Failed(Error),
    /// Where each subtask of this worker stands with a checkpoint.
    Located {
        /// The checkpoint.
        id: CheckpointId,
        /// In the order of the vertices.
        standings: Vec<Standing>,
    },
    /// Records so far, for progress.
    Progress(Progress),
    /// The worker obeyed [`Order::Close`].
    Closed,
}

/// Counters of one worker since the attempt began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records that sources gave out.
    pub records_in: u64,
    /// Records that sinks took.
    pub records_out: u64,
}

/// One subtask's part of a checkpoint, as it stands in the manifest. Keyed state, timers, sink tokens and operator lists
/// are in the segment; this is the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtaskPart {
    /// Whose part.
    pub subtask: SubtaskId,
    /// The checkpoint that this part's increments build on; `None` if the part is full.
    pub base: Option<CheckpointId>,
    /// The subtask had finished before the cut.
    pub finished: bool,
    /// One entry a channel, in channel order.
    pub channels: Vec<ChannelPart>,
    /// Positions by source operator and split.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, BTreeMap<String, SplitPart>>,
    /// The segment that holds the state, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<BlobRef>,
    /// How long the steps took.
    pub timings: PartTimings,
}

/// What a snapshot keeps of an input channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPart {
    /// The edge, in the order of the plan.
    pub edge: u16,
    /// The sender's index.
    pub from: u16,
    /// The watermark that stood before the cut.
    pub watermark: Watermark,
    /// The end of data lay before the cut.
    pub end_of_data: bool,
    /// What lay before the barrier and behind the cut.
    #[serde(default, skip_serializing_if = "Captured::is_nothing")]
    pub captured: Captured,
}

/// How much of a channel is in the segment because it was in flight at an unaligned cut: records, watermarks and the end of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Records.
    pub records: u64,
    /// Bytes in the segment, before compression.
    pub bytes: u64,
    /// What the records take of the channel's credit window, in bytes: a restore hands it out as taken.
    pub window: u64,
}

impl Captured {
    /// Whether nothing was in flight.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.bytes == 0
    }

    /// All that some parts captured.
    #[must_use]
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a SubtaskPart>) -> Captured {
        let channels = parts.into_iter().flat_map(|part| &part.channels);
        channels.fold(Captured::default(), |sum, channel| Captured {
            records: sum.records.saturating_add(channel.captured.records),
            bytes: sum.bytes.saturating_add(channel.captured.bytes),
            window: sum.window.saturating_add(channel.captured.window),
        })
    }
}

/// Where a split stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitPart {
    /// The source's own position of the next unread record; null for a split that was not opened yet.
    pub position: serde_json::Value,
    /// The split is at its end.
    pub finished: bool,
}

/// A durable object that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Relative to the job's directory.
    pub path: String,
    /// Bytes.
    pub length: u64,
    /// xxh3-64 of all bytes, as 16 hex digits.
    pub checksum: String,
}

/// The phases of one subtask's snapshot, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTimings {
    /// From the trigger to the first barrier here (the clocks of trigger and subtask compared).
    pub start_delay: u64,
    /// From the first barrier to the cut.
    pub alignment: u64,
    /// The cut itself.
    pub cut: u64,
    /// From the cut to the end of the scan.
    pub scan: u64,
    /// From the end of the scan to the durable part.
    pub upload: u64,
}
