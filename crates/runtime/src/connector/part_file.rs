//! One part of a file sink while it is written, under its pending name.
//!
//! The writer fills it on the worker's thread, the committer finishes it elsewhere. Nothing here publishes.

use super::file_format::Rest;
use crate::error::{Error, Result};
use crate::io::{Files, WriteFile, failed_at};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// So many bytes wait in memory before they are written.
const BUFFER: usize = 64 << 10;

/// See the head of this file.
pub(super) struct PartFile {
    path: PathBuf,
    state: State,
    /// Bytes that are not written yet.
    pub(super) buffer: Vec<u8>,
    /// What comes behind them, not encoded yet.
    pub(super) rest: Option<Box<dyn Rest>>,
    /// Bytes that are written.
    written: u64,
    /// Of the bytes that are written.
    hash: Xxh3,
    /// Where it was begun.
    files: Option<Arc<dyn Files>>,
}

/// How far the file is.
enum State {
    /// It is created with the first bytes.
    Absent,
    /// Creating it failed; it may be there.
    Doubtful,
    /// Open for more.
    Open(Box<dyn WriteFile>),
    /// A write failed: some of the buffer may be in the file.
    Torn(Box<dyn WriteFile>),
    /// All is written, not synced.
    Written,
    /// Durable.
    Synced,
    /// A sync failed, and what it was for may be lost although a later one succeeds; or its end cannot be encoded. The file is
    /// never trusted again.
    Lost(Error),
}

impl PartFile {
    /// A part that is not on the disk yet.
    pub(super) fn new(path: PathBuf) -> PartFile {
        PartFile {
            path,
            state: State::Absent,
            buffer: Vec::new(),
            rest: None,
            written: 0,
            hash: Xxh3::new(),
            files: None,
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes, written or not.
    pub(super) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The xxh3-64 of what is written.
    pub(super) fn hash(&self) -> u64 {
        self.hash.digest()
    }

    /// Writes the buffer if it is full.
    pub(super) fn write_full_buffer(&mut self, files: &Arc<dyn Files>) -> Result<()> {
        if self.buffer.len() < BUFFER { Ok(()) } else { self.write_buffer(files) }
    }

    /// Writes what is left and closes the file: no more bytes follow. Not durable yet.
    pub(super) fn close(&mut self, files: &Arc<dyn Files>) -> Result<()> {
        self.encode_rest()?;
        self.write_buffer(files)?;
        // A closed part may wait long for its commit.
        self.buffer = Vec::new();
        self.state = State::Written;
        Ok(())
    }

    /// Writes what is left and makes all of it durable, but not its name. After a failure it can be tried again.
    pub(super) fn finish(&mut self, files: &Arc<dyn Files>) -> Result<()> {
        if matches!(self.state, State::Absent | State::Doubtful | State::Open(_) | State::Torn(_)) {
            self.encode_rest()?;
            self.write_buffer(files)?;
        }
        let synced = match &mut self.state {
            State::Open(file) => file.sync(),
            State::Synced => return Ok(()),
            State::Lost(error) => return Err(error.clone()),
            _ => files.sync_file(&self.path),
        };
        match synced {
            Ok(()) => {
                self.state = State::Synced;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(failed_at(&self.path, "upload", &error)),
            Err(error) => {
                let error = failed_at(&self.path, "sync", &error).hint(
                    "its bytes may be lost; the output is written anew when the job restarts from its last checkpoint",
                );
                self.state = State::Lost(error.clone());
                Err(error)
            }
        }
    }

    /// A part without its end must never be taken for a whole one, so after a failure there is none.
    fn encode_rest(&mut self) -> Result<()> {
        let Some(rest) = self.rest.take() else { return Ok(()) };
        rest.write(&mut self.buffer).inspect_err(|error| self.state = State::Lost(error.clone()))
    }

    fn write_buffer(&mut self, files: &Arc<dyn Files>) -> Result<()> {
        self.open(files)?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let State::Open(file) = &mut self.state else {
            return Err(Error::failed(format!("{} is closed, nothing can be added", self.path.display())));
        };
        if let Err(error) = file.write_all(&self.buffer) {
            self.state = match std::mem::replace(&mut self.state, State::Absent) {
                State::Open(file) => State::Torn(file),
                other => other,
            };
            return Err(failed_at(&self.path, "write", &error));
        }
        self.hash.update(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file open for writing, and forgets of the buffer what a failed write left in the file.
    fn open(&mut self, files: &Arc<dyn Files>) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Doubtful) {
            State::Absent => {}
            State::Doubtful => match files.remove(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed_at(&self.path, "remove", &error));
                }
                _ => {}
            },
            State::Torn(file) => return self.mend(file, files),
            other => {
                self.state = other;
                return Ok(());
            }
        }
        self.files.get_or_insert_with(|| Arc::clone(files));
        let file = files.create_new(&self.path).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                // Never remove what we did not create.
                self.state = State::Absent;
                self.files = None;
            }
            failed_at(&self.path, "create", &error)
        })?;
        self.state = State::Open(file);
        Ok(())
    }

    /// A failed write leaves a beginning of what it was for; the file's length says how much.
    fn mend(&mut self, file: Box<dyn WriteFile>, files: &Arc<dyn Files>) -> Result<()> {
        let info = files.info(&self.path).map_err(|error| failed_at(&self.path, "look at", &error));
        let length = match info {
            Ok(info) => info.length,
            Err(error) => {
                self.state = State::Torn(file);
                return Err(error);
            }
        };
        let there = length.checked_sub(self.written).and_then(|there| usize::try_from(there).ok());
        let Some(there) = there.filter(|there| *there <= self.buffer.len()) else {
            let path = self.path.display();
            let error = Error::failed(format!("{path} has {length} bytes, which is not what was written to it"));
            self.state = State::Lost(error.clone());
            return Err(error);
        };
        self.hash.update(self.buffer.get(..there).unwrap_or_default());
        self.written += there as u64;
        self.buffer.drain(..there);
        self.state = State::Open(file);
        Ok(())
    }
}

/// An attempt that ends gives back what its parts hold on this machine.
impl Drop for PartFile {
    fn drop(&mut self) {
        if let Some(files) = &self.files {
            files.give_up(&self.path);
        }
    }
}
