//! Files for connectors wherever they are: on this machine, or in a bucket if the path is a URL (`s3://bucket/key`).
//!
//! In a bucket a file is an object. One that is being written is spooled on the local disk and uploaded when it is synced, so
//! that whoever writes never waits for the network; whoever opens, reads or lists does. A link is a copy within the store, which never replaces: nobody but the
//! owner of a part's name makes it, so looking first is enough. Directories are prefixes: there is nothing to make or to sync.

mod spool;

use super::files::OsFiles;
use super::storage::{Looked, StorageServer, StoreOptions, open_bucket};
use super::{FileInfo, Files, ReadFile, StorageReply, StorageRequest, WriteFile};
use bytes::Bytes;
use spool::{Spool, Spooled};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use tokio::runtime::Runtime;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

#[cfg(test)]
mod tests;

/// So much of an object is read at once, and kept.
const BLOCK: u64 = 4 << 20;
/// So much of a spooled file is handed over at once.
const PIECE: usize = 1 << 20;
/// What begins a path in a bucket.
const SCHEMES: [&str; 6] = ["s3:", "s3a:", "gs:", "gcs:", "az:", "azure:"];
/// What is written at the start where output goes, and taken away again.
const PROBE: &str = ".flott-probe";
/// Of these, where a copy goes on after its answer.
const LATE_COPIES: [&str; 2] = ["az:", "azure:"];

/// See the head of this file.
#[derive(Debug, Default)]
pub struct PlaceFiles(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    buckets: Mutex<BTreeMap<String, StorageServer>>,
    /// What is written and not uploaded, by URL.
    spooled: Mutex<BTreeMap<String, Arc<Spooled>>>,
    spool: Spool,
    /// The prefixes that output has been shown to be possible in.
    proved: Mutex<BTreeSet<String>>,
    options: StoreOptions,
    runtime: OnceLock<Runtime>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Waiting for it would not be allowed everywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An object, or what could be one.
struct Object {
    server: StorageServer,
    /// `s3://bucket`.
    root: String,
    key: String,
}

impl Object {
    fn url(&self) -> String {
        format!("{}/{}", self.root, self.key)
    }
}

/// Azure copies after it has answered, and whether the copy is done is not told: what is staged could go too early.
fn refuse_late_copies(path: &Path) -> io::Result<()> {
    let first = path.components().next();
    if !first.is_some_and(|first| LATE_COPIES.iter().any(|scheme| first.as_os_str() == *scheme)) {
        return Ok(());
    }
    let what = "a file sink cannot write to Azure: its copies are done later than they are answered, so a part could be lost; \
                write to s3://, gs:// or a local directory (checkpoints and file sources in az:// are fine)";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Whether it lies in a bucket.
fn is_remote(path: &Path) -> bool {
    let first = path.components().next();
    first.is_some_and(|first| SCHEMES.iter().any(|scheme| first.as_os_str() == *scheme))
}

impl PlaceFiles {
    /// The same, with options for the object stores.
    #[must_use]
    pub fn with_options(options: StoreOptions) -> PlaceFiles {
        let mut shared = Shared::default();
        shared.options = options;
        PlaceFiles(Arc::new(shared))
    }

    /// How many files are held on the local disk because they are not uploaded.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.spooled().len()
    }
}

#[cfg(test)]
impl PlaceFiles {
    /// Serves a bucket with this storage.
    pub(crate) fn with_bucket(root: &str, server: StorageServer) -> PlaceFiles {
        let files = PlaceFiles::default();
        files.0.buckets().insert(root.to_owned(), server);
        files
    }

    /// The same, with a folder of its own for what is not uploaded.
    pub(crate) fn spooling_in(directory: &Path, root: &str, server: StorageServer) -> PlaceFiles {
        let mut shared = Shared::default();
        shared.spool = Spool::at(directory);
        let files = PlaceFiles(Arc::new(shared));
        files.0.buckets().insert(root.to_owned(), server);
        files
    }
}

impl Shared {
    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, StorageServer>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spooled(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Spooled>>> {
        self.spooled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Paths that were taken apart and put together have lost a slash.
    fn object(&self, path: &Path) -> io::Result<Object> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let text = path.to_str().ok_or_else(|| invalid("it is not UTF-8".to_owned()))?;
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        let rest = rest.trim_start_matches('/');
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let root = format!("{scheme}://{bucket}");
        let key = key.trim_matches('/').to_owned();
        if let Some(server) = self.buckets().get(&root) {
            return Ok(Object { server: server.clone(), root, key });
        }
        let server = open_bucket(&root, &self.options).map_err(|error| invalid(error.to_string()))?;
        self.buckets().insert(root.clone(), server.clone());
        Ok(Object { server, root, key })
    }

    /// The threads of these files.
    fn runtime(&self) -> io::Result<&Runtime> {
        if self.runtime.get().is_none() {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let fresh = builder.worker_threads(1).thread_name("flott-objects").enable_all().build()?;
            // Of two that are made at the same time one is dropped, unused.
            if let Err(second) = self.runtime.set(fresh) {
                second.shutdown_background();
            }
        }
        self.runtime.get().ok_or_else(|| io::Error::other("there is no I/O runtime"))
    }

    /// Does something on threads of its own and waits for it: whoever calls this may be inside of another runtime.
    fn wait<T: Send + 'static>(&self, doing: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let (to, from) = mpsc::channel();
        self.runtime()?.spawn(async move {
            let _ = to.send(doing.await);
        });
        from.recv().map_err(|_| io::Error::other("the I/O runtime has ended"))
    }

    fn look(&self, object: &Object) -> io::Result<Option<Looked>> {
        if object.key.is_empty() {
            return Ok(None);
        }
        let (server, key) = (object.server.clone(), object.key.clone());
        self.wait(async move { server.look(&key).await })?.map_err(io::Error::other)
    }

    /// Shows that output can be written below a prefix, once: afterwards what fails may heal.
    fn prove(&self, path: &Path) -> io::Result<()> {
        let object = self.object(path)?;
        // Held meanwhile: the subtasks of a sink come all at once.
        let mut proved = self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        if proved.contains(&object.url()) {
            return Ok(());
        }
        let (server, key) = (object.server.clone(), object.key.clone());
        self.wait(async move { server.prove(&key, PROBE).await })?.map_err(io::Error::other)?;
        proved.insert(object.url());
        Ok(())
    }

    /// Names below a prefix, and lengths.
    fn below(&self, object: &Object, prefix: &str) -> io::Result<Vec<(String, u64)>> {
        let listing = object.server.serve(StorageRequest::List { prefix: prefix.to_owned() });
        match self.wait(listing)? {
            StorageReply::Listed(objects) => Ok(objects),
            other => Err(failed(other)),
        }
    }

    /// Makes an object of what is spooled. After a failure it is spooled still.
    fn upload(&self, object: &Object) -> io::Result<()> {
        let url = object.url();
        let Some(file) = self.spooled().get(&url).cloned() else {
            let there = self.look(object)?.is_some();
            return if there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) };
        };
        let (server, path) = (object.server.clone(), object.key.clone());
        let result = self.wait(async move {
            let sent = send(&server, &path, &file).await;
            if sent.is_err() {
                // The cause is reported, not what follows from it.
                let _ = server.serve(StorageRequest::Discard { path }).await;
            }
            sent
        })?;
        // Nothing is lost by a failure to send them: the bytes are here, if they are.
        result.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => error,
            _ => io::Error::new(io::ErrorKind::WouldBlock, error),
        })?;
        self.spooled().remove(&url);
        Ok(())
    }
}

async fn send(server: &StorageServer, path: &str, file: &Spooled) -> io::Result<()> {
    let (mut offset, mut hash) = (0, Xxh3::new());
    loop {
        let mut piece = vec![0; PIECE];
        let read = spool::read_at(&file.file, offset, &mut piece)?;
        piece.truncate(read);
        hash.update(&piece);
        // One append also if there is nothing: it begins the object.
        if read > 0 || offset == 0 {
            done(server.serve(StorageRequest::Append { path: path.to_owned(), bytes: Bytes::from(piece) }).await)?;
        }
        if read == 0 {
            if hash.digest() != file.hash() {
                let what = "the disk that it was spooled on (see TMPDIR) gives back other bytes than were written";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            return done(server.serve(StorageRequest::Finish { path: path.to_owned() }).await);
        }
        offset += read as u64;
    }
}

fn done(reply: StorageReply) -> io::Result<()> {
    match reply {
        StorageReply::Done => Ok(()),
        other => Err(failed(other)),
    }
}

fn failed(reply: StorageReply) -> io::Error {
    match reply {
        StorageReply::Failed(text) | StorageReply::Unknown(text) | StorageReply::Obstructed(text) => {
            io::Error::other(text)
        }
        other => io::Error::other(format!("the storage answers {other:?}")),
    }
}

impl Files for PlaceFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        if !is_remote(path) {
            return OsFiles.open(path);
        }
        let object = self.0.object(path)?;
        let looked = self.0.look(&object)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Reading { shared: Arc::clone(&self.0), object, looked, at: 0, block: Bytes::new() }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        if !is_remote(path) {
            return OsFiles.create_new(path);
        }
        let object = self.0.object(path)?;
        let file = Arc::new(self.0.spool.file()?);
        match self.0.spooled().entry(object.url()) {
            std::collections::btree_map::Entry::Occupied(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(Arc::clone(&file)),
        };
        Ok(Box::new(Writing { shared: Arc::clone(&self.0), object, file }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        if !is_remote(path) {
            return OsFiles.info(path);
        }
        let object = self.0.object(path)?;
        let spooled = self.0.spooled().get(&object.url()).cloned();
        if let Some(file) = spooled {
            let (length, identity) = (file.file.metadata()?.len(), (u64::MAX, xxh3_64(object.url().as_bytes())));
            return Ok(FileInfo { length, is_dir: false, is_file: true, identity });
        }
        if let Some(Looked { length, etag }) = self.0.look(&object)? {
            // What is copied keeps its tag, unless it went up in parts; then whoever compares looks at the content.
            let tag = etag.map_or_else(|| object.url(), |etag| format!("{} {etag}", object.root));
            return Ok(FileInfo { length, is_dir: false, is_file: true, identity: (length, xxh3_64(tag.as_bytes())) });
        }
        if self.0.below(&object, &object.key)?.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(FileInfo { length: 0, is_dir: true, is_file: false, identity: (0, 0) })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        if !is_remote(directory) {
            return OsFiles.list(directory);
        }
        let object = self.0.object(directory)?;
        let prefix = if object.key.is_empty() { String::new() } else { format!("{}/", object.key) };
        let names = self.0.below(&object, &object.key)?.into_iter();
        let names = names.filter_map(|(key, _)| key.strip_prefix(&prefix).map(str::to_owned));
        Ok(names.filter(|name| !name.contains('/')).collect())
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        if !is_remote(Path::new(pattern)) || !pattern.contains(['*', '?', '[']) {
            return OsFiles.glob(pattern);
        }
        let object = self.0.object(Path::new(pattern))?;
        let fixed = object.key.find(['*', '?', '[']).and_then(|at| object.key.get(..at)?.rfind('/')).unwrap_or(0);
        let wanted = glob::Pattern::new(&object.key).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{pattern}` is not a glob pattern: {error}"))
        })?;
        let whole_parts = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
        let keys = self.0.below(&object, object.key.get(..fixed).unwrap_or_default())?.into_iter();
        let keys = keys.filter(|(key, _)| wanted.matches_with(key, whole_parts));
        Ok(keys.map(|(key, _)| PathBuf::from(format!("{}/{key}", object.root))).collect())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if !is_remote(path) {
            return OsFiles.create_dir_all(path);
        }
        refuse_late_copies(path)?;
        // Whether we may write there is better known now than at the first checkpoint.
        self.0.prove(path).map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if is_remote(path) { Ok(()) } else { OsFiles.sync_dir(path) }
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        if is_remote(path) { self.0.upload(&self.0.object(path)?) } else { OsFiles.sync_file(path) }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !is_remote(from) || !is_remote(to) {
            return OsFiles.link(from, to);
        }
        refuse_late_copies(to)?;
        let (from, to) = (self.0.object(from)?, self.0.object(to)?);
        if self.0.look(&to)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let server = from.server.clone();
        let copied = self.0.wait(async move { server.copy(&from.key, &to.key).await })?.map_err(io::Error::other)?;
        if copied { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !is_remote(path) {
            return OsFiles.remove(path);
        }
        let object = self.0.object(path)?;
        self.0.spooled().remove(&object.url());
        done(self.0.wait(object.server.serve(StorageRequest::Delete { path: object.key }))?)
    }

    fn give_up(&self, path: &Path) {
        if let (true, Ok(object)) = (is_remote(path), self.0.object(path)) {
            self.0.spooled().remove(&object.url());
        }
    }

    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        // Nobody has made it, so nobody can take it away. Whether the bucket is there, a listing says.
        if is_remote(path) { Ok(true) } else { OsFiles.is_directory(path) }
    }

    fn ask(&self, path: &Path, question: Box<dyn FnOnce() + Send>) {
        match self.0.runtime() {
            Ok(runtime) if is_remote(path) => drop(runtime.spawn_blocking(question)),
            _ => question(),
        }
    }
}

struct Reading {
    shared: Arc<Shared>,
    object: Object,
    looked: Looked,
    /// Where the block begins.
    at: u64,
    block: Bytes,
}

impl ReadFile for Reading {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.looked.length || buffer.is_empty() {
            return Ok(0);
        }
        if offset < self.at || offset >= self.at + self.block.len() as u64 {
            let (server, key, looked) = (self.object.server.clone(), self.object.key.clone(), self.looked.clone());
            let range = offset..offset.saturating_add(BLOCK).min(looked.length);
            let read = self.shared.wait(async move { server.read_same(&key, range, &looked).await })?;
            self.block = read.map_err(io::Error::other)?.ok_or(io::ErrorKind::NotFound)?;
            self.at = offset;
        }
        let begin = usize::try_from(offset - self.at).unwrap_or(usize::MAX);
        let there = self.block.get(begin..).unwrap_or_default();
        let count = there.len().min(buffer.len());
        let (to, from) = (buffer.get_mut(..count).unwrap_or_default(), there.get(..count).unwrap_or_default());
        to.copy_from_slice(from);
        Ok(count)
    }
}

struct Writing {
    shared: Arc<Shared>,
    object: Object,
    file: Arc<Spooled>,
}

impl WriteFile for Writing {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.shared.upload(&self.object)
    }
}
