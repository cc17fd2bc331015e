//! Writes a job's directory the way a job does, without running one: for tests of whatever reads, checks or collects it.
//!
//! Segments hold no states, only texts; everything else is real.

use crate::control::{BlobRef, Captured, ChannelPart, PartTimings, SplitPart, SubtaskPart};
use crate::envelope::hex;
use crate::history::{HistoryEntry, Phases};
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::layout;
use crate::manifest::{
    BaseEntry, KeySeed, Manifest, ManifestEdge, ManifestOperator, ManifestRole, ManifestTimings, ManifestVertex,
};
use crate::plan::{Partitioning, StatePlan};
use crate::segment::SegmentAssembler;
use crate::subtask::{NO_OPERATOR, channel_blob};
use crate::time::{Timestamp, Watermark};
use bytes::Bytes;
use flott_checkpoint::{
    AttemptId, Barrier, CheckpointEntry, CheckpointId, Guarantee, Incarnation, Kind, LogEntry, Mode, Outcome, Slot,
    StartEntry, SubtaskId, Tried,
};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// How many workers, and so segments per checkpoint.
pub const WORKERS: u16 = 2;

pub(crate) const INCARNATION: Incarnation = Incarnation { id: 0xf107, key_seed: 0x5eed, key_groups: 128 };

/// A job's directory that grows.
#[derive(Debug)]
pub struct SampleJob {
    /// Where it is.
    pub storage: StorageServer,
    /// The slot of the next entry.
    pub next_slot: u64,
    /// The attempt that writes.
    pub attempt: AttemptId,
    /// The id of the next checkpoint.
    pub next_id: u64,
    /// The newest checkpoint of this line.
    pub parent: Option<CheckpointId>,
    /// The manifests by checkpoint.
    pub manifests: BTreeMap<CheckpointId, BaseEntry>,
}

impl SampleJob {
    /// An empty directory.
    #[must_use]
    pub fn new(storage: StorageServer) -> SampleJob {
        SampleJob { storage, next_slot: 1, attempt: AttemptId(0), next_id: 1, parent: None, manifests: BTreeMap::new() }
    }

    /// A good directory with everything in it: two attempts, full checkpoints and increments, a failure in the history.
    pub async fn good(storage: StorageServer) -> SampleJob {
        let mut job = SampleJob::new(storage);
        job.start(None).await;
        job.checkpoint(Kind::Checkpoint, None).await;
        let second = job.checkpoint(Kind::Checkpoint, Some(CheckpointId(1))).await;
        job.start(Some(second)).await;
        job.fail().await;
        job.checkpoint(Kind::Savepoint, None).await;
        job.checkpoint(Kind::Checkpoint, Some(second)).await;
        job
    }

    /// A new attempt wins its Start. The first one begins the incarnation.
    pub async fn start(&mut self, restored_from: Option<CheckpointId>) -> AttemptId {
        self.attempt = AttemptId(self.next_slot);
        self.parent = restored_from;
        let entry = LogEntry::Start(StartEntry {
            attempt: self.attempt,
            nonce: self.next_slot * 7,
            incarnation: INCARNATION.id,
            restored_from,
            next_id: CheckpointId(self.next_id),
            began: (self.next_slot == 1).then_some(INCARNATION),
            savepoint: None,
        });
        self.append(&entry).await;
        self.attempt
    }

    /// A checkpoint is taken and recorded.
    pub async fn checkpoint(&mut self, kind: Kind, base: Option<CheckpointId>) -> CheckpointId {
        let manifest = self.write_manifest(kind, base).await;
        let (id, attempt, checksum) = (manifest.id, manifest.attempt, Manifest::checksum(&manifest.encode()));
        let entry = LogEntry::Checkpoint(CheckpointEntry {
            slot: Slot(self.next_slot),
            id,
            attempt,
            nonce: self.next_slot * 7,
            parent: self.parent,
            manifest: manifest.path(),
            checksum,
        });
        self.append(&entry).await;
        self.manifests.insert(id, BaseEntry { id, attempt, checksum });
        self.parent = Some(id);
        let outcome = Outcome::Completed { full: base.is_none(), bytes: manifest.bytes(), acked_at: 1 };
        self.note(barrier(id, attempt), outcome).await;
        id
    }

    /// A checkpoint is tried, its blobs and manifest are written, and the attempt dies before the slot.
    pub async fn unrecorded(&mut self) -> CheckpointId {
        self.write_manifest(Kind::Checkpoint, None).await.id
    }

    /// A checkpoint fails; nothing of it stays but the history.
    pub async fn fail(&mut self) -> CheckpointId {
        let id = CheckpointId(self.next_id);
        self.next_id += 1;
        let reason = "nobody knows".to_owned();
        self.note(barrier(id, self.attempt), Outcome::Unknown { reason }).await;
        id
    }

    /// An object with these bytes.
    ///
    /// # Panics
    /// If there is one.
    pub async fn put(&self, path: &str, bytes: Bytes) {
        let reply = self.storage.serve(StorageRequest::Create { path: path.to_owned(), bytes }).await;
        assert!(matches!(reply, StorageReply::Created), "{path}: {reply:?}");
    }

    /// The bytes of an object.
    pub async fn get(&self, path: &str) -> Option<Bytes> {
        match self.storage.serve(StorageRequest::Read { path: path.to_owned(), range: None }).await {
            StorageReply::Read(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// All paths, sorted.
    pub async fn paths(&self) -> Vec<String> {
        match self.storage.serve(StorageRequest::List { prefix: String::new() }).await {
            StorageReply::Listed(objects) => objects.into_iter().map(|(path, _)| path).collect(),
            _ => Vec::new(),
        }
    }

    async fn append(&mut self, entry: &LogEntry) {
        self.put(&layout::slot(Slot(self.next_slot)), entry.encode().into()).await;
        self.next_slot += 1;
    }

    async fn write_manifest(&mut self, kind: Kind, base: Option<CheckpointId>) -> Manifest {
        let id = CheckpointId(self.next_id);
        self.next_id += 1;
        let mut manifest = manifest(id, self.attempt, base.and_then(|base| self.manifests.get(&base).copied()));
        manifest.kind = kind;
        manifest.parent = self.parent;
        for worker in 0..WORKERS {
            let path = layout::segment(self.attempt, id, worker);
            self.put(&path, segment_bytes(id, worker)).await;
        }
        self.put(&manifest.path(), manifest.encode()).await;
        manifest
    }

    async fn note(&self, barrier: Barrier, outcome: Outcome) {
        let tried = Tried { barrier, ended_at: 1_700_000_000_000 + barrier.id.0, outcome };
        let entry = HistoryEntry { tried, workers: WORKERS, phases: Phases::default(), captured: Captured::default() };
        self.put(&entry.path(), entry.encode()).await;
    }
}

fn barrier(id: CheckpointId, attempt: AttemptId) -> Barrier {
    let triggered_at = 1_700_000_000_000;
    Barrier { id, attempt, mode: Mode::Aligned, kind: Kind::Checkpoint, base: None, triggered_at }
}

/// What the sample's segments say was in flight on the first channel of each worker: three records, of no real type.
const IN_FLIGHT: &[u8] = b"three records";

/// What a worker wrote for a checkpoint: a segment with nothing but three texts in it.
///
/// # Panics
/// Never: three texts fit into a segment.
#[must_use]
pub fn segment_bytes(id: CheckpointId, worker: u16) -> Bytes {
    let (mut segment, header) = SegmentAssembler::begin();
    let mut bytes = header.to_vec();
    for name in ["state", "tokens"] {
        let text = format!("{name} of worker {worker} in checkpoint {id}\n").repeat(50 + usize::from(worker));
        segment.blob("count", name, u32::from(worker), text.as_bytes()).iter().for_each(|piece| bytes.extend(piece));
    }
    segment
        .blob(NO_OPERATOR, &channel_blob(0, 0), u32::from(worker), IN_FLIGHT)
        .iter()
        .for_each(|piece| bytes.extend(piece));
    let (end, _) = segment.finish().expect("three texts fit into a segment");
    bytes.extend(end);
    bytes.into()
}

/// The manifest of a job with a source, a count and a sink on two workers.
#[must_use]
pub fn manifest(id: CheckpointId, attempt: AttemptId, base: Option<BaseEntry>) -> Manifest {
    let subtasks = (0..2u16).flat_map(|vertex| (0..WORKERS).map(move |index| SubtaskId { vertex, index }));
    let (vertices, edges) = shape();
    Manifest {
        job: "sample".to_owned(),
        id,
        attempt,
        incarnation: hex(INCARNATION.id),
        key_seed: KeySeed(INCARNATION.key_seed),
        key_groups: INCARNATION.key_groups,
        kind: Kind::Checkpoint,
        mode: Mode::Aligned,
        guarantee: Guarantee::ExactlyOnce,
        parent: None,
        base,
        finished: false,
        takes_over: false,
        adopted: Vec::new(),
        workers: WORKERS,
        timings: ManifestTimings { started_at: 1_700_000_000_000_000, completed_at: 1_700_000_000_018_000 },
        vertices,
        edges,
        parts: subtasks.map(|subtask| part(subtask, id, attempt, base)).collect(),
    }
}

fn part(subtask: SubtaskId, id: CheckpointId, attempt: AttemptId, base: Option<BaseEntry>) -> SubtaskPart {
    let bytes = segment_bytes(id, subtask.index);
    let path = layout::segment(attempt, id, subtask.index);
    let segment = BlobRef { path, length: bytes.len() as u64, checksum: hex(xxh3_64(&bytes)) };
    let three = Captured { records: 3, bytes: IN_FLIGHT.len() as u64, window: 48 };
    let captured = |from| if from == 0 { three } else { Captured::default() };
    let at = |from| Watermark { at: Some(Timestamp(i64::from(from) - 1)), idle: from == 1 };
    let channel =
        |from| ChannelPart { edge: 0, from, watermark: at(from), end_of_data: false, captured: captured(from) };
    let position = serde_json::json!({"offset": 17});
    let split = if subtask.index == 0 { "a.csv" } else { "b.csv" };
    let splits = BTreeMap::from([(split.to_owned(), SplitPart { position, finished: false })]);
    let is_source = subtask.vertex == 0;
    SubtaskPart {
        subtask,
        base: base.map(|base| base.id),
        finished: false,
        channels: if is_source { Vec::new() } else { (0..WORKERS).map(channel).collect() },
        splits: if is_source { BTreeMap::from([("lines".to_owned(), splits)]) } else { BTreeMap::new() },
        segment: (!is_source).then_some(segment),
        timings: PartTimings { start_delay: 1, alignment: u64::from(subtask.index), cut: 2, scan: 3, upload: 4 },
    }
}

fn shape() -> (Vec<ManifestVertex>, Vec<ManifestEdge>) {
    let operator = |name: &str, role, states| ManifestOperator { name: name.to_owned(), role, states };
    let count =
        StatePlan { name: "n".to_owned(), kind: "value".to_owned(), key: "string".to_owned(), value: "u64".to_owned() };
    let source = operator("lines", ManifestRole::Source, Vec::new());
    let fold = operator("count", ManifestRole::Stateful, vec![count]);
    let sink = operator("out", ManifestRole::Sink { transactional: true }, Vec::new());
    let vertices = vec![
        ManifestVertex { name: "lines".to_owned(), operators: vec![source] },
        ManifestVertex { name: "count, out".to_owned(), operators: vec![fold, sink] },
    ];
    (vertices, vec![ManifestEdge { from: 0, to: 1, input: 0, partitioning: Partitioning::Hash }])
}
