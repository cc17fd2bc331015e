//! A storage in memory, shared by all processes of a test, with faults on demand.

use crate::io::{StorageReply, StorageRequest};
use bytes::Bytes;
use flott_checkpoint::LogEntry;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What goes wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It is obeyed, and nobody hears of it.
    AnswerLost,
    /// It is not obeyed, and nobody knows.
    Unknown,
    /// It fails for good.
    Fails,
}

/// See the head of this file. Clones share the objects.
#[derive(Clone, Default)]
pub(super) struct Store(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Bytes>,
    /// The next request whose text contains this goes wrong, so many times.
    faults: Vec<(&'static str, Fault, u32)>,
    /// All that was asked, as text: "create log/1.json".
    asked: Vec<String>,
    /// Every entry that the log ever held, in order.
    entries: Vec<Bytes>,
}

impl Store {
    pub(super) fn break_next(&self, what: &'static str, fault: Fault, times: u32) {
        self.0.borrow_mut().faults.push((what, fault, times));
    }

    pub(super) fn put(&self, path: &str, bytes: Bytes) {
        self.0.borrow_mut().objects.insert(path.to_owned(), bytes);
    }

    pub(super) fn get(&self, path: &str) -> Option<Bytes> {
        self.0.borrow().objects.get(path).cloned()
    }

    pub(super) fn remove(&self, path: &str) {
        self.0.borrow_mut().objects.remove(path);
    }

    /// Flips one bit in the middle of an object.
    pub(super) fn damage(&self, path: &str) {
        let mut bytes = self.get(path).expect("there is something to damage").to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.put(path, bytes.into());
    }

    pub(super) fn paths(&self, prefix: &str) -> Vec<String> {
        self.0.borrow().objects.keys().filter(|path| path.starts_with(prefix)).cloned().collect()
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.0.borrow().asked.clone()
    }

    /// Every entry that the log ever held, whatever was deleted since.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        let entries = self.0.borrow().entries.clone();
        entries.iter().map(|bytes| LogEntry::decode(bytes).expect("only entries are written there")).collect()
    }

    pub(super) fn serve(&self, request: StorageRequest) -> StorageReply {
        let name = name(&request);
        let fault = self.0.borrow_mut().fault(&name);
        self.0.borrow_mut().asked.push(name.clone());
        match fault {
            Some(Fault::Fails) => StorageReply::Failed(format!("{name}: injected")),
            Some(Fault::Unknown) => StorageReply::Unknown(format!("{name}: injected")),
            Some(Fault::AnswerLost) => {
                self.0.borrow_mut().obey(request);
                StorageReply::Unknown(format!("{name}: injected"))
            }
            None => self.0.borrow_mut().obey(request),
        }
    }
}

impl Inner {
    fn fault(&mut self, name: &str) -> Option<Fault> {
        let (_, fault, left) = self.faults.iter_mut().find(|(what, _, left)| *left > 0 && name.contains(what))?;
        *left -= 1;
        Some(*fault)
    }

    fn obey(&mut self, request: StorageRequest) -> StorageReply {
        match request {
            StorageRequest::Create { path, .. } if self.objects.contains_key(&path) => StorageReply::Exists,
            StorageRequest::Create { path, bytes } => {
                if path.starts_with("log/") {
                    self.entries.push(bytes.clone());
                }
                self.objects.insert(path, bytes);
                StorageReply::Created
            }
            StorageRequest::Read { path, .. } => {
                self.objects.get(&path).map_or(StorageReply::NotFound, |bytes| StorageReply::Read(bytes.clone()))
            }
            StorageRequest::List { prefix } => {
                let below = |path: &&String| path.starts_with(&format!("{prefix}/"));
                let names = self.objects.iter().filter(|(path, _)| below(path));
                StorageReply::Listed(names.map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect())
            }
            StorageRequest::Delete { path } => {
                self.objects.remove(&path);
                StorageReply::Done
            }
            StorageRequest::Append { .. } | StorageRequest::Finish { .. } | StorageRequest::Discard { .. } => {
                StorageReply::Done
            }
        }
    }
}

fn name(request: &StorageRequest) -> String {
    match request {
        StorageRequest::Create { path, .. } => format!("create {path}"),
        StorageRequest::Read { path, .. } => format!("read {path}"),
        StorageRequest::List { prefix } => format!("list {prefix}"),
        StorageRequest::Delete { path } => format!("delete {path}"),
        StorageRequest::Append { path, .. } => format!("append {path}"),
        StorageRequest::Finish { path } => format!("finish {path}"),
        StorageRequest::Discard { path } => format!("discard {path}"),
    }
}
