//! Input and output by value: what floor 1 asks of the world, and what comes back.
//!
//! Subtasks and the job manager never touch a disk or a network themselves: they put a [`StorageRequest`] or a
//! [`BlockingCall`] into their outbox and the answer arrives as mail. Connectors, which read and write files on the worker's
//! thread through the page cache, go through [`Files`]. So the simulator can serve, delay, break and forget every call.
//! This module and its children are the only place that touches `std::fs`, `tokio` and `object_store`.

pub mod calls;
pub mod clock;
pub mod entropy;
pub mod files;
#[cfg(unix)]
pub mod local_socket;
pub mod net;
pub mod place_files;
pub mod runtime;
pub mod storage;
pub mod threads;

use crate::error::Error;
use bytes::Bytes;
use std::any::Any;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names a request, so that its answer finds whoever asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// What is asked of the checkpoint storage. Paths are relative to the job's directory, with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageRequest {
    /// Create an object if it is absent: log slots and manifests.
    Create {
        /// Where.
        path: String,
        /// The whole object.
        bytes: Bytes,
    },
    /// Read an object or a range of it.
    Read {
        /// Where.
        path: String,
        /// Which bytes; all if `None`. An object that ends before gives what it has: fewer bytes, or none.
        range: Option<Range<u64>>,
    },
    /// List all objects below a prefix (a "directory" without trailing slash), with their lengths.
    List {
        /// Where.
        prefix: String,
    },
    /// Delete an object; success if it is not there.
    Delete {
        /// Where.
        path: String,
    },
    /// Add bytes to a blob that is being written; the first call begins it. Calls for one path are served in order.
    Append {
        /// Where.
        path: String,
        /// The next bytes.
        bytes: Bytes,
    },
    /// Make a blob durable and visible.
    Finish {
        /// Where.
        path: String,
    },
    /// Forget a blob that was begun and not finished.
    Discard {
        /// Where.
        path: String,
    },
}

/// What the storage answers. Retries (L8) have already happened.
#[derive(Clone, Debug)]
pub enum StorageReply {
    /// `Create`: written, by this very call.
    Created,
    /// `Create`: an object was there before.
    Exists,
    /// `Create`: nobody knows whether it was written (L5): settle by asking again.
    Unknown(String),
    /// `Read`.
    Read(Bytes),
    /// `Read`: there is no such object.
    NotFound,
    /// `Create`, `Read`: something that is no object stands in its place, a directory or a link that leads nowhere. No
    /// repetition helps; the text says what.
    Obstructed(String),
    /// `List`: path relative to the job's directory, and length; sorted by path.
    Listed(Vec<(String, u64)>),
    /// `Delete`, `Append`, `Finish`, `Discard`: done.
    Done,
    /// The request failed for good; the text names path and cause.
    Failed(String),
}

/// A call that may block and is made off the worker's thread.
pub struct BlockingCall(pub Box<dyn FnOnce() -> Answer + Send>);

/// What a blocking call gives back; whoever asked knows the type.
pub type Answer = Box<dyn Any + Send>;

impl std::fmt::Debug for BlockingCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockingCall")
    }
}

/// The file system as connectors see it.
pub trait Files: Send + Sync {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `InvalidInput` for a directory, pipe, socket or device, which is not waited for; else as the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>>;
    /// Creates a file that must not exist, for writing.
    ///
    /// # Errors
    /// `AlreadyExists` if it does; else as the system says.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;
    /// What is at a path.
    ///
    /// # Errors
    /// `NotFound`, or as the system says.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;
    /// The names in a directory, sorted. Names that are not UTF-8 are left out: no connector makes such names.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// The files that match a glob pattern, sorted. A pattern without wildcards names itself, also if nothing is there.
    ///
    /// # Errors
    /// `InvalidInput` for a pattern that is none; else as the system says.
    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;
    /// Makes a directory and its parents.
    ///
    /// # Errors
    /// As the system says.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes durable what was written to a file, also by somebody who no longer has it open.
    ///
    /// # Errors
    /// As [`WriteFile::sync`].
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// A second name for a file, never replacing one.
    ///
    /// # Errors
    /// `AlreadyExists` if the new name is taken; else as the system says.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    ///
    /// # Errors
    /// `NotFound`, or as the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Nobody goes on with a file that was created here: what this machine holds of it until it is synced may be given back.
    /// Changes nothing that can be seen at its path.
    fn give_up(&self, path: &Path) {
        let _ = path;
    }
    /// Whether there is a directory at a path. In a bucket every prefix is one, also if nothing begins with it.
    ///
    /// # Errors
    /// `NotFound`, or as the system says.
    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        Ok(self.info(path)?.is_dir)
    }
    /// Does what asks about a path: at once, on the caller's thread, if these files answer soon; else on another thread, and
    /// this returns before it is done. It is dropped undone if the process ends.
    fn ask(&self, path: &Path, question: Box<dyn FnOnce() + Send>) {
        let _ = path;
        question();
    }
}

/// A file open for reading.
pub trait ReadFile: Send {
    /// Reads some bytes from an offset; 0 at the end.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A file open for writing at its end.
pub trait WriteFile: Send {
    /// Adds all bytes.
    ///
    /// # Errors
    /// As the system says; how much was written is unknown then.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes durable what was written.
    ///
    /// # Errors
    /// `WouldBlock`: not now, and nothing is lost: ask again. Else as the system says, and what was written may be lost.
    fn sync(&mut self) -> io::Result<()>;
}

/// What a path is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileInfo {
    /// Bytes.
    pub length: u64,
    /// A directory.
    pub is_dir: bool,
    /// A regular file, with bytes and an end: no directory, pipe, socket or device.
    pub is_file: bool,
    /// The same for two names of one file, different for two files: device and inode.
    pub identity: (u64, u64),
}

/// How the storage is asked for an object of another job's or savepoint's directory: by `Read` alone, and by a path that is
/// absolute or a URL, which no path of the own directory is.
#[must_use]
pub fn elsewhere(location: &str, path: &str) -> String {
    format!("{}/{path}", location.trim_end_matches('/'))
}

/// Takes a path of [`elsewhere`] apart again, into the location and the path in it; `None` for one of the own directory.
#[must_use]
pub fn is_elsewhere(path: &str) -> Option<(&str, &str)> {
    if !path.starts_with('/') && !path.contains("://") {
        return None;
    }
    let parts = ["/data/", "/manifests/", "/log/"].iter().filter_map(|part| path.rfind(part));
    let at = parts.max()?;
    Some((path.get(..at)?, path.get(at + 1..)?))
}

/// Turns an answer of a blocking call back into its type.
///
/// # Panics
/// If the asker confused two of its calls: a bug.
#[must_use]
pub fn answer<T: 'static>(answer: Answer) -> T {
    *answer.downcast::<T>().expect("an answer has the type of its call")
}

/// Puts a path in front of an I/O error.
#[must_use]
pub fn failed_at(path: &Path, doing: &str, error: &io::Error) -> Error {
    Error::failed(format!("cannot {doing} {}: {error}", path.display()))
}
