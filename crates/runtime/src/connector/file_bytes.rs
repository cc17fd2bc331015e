//! The bytes of one input file, unpacked if it is compressed, in chunks, with the offset of the next unread one.
//!
//! Knows nothing of lines or records. Reads through the page cache on the worker's thread.

use super::file_source::Fingerprint;
use super::gzip::{Gzip, GzipError};
use crate::error::{Error, Result};
use crate::io::{Files, ReadFile, failed_at};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// How many bytes are asked of the system at once.
const CHUNK: usize = 64 << 10;

/// The longest line or CSV record, in bytes; a longer one is an error, for a file without line feeds must not fill memory.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// So many bytes from the beginning take part in a fingerprint.
const FINGERPRINT_BYTES: usize = 4 << 10;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
}

/// What offsets count.
enum Content {
    Plain(Box<dyn ReadFile>),
    Gzip(Box<Gzip>),
}

/// The bytes of one file, unpacked, from some offset on.
pub struct FileBytes {
    files: Arc<dyn Files>,
    content: Content,
    path: PathBuf,
    fingerprint: Fingerprint,
    /// The unread bytes are `buffer[start..]`; the first of them is at `offset` in the file.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
}

impl FileBytes {
    /// Opens a file at its beginning, after a byte order mark if it has one.
    pub(super) fn open(files: &Arc<dyn Files>, path: &Path, compression: Compression) -> Result<FileBytes> {
        let length = files.info(path).map_err(|error| failed_at(path, "look at", &error))?.length;
        let mut file = files.open(path).map_err(|error| failed_at(path, "open", &error))?;
        let fingerprint = fingerprint(&mut *file, length).map_err(|error| failed_at(path, "read", &error))?;
        let content = match compression {
            Compression::None => Content::Plain(file),
            Compression::Gzip => Content::Gzip(Box::new(Gzip::new(file, length))),
        };
        let (buffer, path) = (Vec::new(), path.to_owned());
        let mut bytes = FileBytes { files: files.clone(), content, path, fingerprint, buffer, start: 0, offset: 0 };
        bytes.rewind()?;
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
        let rest = match &self.content {
            Content::Plain(_) => self.fingerprint.length.saturating_sub(behind),
            Content::Gzip(_) => u64::MAX,
        };
        if rest == 0 {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let kept = self.buffer.len();
        let wanted = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        self.buffer.resize(kept + wanted, 0);
        let free = self.buffer.get_mut(kept..).unwrap_or_default();
        let read = match &mut self.content {
            Content::Plain(file) => file.read_at(behind, free).map_err(GzipError::Io),
            Content::Gzip(gzip) => gzip.read_at(behind, free),
        };
        self.buffer.truncate(kept + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) if matches!(self.content, Content::Gzip(_)) => Ok(false),
            Ok(0) => Err(Error::failed(format!(
                "{} became shorter while it was read: it ends at byte {behind} of {}",
                self.path.display(),
                self.fingerprint.length
            ))
            .hint("an input file must not change once it is seen")),
            Ok(_) => Ok(true),
            Err(GzipError::Io(error)) => Err(failed_at(&self.path, "read", &error)),
            Err(GzipError::Broken { why, compressed, content }) => {
                // One that somebody is writing is cut off as well, and says so.
                self.check_unchanged()?;
                Err(Error::invalid(format!(
                    "{} is no whole gzip file: {why}, within the first {compressed} of {} bytes, after {content} bytes of content",
                    self.path.display(),
                    self.fingerprint.length
                ))
                .hint("write the file anew; `gzip -t` checks one"))
            }
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

/// What a file looks like, as it is stored.
fn fingerprint(file: &mut dyn ReadFile, length: u64) -> io::Result<Fingerprint> {
    let mut head = vec![0; usize::try_from(length).unwrap_or(FINGERPRINT_BYTES).min(FINGERPRINT_BYTES)];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(filled as u64, head.get_mut(filled..).unwrap_or_default())? {
            // It became shorter: whoever reads on will say so.
            0 => break,
            read => filled += read,
        }
    }
    Ok(Fingerprint { length, xxh3: xxh3_64(head.get(..filled).unwrap_or_default()) })
}
