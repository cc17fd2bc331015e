//! Blobs that are being written: parts go up as they come, and nothing is visible before `Finish`.
//!
//! The calls for one path form a queue by handing the blob from one to the next: each call takes its place when it is made,
//! not when it is first polled. A blob that fits into one part is written by one put, which can be repeated. Of a longer one
//! parts that have numbers can be sent again too; without them (a local directory) a failed part breaks the blob, and whoever
//! writes it begins anew.

use super::Store;
use super::retry::Failure;
use bytes::Bytes;
use futures_util::FutureExt;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{
    MultipartId, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The size of all parts but the last, in bytes. Stores want at least 5 MiB, and some want all to be equal.
pub(super) const PART_BYTES: usize = 8 << 20;

/// What a call does to a blob.
pub(super) enum Act {
    Append(Bytes),
    Finish,
    Discard,
}

/// A blob between its first `Append` and its `Finish` or `Discard`.
#[derive(Debug, Default)]
pub(super) struct Blob {
    begun: bool,
    /// What no part holds yet.
    rest: Vec<Bytes>,
    rest_bytes: usize,
    upload: Option<Upload>,
    broken: Option<String>,
}

/// An object that grows part by part.
#[derive(Debug)]
enum Upload {
    /// It counts its parts itself, so each is sent once.
    Counted(Box<dyn MultipartUpload>),
    /// Each part has a number, so it can be sent again.
    Numbered(Numbered),
}

#[derive(Debug)]
struct Numbered {
    at: Path,
    id: MultipartId,
    parts: Vec<PartId>,
    bytes: u64,
}

impl Blob {
    fn is_idle(&self) -> bool {
        !self.begun && self.broken.is_none()
    }

    pub(super) async fn act(&mut self, store: &Store, at: &Path, act: Act) -> Result<(), String> {
        match act {
            Act::Append(bytes) => self.append(store, at, bytes).await,
            Act::Finish => self.finish(store, at).await,
            Act::Discard => self.discard(store).await,
        }
    }

    async fn append(&mut self, store: &Store, at: &Path, bytes: Bytes) -> Result<(), String> {
        self.check()?;
        self.begun = true;
        self.rest_bytes += bytes.len();
        self.rest.push(bytes);
        while self.rest_bytes > PART_BYTES {
            let result = self.send_part(store, at).await;
            self.or_break(store, result).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        self.check()?;
        if !self.begun {
            return Err("it was never begun".to_owned());
        }
        let result = match self.upload {
            None => self.put_whole(store, at).await,
            Some(_) => self.complete(store, at).await,
        };
        self.or_break(store, result).await?;
        *self = Blob::default();
        Ok(())
    }

    /// Also forgets that the blob is broken.
    pub(super) async fn discard(&mut self, store: &Store) -> Result<(), String> {
        let upload = self.upload.take();
        *self = Blob::default();
        match upload {
            Some(upload) => {
                let abort = upload.abort(store).await;
                abort.map_err(|failure| format!("its upload cannot be taken back: {failure}"))
            }
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        match &self.broken {
            Some(text) => Err(text.clone()),
            None => Ok(()),
        }
    }

    async fn put_whole(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        let payload = PutPayload::from_iter(self.rest.iter().cloned());
        let put = || store.objects.put_opts(at, payload.clone(), PutOptions::default()).boxed();
        let whole = store.retry.until(|| store.put_again_if_slow(self.rest_bytes, put).boxed()).await;
        whole.map(|_| ()).map_err(|failure| failure.to_string())
    }

    /// Begins the upload if need be and sends its next part.
    async fn send_part(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        if self.upload.is_none() {
            self.upload = Some(Upload::begin(store, at).await.map_err(|failure| failure.to_string())?);
        }
        let part = self.take_part();
        let Some(upload) = &mut self.upload else { return Ok(()) };
        upload.send(store, part).await.map_err(|failure| failure.to_string())
    }

    /// Sends what is left and makes the blob visible.
    async fn complete(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        if self.rest_bytes > 0 {
            self.send_part(store, at).await?;
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        upload.complete(store).await.map_err(|failure| failure.to_string())
    }

    /// The first `PART_BYTES` of what is waiting, or all of it.
    fn take_part(&mut self) -> PutPayload {
        let mut part = Vec::new();
        let mut room = PART_BYTES;
        let mut later = Vec::new();
        for mut bytes in self.rest.drain(..) {
            let fitting = bytes.split_to(bytes.len().min(room));
            room -= fitting.len();
            self.rest_bytes -= fitting.len();
            part.push(fitting);
            if !bytes.is_empty() {
                later.push(bytes);
            }
        }
        self.rest = later;
        part.retain(|bytes| !bytes.is_empty());
        PutPayload::from_iter(part)
    }

    /// After a failure the blob is broken, and what was uploaded of it is given back as far as the store lets us.
    async fn or_break(&mut self, store: &Store, result: Result<(), String>) -> Result<(), String> {
        let Err(text) = result else { return Ok(()) };
        if let Some(upload) = self.upload.take() {
            // The cause is reported, not what follows from it; leftovers are swept after the next start.
            let _ = upload.abort(store).await;
        }
        *self = Blob { broken: Some(text.clone()), ..Blob::default() };
        Err(text)
    }
}

impl Upload {
    async fn begin(store: &Store, at: &Path) -> Result<Upload, Failure> {
        match &store.parts {
            // An answer that is lost leaves an upload behind that nobody goes on with: the store's own rules remove it.
            Some(parts) => {
                let id = store.retry.repeat(|| parts.create_multipart(at).boxed()).await?;
                Ok(Upload::Numbered(Numbered { at: at.clone(), id, parts: Vec::new(), bytes: 0 }))
            }
            None => {
                let begin = || store.objects.put_multipart_opts(at, PutMultipartOptions::default()).boxed();
                store.retry.repeat(begin).await.map(Upload::Counted)
            }
        }
    }

    async fn send(&mut self, store: &Store, part: PutPayload) -> Result<(), Failure> {
        match (self, &store.parts) {
            (Upload::Numbered(upload), Some(parts)) => {
                let (number, length) = (upload.parts.len(), part.content_length());
                let (at, id) = (&upload.at, &upload.id);
                let put = || parts.put_part(at, id, number, part.clone()).boxed();
                let sent = store.retry.until(|| store.put_again_if_slow(length, put).boxed()).await?;
                upload.parts.push(sent);
                upload.bytes += length as u64;
                Ok(())
            }
            // It counts a part, and its place in the object, when it is asked to take it: asking again would leave a gap.
            (Upload::Counted(upload), _) => store.retry.in_time(1, upload.put_part(part)).await,
            (Upload::Numbered(_), None) => Ok(()),
        }
    }

    async fn complete(&mut self, store: &Store) -> Result<(), Failure> {
        match (self, &store.parts) {
            (Upload::Numbered(upload), Some(parts)) => {
                let (at, id) = (&upload.at, &upload.id);
                let complete = || parts.complete_multipart(at, id, upload.parts.clone()).boxed();
                match store.retry.repeat(complete).await {
                    // A first `complete` whose answer was lost has used the upload up. Nobody else writes this object.
                    Err(failure)
                        if (failure.says_not_found() || failure.says_used_up()) && upload.is_there(store).await =>
                    {
                        Ok(())
                    }
                    result => result.map(|_| ()),
                }
            }
            // Used up by its first `complete`, whatever came of it.
            (Upload::Counted(upload), _) => store.retry.in_time(1, upload.complete()).await.map(|_| ()),
            (Upload::Numbered(_), None) => Ok(()),
        }
    }

    async fn abort(self, store: &Store) -> Result<(), Failure> {
        match (self, &store.parts) {
            (Upload::Numbered(upload), Some(parts)) => {
                store.retry.in_time(1, parts.abort_multipart(&upload.at, &upload.id)).await
            }
            (Upload::Counted(mut upload), _) => store.retry.in_time(1, upload.abort()).await,
            (Upload::Numbered(_), None) => Ok(()),
        }
    }
}

impl Numbered {
    /// Whether the whole object is there.
    async fn is_there(&self, store: &Store) -> bool {
        let head = store.retry.repeat(|| store.objects.head(&self.at).boxed()).await;
        head.is_ok_and(|object| object.size == self.bytes)
    }
}

/// The queues of all paths that are being written.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: Mutex<BTreeMap<String, Last>>,
}

/// The end of a queue: where the blob will be when everybody before is done.
#[derive(Debug)]
struct Last {
    number: u64,
    blob: oneshot::Receiver<Blob>,
}

/// A place in a queue.
pub(super) struct Turn {
    before: Option<oneshot::Receiver<Blob>>,
    next: Next,
}

/// Whoever comes after.
pub(super) struct Next {
    number: u64,
    to: oneshot::Sender<Blob>,
}

impl Turns {
    /// The next place in the queue of a path.
    pub(super) fn take(&self, path: &str) -> Turn {
        let (to, blob) = oneshot::channel();
        let mut last = self.lock();
        let number = last.get(path).map_or(0, |last| last.number + 1);
        let before = last.insert(path.to_owned(), Last { number, blob });
        Turn { before: before.map(|last| last.blob), next: Next { number, to } }
    }

    /// Gives the blob to the next in the queue, or ends the queue if nobody waits and nothing is begun.
    pub(super) fn pass_on(&self, path: &str, next: Next, blob: Blob) {
        let mut last = self.lock();
        if blob.is_idle() && last.get(path).is_some_and(|last| last.number == next.number) {
            last.remove(path);
        } else {
            // Nobody left to take it: the blob is dropped, and its upload with it.
            let _ = next.to.send(blob);
        }
    }

    /// Takes the queues of all paths below a prefix away, each to be waited for to its end. Calls that are on their way
    /// still have their turn; a later call for such a path begins anew.
    pub(super) fn remove_below(&self, prefix: &str) -> Vec<oneshot::Receiver<Blob>> {
        let mut last = self.lock();
        let removed = last.extract_if(prefix.to_owned().., |path, _| path.starts_with(prefix));
        removed.map(|(_, last)| last.blob).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.lock().len()
    }
}

impl Turn {
    /// Waits for everybody before.
    pub(super) async fn come(self) -> (Blob, Next) {
        let blob = match self.before {
            None => Blob::default(),
            Some(before) => before.await.unwrap_or_else(|_| Blob {
                broken: Some("an earlier call for it was given up half way".to_owned()),
                ..Blob::default()
            }),
        };
        (blob, self.next)
    }
}
