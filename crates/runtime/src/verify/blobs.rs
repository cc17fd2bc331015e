//! Reads all blobs that checkpoints name, piece by piece, and compares length and checksum; then looks whether they are
//! segments that this program can read.

use super::checks::damage;
use super::directory::Directory;
use super::{Finding, Progress};
use crate::control::BlobRef;
use crate::envelope::hex;
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::manifest::Manifest;
use crate::segment::{Footer, TRAILER_LENGTH, footer_range};
use crate::subtask::{NO_OPERATOR, channel_blob};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Slot};
use litemap::LiteMap;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3Default;

/// So much of a blob is in memory at once, in bytes.
const PIECE: u64 = 4 << 20;

const ADVICE: &str =
    "the job falls back to an older checkpoint by itself, or says how (exit code 4); a copy of the file repairs it";

/// What was found, and how much was read for it.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    pub(super) findings: Vec<Finding>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

pub(super) async fn check(
    storage: &StorageServer,
    directory: &Directory,
    progress: &mut impl FnMut(Progress),
) -> Blobs {
    let mut blobs = Blobs::default();
    let (before, total) = (directory.bytes_read(), directory.total_bytes());
    for (path, Named { blob, id, slot, channels }) in named(directory) {
        let length = directory.lengths.get(path).copied();
        let what = match length {
            None => Some(missing(id)),
            Some(length) if length != blob.length => Some(format!("it has {length} bytes instead of {}", blob.length)),
            Some(_) => {
                blobs.objects += 1;
                let read = checksum(storage, path, blob.length, |piece| {
                    blobs.bytes += piece;
                    progress(Progress { done: before + blobs.bytes, total });
                });
                match read.await {
                    Ok(Some(sum)) if sum == blob.checksum => unreadable(storage, path, blob.length, &channels).await,
                    Ok(Some(sum)) => {
                        let expected = &blob.checksum;
                        Some(format!(
                            "its checksum is {sum} instead of {expected}: it was changed after it was written"
                        ))
                    }
                    Ok(None) => Some(missing(id)),
                    Err(text) => Some(text),
                }
            }
        };
        blobs.findings.extend(what.map(|what| damage(path.to_owned(), what, ADVICE, Some(id), slot)));
    }
    blobs
}

fn missing(id: CheckpointId) -> String {
    format!("it is missing, but checkpoint {id} needs it")
}

/// The checksum of a blob; `None` if it is gone.
async fn checksum(
    storage: &StorageServer,
    path: &str,
    length: u64,
    mut on_piece: impl FnMut(u64),
) -> Result<Option<String>, String> {
    let mut hash = Xxh3Default::new();
    let mut at = 0;
    while at < length {
        let end = at.saturating_add(PIECE).min(length);
        match storage.serve(StorageRequest::Read { path: path.to_owned(), range: Some(at..end) }).await {
            StorageReply::Read(bytes) => hash.update(&bytes),
            StorageReply::NotFound => return Ok(None),
            StorageReply::Failed(text) | StorageReply::Obstructed(text) => return Err(text),
            other => return Err(format!("the storage answers a read with {other:?}")),
        }
        on_piece(end - at);
        at = end;
    }
    Ok(Some(hex(hash.digest())))
}

/// Why the index of a sound segment cannot be read: written by another version, or never a segment; or what it lacks.
async fn unreadable(storage: &StorageServer, path: &str, length: u64, channels: &[InFlight]) -> Option<String> {
    let trailer = length.saturating_sub(TRAILER_LENGTH as u64)..length;
    let result = match end(storage, path, trailer).await {
        Ok(tail) => footer_range(&tail, length).map_err(|error| error.to_string()),
        Err(text) => Err(text),
    };
    let result = match result {
        Ok(range) => end(storage, path, range).await,
        Err(text) => Err(text),
    };
    let footer = result.and_then(|tail| Footer::read(&tail, length).map_err(|error| error.to_string()));
    match footer {
        Err(text) => Some(text),
        Ok(footer) => channels.iter().find_map(|channel| channel.missing_in(&footer)),
    }
}

/// What a part says of its segment: so many bytes were in flight on a channel.
pub(super) struct InFlight {
    name: String,
    subtask: u32,
    pub(super) bytes: u64,
}

impl InFlight {
    pub(super) fn missing_in(&self, footer: &Footer) -> Option<String> {
        let InFlight { name, subtask, bytes } = self;
        let pieces =
            footer.blob(NO_OPERATOR, name, *subtask).map(|section| section.pieces.as_slice()).unwrap_or_default();
        let found: u64 = pieces.iter().map(|piece| u64::from(piece.raw_length)).sum();
        (found != *bytes)
            .then(|| format!("it holds {found} bytes of `{name}`, what was in flight there, instead of {bytes}"))
    }
}

/// A blob, and why it must be there.
struct Named<'a> {
    blob: &'a BlobRef,
    id: CheckpointId,
    slot: Option<Slot>,
    channels: Vec<InFlight>,
}

async fn end(storage: &StorageServer, path: &str, range: Range<u64>) -> Result<Bytes, String> {
    match storage.serve(StorageRequest::Read { path: path.to_owned(), range: Some(range) }).await {
        StorageReply::Read(bytes) => Ok(bytes),
        StorageReply::Failed(text) | StorageReply::Obstructed(text) => Err(text),
        other => Err(format!("the storage answers a read with {other:?}")),
    }
}

/// The blobs of all checkpoints of the log and of what they build on, each once.
fn named(directory: &Directory) -> LiteMap<&str, Named<'_>> {
    let mut named = LiteMap::new_vec();
    for (slot, entry) in directory.checkpoints() {
        let mut next = Some((entry.id, entry.attempt));
        while let Some(manifest) = next.and_then(|(id, attempt)| directory.manifest(id, attempt)) {
            for (path, blob) in manifest.blobs() {
                let channels = || in_flight(manifest, path);
                named.entry(path).or_insert_with(|| Named {
                    blob,
                    id: manifest.id,
                    slot: Some(slot),
                    channels: channels(),
                });
            }
            next = manifest.base.map(|base| (base.id, base.attempt));
        }
    }
    named
}

pub(super) fn in_flight(manifest: &Manifest, path: &str) -> Vec<InFlight> {
    let mut all = Vec::new();
    let parts = manifest.parts.iter().filter(|part| part.segment.as_ref().is_some_and(|blob| blob.path == path));
    for part in parts {
        let channels = part.channels.iter().filter(|channel| !channel.captured.is_nothing());
        all.extend(channels.map(|channel| InFlight {
            name: channel_blob(channel.edge, channel.from),
            subtask: u32::from(part.subtask.index),
            bytes: channel.captured.bytes,
        }));
    }
    all
}
