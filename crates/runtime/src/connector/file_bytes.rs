//! The bytes of one input file, in chunks, with the offset of the next unread one.
//!
//! Knows nothing of lines or records. Reads through the page cache on the worker's thread.

use super::file_source::Fingerprint;
use crate::error::{Error, Result};
use crate::io::{Files, ReadFile, failed_at};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// How many bytes are asked of the system at once.
const CHUNK: usize = 64 << 10;

/// The longest line or CSV record, in bytes; a longer one is an error, for a file without line feeds must not fill memory.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// So many bytes from the beginning take part in a fingerprint.
const FINGERPRINT_BYTES: usize = 4 << 10;

/// The bytes of one file from some offset on.
pub(super) struct FileBytes {
    files: Arc<dyn Files>,
    file: Box<dyn ReadFile>,
    path: PathBuf,
    fingerprint: Fingerprint,
    /// The unread bytes are `buffer[start..]`; the first of them is at `offset` in the file.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
}

impl FileBytes {
    /// Opens a file at its beginning, after a byte order mark if it has one.
    pub(super) fn open(files: &Arc<dyn Files>, path: &Path) -> Result<FileBytes> {
        let length = files.info(path).map_err(|error| failed_at(path, "look at", &error))?.length;
        let file = files.open(path).map_err(|error| failed_at(path, "open", &error))?;
        let fingerprint = Fingerprint { length, xxh3: 0 };
        let (buffer, path) = (Vec::new(), path.to_owned());
        let mut bytes = FileBytes { files: files.clone(), file, path, fingerprint, buffer, start: 0, offset: 0 };
        while bytes.unread().len() < FINGERPRINT_BYTES && bytes.fill()? {}
        let head = bytes.unread();
        bytes.fingerprint.xxh3 = xxh3_64(head.get(..FINGERPRINT_BYTES).unwrap_or(head));
        bytes.skip_byte_order_mark();
        Ok(bytes)
    }

    fn skip_byte_order_mark(&mut self) {
        if self.offset == 0 && self.unread().starts_with(b"\xEF\xBB\xBF") {
            self.consume(3);
        }
    }

    /// Goes back to the beginning, after a byte order mark.
    pub(super) fn rewind(&mut self) -> Result<()> {
        self.seek(0);
        while self.unread().len() < 3 && self.fill()? {}
        self.skip_byte_order_mark();
        Ok(())
    }

    /// What was read of the file and not consumed.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Where the first unread byte is.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What the file looked like when it was opened.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Marks bytes of [`FileBytes::unread`] as read.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
        debug_assert!(self.start <= self.buffer.len());
    }

    /// Goes to another place of the file.
    pub(super) fn seek(&mut self, offset: u64) {
        self.buffer.clear();
        self.start = 0;
        self.offset = offset;
    }

    /// Reads another chunk behind the unread bytes; false at the end of the file.
    pub(super) fn fill(&mut self) -> Result<bool> {
        let behind = self.offset + self.unread().len() as u64;
        let rest = self.fingerprint.length.saturating_sub(behind);
        if rest == 0 {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let kept = self.buffer.len();
        let wanted = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        self.buffer.resize(kept + wanted, 0);
        let read = self.file.read_at(behind, self.buffer.get_mut(kept..).unwrap_or_default());
        self.buffer.truncate(kept + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => Err(Error::failed(format!(
                "{} became shorter while it was read: it ends at byte {behind} of {}",
                self.path.display(),
                self.fingerprint.length
            ))
            .hint("an input file must not change once it is seen")),
            Ok(_) => Ok(true),
            Err(error) => Err(failed_at(&self.path, "read", &error)),
        }
    }

    /// Whether the file is still as long as it was when it was opened; asked at its end.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let length = self.files.info(&self.path).map_err(|error| failed_at(&self.path, "look at", &error))?.length;
        if length == self.fingerprint.length {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{} changed while it was read: it had {} bytes and now has {length}",
            self.path.display(),
            self.fingerprint.length
        ))
        .hint("an input file must not change once it is seen: write it elsewhere and move it in when it is whole"))
    }
}
