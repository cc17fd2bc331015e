//! Files on the local disk that hold what is on its way to a bucket. They have no names, so a killed process leaves none.

use crate::io::entropy::random_u64;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;

/// Where such files are made: in the system's folder for temporary files, or that of `TMPDIR`.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

impl Default for Spool {
    fn default() -> Spool {
        Spool(std::env::temp_dir())
    }
}

impl Spool {
    /// A fresh one, to be read and written.
    pub(super) fn file(&self) -> io::Result<File> {
        let name = random_u64().map_err(|error| io::Error::other(error.to_string()))?;
        let path = self.0.join(format!("flott-spool-{name:016x}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot spool in {} (see TMPDIR): {error}", self.0.display()))
        })?;
        // Where an open file keeps its name, it is left behind.
        let _ = fs::remove_file(&path);
        Ok(file)
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
