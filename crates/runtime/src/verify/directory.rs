//! A job's directory, read: everything but the blobs.

use super::Progress;
use crate::error::{Error, Result};
use crate::history::HistoryEntry;
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::layout::{self, Name};
use crate::manifest::Manifest;
use crate::pin::Pin;
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointEntry, CheckpointId, LiteSet, LogEntry, Slot};
use litemap::LiteMap;

/// A manifest as it was found.
#[derive(Debug)]
pub(super) struct FoundManifest {
    /// Of its bytes; `None` if they cannot be read.
    pub(super) checksum: Option<u64>,
    /// What it says, or why it says nothing.
    pub(super) content: Result<Manifest, String>,
}

/// Everything of a job's directory but its blobs.
#[derive(Debug, Default)]
pub struct Directory {
    pub(super) lengths: LiteMap<String, u64>,
    pub(super) log: LiteMap<Slot, Result<LogEntry, String>>,
    pub(super) manifests: LiteMap<(CheckpointId, AttemptId), FoundManifest>,
    pub(super) history: LiteMap<(CheckpointId, AttemptId), HistoryEntry>,
    /// Paths of damaged small objects, and what is wrong.
    pub(super) damaged: LiteMap<String, String>,
    pub(super) strangers: Vec<String>,
    /// It is a savepoint's: its one entry of the log stands for a log.
    pub(super) is_savepoint: bool,
    objects: u64,
    bytes: u64,
}

impl Directory {
    /// Lists a job's directory and reads its log, manifests, history and pins.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub async fn read(storage: &StorageServer, progress: &mut impl FnMut(Progress)) -> Result<Directory> {
        let mut directory =
            Directory { lengths: list(storage, "").await?.into_iter().collect(), ..Directory::default() };
        let total = directory.lengths.values().fold(0u64, |sum, length| sum.saturating_add(*length));
        let paths: Vec<String> = directory.lengths.keys().cloned().collect();
        for path in paths {
            directory.read_one(storage, &path).await;
            progress(Progress { done: directory.bytes, total });
        }
        Ok(directory)
    }

    /// The checkpoints of the log, oldest first.
    pub fn checkpoints(&self) -> impl DoubleEndedIterator<Item = (Slot, &CheckpointEntry)> {
        self.log.iter().filter_map(|(slot, entry)| match entry {
            Ok(LogEntry::Checkpoint(entry)) => Some((*slot, entry)),
            _ => None,
        })
    }

    /// The manifest of a checkpoint, if it is there and sound.
    #[must_use]
    pub fn manifest(&self, id: CheckpointId, attempt: AttemptId) -> Option<&Manifest> {
        self.manifests.get(&(id, attempt)).and_then(|found| found.content.as_ref().ok())
    }

    /// The sound entries of the history: every checkpoint that was tried and is remembered, by id and attempt.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &HistoryEntry> {
        self.history.values()
    }

    /// Bytes of all listed objects.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lengths.values().fold(0, |sum, length| sum.saturating_add(*length))
    }

    pub(super) fn objects_read(&self) -> u64 {
        self.objects
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes
    }

    async fn read_one(&mut self, storage: &StorageServer, path: &str) {
        let name = match layout::parse(path) {
            Some(Name::Segment { .. }) => return,
            None if path == layout::PROBE => return,
            None if path == layout::SAVEPOINT => return self.read_savepoint(storage).await,
            None => return self.strangers.push(path.to_owned()),
            Some(name) => name,
        };
        let bytes = match get(storage, path).await {
            // Collected since the listing.
            Ok(None) => {
                self.lengths.remove(path);
                return;
            }
            Ok(Some(bytes)) => Ok(bytes),
            Err(text) => Err(text),
        };
        self.objects += 1;
        self.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        match name {
            Name::Slot(slot) => drop(self.log.insert(slot, bytes.and_then(|bytes| entry(slot, &bytes)))),
            Name::Manifest(id, attempt) => {
                let checksum = bytes.as_ref().ok().map(|bytes| Manifest::checksum(bytes));
                let content = bytes.and_then(|bytes| Manifest::decode(path, &bytes).map_err(text));
                self.manifests.insert((id, attempt), FoundManifest { checksum, content });
            }
            Name::History(..) => match bytes.and_then(|bytes| HistoryEntry::decode(path, &bytes).map_err(text)) {
                Ok(entry) => drop(self.history.insert((entry.id(), entry.attempt()), entry)),
                Err(what) => self.note(path, Err(what)),
            },
            Name::Pin(_) => self.note(path, bytes.and_then(|bytes| Pin::decode(path, &bytes).map(drop).map_err(text))),
            Name::Segment { .. } => {}
        }
    }

    async fn read_savepoint(&mut self, storage: &StorageServer) {
        let Some(bytes) = get(storage, layout::SAVEPOINT).await.transpose() else { return };
        self.is_savepoint = true;
        self.objects += 1;
        self.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        match bytes.and_then(|bytes| LogEntry::decode(&bytes).map_err(|error| error.to_string())) {
            Ok(LogEntry::Checkpoint(entry)) => {
                drop(self.log.insert(entry.slot, Ok(LogEntry::Checkpoint(entry))));
            }
            Ok(LogEntry::Start(_)) => self.note(layout::SAVEPOINT, Err("it is the start of an attempt".to_owned())),
            Err(what) => self.note(layout::SAVEPOINT, Err(what)),
        }
    }

    fn note(&mut self, path: &str, result: Result<(), String>) {
        if let Err(what) = result {
            self.damaged.insert(path.to_owned(), what);
        }
    }
}

fn entry(slot: Slot, bytes: &[u8]) -> Result<LogEntry, String> {
    LogEntry::read(slot, bytes).map_err(|error| error.to_string())
}

fn text(error: Error) -> String {
    error.to_string()
}

/// The slots that there are now.
pub(super) async fn slots(storage: &StorageServer) -> Result<LiteSet<Slot>> {
    Ok(layout::slots(&list(storage, layout::LOG).await?).into_iter().collect())
}

async fn list(storage: &StorageServer, prefix: &str) -> Result<Vec<(String, u64)>> {
    match storage.serve(StorageRequest::List { prefix: prefix.to_owned() }).await {
        StorageReply::Listed(objects) => Ok(objects),
        StorageReply::Failed(text) => Err(Error::failed(text)),
        other => Err(Error::failed(format!("the storage answers a listing with {other:?}"))),
    }
}

/// A small object; `None` if it is not there.
async fn get(storage: &StorageServer, path: &str) -> Result<Option<Bytes>, String> {
    match storage.serve(StorageRequest::Read { path: path.to_owned(), range: None }).await {
        StorageReply::Read(bytes) => Ok(Some(bytes)),
        StorageReply::NotFound => Ok(None),
        StorageReply::Failed(text) | StorageReply::Obstructed(text) => Err(text),
        other => Err(format!("the storage answers a read with {other:?}")),
    }
}
