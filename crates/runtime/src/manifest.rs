//! The manifest of a checkpoint: all that a restore needs to know, and the names and checksums of all that it needs to read.
//!
//! One immutable object per checkpoint, `manifests/<id>-<attempt>.json`, written after its blobs and before its log slot (C1).
//! It repeats what identifies the job, so that a directory can be understood without the program that wrote it.
//! It decides nothing and does no I/O.

use crate::attempt::RestoredManifest;
use crate::control::{BlobRef, Captured, SubtaskPart};
use crate::envelope::{Envelope, from_hex};
use crate::error::{Error, Result};
use crate::layout::{self, Name};
use crate::plan::{Partitioning, Plan, Role, StatePlan};
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointId, Guarantee, Kind, LiteSet, Mode, SubtaskId, lite_map};
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// The version of the manifest format that this program writes, and the newest one that it reads.
pub const MANIFEST_FORMAT: u32 = 1;

const ENVELOPE: Envelope = Envelope { kind: "manifest", format: MANIFEST_FORMAT };

/// A checkpoint, as it is stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The name of the job that wrote it.
    pub job: String,
    /// The checkpoint.
    pub id: CheckpointId,
    /// The attempt that took it.
    pub attempt: AttemptId,
    /// The incarnation of the job.
    pub incarnation: String,
    /// The secret that seeds key hashes.
    pub key_seed: KeySeed,
    /// Into how many key groups keyed state is divided.
    pub key_groups: u16,
    /// What it is for.
    pub kind: Kind,
    /// How its cuts were taken.
    pub mode: Mode,
    /// What state restored from it is worth (D13).
    pub guarantee: Guarantee,
    /// The checkpoint recorded before it in this line; a fallback goes there (R2).
    pub parent: Option<CheckpointId>,
    /// The manifest that increments build on; `None` if every part is full.
    pub base: Option<BaseEntry>,
    /// Every source had reached its end: the job is finished (C3).
    pub finished: bool,
    /// Its incarnation was told to take over targets that held foreign output (R4): a restore goes on with removing that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
    /// Whose output its incarnation goes on with (`--claim`), and how far that goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopted: Vec<AdoptedLife>,
    /// How many workers the attempt had, and so how many subtasks each vertex has.
    pub workers: u16,
    /// When and how long.
    pub timings: ManifestTimings,
    /// The chains that ran, in the order of the plan.
    pub vertices: Vec<ManifestVertex>,
    /// The edges between them, in the order of the plan.
    pub edges: Vec<ManifestEdge>,
    /// One part for each subtask, in the order of the subtasks.
    pub parts: Vec<SubtaskPart>,
}

/// The manifest that increments build on, by name and content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BaseEntry {
    /// Its checkpoint.
    pub id: CheckpointId,
    /// The attempt that took it.
    pub attempt: AttemptId,
    /// The xxh3-64 of its bytes.
    #[serde(with = "crate::envelope::hex_u64")]
    pub checksum: u64,
}

impl BaseEntry {
    /// The path of that manifest.
    #[must_use]
    pub fn path(&self) -> String {
        layout::manifest(self.id, self.attempt)
    }
}

/// The moments of a checkpoint, in microseconds since the epoch, by the job manager's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ManifestTimings {
    /// The trigger.
    pub started_at: u64,
    /// The last part was durable, and the manifest was made.
    pub completed_at: u64,
}

/// An earlier incarnation, perhaps of another job, whose output is gone on with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdoptedLife {
    /// Its id, as 16 hex digits.
    pub incarnation: String,
    /// The checkpoint that was restored: what it committed later would be doubled.
    pub up_to: CheckpointId,
}

/// A chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestVertex {
    /// Its name, for messages.
    pub name: String,
    /// Its named operators.
    pub operators: Vec<ManifestOperator>,
}

/// A named operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestOperator {
    /// Its name, unique in the job.
    pub name: String,
    /// What it is.
    pub role: ManifestRole,
    /// The states it declared, with their shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StatePlan>,
}

/// What a named operator is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestRole {
    /// A source.
    Source,
    /// A stateful operator.
    Stateful,
    /// A sink.
    Sink {
        /// Its output becomes visible by commits, exactly once.
        transactional: bool,
    },
}

/// A connection between two vertices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestEdge {
    /// The sending vertex.
    pub from: u16,
    /// The receiving vertex.
    pub to: u16,
    /// Which numbered input of the receiver.
    pub input: u8,
    /// Which subtasks it connects.
    pub partitioning: Partitioning,
}

/// The secret seed of the key hash. Its debug text hides it: whoever knows it can flood one key group.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeySeed(#[serde(with = "crate::envelope::hex_u64")] pub u64);

impl fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySeed(…)")
    }
}

impl Manifest {
    /// Its path in the job's directory.
    #[must_use]
    pub fn path(&self) -> String {
        layout::manifest(self.id, self.attempt)
    }

    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        ENVELOPE.seal(self)
    }

    /// What stands in the log about the bytes of a manifest: their xxh3-64.
    #[must_use]
    pub fn checksum(bytes: &[u8]) -> u64 {
        xxh3_64(bytes)
    }

    /// Reads a manifest back. Never panics; every flipped bit is found, and what is read is consistent in itself.
    ///
    /// # Errors
    /// `Unusable`: damaged, of a newer format, or not what its path says.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Manifest> {
        let manifest = ENVELOPE.open::<Manifest>(bytes).and_then(|manifest| manifest.checked(path));
        manifest.map_err(|error| error.at_position(path))
    }

    /// All blobs that it names, by path. A segment that several subtasks share is there once.
    #[must_use]
    pub fn blobs(&self) -> LiteMap<&str, &BlobRef> {
        blobs(&self.parts)
    }

    /// Whether no part builds on another checkpoint.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.base.is_none()
    }

    /// The bytes of all blobs that it names.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        blob_bytes(&self.parts)
    }

    /// What was in flight at its cuts, all channels together.
    #[must_use]
    pub fn captured(&self) -> Captured {
        Captured::of(&self.parts)
    }

    /// What workers need of it for a restore.
    #[must_use]
    pub fn restored(&self) -> RestoredManifest {
        let vertex_of =
            self.vertices.iter().zip(0u16..).flat_map(|(vertex, index)| {
                vertex.operators.iter().map(move |operator| (operator.name.clone(), index))
            });
        RestoredManifest {
            vertex_of: lite_map(vertex_of),
            parts: lite_map(self.parts.iter().map(|part| (part.subtask, part.clone()))),
        }
    }

    /// The shape of a plan, as a manifest has it.
    #[must_use]
    pub fn shape(plan: &Plan) -> (Vec<ManifestVertex>, Vec<ManifestEdge>) {
        let vertices = plan.vertices.iter().zip(0u16..).map(|(vertex, index)| ManifestVertex {
            name: vertex.name.clone(),
            operators: plan
                .operators
                .iter()
                .filter(|operator| operator.vertex == index)
                .map(|operator| ManifestOperator {
                    name: operator.name.clone(),
                    role: ManifestRole::from(operator.role),
                    states: operator.states.clone(),
                })
                .collect(),
        });
        let edges = plan.edges.iter().map(|edge| ManifestEdge {
            from: edge.from,
            to: edge.to,
            input: edge.input,
            partitioning: edge.partitioning,
        });
        (vertices.collect(), edges.collect())
    }

    /// Whether per-channel parts apply to a plan: the same operators in the same vertices, and the same edges. The number
    /// of workers is compared by the caller.
    #[must_use]
    pub fn same_topology(&self, plan: &Plan) -> bool {
        let (vertices, edges) = Manifest::shape(plan);
        let names = |vertices: &[ManifestVertex]| -> Vec<Vec<String>> {
            vertices.iter().map(|v| v.operators.iter().map(|operator| operator.name.clone()).collect()).collect()
        };
        names(&vertices) == names(&self.vertices) && edges == self.edges
    }

    /// Checks what readers rely on.
    fn checked(self, path: &str) -> Result<Manifest> {
        let wrong = |what: String| Err(Error::unusable(format!("the manifest contradicts itself: {what}")));
        if self.path() != path {
            return wrong(format!("it is that of checkpoint {} of attempt {}", self.id, self.attempt));
        }
        if self.key_groups == 0 {
            return wrong("it has no key groups".to_owned());
        }
        let vertices = self.vertices.len();
        if self.edges.iter().any(|edge| usize::from(edge.from.max(edge.to)) >= vertices) {
            return wrong(format!("an edge leaves the {vertices} vertices"));
        }
        let operators: Vec<&str> =
            self.vertices.iter().flat_map(|v| v.operators.iter()).map(|o| o.name.as_str()).collect();
        if operators.iter().collect::<LiteSet<_>>().len() != operators.len() {
            return wrong("two operators have one name".to_owned());
        }
        let subtasks = (0..vertices).flat_map(|vertex| (0..self.workers).map(move |index| (vertex, index)));
        let named = self.parts.iter().map(|part| (usize::from(part.subtask.vertex), part.subtask.index));
        if !named.eq(subtasks) {
            return wrong(format!(
                "its parts are not those of {vertices} vertices on {} workers, in order",
                self.workers
            ));
        }
        if !self.base_fits() {
            return wrong("its base is not that of its parts".to_owned());
        }
        match self.parts.iter().find_map(|part| self.fault_of(part).map(|what| (part.subtask, what))) {
            Some((subtask, what)) => wrong(format!("the part of subtask {subtask} {what}")),
            None => self.checked_blobs(),
        }
    }

    fn fault_of(&self, part: &SubtaskPart) -> Option<String> {
        if let Some(channel) = part.channels.iter().find(|channel| usize::from(channel.edge) >= self.edges.len()) {
            return Some(format!("has a channel of edge {}, of {} edges", channel.edge, self.edges.len()));
        }
        let holds = part.channels.iter().any(|channel| !channel.captured.is_nothing());
        if holds && part.segment.is_none() {
            return Some("captured what was in flight, and has no segment".to_owned());
        }
        let own = |name| matches!(name, Name::Segment { attempt, id, .. } if (id, attempt) == (self.id, self.attempt));
        let blob = part.segment.as_ref()?;
        if !layout::parse(&blob.path).is_some_and(own) {
            return Some(format!("names `{}`, which is no segment of this checkpoint", blob.path));
        }
        from_hex(&blob.checksum).is_none().then(|| format!("has `{}` for a checksum", blob.checksum))
    }

    /// Whether the base is what the parts say, and older.
    fn base_fits(&self) -> bool {
        let used: LiteSet<CheckpointId> = self.parts.iter().filter_map(|part| part.base).collect();
        let base = self.base.map(|base| base.id);
        used.into_iter().eq(base) && base.is_none_or(|base| base < self.id)
    }

    /// Subtasks that share a segment must agree on it.
    fn checked_blobs(self) -> Result<Manifest> {
        let blobs = self.blobs();
        let agree = self
            .parts
            .iter()
            .filter_map(|part| part.segment.as_ref())
            .all(|blob| blobs.get(blob.path.as_str()) == Some(&blob));
        if agree {
            Ok(self)
        } else {
            Err(Error::unusable("the manifest contradicts itself: two parts disagree about a segment"))
        }
    }

    /// The part of one subtask.
    #[must_use]
    pub fn part(&self, subtask: SubtaskId) -> Option<&SubtaskPart> {
        self.parts.iter().find(|part| part.subtask == subtask)
    }
}

/// The bytes of all blobs that parts of one checkpoint name, each blob once however many subtasks share it.
pub(crate) fn blob_bytes<'a>(parts: impl IntoIterator<Item = &'a SubtaskPart>) -> u64 {
    blobs(parts).values().fold(0, |sum, blob| sum.saturating_add(blob.length))
}

fn blobs<'a>(parts: impl IntoIterator<Item = &'a SubtaskPart>) -> LiteMap<&'a str, &'a BlobRef> {
    lite_map(parts.into_iter().filter_map(|part| part.segment.as_ref()).map(|blob| (blob.path.as_str(), blob)))
}

impl From<Role> for ManifestRole {
    fn from(role: Role) -> ManifestRole {
        match role {
            Role::Source { .. } => ManifestRole::Source,
            Role::Stateful => ManifestRole::Stateful,
            Role::Sink { transactional } => ManifestRole::Sink { transactional },
        }
    }
}
