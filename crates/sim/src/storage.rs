//! The checkpoint storage of a simulated world: create if absent, streamed blobs, strong listings.
//!
//! It decides nothing about time and faults: the world says when a request takes effect, and whether only half of it does.

use bytes::Bytes;
use flott_runtime::io::{StorageReply, StorageRequest};
use std::collections::BTreeMap;

/// Objects by path, and blobs that are being written.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    objects: BTreeMap<String, Bytes>,
    open: BTreeMap<String, Vec<u8>>,
    /// A create of a log slot replaces what is there: a store without a fence.
    pub replaces_slots: bool,
}

impl Storage {
    /// An object.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Bytes> {
        self.objects.get(path)
    }

    /// The paths below a prefix.
    pub fn paths<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.objects.keys().map(String::as_str).filter(move |path| path.starts_with(prefix))
    }

    /// What a listing of a prefix says.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let below = format!("{prefix}/");
        let objects = self.objects.iter().filter(|(path, _)| path.starts_with(&below));
        objects.map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect()
    }

    /// Does what is asked.
    pub fn apply(&mut self, request: &StorageRequest) -> StorageReply {
        match request {
            StorageRequest::Create { path, .. }
                if self.objects.contains_key(path) && !(self.replaces_slots && path.starts_with("log/")) =>
            {
                StorageReply::Exists
            }
            StorageRequest::Create { path, bytes } => {
                self.objects.insert(path.clone(), bytes.clone());
                StorageReply::Created
            }
            StorageRequest::Read { path, range } => self.read(path, range.as_ref()),
            StorageRequest::List { prefix } => StorageReply::Listed(self.list(prefix)),
            StorageRequest::Delete { path } => {
                self.objects.remove(path);
                StorageReply::Done
            }
            StorageRequest::Append { path, bytes } => {
                self.open.entry(path.clone()).or_default().extend_from_slice(bytes);
                StorageReply::Done
            }
            StorageRequest::Finish { path } => {
                let bytes = self.open.remove(path).unwrap_or_default();
                self.objects.insert(path.clone(), bytes.into());
                StorageReply::Done
            }
            StorageRequest::Discard { path } => {
                self.open.remove(path);
                StorageReply::Done
            }
        }
    }

    /// Does half of it: some of the bytes are added; a blob is visible, and cut short.
    pub fn tear(&mut self, request: &StorageRequest) {
        match request {
            StorageRequest::Append { path, bytes } => {
                let half = bytes.slice(..bytes.len() / 2);
                self.open.entry(path.clone()).or_default().extend_from_slice(&half);
            }
            StorageRequest::Finish { path } => {
                let bytes = self.open.remove(path).unwrap_or_default();
                let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
                self.objects.insert(path.clone(), Bytes::copy_from_slice(half));
            }
            _ => {}
        }
    }

    fn read(&self, path: &str, range: Option<&std::ops::Range<u64>>) -> StorageReply {
        let Some(bytes) = self.objects.get(path) else { return StorageReply::NotFound };
        let Some(range) = range else { return StorageReply::Read(bytes.clone()) };
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        StorageReply::Read(bytes.slice(start..end))
    }
}
