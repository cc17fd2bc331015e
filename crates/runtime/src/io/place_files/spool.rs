//! Files on the local disk that hold what is on its way to a bucket. They have no names, so a killed process leaves none.

use crate::io::entropy::random_u64;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// A file on its way. What a disk gives back is compared with what it was given: nobody syncs it, so a write that failed later
/// would be heard of by nobody.
pub(super) struct Spooled {
    pub(super) file: File,
    /// Of all that was written.
    hash: Mutex<Xxh3>,
}

impl std::fmt::Debug for Spooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooled").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Spooled {
    /// Adds all bytes; after a failure, those that the file has are in the hash.
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let (written, rest) = bytes.split_at(count);
                    hash.update(written);
                    bytes = rest;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The xxh3-64 of all that was written.
    pub(super) fn hash(&self) -> u64 {
        self.hash.lock().unwrap_or_else(PoisonError::into_inner).digest()
    }
}

/// Where such files are made: in the system's folder for temporary files, or that of `TMPDIR`.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

impl Default for Spool {
    fn default() -> Spool {
        Spool(std::env::temp_dir())
    }
}

impl Spool {
    #[cfg(test)]
    pub(super) fn at(directory: &std::path::Path) -> Spool {
        Spool(directory.to_owned())
    }

    /// A fresh one, to be read and written.
    pub(super) fn file(&self) -> io::Result<Spooled> {
        let name = random_u64().map_err(|error| io::Error::other(error.to_string()))?;
        let path = self.0.join(format!("flott-spool-{name:016x}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot spool in {} (see TMPDIR): {error}", self.0.display()))
        })?;
        // Where an open file keeps its name, it is left behind.
        let _ = fs::remove_file(&path);
        Ok(Spooled { file, hash: Mutex::default() })
    }
}

#[cfg(unix)]
pub(super) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(not(unix))]
pub(super) fn read_at(mut file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}
