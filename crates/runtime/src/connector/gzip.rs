//! The content of a gzip file at any offset of what was compressed, members that follow each other included.
//!
//! Deflate has no way to begin in the middle: an earlier offset is reached by reading from the beginning again, and a later one
//! by reading up to it. Checksums are those of the format, so damage is found at the end of a member at the latest. It
//! knows nothing of records, and keeps no more than the window of the decoder.

use crate::io::ReadFile;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};

/// So much is thrown away at a time on the way to an offset.
const SKIPPED_AT_ONCE: usize = 64 << 10;

/// The compressed bytes, from the first to the last that the file had when it was opened.
struct Raw {
    file: Box<dyn ReadFile>,
    offset: u64,
    length: u64,
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.length.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(rest);
        let read = self.file.read_at(self.offset, buffer.get_mut(..wanted).unwrap_or_default())?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// See the head of this file.
pub(super) struct Gzip {
    /// `None` only while a decoder is replaced by a fresh one.
    decoder: Option<MultiGzDecoder<Raw>>,
    /// How much the decoder has given out.
    at: u64,
}

/// Why nothing can be read.
#[derive(Debug)]
pub(super) enum GzipError {
    /// The system says so.
    Io(io::Error),
    /// The bytes are not those of a whole gzip file.
    Broken {
        /// What is wrong.
        why: String,
        /// Up to which byte of the file it had read.
        compressed: u64,
        /// How many bytes of content come before.
        content: u64,
    },
}

impl Gzip {
    /// The content of a file with so many bytes.
    pub(super) fn new(file: Box<dyn ReadFile>, length: u64) -> Gzip {
        Gzip { decoder: Some(MultiGzDecoder::new(Raw { file, offset: 0, length })), at: 0 }
    }

    /// Reads some of the content from an offset; 0 at its end.
    pub(super) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, GzipError> {
        if offset < self.at
            && let Some(decoder) = self.decoder.take()
        {
            let Raw { file, length, .. } = decoder.into_inner();
            *self = Gzip::new(file, length);
        }
        if self.at < offset {
            let mut skipped = vec![0; SKIPPED_AT_ONCE];
            while self.at < offset {
                let left = usize::try_from(offset - self.at).unwrap_or(usize::MAX).min(SKIPPED_AT_ONCE);
                if self.read(skipped.get_mut(..left).unwrap_or_default())? == 0 {
                    return Err(self.broken(format!("its content ends before byte {offset}")));
                }
            }
        }
        self.read(buffer)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, GzipError> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        loop {
            match decoder.read(buffer) {
                Ok(read) => {
                    self.at += read as u64;
                    return Ok(read);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::UnexpectedEof => return Err(self.broken("it is cut off".to_owned())),
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                        return Err(self.broken(error.to_string()));
                    }
                    _ => return Err(GzipError::Io(error)),
                },
            }
        }
    }

    fn broken(&self, why: String) -> GzipError {
        let compressed = self.decoder.as_ref().map_or(0, |decoder| decoder.get_ref().offset);
        GzipError::Broken { why, compressed, content: self.at }
    }
}
