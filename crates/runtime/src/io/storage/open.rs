//! Finding a job's storage by what the user wrote, and making sure that it can hold a log (L8).
//!
//! Everything that can be wrong with it is said here, before anything runs, with exit code 2.

use super::place::{self, BucketPlace, Place};
use super::remote::{self, StoreOptions};
use super::{RetryOptions, StorageServer, Store};
use crate::error::{Error, Result};
use crate::io::{StorageReply, StorageRequest};
use crate::layout;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Opens the storage of a job for writing: `location` is a path, a `file://` URL or the URL of an object store. A directory is
/// made if it is not there, a bucket is not. Nobody is asked yet: call [`StorageServer::probe`] next.
///
/// # Errors
/// `Refused`, saying what is wrong with the location.
pub fn open_storage(location: &str, job: &str) -> Result<StorageServer> {
    open_storage_with(location, job, &StoreOptions::default())
}

/// The same, with options for an object store.
///
/// # Errors
/// `Refused`, saying what is wrong with the location.
pub fn open_storage_with(location: &str, job: &str, options: &StoreOptions) -> Result<StorageServer> {
    layout::check_job_name(job)?;
    let directory = match place::parse(location)? {
        Place::Directory(directory) => directory,
        Place::Bucket(bucket) => return in_bucket(&bucket.join(job), options),
    };
    check_is_directory(&directory, location)?;
    let job_directory = directory.join(job);
    check_is_directory(&job_directory, location)?;
    fs::create_dir_all(&job_directory).map_err(|error| {
        Error::refused(format!("cannot create the checkpoint directory {}: {error}", job_directory.display()))
            .hint("name a directory that this user may write to with --checkpoint-dir")
    })?;
    sync_parents(&job_directory);
    local(&job_directory)
}

/// Opens the storage of a job that must be there already, for tools that look at it and change nothing.
///
/// # Errors
/// `Refused`, saying what is wrong with the location, or that the store does not answer.
pub fn open_storage_to_read<'a>(location: &'a str, job: &'a str) -> BoxFuture<'a, Result<StorageServer>> {
    Box::pin(async move {
        if let Some(storage) = open_storage_if_there(location, job).await? {
            return Ok(storage);
        }
        Err(Error::refused(match place::parse(location)? {
            Place::Directory(directory) => format!("there is no job directory {}", directory.join(job).display()),
            Place::Bucket(bucket) => format!("there is no job at {}", bucket.join(job)),
        }))
    })
}

/// The same; `None` if it is not there.
///
/// # Errors
/// `Refused`, saying what is wrong with the location, or that the store does not answer.
pub fn open_storage_if_there<'a>(location: &'a str, job: &'a str) -> BoxFuture<'a, Result<Option<StorageServer>>> {
    Box::pin(async move {
        layout::check_job_name(job)?;
        let directory = match place::parse(location)? {
            Place::Directory(directory) => directory.join(job),
            Place::Bucket(bucket) => {
                let server = in_bucket(&bucket.join(job), &StoreOptions::default())?;
                return Ok((!server.names("").await?.is_empty()).then_some(server));
            }
        };
        check_is_directory(&directory, location)?;
        if directory.is_dir() { local(&directory).map(Some) } else { Ok(None) }
    })
}

async fn job_in_bucket(bucket: &BucketPlace, options: &StoreOptions) -> Result<StorageServer> {
    let server = in_bucket(bucket, options)?;
    if server.names("").await?.is_empty() {
        return Err(Error::refused(format!("there is no job at {bucket}")));
    }
    Ok(server)
}

/// Opens the storage that a tool's user means: the job's directory itself, or the checkpoint directory with one job or
/// with the named one in it. Gives back the job's name too.
///
/// # Errors
/// `Refused`, naming the jobs that there are if it is not clear which one is meant, or that the store does not answer.
pub fn find_storage<'a>(location: &'a str, job: Option<&'a str>) -> BoxFuture<'a, Result<(String, StorageServer)>> {
    Box::pin(async move {
        match (place::parse(location)?, job) {
            (Place::Bucket(bucket), _) => find_in_bucket(&bucket, job, &StoreOptions::default()).await,
            (Place::Directory(_), Some(job)) => Ok((job.to_owned(), open_storage_to_read(location, job).await?)),
            (Place::Directory(directory), None) => find_in_directory(&directory, location),
        }
    })
}

fn find_in_directory(directory: &Path, location: &str) -> Result<(String, StorageServer)> {
    let canonical = fs::canonicalize(directory)
        .map_err(|error| Error::refused(format!("cannot open {}: {error}", directory.display())))?;
    check_is_directory(&canonical, location)?;
    if is_job(&canonical) {
        let name = canonical.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return Ok((name.to_owned(), local(&canonical)?));
    }
    let entries = fs::read_dir(&canonical)
        .map_err(|error| Error::refused(format!("cannot list {}: {error}", directory.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let jobs = names.filter(|name| is_job(&canonical.join(name))).collect();
    let job = the_only(jobs, &directory.display().to_string())?;
    let server = local(&directory.join(&job))?;
    Ok((job, server))
}

/// [`find_storage`], with options for an object store.
///
/// # Errors
/// As [`find_storage`].
pub fn find_storage_with<'a>(
    location: &'a str,
    job: Option<&'a str>,
    options: &'a StoreOptions,
) -> BoxFuture<'a, Result<(String, StorageServer)>> {
    Box::pin(async move {
        match place::parse(location)? {
            Place::Bucket(bucket) => find_in_bucket(&bucket, job, options).await,
            Place::Directory(_) => find_storage(location, job).await,
        }
    })
}

async fn find_in_bucket(
    bucket: &BucketPlace,
    job: Option<&str>,
    options: &StoreOptions,
) -> Result<(String, StorageServer)> {
    if let Some(job) = job {
        layout::check_job_name(job)?;
        return Ok((job.to_owned(), job_in_bucket(&bucket.join(job), options).await?));
    }
    let server = in_bucket(bucket, options)?;
    let names = server.names("").await?;
    if has_job(&names) {
        return Ok((bucket.last().to_owned(), server));
    }
    let mut jobs = Vec::new();
    for name in names.iter().filter_map(|name| name.strip_suffix('/')) {
        if has_job(&server.names(name).await?) {
            jobs.push(name.to_owned());
        }
    }
    let job = the_only(jobs, &bucket.to_string())?;
    let server = in_bucket(&bucket.join(&job), options)?;
    Ok((job, server))
}

fn the_only(mut jobs: Vec<String>, place: &str) -> Result<String> {
    jobs.sort_unstable();
    match jobs.as_slice() {
        [job] => Ok(job.clone()),
        [] => Err(Error::refused(format!("there is no job in {place}"))
            .hint("name the directory that was given to the job with --checkpoint-dir")),
        _ => Err(Error::refused(format!("{place} holds several jobs: {}", jobs.join(", ")))
            .hint("name one of them after the directory")),
    }
}

/// Makes the place of a savepoint: one that is new, or empty. Gives back its absolute path, or its URL, too.
///
/// # Errors
/// `Refused`, saying why no savepoint can be written there.
pub fn create_savepoint_storage(location: &str) -> BoxFuture<'_, Result<(String, StorageServer)>> {
    Box::pin(async move {
        if location.is_empty() {
            return Err(Error::refused("the directory of the savepoint is empty: name one"));
        }
        match place::parse(location)? {
            Place::Directory(directory) => savepoint_directory(&directory, location),
            Place::Bucket(bucket) => savepoint_in_bucket(&bucket).await,
        }
    })
}

fn savepoint_directory(directory: &Path, location: &str) -> Result<(String, StorageServer)> {
    let refused = |what: &str| no_savepoint(&directory.display().to_string(), what);
    check_is_directory(directory, location)?;
    fs::create_dir_all(directory).map_err(|error| refused(&error.to_string()))?;
    let mut entries = fs::read_dir(directory).map_err(|error| refused(&error.to_string()))?;
    if entries.next().is_some() {
        let there = |name: &str| directory.join(name).exists();
        return Err(taken(&directory.display().to_string(), there(layout::SAVEPOINT), there(layout::UNFINISHED)));
    }
    let canonical = fs::canonicalize(directory).map_err(|error| refused(&error.to_string()))?;
    sync_parents(&canonical);
    Ok((canonical.display().to_string(), local(&canonical)?))
}

async fn savepoint_in_bucket(bucket: &BucketPlace) -> Result<(String, StorageServer)> {
    let server = in_bucket(bucket, &StoreOptions::default())?;
    let names = server.names("").await?;
    if names.is_empty() {
        return Ok((bucket.to_string(), server));
    }
    let there = |name: &str| names.iter().any(|other| other == name);
    Err(taken(&bucket.to_string(), there(layout::SAVEPOINT), there(layout::UNFINISHED)))
}

fn taken(place: &str, finished: bool, unfinished: bool) -> Error {
    let what = match (finished, unfinished) {
        (true, _) => "there is one already",
        (false, true) => "it holds one that is being written, or was left unfinished",
        (false, false) => "it is not empty",
    };
    no_savepoint(place, what).hint("name a directory that is new or empty")
}

fn no_savepoint(place: &str, what: &str) -> Error {
    Error::refused(format!("no savepoint can be written to {place}: {what}"))
}

/// The storage of another place, to be read; `None` if there is none.
pub(super) fn open_elsewhere(location: &str) -> Result<Option<StorageServer>> {
    match place::parse(location)? {
        Place::Directory(directory) if directory.is_dir() => local(&directory).map(Some),
        Place::Directory(_) => Ok(None),
        Place::Bucket(bucket) => in_bucket(&bucket, &StoreOptions::default()).map(Some),
    }
}

/// A bucket as a whole, by its URL.
pub(crate) fn open_bucket(location: &str, options: &StoreOptions) -> Result<StorageServer> {
    match place::parse(location)? {
        Place::Bucket(bucket) => in_bucket(&bucket, options),
        Place::Directory(_) => Err(Error::refused(format!("`{location}` is no bucket"))),
    }
}

/// The storage that begins at a place in a bucket.
fn in_bucket(bucket: &BucketPlace, options: &StoreOptions) -> Result<StorageServer> {
    let objects = remote::connect(bucket, options)?;
    StorageServer::with_parts(objects, &bucket.prefix, &bucket.to_string(), options.retry)
        .map_err(|error| Error::refused(format!("`{bucket}` is no place: {error}")))
}

/// The same by the names in a bucket.
fn has_job(names: &[String]) -> bool {
    let (log, manifests) = (format!("{}/", layout::LOG), format!("{}/", layout::MANIFESTS));
    names.iter().any(|name| [layout::SAVEPOINT, layout::UNFINISHED, &log, &manifests].contains(&name.as_str()))
}

/// Any of what a job leaves: also a directory that lost its log is one to look at.
fn is_job(directory: &Path) -> bool {
    [layout::SAVEPOINT, layout::UNFINISHED].iter().any(|file| directory.join(file).is_file())
        || [layout::LOG, layout::MANIFESTS].iter().any(|part| directory.join(part).is_dir())
}

impl StorageServer {
    /// Makes sure that the store keeps its word: a second create of an object must fail, else two attempts could both
    /// believe that they own the log (L8). Leaves one small object, `probe`, behind.
    ///
    /// # Errors
    /// `Refused`, if it does not, or if nothing can be written.
    pub fn probe(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.try_out())
    }

    /// What lies directly below a prefix: objects, and with a slash at their ends what other objects are below.
    async fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let store = &self.store;
        let at = store.at(prefix).map_err(Error::refused)?;
        let listing = store.retry.repeat(|| store.objects.list_with_delimiter(Some(&at)).boxed()).await;
        let listing = listing.map_err(|failure| Error::refused(format!("cannot list {}: {failure}", self.name())))?;
        let name = |path: &ObjectPath| Some(path.prefix_match(&at)?.next()?.as_ref().to_owned());
        let objects = listing.objects.iter().filter_map(|object| name(&object.location));
        Ok(objects.chain(listing.common_prefixes.iter().filter_map(|path| Some(name(path)? + "/"))).collect())
    }

    async fn try_out(&self) -> Result<()> {
        for first in [true, false] {
            match self.create_probe().await {
                StorageReply::Exists => return Ok(()),
                StorageReply::Created if first => {}
                StorageReply::Created => {
                    return Err(Error::refused(format!(
                        "{} creates an object although it exists: it cannot keep two processes from owning one job",
                        self.name()
                    ))
                    .hint("use a store that supports conditional writes (If-None-Match), or a local directory"));
                }
                StorageReply::Failed(text) | StorageReply::Unknown(text) | StorageReply::Obstructed(text) => {
                    let error = Error::refused(format!("the checkpoint directory cannot be written: {text}"));
                    return Err(match self.store.directory {
                        Some(_) => error.hint("it must be writable, have room, and know hard links"),
                        // The text says what to do.
                        None => error,
                    });
                }
                other => return Err(Error::refused(format!("{} answers a create with {other:?}", self.name()))),
            }
        }
        Ok(())
    }

    /// An unknown outcome is repeated here: whoever created the probe, it is the same.
    async fn create_probe(&self) -> StorageReply {
        let mut reply = StorageReply::Failed("never tried".to_owned());
        for failures in 0..self.store.retry.tries.max(1) {
            if failures > 0 {
                self.store.retry.pause(failures).await;
            }
            let (path, bytes) = (layout::PROBE.to_owned(), Bytes::from_static(b"probe\n"));
            reply = self.serve(StorageRequest::Create { path, bytes }).await;
            if !matches!(reply, StorageReply::Unknown(_)) {
                break;
            }
        }
        reply
    }
}

fn local(directory: &Path) -> Result<StorageServer> {
    let objects = LocalFileSystem::new_with_prefix(directory)
        .map_err(|error| Error::refused(format!("cannot open {}: {error}", directory.display())))?
        .with_fsync(true)
        .with_automatic_cleanup(true);
    let (objects, name) = (Arc::new(objects), directory.display().to_string());
    let store = Store::new(objects, ObjectPath::default(), name, RetryOptions::default());
    Ok(StorageServer::of(Store { directory: Some(directory.to_owned()), ..store }))
}

/// A name that is taken by something else than a directory is the commonest mistake, and the system's message is obscure.
fn check_is_directory(path: &Path, location: &str) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => Err(Error::refused(format!("{} is not a directory", path.display()))
            .hint(format!("it was named by the checkpoint directory `{location}`"))),
        _ => Ok(()),
    }
}

/// Best effort: the first write into the directory syncs what must hold.
fn sync_parents(directory: &Path) {
    for parent in directory.ancestors().skip(1).take(2).filter(|path| !path.as_os_str().is_empty()) {
        let _ = crate::io::files::sync_directory(parent);
    }
}
