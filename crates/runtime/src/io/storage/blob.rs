//! Blobs that are being written: parts go up as they come, and nothing is visible before `Finish`.
//!
//! The calls for one path form a queue by handing the blob from one to the next: each call takes its place when it is made,
//! not when it is first polled. A blob that fits into one part is written by one put, which can be repeated; of a longer
//! one a failed part breaks the blob (object stores' clients repeat parts themselves), and whoever writes it begins anew.

use super::Store;
use bytes::Bytes;
use futures_util::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload};
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
    upload: Option<Box<dyn MultipartUpload>>,
    broken: Option<String>,
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
            Some(mut upload) => {
                let abort = store.retry.in_time(1, upload.abort());
                abort.await.map_err(|failure| format!("its upload cannot be taken back: {failure}"))
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
        let put = store.retry.repeat(|| store.objects.put_opts(at, payload.clone(), PutOptions::default()).boxed());
        put.await.map(|_| ()).map_err(|failure| failure.to_string())
    }

    /// Begins the upload if need be and sends its next part, once: an upload counts a part, and its place in the object, when
    /// it is asked to take it, so asking again would leave a gap.
    async fn send_part(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        if self.upload.is_none() {
            let begin = store.retry.repeat(|| {
                let options = PutMultipartOptions::default();
                store.objects.put_multipart_opts(at, options).boxed()
            });
            self.upload = Some(begin.await.map_err(|failure| failure.to_string())?);
        }
        let part = self.take_part();
        let Some(upload) = &mut self.upload else { return Ok(()) };
        store.retry.in_time(1, upload.put_part(part)).await.map_err(|failure| failure.to_string())
    }

    /// Sends what is left and makes the blob visible, once: an upload is used up by its first `complete`, whatever came of it.
    async fn complete(&mut self, store: &Store, at: &Path) -> Result<(), String> {
        if self.rest_bytes > 0 {
            self.send_part(store, at).await?;
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        store.retry.in_time(1, upload.complete()).await.map(|_| ()).map_err(|failure| failure.to_string())
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
        if let Some(mut upload) = self.upload.take() {
            // The cause is reported, not what follows from it; leftovers are swept after the next start.
            let _ = store.retry.in_time(1, upload.abort()).await;
        }
        *self = Blob { broken: Some(text.clone()), ..Blob::default() };
        Err(text)
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
