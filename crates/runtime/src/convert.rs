//! Writes a checkpoint as a savepoint with segments of its own: whatever it builds on is put together, so that nothing else
//! is needed to restore it. One state can be changed on the way: entries from outside in its place, or on top of it.
//!
//! As with every savepoint, `savepoint.json` comes last, and a directory without it is none. Memory does not grow with the
//! state. Positions, tokens, what was in flight and all other states stay what they are.

use crate::control::BlobRef;
use crate::envelope::hex;
use crate::error::{Error, Result};
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::key::group_range;
use crate::layout::{self, Name};
use crate::manifest::Manifest;
use crate::messagepack;
use crate::savepoint::{self, create, done};
use crate::segment::{
    BlockBuilder, BlockKind, Compressor, Declaration, Footer, SegmentAssembler, StateHeader, StateName,
};
use crate::state_reader::{Below, Checkpoint, Conflict, Entry, Merged, StateInfo, Window, content, windows};
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointEntry, LogEntry};
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Entries from outside for one state.
pub trait Incoming {
    /// Whose.
    fn name(&self) -> &StateName;

    /// Whether they stand in the place of all that the checkpoint has of this state; else each stands in the place of the
    /// entry, or list, of its key.
    fn replaces(&self) -> bool;

    /// About how many bytes there are of each key group.
    fn weights(&self) -> &[u64];

    /// Those of some key groups. Asked for once for each group, in ascending order for each worker.
    ///
    /// # Errors
    /// If they cannot be read, or contradict each other.
    fn rows(&mut self, groups: Range<u16>) -> Result<Window>;
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Converted {
    /// Entries of all states.
    pub entries: u64,
    /// Bytes of all segments.
    pub bytes: u64,
}

/// Writes a checkpoint into an empty directory, as a savepoint. If that fails, what it wrote is removed again. `claimed` becomes
/// true when the directory is its own: whoever drops this before its end [abandons](abandon) then, and only then.
/// `progress` is told the bytes that were read, those of `incoming` too.
///
/// # Errors
/// `Refused` if the directory is somebody else's; `Failed` if something cannot be read or written; and what `incoming` says.
pub async fn convert<'a>(
    from: &'a Checkpoint,
    to: &'a StorageServer,
    incoming: Option<&'a mut dyn Incoming>,
    claimed: &mut bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Converted> {
    savepoint::claim(to).await?;
    match to.serve(StorageRequest::List { prefix: String::new() }).await {
        StorageReply::Listed(objects) if objects.iter().all(|(path, _)| path == layout::UNFINISHED) => {
            *claimed = true;
        }
        other => {
            savepoint::unclaim(to).await;
            let why = match other {
                StorageReply::Listed(_) => "it is not empty".to_owned(),
                other => savepoint::why(other),
            };
            return Err(Error::refused(format!("no savepoint can be written to {}: {why}", to.name())));
        }
    }
    let written = Writing { from, to, incoming, converted: Converted::default() }.write(progress).await;
    if written.is_err() {
        abandon(to, from.entry().attempt).await;
    }
    written
}

/// Removes what an interrupted conversion of a checkpoint of this attempt has left in its directory. Best effort.
pub async fn abandon(to: &StorageServer, attempt: AttemptId) {
    // The segment that was being written is in no listing.
    to.forget(attempt).await;
    let listed = to.serve(StorageRequest::List { prefix: String::new() }).await;
    if let StorageReply::Listed(mut objects) = listed {
        // First what says that all of it is there.
        objects.sort_by_key(|(path, _)| path != layout::SAVEPOINT);
        for (path, _) in objects.into_iter().filter(|(path, _)| path != layout::UNFINISHED) {
            let _ = to.serve(StorageRequest::Delete { path }).await;
        }
    }
    savepoint::unclaim(to).await;
}

struct Writing<'a> {
    from: &'a Checkpoint,
    to: &'a StorageServer,
    incoming: Option<&'a mut dyn Incoming>,
    converted: Converted,
}

impl Writing<'_> {
    async fn write(mut self, progress: &mut dyn FnMut(u64)) -> Result<Converted> {
        let mut manifest = self.from.manifest().clone();
        let states = self.from.states()?;
        for worker in 0..manifest.workers {
            let blob = self.segment(&states, worker, progress).await?;
            let parts = manifest.parts.iter_mut().filter(|part| part.subtask.index == worker);
            parts.for_each(|part| {
                part.base = None;
                part.segment.clone_from(&blob);
            });
        }
        manifest.base = None;
        self.converted.bytes = manifest.bytes();
        self.publish(&manifest).await?;
        Ok(self.converted)
    }

    async fn publish(&self, manifest: &Manifest) -> Result<()> {
        let bytes = manifest.encode();
        let checksum = Manifest::checksum(&bytes);
        // What is read back must be what a restore will take.
        Manifest::decode(&manifest.path(), &bytes)?;
        create(self.to, &manifest.path(), bytes).await?;
        let entry = CheckpointEntry { checksum, ..self.from.entry().clone() };
        create(self.to, layout::SAVEPOINT, LogEntry::Checkpoint(entry).encode().into()).await?;
        savepoint::unclaim(self.to).await;
        Ok(())
    }

    /// What one worker would have written for a full checkpoint; `None` if it has nothing.
    async fn segment(
        &mut self,
        states: &[StateInfo],
        worker: u16,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<BlobRef>> {
        let manifest = self.from.manifest();
        let path = layout::segment(manifest.attempt, manifest.id, worker);
        let owned = group_range(manifest.key_groups, manifest.workers.into(), worker.into());
        let (assembler, header) = SegmentAssembler::begin();
        let mut file = File { to: self.to, path, assembler, anything: false };
        file.append(header).await?;
        for info in states {
            let comes_in = self.incoming.as_ref().is_some_and(|incoming| *incoming.name() == info.name);
            if info.shape.seen.is_some() || comes_in {
                self.state(info, owned.clone(), &mut file, progress).await?;
            }
        }
        for (source, footer) in self.from.own_segments() {
            if matches!(layout::parse(source), Some(Name::Segment { worker: of, .. }) if of == worker) {
                self.blobs(source, footer, &mut file, progress).await?;
            }
        }
        file.finish().await
    }

    async fn state(
        &mut self,
        info: &StateInfo,
        owned: Range<u16>,
        file: &mut File<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let name = Arc::new(info.name.clone());
        let mut weights = self.from.weights(&info.name)?;
        let incoming = self.incoming.as_ref().filter(|incoming| *incoming.name() == info.name);
        if let Some(incoming) = incoming {
            weights
                .iter_mut()
                .zip(incoming.weights())
                .for_each(|(weight, more)| *weight = weight.saturating_add(*more));
        }
        let mut blocks = Blocks::new(&name);
        for groups in windows(&weights, owned.clone()) {
            let merged = self.merged(info, groups, progress).await?;
            self.converted.entries += merged.len() as u64;
            for entry in merged.entries() {
                if let Some(block) = blocks.add(&entry)? {
                    file.block(block).await?;
                }
            }
        }
        if let Some(block) = blocks.end() {
            file.block(block).await?;
        }
        let (key_shape, value_shape) = info.shape.of_segment();
        let declaration = Declaration { name, kind: info.shape.kind, key_shape, value_shape };
        file.declare(StateHeader { declaration, base: None, owned });
        Ok(())
    }

    async fn merged(&mut self, info: &StateInfo, groups: Range<u16>, progress: &mut dyn FnMut(u64)) -> Result<Merged> {
        let incoming = self.incoming.as_mut().filter(|incoming| *incoming.name() == info.name);
        let Some(incoming) = incoming else { return self.from.merged(info, groups, progress).await };
        let rows = incoming.rows(groups.clone())?;
        progress(rows.len() as u64);
        if incoming.replaces() {
            return rows.merge().map_err(Conflict::into_error);
        }
        let mut window = self.from.window(info, groups, progress).await?;
        // Put together first: so that what comes in is all right is not a question of what is there.
        window.overlay(&rows.merge().map_err(Conflict::into_error)?);
        window.merge().map_err(Conflict::into_error)
    }

    /// Tokens, and what was in flight.
    async fn blobs(
        &self,
        source: &str,
        footer: &Footer,
        file: &mut File<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        for blob in &footer.blobs {
            for piece in &blob.pieces {
                let request = StorageRequest::Read { path: source.to_owned(), range: Some(piece.range()) };
                let stored = content(source, self.from.storage().serve(request).await)?;
                let raw = piece.decode(stored).map_err(|error| {
                    Error::failed(format!("{source} is damaged: {error}")).at_checkpoint(self.from.entry().id)
                })?;
                progress(piece.length.into());
                for bytes in file.assembler.blob(&blob.operator, &blob.name, blob.subtask, &raw) {
                    file.append(bytes).await?;
                }
                file.anything = true;
            }
        }
        Ok(())
    }
}

/// A segment that is being written.
struct File<'a> {
    to: &'a StorageServer,
    path: String,
    assembler: SegmentAssembler,
    anything: bool,
}

impl File<'_> {
    async fn append(&self, bytes: Bytes) -> Result<()> {
        done(self.to.serve(StorageRequest::Append { path: self.path.clone(), bytes }).await)
    }

    async fn block(&mut self, block: crate::segment::EncodedBlock) -> Result<()> {
        let bytes = self.assembler.block(block);
        self.append(bytes).await
    }

    fn declare(&mut self, header: StateHeader) {
        self.anything = true;
        self.assembler.declare(header);
    }

    async fn finish(self) -> Result<Option<BlobRef>> {
        if !self.anything {
            done(self.to.serve(StorageRequest::Discard { path: self.path }).await)?;
            return Ok(None);
        }
        let (end, summary) = self.assembler.finish().map_err(|error| Error::failed(error.to_string()))?;
        done(self.to.serve(StorageRequest::Append { path: self.path.clone(), bytes: end }).await)?;
        done(self.to.serve(StorageRequest::Finish { path: self.path.clone() }).await)?;
        Ok(Some(BlobRef { path: self.path, length: summary.length, checksum: hex(summary.checksum) }))
    }
}

/// Blocks of one state, in canonical order.
struct Blocks<'a> {
    name: &'a Arc<StateName>,
    builder: BlockBuilder,
    compressor: Compressor,
}

impl<'a> Blocks<'a> {
    fn new(name: &'a Arc<StateName>) -> Blocks<'a> {
        Blocks { name, builder: BlockBuilder::new(BlockKind::Puts), compressor: Compressor::default() }
    }

    fn add(&mut self, entry: &Entry<'_>) -> Result<Option<crate::segment::EncodedBlock>> {
        let full = self.builder.entry(entry.group, |out| write(out, entry));
        let full = full.map_err(|error| Error::failed(format!("state {}: {error}", self.name)))?;
        Ok(full.map(|block| self.compressor.encode(self.name, block)))
    }

    fn end(&mut self) -> Option<crate::segment::EncodedBlock> {
        self.builder.close().map(|block| self.compressor.encode(self.name, block))
    }
}

/// An entry as `docs/formats.md`, "Block", has it.
fn write(out: &mut Vec<u8>, entry: &Entry<'_>) -> Result<(), rmp_serde::encode::Error> {
    out.extend_from_slice(entry.key);
    match entry.below {
        Below::Nothing => {}
        Below::Field(field) => out.extend_from_slice(field),
        Below::Position(position) => messagepack::write(out, &position)?,
        Below::Time(time) => messagepack::write(out, &time)?,
    }
    out.extend_from_slice(entry.value);
    Ok(())
}
