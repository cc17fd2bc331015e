//! Finding a job's storage by what the user wrote, and making sure that it can hold a log (L8).
//!
//! Everything that can be wrong with it is said here, before anything runs, with exit code 2.

use super::blob::Turns;
use super::{RetryOptions, StorageServer, Store};
use crate::error::{Error, Result};
use crate::io::{StorageReply, StorageRequest};
use crate::layout;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the storage of a job for writing: `location` is a path or a `file://` URL. The directory is made if it is not
/// there. Call [`StorageServer::probe`] next.
///
/// # Errors
/// `Refused`, saying what is wrong with the location.
pub fn open_storage(location: &str, job: &str) -> Result<StorageServer> {
    layout::check_job_name(job)?;
    let directory = directory_of(location)?;
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
/// `Refused`, saying what is wrong with the location.
pub fn open_storage_to_read(location: &str, job: &str) -> Result<StorageServer> {
    layout::check_job_name(job)?;
    let directory = directory_of(location)?.join(job);
    check_is_directory(&directory, location)?;
    if !directory.is_dir() {
        return Err(Error::refused(format!("there is no job directory {}", directory.display())));
    }
    local(&directory)
}

/// Opens the storage that a tool's user means: the job's directory itself, or the checkpoint directory with one job or
/// with the named one in it. Gives back the job's name too.
///
/// # Errors
/// `Refused`, naming the jobs that there are if it is not clear which one is meant.
pub fn find_storage(location: &str, job: Option<&str>) -> Result<(String, StorageServer)> {
    if let Some(job) = job {
        return Ok((job.to_owned(), open_storage_to_read(location, job)?));
    }
    let directory = directory_of(location)?;
    let canonical = fs::canonicalize(&directory)
        .map_err(|error| Error::refused(format!("cannot open {}: {error}", directory.display())))?;
    check_is_directory(&canonical, location)?;
    if is_job(&canonical) {
        let name = canonical.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return Ok((name.to_owned(), local(&canonical)?));
    }
    let entries = fs::read_dir(&canonical)
        .map_err(|error| Error::refused(format!("cannot list {}: {error}", directory.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut jobs: Vec<String> = names.filter(|name| is_job(&canonical.join(name))).collect();
    jobs.sort_unstable();
    match jobs.as_slice() {
        [job] => Ok((job.clone(), open_storage_to_read(location, job)?)),
        [] => Err(Error::refused(format!("there is no job in {}", directory.display()))
            .hint("name the directory that was given to the job with --checkpoint-dir")),
        _ => Err(Error::refused(format!("{} holds several jobs: {}", directory.display(), jobs.join(", ")))
            .hint("name one of them after the directory")),
    }
}

/// Makes the directory of a savepoint: one that is new, or empty. Gives back its absolute path too.
///
/// # Errors
/// `Refused`, saying why no savepoint can be written there.
pub fn create_savepoint_storage(location: &str) -> Result<(String, StorageServer)> {
    let refused = |directory: &Path, what: String| {
        Error::refused(format!("no savepoint can be written to {}: {what}", directory.display()))
    };
    if location.is_empty() {
        return Err(Error::refused("the directory of the savepoint is empty: name one"));
    }
    let directory = directory_of(location)?;
    check_is_directory(&directory, location)?;
    fs::create_dir_all(&directory).map_err(|error| refused(&directory, error.to_string()))?;
    let mut entries = fs::read_dir(&directory).map_err(|error| refused(&directory, error.to_string()))?;
    if entries.next().is_some() {
        let what = match (directory.join(layout::SAVEPOINT).exists(), directory.join(layout::UNFINISHED).exists()) {
            (true, _) => "there is one already",
            (false, true) => "it holds one that is being written, or was left unfinished",
            (false, false) => "it is not empty",
        };
        return Err(refused(&directory, what.to_owned()).hint("name a directory that is new or empty"));
    }
    let canonical = fs::canonicalize(&directory).map_err(|error| refused(&directory, error.to_string()))?;
    sync_parents(&canonical);
    Ok((canonical.display().to_string(), local(&canonical)?))
}

/// The storage of another directory, to be read; `None` if there is none.
pub(super) fn open_elsewhere(location: &str) -> Result<Option<StorageServer>> {
    let directory = directory_of(location)?;
    if directory.is_dir() { local(&directory).map(Some) } else { Ok(None) }
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
                    return Err(Error::refused(format!("the checkpoint directory cannot be written: {text}"))
                        .hint("it must be writable, have room, and know hard links if it is a local directory"));
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
    Ok(StorageServer::of(Store {
        objects: Arc::new(objects),
        prefix: ObjectPath::default(),
        directory: Some(directory.to_owned()),
        name: directory.display().to_string(),
        retry: RetryOptions::default(),
        turns: Turns::default(),
    }))
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

fn directory_of(location: &str) -> Result<PathBuf> {
    let Some((scheme, rest)) = location.split_once("://") else {
        if location.is_empty() {
            return Err(Error::refused("the checkpoint directory is empty").hint("name one with --checkpoint-dir"));
        }
        return Ok(PathBuf::from(location));
    };
    match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            match percent_decoded(path) {
                Some(path) if path.starts_with('/') => Ok(PathBuf::from(path)),
                _ => Err(Error::refused(format!("`{location}` is not a file URL"))
                    .hint("write file:///absolute/path, or just the path")),
            }
        }
        "s3" | "s3a" | "gs" | "gcs" | "az" | "azure" | "abfs" | "abfss" | "adl" => Err(not_local(location)),
        _ => Err(Error::refused(format!("`{location}` has the unknown scheme `{scheme}`"))
            .hint("use a path or file:///path")),
    }
}

fn not_local(location: &str) -> Error {
    Error::refused(format!(
        "`{location}` is an object store; this version of flott keeps checkpoints on local disk only"
    ))
    .hint("use a path or file:///path")
}

/// `%20` and the like; `None` if it is not UTF-8 or a digit is missing.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
