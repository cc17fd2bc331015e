//! The operating system's files, for connectors.
//!
//! Syncs are real (`fsync`), links never replace, and nothing here retries or remembers anything.

use crate::io::{FileInfo, Files, ReadFile, WriteFile};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFiles;

impl Files for OsFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        // Opening a pipe waits for its writer, and a device need not end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Box::new(Reading(File::open(path)?)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(OpenOptions::new().write(true).create_new(true).open(path)?)))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let metadata = fs::metadata(path)?;
        let (is_dir, is_file) = (metadata.is_dir(), metadata.is_file());
        Ok(FileInfo { length: metadata.len(), is_dir, is_file, identity: identity(&metadata) })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // Another name cannot be ours, and must not stand in the way of those that are.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        if !pattern.contains(['*', '?', '[']) {
            return Ok(vec![PathBuf::from(pattern)]);
        }
        let matches = glob::glob(pattern).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{pattern}` is not a glob pattern: {error}"))
        })?;
        let mut paths = Vec::new();
        for path in matches {
            let path = path.map_err(|error| {
                let kind = error.error().kind();
                io::Error::new(kind, format!("cannot look for `{pattern}`: {error}"))
            })?;
            if !path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        Ok(paths)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        sync_directory(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        // fsync is about the file, not about who wrote it: any descriptor serves.
        File::open(path)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

struct Reading(File);

impl ReadFile for Reading {
    #[cfg(unix)]
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    #[cfg(not(unix))]
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::{Read, Seek, SeekFrom};
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.read(buffer)
    }
}

struct Writing(File);

impl WriteFile for Writing {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Makes the names in a directory durable, where the system knows how.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { fs::metadata(path).map(|_| ()) }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Where a file has no identity, no two are the same: whoever compares falls back to length and content.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> (u64, u64) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    (u64::MAX, NEXT.fetch_add(1, Ordering::Relaxed))
}
