//! One try at running a job, as every worker of it sees it: immutable, shared, complete.

use crate::control::SubtaskPart;
use crate::heartbeat::Heartbeats;
use crate::io::Files;
use crate::manifest::AdoptedLife;
use crate::operator::Quantum;
use crate::plan::Plan;
use crate::sink::Stdout;
use crate::source::Threads;
use crate::state::store::Stores;
use flott_checkpoint::{AttemptId, CheckpointId, SubtaskId};
use litemap::LiteMap;
use std::sync::Arc;
use std::time::Duration;

/// What the workers of one attempt are made from.
#[derive(Clone)]
pub struct Attempt {
    /// The attempt's number: its Start slot.
    pub id: AttemptId,
    /// What runs.
    pub plan: Arc<Plan>,
    /// How many workers, and so subtasks per vertex.
    pub workers: u16,
    /// The incarnation of the job.
    pub incarnation: String,
    /// The secret that seeds key hashes.
    pub key_seed: u64,
    /// Fixed when the incarnation began.
    pub key_groups: u16,
    /// The first id that a checkpoint of this attempt can have.
    pub first_checkpoint: CheckpointId,
    /// The state to start from; `None` starts empty.
    pub restore: Option<Restore>,
    /// This attempt begins an incarnation (R4): sinks claim their targets, and with `overwrite` take over foreign ones. Or it goes
    /// on with one that took them over, which a crash may have interrupted.
    pub claim: Option<Claim>,
    /// Earlier incarnations whose output this one goes on with; for every attempt of it.
    pub adopted: Vec<AdoptedLife>,
    /// Sizes and times.
    pub options: WorkerOptions,
    /// The outside.
    pub world: World,
}

/// How a new incarnation treats foreign output (R4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// `--overwrite`: take over a target that holds foreign output, and remove that after the first commit.
    pub overwrite: bool,
}

/// A checkpoint to restore, with the manifests that its increments need.
#[derive(Clone, Debug)]
pub struct Restore {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// By checkpoint id: the one to restore and all bases that it leans on.
    pub manifests: LiteMap<CheckpointId, RestoredManifest>,
    /// The plan has the same vertices and edges as the one that wrote it: per-channel parts apply.
    pub same_topology: bool,
    /// It is of this incarnation's own log, not a savepoint with which the incarnation begins.
    pub own: bool,
    /// Pending output that it lists is committed: it is of this job's own log, or the user has said so (`--claim`).
    pub commits: bool,
    /// It is only looked at: every entry is decoded and none is kept, and no sink is opened.
    pub looks_only: bool,
}

impl Attempt {
    /// Whether what the restored checkpoint says of each channel is for the same channels here: the same vertices and edges on
    /// as many workers.
    #[must_use]
    pub fn same_channels(&self) -> bool {
        self.restore.as_ref().is_some_and(|restore| restore.same_topology) && self.rescaled_from().is_none()
    }

    /// Whether the checkpoint is only looked at.
    #[must_use]
    pub fn looks_only(&self) -> bool {
        self.restore.as_ref().is_some_and(|restore| restore.looks_only)
    }

    /// How many workers took the restored checkpoint, if that is another number than this attempt has.
    #[must_use]
    pub fn rescaled_from(&self) -> Option<u16> {
        let before = self.restore.as_ref()?.manifests.get(&self.restore.as_ref()?.checkpoint)?.workers();
        Some(before).filter(|before| *before != self.workers)
    }
}

/// What a worker needs of a manifest.
#[derive(Clone, Debug)]
pub struct RestoredManifest {
    /// By operator name, as the manifest has it: the vertex it ran in then.
    pub vertex_of: LiteMap<String, u16>,
    /// All parts.
    pub parts: LiteMap<SubtaskId, SubtaskPart>,
}

impl RestoredManifest {
    /// How many workers took it: every vertex had one subtask on each.
    #[must_use]
    pub fn workers(&self) -> u16 {
        self.parts.keys().map(|subtask| subtask.index.saturating_add(1)).max().unwrap_or(0)
    }
}

/// Sizes and times of a worker. Defaults as in the contracts.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Credit window of a channel, in bytes (256 KiB); less is used where it is worked off slowly.
    pub credit_window: usize,
    /// A batch closes at so many records (1,024) …
    pub batch_records: usize,
    /// … or bytes (32 KiB) …
    pub batch_bytes: usize,
    /// … or after this time (5 ms).
    pub batch_delay: Duration,
    /// How long one subtask's step may last (1 ms).
    pub quantum: Quantum,
    /// How many buckets and deletions one scan step visits.
    pub scan_budget: usize,
    /// Bytes of a segment that may wait for the storage; above it the worker's subtasks take no records.
    pub segment_buffer: usize,
    /// How often a worker reports its progress.
    pub progress_interval: Duration,
    /// How long after its trigger a checkpoint that began aligned goes on unaligned (200 ms).
    pub alignment_timeout: Duration,
    /// Whether records are sampled for hot keys.
    pub hot_keys: bool,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            credit_window: 256 << 10,
            batch_records: 1_024,
            batch_bytes: 32 << 10,
            batch_delay: Duration::from_millis(5),
            quantum: Quantum { time: Duration::from_millis(1), records: u32::MAX },
            scan_budget: 4_096,
            segment_buffer: 8 << 20,
            progress_interval: Duration::from_millis(500),
            alignment_timeout: Duration::from_millis(200),
            hot_keys: false,
        }
    }
}

/// The outside world, for connectors.
#[derive(Clone)]
pub struct World {
    /// The file system.
    pub files: Arc<dyn Files>,
    /// Threads for connectors that can only block.
    pub threads: Arc<dyn Threads>,
    /// Where the print sink prints.
    pub stdout: Arc<dyn Stdout>,
    /// Where the workers show what they are doing.
    pub heartbeats: Heartbeats,
    /// Where keyed state lies, if not on the heap.
    pub stores: Option<Arc<dyn Stores>>,
}
