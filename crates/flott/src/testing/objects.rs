//! The checkpoint storage of a test: a map that answers at once and outlives its processes.

use flott_checkpoint::{CheckpointEntry, LogEntry};
use flott_runtime::io::{StorageReply, StorageRequest, elsewhere, is_elsewhere};
use flott_runtime::layout;
use flott_runtime::manifest::Manifest;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub(super) struct Objects {
    finished: BTreeMap<String, Vec<u8>>,
    /// Blobs that are being written; a crash forgets them.
    begun: BTreeMap<String, Vec<u8>>,
    /// How many bytes fit.
    room: Option<usize>,
}

impl Objects {
    pub(super) fn new(room: Option<usize>) -> Objects {
        Objects { finished: BTreeMap::new(), begun: BTreeMap::new(), room }
    }

    /// Whether somebody has won a Start.
    pub(super) fn has_log(&self) -> bool {
        self.finished.keys().any(|path| path.starts_with("log/"))
    }

    /// What there is becomes a directory elsewhere; the storage is empty but for it. Gives back its newest checkpoint.
    pub(super) fn put_aside(&mut self, place: &str) -> Option<(CheckpointEntry, Manifest)> {
        let slots = self.finished.iter().filter(|(path, _)| path.starts_with(layout::LOG));
        let entries = slots.filter_map(|(_, bytes)| match LogEntry::decode(bytes) {
            Ok(LogEntry::Checkpoint(entry)) => Some(entry),
            _ => None,
        });
        let newest = entries.max_by_key(|entry| entry.id)?;
        let manifest = Manifest::decode(&newest.manifest, self.finished.get(&newest.manifest)?).ok()?;
        self.begun.clear();
        let all = std::mem::take(&mut self.finished);
        // What lies elsewhere already is of no more use.
        let own = all.into_iter().filter(|(path, _)| is_elsewhere(path).is_none());
        self.finished = own.map(|(path, bytes)| (elsewhere(place, &path), bytes)).collect();
        Some((newest, manifest))
    }

    pub(super) fn crash(&mut self) {
        self.begun.clear();
    }

    pub(super) fn serve(&mut self, request: StorageRequest) -> StorageReply {
        match request {
            StorageRequest::Create { path, bytes } if self.fits(bytes.len()) => match self.finished.entry(path) {
                Entry::Occupied(_) => StorageReply::Exists,
                Entry::Vacant(place) => {
                    place.insert(bytes.to_vec());
                    StorageReply::Created
                }
            },
            StorageRequest::Append { path, bytes } if self.fits(bytes.len()) => {
                self.begun.entry(path).or_default().extend_from_slice(&bytes);
                StorageReply::Done
            }
            StorageRequest::Create { path, .. } | StorageRequest::Append { path, .. } => {
                StorageReply::Failed(format!("cannot write {path}: no space left on device"))
            }
            StorageRequest::Finish { path } => match self.begun.remove(&path) {
                Some(bytes) => {
                    self.finished.insert(path, bytes);
                    StorageReply::Done
                }
                None => StorageReply::Failed(format!("cannot finish {path}: it was not begun")),
            },
            StorageRequest::Discard { path } => {
                self.begun.remove(&path);
                StorageReply::Done
            }
            StorageRequest::Delete { path } => {
                self.finished.remove(&path);
                StorageReply::Done
            }
            StorageRequest::Read { path, range } => self.read(&path, range),
            StorageRequest::List { prefix } => {
                let below = |path: &str| path.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/'));
                let listed = self.finished.iter().filter(|(path, _)| prefix.is_empty() || below(path));
                StorageReply::Listed(listed.map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect())
            }
        }
    }

    fn read(&self, path: &str, range: Option<std::ops::Range<u64>>) -> StorageReply {
        let Some(bytes) = self.finished.get(path) else { return StorageReply::NotFound };
        let Some(range) = range else { return StorageReply::Read(bytes.clone().into()) };
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        match bytes.get(place(range.start)..place(range.end)) {
            Some(part) => StorageReply::Read(part.to_vec().into()),
            None => StorageReply::Failed(format!("cannot read {path}: the range ends before it begins")),
        }
    }

    fn fits(&self, more: usize) -> bool {
        let used: usize = self.finished.values().chain(self.begun.values()).map(Vec::len).sum();
        self.room.is_none_or(|room| used + more <= room)
    }
}
