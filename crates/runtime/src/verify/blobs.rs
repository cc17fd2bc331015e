//! Reads all blobs that checkpoints name, piece by piece, and compares length and checksum; then looks whether they are
//! segments that this program can read.

use super::checks::damage;
use super::directory::Directory;
use super::{Finding, Progress};
use crate::control::BlobRef;
use crate::envelope::hex;
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::segment::{Footer, TRAILER_LENGTH, footer_range};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Slot};
use std::collections::BTreeMap;
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
    for (path, (blob, id, slot)) in named(directory) {
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
                    Ok(Some(sum)) if sum == blob.checksum => unreadable(storage, path, blob.length).await,
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

/// Why the index of a sound segment cannot be read: written by another version, or never a segment.
async fn unreadable(storage: &StorageServer, path: &str, length: u64) -> Option<String> {
    let trailer = length.saturating_sub(TRAILER_LENGTH as u64)..length;
    let result = match end(storage, path, trailer).await {
        Ok(tail) => footer_range(&tail, length).map_err(|error| error.to_string()),
        Err(text) => Err(text),
    };
    let result = match result {
        Ok(range) => end(storage, path, range).await,
        Err(text) => Err(text),
    };
    result.and_then(|tail| Footer::read(&tail, length).map_err(|error| error.to_string())).err()
}

async fn end(storage: &StorageServer, path: &str, range: Range<u64>) -> Result<Bytes, String> {
    match storage.serve(StorageRequest::Read { path: path.to_owned(), range: Some(range) }).await {
        StorageReply::Read(bytes) => Ok(bytes),
        StorageReply::Failed(text) | StorageReply::Obstructed(text) => Err(text),
        other => Err(format!("the storage answers a read with {other:?}")),
    }
}

/// The blobs of all checkpoints of the log and of what they build on, each once.
fn named(directory: &Directory) -> BTreeMap<&str, (&BlobRef, CheckpointId, Option<Slot>)> {
    let mut named = BTreeMap::new();
    for (slot, entry) in directory.checkpoints() {
        let mut next = Some((entry.id, entry.attempt));
        while let Some(manifest) = next.and_then(|(id, attempt)| directory.manifest(id, attempt)) {
            for (path, blob) in manifest.blobs() {
                named.entry(path).or_insert((blob, manifest.id, Some(slot)));
            }
            next = manifest.base.map(|base| (base.id, base.attempt));
        }
    }
    named
}
