//! Reads the state in a checkpoint or savepoint without the job's code: what a restore of it would find, entry by entry.
//!
//! Which blocks hold, and in which order, is what [`restore_plan`] says to a restore as well. Entries are put together a few
//! key groups at a time, so memory does not grow with the state, only with the largest key group. Values stay bytes until
//! somebody looks at them. Nothing here changes a directory, but for the pin of a reader ([`Hold`]).

mod datum;
mod difference;
mod fit;
mod hold;
mod shapes;
#[cfg(test)]
pub(crate) mod tests;
mod window;

pub use datum::Datum;
pub use difference::{Difference, StateChanges, changes};
pub use fit::{Misfit, fit, group_of, leaf_of_text};
pub use hold::Hold;
pub use shapes::StateShape;
pub use window::{Below, Conflict, Entry, Merged, Window};

use crate::control::BlobRef;
use crate::error::{Error, Result};
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::manifest::{BaseEntry, Manifest};
use crate::savepoint;
use crate::segment::{Apply, BlockKind, Footer, StateName, TRAILER_LENGTH, footer_range, restore_plan};
use bytes::Bytes;
use flott_checkpoint::{CheckpointEntry, CheckpointId};
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most footers fit into what is read first.
const FIRST_TAIL: u64 = 16 << 10;
/// So many blocks may be on their way at once.
const IN_FLIGHT: usize = 4;
/// About so many bytes of entries are in memory at once, unless one key group has more.
const WINDOW: u64 = 16 << 20;

/// A checkpoint that can be read: its manifests and the indexes of its segments, with all that it builds on.
#[derive(Debug)]
pub struct Checkpoint {
    storage: StorageServer,
    entry: CheckpointEntry,
    /// Oldest first; the last one is that of the checkpoint.
    manifests: Vec<Manifest>,
    /// The segments of each manifest, and their indexes.
    paths: Vec<Vec<String>>,
    chain: Vec<Vec<Footer>>,
}

/// One state of a checkpoint.
#[derive(Clone, Debug)]
pub struct StateInfo {
    /// Operator and state.
    pub name: StateName,
    /// Kind and shapes.
    pub shape: StateShape,
    /// Entries that are stored, those of all increments: at least as many as there are.
    pub stored: u64,
    /// The bytes in which they are stored.
    pub bytes: u64,
}

impl Checkpoint {
    /// Reads manifests and indexes of a checkpoint that [`savepoint::recorded`] has found, and that somebody holds.
    ///
    /// # Errors
    /// `Failed`, naming what is missing or damaged.
    pub async fn open(storage: &StorageServer, entry: CheckpointEntry) -> Result<Checkpoint> {
        let top = BaseEntry { id: entry.id, attempt: entry.attempt, checksum: entry.checksum };
        let mut manifests = savepoint::manifests(storage, top).await.map_err(damage)?;
        manifests.reverse();
        let (mut paths, mut chain) = (Vec::new(), Vec::new());
        for manifest in &manifests {
            let (mut of_manifest, mut footers) = (Vec::new(), Vec::new());
            for (path, blob) in manifest.blobs() {
                footers.push(footer(storage, blob).await.map_err(|error| error.at_checkpoint(manifest.id))?);
                of_manifest.push(path.to_owned());
            }
            paths.push(of_manifest);
            chain.push(footers);
        }
        Ok(Checkpoint { storage: storage.clone(), entry, manifests, paths, chain })
    }

    /// Its entry in the log.
    #[must_use]
    pub fn entry(&self) -> &CheckpointEntry {
        &self.entry
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        self.manifests.last().expect("a chain that was read has a newest link")
    }

    /// The storage that it lies in.
    #[must_use]
    pub fn storage(&self) -> &StorageServer {
        &self.storage
    }

    /// Of its own segments, without those that it builds on, path and index.
    pub(crate) fn own_segments(&self) -> impl Iterator<Item = (&String, &Footer)> {
        let paths = self.paths.last().into_iter().flatten();
        paths.zip(self.chain.last().into_iter().flatten())
    }

    /// Its states, by name: those that its job has declared, and those that its segments hold.
    ///
    /// # Errors
    /// `Failed`, if the index of a segment is missing or damaged.
    pub fn states(&self) -> Result<Vec<StateInfo>> {
        let operators = self.manifest().vertices.iter().flat_map(|vertex| &vertex.operators);
        let declared = operators.flat_map(|operator| {
            operator.states.iter().map(|state| StateName::new(operator.name.clone(), state.name.clone()))
        });
        let newest = self.chain.last().into_iter().flatten();
        let written = newest.flat_map(|footer| &footer.states).map(|section| (*section.declaration.name).clone());
        let names: BTreeSet<StateName> = declared.chain(written).collect();
        names.into_iter().filter_map(|name| self.state(name).transpose()).collect()
    }

    /// Nothing is known of a state without kind: it has no entries either.
    fn state(&self, name: StateName) -> Result<Option<StateInfo>> {
        let operators = self.manifest().vertices.iter().flat_map(|vertex| &vertex.operators);
        let declared =
            operators.filter(|operator| operator.name == name.operator).flat_map(|operator| &operator.states);
        let sections = self.chain.iter().rev().flatten().filter_map(|footer| footer.state(&name.operator, &name.state));
        let shape = StateShape::of(
            declared.into_iter().find(|state| state.name == name.state),
            sections.map(|section| &section.declaration),
        );
        let Some(shape) = shape else { return Ok(None) };
        let blocks = self.plan(&name, 0..self.manifest().key_groups)?;
        // A block is applied once for each piece of the key space that still needs it.
        let puts: BTreeSet<(usize, usize, u64, u32, u32)> = blocks
            .iter()
            .filter(|apply| apply.block.kind == BlockKind::Puts)
            .map(|Apply { link, segment, block, .. }| {
                (*link, *segment, block.piece.offset, block.entries, block.piece.length)
            })
            .collect();
        let (stored, bytes) = puts.iter().fold((0, 0), |(stored, bytes), (.., entries, length)| {
            (stored + u64::from(*entries), bytes + u64::from(*length))
        });
        Ok(Some(StateInfo { name, shape, stored, bytes }))
    }

    /// How many bytes, before compression, each key group of a state has in its segments: an estimate, for blocks span groups.
    ///
    /// # Errors
    /// As [`Checkpoint::states`].
    pub fn weights(&self, name: &StateName) -> Result<Vec<u64>> {
        let mut weights = vec![0u64; usize::from(self.manifest().key_groups)];
        for Apply { block, groups, .. } in self.plan(name, 0..self.manifest().key_groups)? {
            let width = u64::from(block.groups.end.saturating_sub(block.groups.start).max(1));
            let each = (u64::from(block.piece.raw_length) / width).max(1);
            let shared = block.groups.start.max(groups.start)..block.groups.end.min(groups.end);
            let places = weights.iter_mut().take(shared.end.into()).skip(shared.start.into());
            places.for_each(|weight| *weight = weight.saturating_add(each));
        }
        Ok(weights)
    }

    /// What there is of some key groups of a state, in canonical order. `progress` is told the bytes that were read.
    ///
    /// # Errors
    /// `Failed`, naming segment, block and checkpoint of what is missing or damaged.
    pub async fn merged(&self, info: &StateInfo, groups: Range<u16>, progress: &mut dyn FnMut(u64)) -> Result<Merged> {
        let window = self.window(info, groups, progress).await?;
        window.merge().map_err(|conflict| {
            Error::failed(format!("state {}: {}: a segment is damaged or missing", info.name, conflict.what))
                .at_checkpoint(self.entry.id)
        })
    }

    /// As [`Checkpoint::merged`], before it is put together.
    pub(crate) async fn window(
        &self,
        info: &StateInfo,
        groups: Range<u16>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Window> {
        let plan = self.plan(&info.name, groups)?;
        let mut window = Window::new(info.shape.kind);
        let reads = plan.iter().map(|apply| {
            let path = self.path(apply).to_owned();
            let read = self.storage.serve(StorageRequest::Read { path, range: Some(apply.block.piece.range()) });
            async move { (apply, read.await) }
        });
        let mut reads = futures_util::stream::iter(reads).buffered(IN_FLIGHT);
        while let Some((apply, reply)) = reads.next().await {
            let path = self.path(apply);
            let bytes = content(path, reply).map_err(|error| error.at_checkpoint(self.id_of(apply)))?;
            let read = apply.block.decode(bytes).and_then(|block| window.add(&block, &apply.groups));
            read.map_err(|error| {
                let at = apply.block.piece.offset;
                damaged(path, &format!("block at byte {at} of state {}: {error}", info.name))
                    .at_checkpoint(self.id_of(apply))
            })?;
            progress(apply.block.piece.length.into());
        }
        Ok(window)
    }

    fn plan(&self, name: &StateName, groups: Range<u16>) -> Result<Vec<Apply<'_>>> {
        restore_plan(&self.chain, name, groups)
            .map_err(|error| Error::failed(error.to_string()).at_checkpoint(self.entry.id))
    }

    fn path(&self, apply: &Apply<'_>) -> &str {
        let path = self.paths.get(apply.link).and_then(|paths| paths.get(apply.segment));
        path.expect("a plan names segments of its chain")
    }

    fn id_of(&self, apply: &Apply<'_>) -> CheckpointId {
        self.manifests.get(apply.link).map_or(self.entry.id, |manifest| manifest.id)
    }
}

/// Divides key groups so that what is read of each piece fits into memory.
#[must_use]
pub fn windows(weights: &[u64], within: Range<u16>) -> Vec<Range<u16>> {
    let mut windows = Vec::new();
    let (mut start, mut sum) = (within.start, 0u64);
    for (group, weight) in (0u16..).zip(weights).take(within.end.into()).skip(within.start.into()) {
        if sum > 0 && sum.saturating_add(*weight) > WINDOW {
            windows.push(start..group);
            (start, sum) = (group, 0);
        }
        sum = sum.saturating_add(*weight);
    }
    if start < within.end {
        windows.push(start..within.end);
    }
    windows
}

/// The index of a segment.
async fn footer(storage: &StorageServer, blob: &BlobRef) -> Result<Footer> {
    let mut tail = FIRST_TAIL;
    loop {
        let start = blob.length.saturating_sub(tail);
        let request = StorageRequest::Read { path: blob.path.clone(), range: Some(start..blob.length) };
        let bytes = content(&blob.path, storage.serve(request).await)?;
        if (bytes.len() as u64) < blob.length - start {
            return Err(damaged(&blob.path, "it is shorter than its manifest says"));
        }
        let what = |error: crate::segment::SegmentError| damaged(&blob.path, &error.to_string());
        let needed = footer_range(&bytes, blob.length).map_err(what)?;
        if needed.end - needed.start <= bytes.len() as u64 {
            return Footer::read(&bytes, blob.length).map_err(what);
        }
        tail = needed.end - needed.start + TRAILER_LENGTH as u64;
    }
}

/// Damage is what a tool ends with code 1 for, whatever it means to a job.
pub(crate) fn damage(error: Error) -> Error {
    if error.kind() == crate::error::ErrorKind::Unusable { Error::failed(error.to_string()) } else { error }
}

fn damaged(path: &str, what: &str) -> Error {
    Error::failed(format!("{path} is damaged: {what}")).hint("`flott checkpoints verify` tells more")
}

pub(crate) fn content(path: &str, reply: StorageReply) -> Result<Bytes> {
    match reply {
        StorageReply::Read(bytes) => Ok(bytes),
        StorageReply::NotFound => Err(damaged(path, "there is no such file")),
        StorageReply::Failed(why) | StorageReply::Obstructed(why) => {
            Err(Error::failed(format!("cannot read {path}: {why}")))
        }
        other => Err(Error::failed(format!("cannot read {path}: the storage answers {other:?}"))),
    }
}
