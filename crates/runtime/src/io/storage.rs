//! Serves [`StorageRequest`]s on an object store: a local directory, or whatever else the `object_store` crate speaks to.
//!
//! It knows no log, no manifest and no checkpoint: names and bytes only. It never repeats a create whose outcome is unknown
//! (L5: whoever asked must settle it), and nothing that it writes is visible in part.

mod blob;
mod hedge;
mod local;
mod objects;
mod open;
mod place;
mod puts;
mod refusal;
mod remote;
mod retry;
mod sweep;
#[cfg(feature = "testing")]
mod troubled;

pub use objects::Looked;
pub(crate) use open::open_bucket;
pub use open::{
    create_savepoint_storage, find_storage, find_storage_with, open_storage, open_storage_if_there,
    open_storage_to_read, open_storage_with,
};
pub use remote::StoreOptions;
pub use retry::RetryOptions;
#[cfg(feature = "testing")]
pub use troubled::Trouble;

use crate::io::{StorageReply, StorageRequest, is_elsewhere};
use crate::layout;
use blob::{Act, Turn, Turns};
use bytes::Bytes;
use flott_checkpoint::AttemptId;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt, TryStreamExt};
use hedge::Pace;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use puts::Tried;
use retry::{Failure, is_certain};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// A store that takes the parts of an object by number, so that a part can be sent again: all but a local directory.
pub trait Objects: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Objects for T {}

/// The storage of one job. Cheap to clone; every clone serves the same objects.
#[derive(Clone, Debug)]
pub struct StorageServer {
    store: Arc<Store>,
}

/// What all requests in flight share.
#[derive(Debug)]
struct Store {
    objects: Arc<dyn ObjectStore>,
    /// In front of all paths; empty if the store itself begins at the job's directory.
    prefix: Path,
    /// The same store, if it takes the parts of an object by number.
    parts: Option<Arc<dyn Objects>>,
    /// The job's directory, if it is one of this machine.
    directory: Option<PathBuf>,
    /// For messages.
    name: String,
    retry: RetryOptions,
    turns: Turns,
    /// How long puts take.
    pace: Mutex<Pace>,
    /// The storages of other places that were read from: a client is no small thing.
    elsewhere: Mutex<BTreeMap<String, StorageServer>>,
}

impl StorageServer {
    /// Serves the objects below `prefix` of a store.
    ///
    /// # Errors
    /// If the prefix is no path.
    pub fn new(
        objects: Arc<dyn ObjectStore>,
        prefix: &str,
        retry: RetryOptions,
    ) -> Result<StorageServer, object_store::path::Error> {
        let prefix = Path::parse(prefix)?;
        let name = format!("{objects}/{prefix}");
        Ok(StorageServer::of(Store::new(objects, prefix, name, retry)))
    }

    /// Serves the objects below `prefix` of a store that takes the parts of an object by number: a part that failed is sent
    /// again, and a put that is slow gets a second try. `name` is what the place is called, in messages and in the log.
    ///
    /// # Errors
    /// If the prefix is no path.
    pub fn with_parts(
        objects: Arc<dyn Objects>,
        prefix: &str,
        name: &str,
        retry: RetryOptions,
    ) -> Result<StorageServer, object_store::path::Error> {
        let plain = Arc::clone(&objects) as Arc<dyn ObjectStore>;
        let store = Store::new(plain, Path::parse(prefix)?, name.to_owned(), retry);
        Ok(StorageServer::of(Store { parts: Some(objects), ..store }))
    }

    /// A storage that forgets everything when its last clone is dropped. For tests and trials.
    #[must_use]
    pub fn in_memory() -> StorageServer {
        let objects: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        StorageServer::new(objects, "job", RetryOptions::default()).expect("a plain word is a path")
    }

    fn of(store: Store) -> StorageServer {
        StorageServer { store: Arc::new(store) }
    }

    /// Where it is, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.store.name
    }

    /// Serves one request. `Append`, `Finish` and `Discard` of one path are served in the order of the calls of this
    /// function, whenever their futures are polled; everything else runs side by side.
    ///
    /// The future needs a tokio runtime. Dropping it before it is done leaves the outcome open; a blob is then broken.
    pub fn serve(&self, request: StorageRequest) -> BoxFuture<'static, StorageReply> {
        let store = Arc::clone(&self.store);
        let asked = match request {
            StorageRequest::Append { path, bytes } => store.queue(path, Act::Append(bytes)),
            StorageRequest::Finish { path } => store.queue(path, Act::Finish),
            StorageRequest::Discard { path } => store.queue(path, Act::Discard),
            other => Asked::Now(other),
        };
        // Boxed, here and below: what is inside is then compiled once, in this crate, and not again in each that polls it.
        Box::pin(async move {
            match asked {
                Asked::Now(StorageRequest::Create { path, bytes }) => store.create(&path, bytes).await,
                Asked::Now(StorageRequest::Read { path, range }) => match is_elsewhere(&path) {
                    Some((location, inner)) => store.read_elsewhere(location, inner, range).await,
                    None => store.read(&path, range).await,
                },
                Asked::Now(StorageRequest::List { prefix }) => store.list(&prefix).await,
                Asked::Now(StorageRequest::Delete { path }) => store.delete(&path).await,
                Asked::Now(other) => StorageReply::Failed(format!("a call that needs a turn has none: {other:?}")),
                Asked::Queued(path, turn, act) => store.in_turn(&path, turn, act).await,
            }
        })
    }
}

impl StorageServer {
    /// Gives up all blobs below `data/<attempt>/` that are neither finished nor discarded: their memory and open files are
    /// given back, and their uploads aborted. For an attempt that has ended, so that nobody goes on with one of them.
    ///
    /// Calls that are on their way are waited for. An upload that cannot be aborted in time is left to the store.
    pub fn forget(&self, attempt: AttemptId) -> BoxFuture<'_, ()> {
        Box::pin(self.give_up(attempt))
    }

    async fn give_up(&self, attempt: AttemptId) {
        let blobs = self.store.turns.remove_below(&layout::segments_of(attempt));
        let discards = blobs.into_iter().map(async |blob| {
            // No blob comes if the call that had it was dropped half way: then it is gone already.
            if let Ok(mut blob) = blob.await {
                // What it leaves behind is swept after the next start.
                let _ = blob.discard(&self.store).await;
            }
        });
        futures_util::future::join_all(discards).await;
    }
}

async fn local_listing(root: PathBuf, prefix: String) -> object_store::Result<Vec<(String, u64)>> {
    let listed = tokio::task::spawn_blocking(move || local::list(&root, &prefix)).await;
    let listed = listed.map_err(std::io::Error::other).and_then(|result| result);
    listed.map_err(|error| object_store::Error::Generic { store: "local", source: Box::new(error) })
}

/// A request that has its place in the queue of its path, if it needs one.
enum Asked {
    Now(StorageRequest),
    Queued(String, Turn, Act),
}

impl Store {
    fn new(objects: Arc<dyn ObjectStore>, prefix: Path, name: String, retry: RetryOptions) -> Store {
        let (turns, elsewhere) = (Turns::default(), Mutex::default());
        let pace = Mutex::new(Pace::new(retry.timeout));
        Store { objects, prefix, parts: None, directory: None, name, retry, turns, pace, elsewhere }
    }

    /// Reads an object of another place. If there is none, there is no object.
    async fn read_elsewhere(&self, location: &str, path: &str, range: Option<Range<u64>>) -> StorageReply {
        let known = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).get(location).cloned();
        let server = match known.map_or_else(|| open::open_elsewhere(location), |server| Ok(Some(server))) {
            Ok(Some(server)) => server,
            Ok(None) => return StorageReply::NotFound,
            Err(error) => return StorageReply::Failed(error.to_string()),
        };
        // A local directory is looked for each time: it may be taken away.
        if server.store.directory.is_none() {
            let mut elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
            elsewhere.insert(location.to_owned(), server.clone());
        }
        server.store.read(path, range).await
    }

    /// The store's own name of a path; the text of the refusal if it is no path.
    fn at(&self, path: &str) -> Result<Path, String> {
        let inner = Path::parse(path).map_err(|error| format!("`{path}` is not a path of the storage: {error}"))?;
        Ok(self.prefix.parts().chain(inner.parts()).collect())
    }

    fn failed(&self, doing: &str, path: &str, failure: &Failure) -> StorageReply {
        StorageReply::Failed(format!("cannot {doing} {path} in {}: {failure}", self.name))
    }

    /// What stands where this object must be and is none: then no repetition helps.
    fn obstructed(&self, path: &str) -> Option<String> {
        let what = local::obstruction(self.directory.as_ref()?, path)?;
        Some(format!("{what}, in {}", self.name))
    }

    async fn create(&self, path: &str, bytes: Bytes) -> StorageReply {
        let at = match self.at(path) {
            Ok(at) => at,
            Err(text) => return StorageReply::Failed(text),
        };
        let mut tries = 1;
        loop {
            let failure = match self.try_to_create(&at, path, &bytes, tries).await {
                Tried::Created => return StorageReply::Created,
                Tried::Exists => return self.obstructed(path).map_or(StorageReply::Exists, StorageReply::Obstructed),
                Tried::Unknown => {
                    let what = "two tries of it contradict each other, or one has no answer";
                    return StorageReply::Unknown(format!("nobody knows who created {path} in {}: {what}", self.name));
                }
                Tried::Failed(failure) => failure,
            };
            if let Some(what) = self.obstructed(path) {
                return StorageReply::Obstructed(what);
            }
            if !self.was_surely_not_created(&at, &failure).await {
                return StorageReply::Unknown(format!(
                    "nobody knows whether {path} in {} was created: {failure}",
                    self.name
                ));
            }
            if tries >= self.retry.tries || failure.is_permanent() {
                return self.failed("create", path, &failure);
            }
            self.retry.pause(tries).await;
            tries += 1;
        }
    }

    /// Whether a failed create can have had no effect, now or later. A local call that has returned does nothing more, so
    /// what is there afterwards is the answer; of a remote store only a refusal is certain.
    async fn was_surely_not_created(&self, at: &Path, failure: &Failure) -> bool {
        let Some(error) = failure.error() else { return false };
        match self.directory {
            Some(_) => matches!(self.objects.head(at).await, Err(object_store::Error::NotFound { .. })),
            None => is_certain(error),
        }
    }

    async fn read(&self, path: &str, range: Option<Range<u64>>) -> StorageReply {
        let at = match self.at(path) {
            Ok(at) => at,
            Err(text) => return StorageReply::Failed(text),
        };
        // First of all: opening a pipe would wait for its writer.
        if let Some(what) = self.obstructed(path) {
            return StorageReply::Obstructed(what);
        }
        let result = match &range {
            // The stores call an empty range invalid; it only asks whether the object is there.
            Some(range) if range.start >= range.end => {
                self.retry.repeat(|| self.objects.head(&at).map_ok(|_| Bytes::new()).boxed()).await
            }
            _ => {
                self.retry
                    .repeat(|| {
                        let range = range.clone().map(GetRange::Bounded);
                        let options = GetOptions { range, ..GetOptions::default() };
                        self.objects.get_opts(&at, options).and_then(|object| object.bytes()).boxed()
                    })
                    .await
            }
        };
        match (result, range) {
            (Ok(bytes), _) => StorageReply::Read(bytes),
            (Err(failure), _) if failure.says_not_found() => StorageReply::NotFound,
            // The stores call a range that begins behind the end invalid; whoever asked has to know that the object is short.
            (Err(_), Some(range)) if !range.is_empty() && self.ends_before(&at, range.start).await => {
                StorageReply::Read(Bytes::new())
            }
            (Err(failure), _) => self.failed("read", path, &failure),
        }
    }

    async fn ends_before(&self, at: &Path, offset: u64) -> bool {
        self.objects.head(at).await.is_ok_and(|object| object.size <= offset)
    }

    async fn list(&self, prefix: &str) -> StorageReply {
        let at = match self.at(prefix) {
            Ok(at) => at,
            Err(text) => return StorageReply::Failed(text),
        };
        if let Some(root) = &self.directory {
            return match self.retry.repeat(|| local_listing(root.clone(), prefix.to_owned()).boxed()).await {
                Ok(objects) => StorageReply::Listed(objects),
                Err(failure) => self.failed("list", prefix, &failure),
            };
        }
        let whole = (!at.as_ref().is_empty()).then_some(&at);
        let listed = self.retry.repeat(|| self.objects.list(whole).try_collect::<Vec<_>>().boxed()).await;
        match listed {
            Ok(objects) => {
                let inner = objects.into_iter().filter_map(|object| {
                    let parts: Path = object.location.prefix_match(&self.prefix)?.collect();
                    Some((parts.to_string(), object.size))
                });
                let mut objects: Vec<_> = inner.collect();
                objects.sort_unstable();
                StorageReply::Listed(objects)
            }
            Err(failure) => self.failed("list", prefix, &failure),
        }
    }

    async fn delete(&self, path: &str) -> StorageReply {
        let at = match self.at(path) {
            Ok(at) => at,
            Err(text) => return StorageReply::Failed(text),
        };
        match self.retry.repeat(|| self.objects.delete(&at).boxed()).await {
            Err(failure) if !failure.says_not_found() => self.failed("delete", path, &failure),
            _ => match self.sync_log_after(path).await {
                Ok(()) => StorageReply::Done,
                Err(text) => StorageReply::Failed(text),
            },
        }
    }

    /// A slot is deleted before its manifest, also for a machine that loses power in between.
    async fn sync_log_after(&self, path: &str) -> Result<(), String> {
        let Some(directory) = self.directory.as_ref().filter(|_| path.starts_with("log/")) else { return Ok(()) };
        let log = directory.join("log");
        let synced = tokio::task::spawn_blocking(move || super::files::sync_directory(&log)).await;
        match synced.map_err(std::io::Error::other).and_then(|result| result) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot make the deletion of {path} in {} durable: {error}", self.name))
            }
            _ => Ok(()),
        }
    }

    fn queue(&self, path: String, act: Act) -> Asked {
        let turn = self.turns.take(&path);
        Asked::Queued(path, turn, act)
    }

    /// Does something to a blob when all earlier calls for its path are done.
    async fn in_turn(&self, path: &str, turn: Turn, act: Act) -> StorageReply {
        let (mut blob, next) = turn.come().await;
        let result = match (self.at(path), self.obstructed(path)) {
            (Ok(_), Some(what)) if !matches!(act, Act::Discard) => Err(what),
            (Ok(at), _) => blob.act(self, &at, act).await,
            (Err(text), _) => Err(text),
        };
        self.turns.pass_on(path, next, blob);
        match result {
            Ok(()) => StorageReply::Done,
            Err(text) => StorageReply::Failed(format!("cannot write {path} in {}: {text}", self.name)),
        }
    }
}
