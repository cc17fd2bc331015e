//! Savepoints: a checkpoint of a job, copied into a directory of its own, and found again in there.
//!
//! A savepoint is taken as every checkpoint, into the job's own storage and log, and copied from there by whoever asked for it;
//! so a slow or broken target costs the job nothing. In the copy the order is that of C1: blobs, manifest, and last of all the
//! entry of the log, `savepoint.json`, which names the manifest and its checksum. A directory without it is no savepoint.
//! Every byte is compared with its checksum while it is copied. Names are relative: the directory may be moved.

use crate::control::BlobRef;
use crate::envelope::{from_hex, hex};
use crate::error::{Error, Result};
use crate::io::entropy::random_u64;
use crate::io::storage::{RetryOptions, StorageServer};
use crate::io::{StorageReply, StorageRequest};
use crate::layout;
use crate::manifest::{BaseEntry, Manifest};
use bytes::Bytes;
use flott_checkpoint::{
    CheckpointEntry, CheckpointId, Elsewhere, EntryError, Incarnation, LiteSet, LogEntry, Savepoint, Slot,
};
use std::future::Future;
use xxhash_rust::xxh3::Xxh3Default;

#[cfg(test)]
mod tests;

/// So much of a blob is in memory at once, in bytes.
const PIECE: u64 = 1 << 20;

/// Something that serves requests as a storage does.
pub trait Serve: Sync {
    /// Serves one request.
    fn serve(&self, request: StorageRequest) -> impl Future<Output = StorageReply> + Send;
}

impl Serve for StorageServer {
    fn serve(&self, request: StorageRequest) -> impl Future<Output = StorageReply> + Send {
        StorageServer::serve(self, request)
    }
}

/// Takes possession of an empty directory, before the job is asked for anything: shows that it can be written, and keeps a
/// second savepoint out.
///
/// # Errors
/// `Refused`, if it cannot be written or somebody else has it.
pub async fn claim(to: &impl Serve) -> Result<()> {
    // Whose claim it is must be told when the answer to the create is lost.
    let text = format!("this savepoint is being written, or was left unfinished\n{:016x}\n", random_u64()?);
    let bytes = Bytes::from(text);
    match settle(to, layout::UNFINISHED, &bytes).await? {
        StorageReply::Created => Ok(()),
        StorageReply::Exists => Err(Error::refused("another savepoint is being written to the same directory")),
        other => Err(Error::refused(format!("no savepoint can be written: {}", why(other)))),
    }
}

/// Gives a claimed directory back, because there will be no savepoint. Best effort.
pub async fn unclaim(to: &impl Serve) {
    let _ = to.serve(StorageRequest::Delete { path: layout::UNFINISHED.to_owned() }).await;
}

/// Copies a recorded, full checkpoint into a claimed directory. Gives back the bytes of its blobs.
///
/// # Errors
/// `Unusable` if it is not what was written, `Failed` if it cannot be read or written. Then there is no savepoint.
pub async fn copy(from: &impl Serve, to: &impl Serve, id: CheckpointId) -> Result<u64> {
    let entry = entry_of(from, id).await?;
    let bytes = manifest_of(from, &entry).await?;
    let manifest = Manifest::decode(&entry.manifest, &bytes)?;
    if !manifest.is_full() {
        let what = format!(
            "checkpoint {id} builds on others, and is no savepoint: the job was ending before it was asked for one"
        );
        return Err(Error::failed(what).hint("restore from the job's own checkpoint directory"));
    }
    for (path, blob) in manifest.blobs() {
        copy_blob(from, to, path, blob).await?;
    }
    create(to, &entry.manifest, bytes).await?;
    let total = manifest.bytes();
    create(to, layout::SAVEPOINT, LogEntry::Checkpoint(entry).encode().into()).await?;
    unclaim(to).await;
    Ok(total)
}

/// Finds what a directory holds: a savepoint, or the newest checkpoint that a job has recorded in it. `location` is how the
/// directory can be asked for later, and wherever from.
///
/// # Errors
/// `Refused` if there is none, `Unusable` if it is damaged or of a newer version.
pub async fn find(storage: &impl Serve, location: &str, claim: bool) -> Result<(Elsewhere, Manifest)> {
    let entry = match savepoint_entry(storage, location).await? {
        Some(entry) => entry,
        None => newest(storage, location).await?,
    };
    let path = layout::manifest(entry.id, entry.attempt);
    let Some(bytes) = read(storage, &path).await? else { return Err(damaged(location, &path, "it is missing")) };
    if Manifest::checksum(&bytes) != entry.checksum {
        return Err(damaged(location, &path, "it is damaged: its checksum is not the one that was recorded"));
    }
    let manifest = Manifest::decode(&path, &bytes).map_err(|error| error.at_position(location))?;
    let Some(id) = from_hex(&manifest.incarnation) else {
        return Err(damaged(location, &path, "it names no incarnation"));
    };
    let incarnation = Incarnation { id, key_seed: manifest.key_seed.0, key_groups: manifest.key_groups };
    let CheckpointEntry { id, attempt, checksum, .. } = entry;
    let savepoint = Savepoint { location: location.to_owned(), id, attempt, checksum, claim };
    Ok((Elsewhere { savepoint, incarnation }, manifest))
}

/// What makes a directory a savepoint's.
async fn savepoint_entry(storage: &impl Serve, location: &str) -> Result<Option<CheckpointEntry>> {
    match read(storage, layout::SAVEPOINT).await?.map(|bytes| LogEntry::decode(&bytes)) {
        None => Ok(None),
        Some(Ok(LogEntry::Checkpoint(entry))) => Ok(Some(entry)),
        Some(Ok(LogEntry::Start(_))) => Err(damaged(location, layout::SAVEPOINT, "it is no checkpoint")),
        Some(Err(error)) => Err(damaged(location, layout::SAVEPOINT, &error.to_string())),
    }
}

/// The newest checkpoint of a job's directory.
async fn newest(storage: &impl Serve, location: &str) -> Result<CheckpointEntry> {
    for slot in slots(storage).await?.into_iter().rev() {
        match log_entry(storage, slot).await? {
            Some(Ok(LogEntry::Checkpoint(entry))) => return Ok(entry),
            Some(Err(what)) => return Err(damaged(location, &layout::slot(slot), &what)),
            Some(Ok(LogEntry::Start(_))) | None => {}
        }
    }
    let unfinished = read(storage, layout::UNFINISHED).await?.is_some();
    let what = if unfinished { "the savepoint in it was left unfinished" } else { "it holds neither" };
    Err(Error::refused(format!("there is no savepoint and no checkpoint in {location}: {what}")))
}

/// Reads every byte of some checkpoints, and compares it with its checksums.
///
/// # Errors
/// `Unusable`, naming what is missing or damaged.
pub async fn read_blobs(storage: &impl Serve, manifests: &[Manifest]) -> Result<()> {
    for manifest in manifests {
        for (path, blob) in manifest.blobs() {
            read_blob(storage, None::<&StorageServer>, path, blob)
                .await
                .map_err(|error| error.at_checkpoint(manifest.id))?;
        }
    }
    Ok(())
}

/// Reads the manifests of a checkpoint and of all that it builds on, the newest first.
///
/// # Errors
/// `Unusable`, naming what is missing or damaged.
pub async fn manifests(storage: &impl Serve, top: BaseEntry) -> Result<Vec<Manifest>> {
    sound_manifests(storage, top).await.and_then(|sound| sound)
}

/// The same; an error in the answer: one is missing or damaged, so an older checkpoint may do.
///
/// # Errors
/// If one cannot be read for another reason, as one of a newer version.
pub async fn sound_manifests(storage: &impl Serve, top: BaseEntry) -> Result<Result<Vec<Manifest>>> {
    let (mut manifests, mut next) = (Vec::new(), Some(top));
    while let Some(entry) = next {
        let path = entry.path();
        let unusable = |what: &str| Ok(Err(Error::unusable(format!("{path} {what}")).at_checkpoint(entry.id)));
        let Some(bytes) = read(storage, &path).await? else { return unusable("is missing") };
        if Manifest::checksum(&bytes) != entry.checksum {
            return unusable("is damaged: its checksum is not the one that was recorded");
        }
        let manifest = Manifest::decode(&path, &bytes)?;
        // A manifest's base is older than itself: that was checked when it was decoded, so this comes to an end.
        next = manifest.base;
        manifests.push(manifest);
    }
    Ok(Ok(manifests))
}

/// The entry of a checkpoint in a directory, of the newest one if none is named; and whether the directory is a savepoint's.
///
/// # Errors
/// `Refused` if there is none, `Unusable` if the log is damaged.
pub async fn recorded(
    storage: &impl Serve,
    location: &str,
    id: Option<CheckpointId>,
) -> Result<(CheckpointEntry, bool)> {
    let none = |id| {
        Error::refused(format!("there is no checkpoint {id} in {location}"))
            .hint("`flott checkpoints list` shows those that there are")
    };
    match (savepoint_entry(storage, location).await?, id) {
        (Some(entry), Some(id)) if entry.id != id => Err(none(id)),
        (Some(entry), _) => Ok((entry, true)),
        (None, None) => newest(storage, location).await.map(|entry| (entry, false)),
        (None, Some(id)) => match look_for(storage, id).await? {
            Some(entry) => Ok((entry, false)),
            None => Err(none(id)),
        },
    }
}

/// Whether the log still has an entry.
///
/// # Errors
/// If it cannot be read.
pub async fn is_recorded(storage: &impl Serve, entry: &CheckpointEntry) -> Result<bool> {
    let found = log_entry(storage, entry.slot).await?;
    Ok(matches!(found, Some(Ok(LogEntry::Checkpoint(found))) if found == *entry))
}

async fn entry_of(storage: &impl Serve, id: CheckpointId) -> Result<CheckpointEntry> {
    let found = look_for(storage, id).await?;
    found.ok_or_else(|| Error::failed(format!("checkpoint {id} is not in the log any more")))
}

async fn look_for(storage: &impl Serve, id: CheckpointId) -> Result<Option<CheckpointEntry>> {
    for slot in slots(storage).await?.into_iter().rev() {
        match log_entry(storage, slot).await? {
            Some(Ok(LogEntry::Checkpoint(entry))) if entry.id == id => return Ok(Some(entry)),
            _ => {}
        }
    }
    Ok(None)
}

pub(crate) async fn slots(storage: &impl Serve) -> Result<LiteSet<Slot>> {
    match storage.serve(StorageRequest::List { prefix: layout::LOG.to_owned() }).await {
        StorageReply::Listed(objects) => Ok(layout::slots(&objects).into_iter().collect()),
        other => Err(Error::failed(why(other))),
    }
}

pub(crate) async fn log_entry(storage: &impl Serve, slot: Slot) -> Result<Option<Result<LogEntry, String>>> {
    let entry = read_slot(storage, slot).await?;
    Ok(entry.map(|entry| entry.map_err(|error| error.to_string())))
}

pub(crate) async fn read_slot(storage: &impl Serve, slot: Slot) -> Result<Option<Result<LogEntry, EntryError>>> {
    let bytes = read(storage, &layout::slot(slot)).await?;
    Ok(bytes.map(|bytes| LogEntry::read(slot, &bytes)))
}

async fn manifest_of(storage: &impl Serve, entry: &CheckpointEntry) -> Result<Bytes> {
    let bytes = read(storage, &entry.manifest).await?;
    match bytes.filter(|bytes| Manifest::checksum(bytes) == entry.checksum) {
        Some(bytes) => Ok(bytes),
        None => Err(Error::unusable(format!("{} is missing or damaged", entry.manifest)).at_checkpoint(entry.id)),
    }
}

async fn copy_blob(from: &impl Serve, to: &impl Serve, path: &str, blob: &BlobRef) -> Result<()> {
    match read_blob(from, Some(to), path, blob).await {
        Ok(()) => done(to.serve(StorageRequest::Finish { path: path.to_owned() }).await),
        Err(error) => {
            let _ = to.serve(StorageRequest::Discard { path: path.to_owned() }).await;
            Err(error)
        }
    }
}

/// Piece by piece, so that memory stays flat; appends each to the same path in `to`, if there is one.
async fn read_blob<F: Serve, T: Serve>(from: &F, to: Option<&T>, path: &str, blob: &BlobRef) -> Result<()> {
    let (mut hash, mut at) = (Xxh3Default::new(), 0);
    while at < blob.length {
        let end = at.saturating_add(PIECE).min(blob.length);
        let request = StorageRequest::Read { path: path.to_owned(), range: Some(at..end) };
        let bytes = match from.serve(request).await {
            StorageReply::Read(bytes) if bytes.len() as u64 == end - at => bytes,
            StorageReply::Read(_) | StorageReply::NotFound => {
                return Err(Error::unusable(format!("{path} is missing or too short")));
            }
            other => return Err(Error::failed(why(other))),
        };
        hash.update(&bytes);
        if let Some(to) = to {
            done(to.serve(StorageRequest::Append { path: path.to_owned(), bytes }).await)?;
        }
        at = end;
    }
    if hex(hash.digest()) == blob.checksum {
        return Ok(());
    }
    Err(Error::unusable(format!("{path} was changed after it was written: its checksum is wrong")))
}

/// Nobody else writes here: what exists is what an unknown outcome wrote.
pub(crate) async fn create(to: &impl Serve, path: &str, bytes: Bytes) -> Result<()> {
    match settle(to, path, &bytes).await? {
        StorageReply::Created => Ok(()),
        other => Err(Error::failed(why(other))),
    }
}

/// Creates, and repeats the same create while its outcome is open (L8): the bytes are nobody else's, so what is there tells.
async fn settle(to: &impl Serve, path: &str, bytes: &Bytes) -> Result<StorageReply> {
    let retry = RetryOptions::default();
    let mut tries = 1;
    loop {
        let reply = to.serve(StorageRequest::Create { path: path.to_owned(), bytes: bytes.clone() }).await;
        if !matches!(reply, StorageReply::Exists | StorageReply::Unknown(_)) {
            return Ok(reply);
        }
        match read(to, path).await {
            Ok(Some(there)) if there == *bytes => return Ok(StorageReply::Created),
            Ok(Some(_)) => return Ok(StorageReply::Exists),
            Ok(None) if tries >= retry.tries => return Ok(reply),
            Err(error) if tries >= retry.tries => return Err(error),
            Ok(None) | Err(_) => retry.pause(tries).await,
        }
        tries += 1;
    }
}

/// A small object; `None` if it is not there.
async fn read(storage: &impl Serve, path: &str) -> Result<Option<Bytes>> {
    match storage.serve(StorageRequest::Read { path: path.to_owned(), range: None }).await {
        StorageReply::Read(bytes) => Ok(Some(bytes)),
        StorageReply::NotFound => Ok(None),
        other => Err(Error::failed(why(other))),
    }
}

pub(crate) fn done(reply: StorageReply) -> Result<()> {
    match reply {
        StorageReply::Done => Ok(()),
        other => Err(Error::failed(why(other))),
    }
}

pub(crate) fn why(reply: StorageReply) -> String {
    match reply {
        StorageReply::Failed(text) | StorageReply::Unknown(text) | StorageReply::Obstructed(text) => text,
        other => format!("the storage answers {other:?}"),
    }
}

fn damaged(location: &str, path: &str, what: &str) -> Error {
    Error::unusable(format!("{path} in {location}: {what}")).hint("`flott checkpoints verify` tells more")
}
