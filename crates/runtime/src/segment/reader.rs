//! Finds and checks the index of a segment, given ranges of its bytes: first the trailer, then the footer.

use super::cursor::Cursor;
use super::index::{Footer, PART};
use super::writer::HEADER_LENGTH;
use super::{END_MAGIC, MAGIC, SegmentError, VERSION};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The trailer is the last bytes of the file.
pub const TRAILER_LENGTH: usize = 28;

/// No footer is longer, so that a damaged trailer cannot ask for more. It is enough for almost two million blocks: more than
/// 100 GiB of state of one worker.
pub const MAX_FOOTER: u64 = 64 << 20;

struct Trailer {
    footer: Range<u64>,
    checksum: u64,
}

fn trailer(tail: &[u8], file_length: u64) -> Result<Trailer, SegmentError> {
    let bytes = tail.len().checked_sub(TRAILER_LENGTH).and_then(|start| tail.get(start..));
    let mut cursor = Cursor::new(bytes.ok_or(SegmentError::NotASegment("it is shorter than a trailer"))?, "trailer");
    let (length, checksum, version) = (cursor.u64()?, cursor.u64()?, cursor.u32()?);
    if cursor.take(END_MAGIC.len())? != END_MAGIC {
        return Err(SegmentError::NotASegment("its last bytes are not those of a segment"));
    }
    check_version(version)?;
    if length > MAX_FOOTER {
        return Err(SegmentError::malformed("trailer", "the footer is longer than any is"));
    }
    let end = file_length.checked_sub(TRAILER_LENGTH as u64);
    let start = end.and_then(|end| end.checked_sub(length)).filter(|start| *start >= HEADER_LENGTH as u64);
    match (start, end) {
        (Some(start), Some(end)) => Ok(Trailer { footer: start..end, checksum }),
        _ => Err(SegmentError::malformed("trailer", "the footer is longer than the file")),
    }
}

fn check_version(found: u32) -> Result<(), SegmentError> {
    match found {
        VERSION => Ok(()),
        found if found > VERSION => Err(SegmentError::NewerVersion { found }),
        _ => Err(SegmentError::malformed("version", "a version that never was")),
    }
}

/// Where the footer and trailer of a segment lie, given at least its last [`TRAILER_LENGTH`] bytes.
///
/// # Errors
/// [`SegmentError`] if this is not the end of a segment, or that of a newer format.
pub fn footer_range(tail: &[u8], file_length: u64) -> Result<Range<u64>, SegmentError> {
    Ok(trailer(tail, file_length)?.footer.start..file_length)
}

/// Checks the first bytes of a segment.
///
/// # Errors
/// [`SegmentError`] if this is not the start of a segment, or that of a newer format.
fn check_header(bytes: &[u8]) -> Result<(), SegmentError> {
    let mut cursor = Cursor::new(bytes, "header");
    if cursor.take(MAGIC.len())? != MAGIC {
        return Err(SegmentError::NotASegment("its first bytes are not those of a segment"));
    }
    check_version(cursor.u32()?)?;
    match cursor.u32()? {
        0 => Ok(()),
        _ => Err(cursor.malformed("its reserved bytes are not zero")),
    }
}

impl Footer {
    /// Reads the footer from the last bytes of a segment, at least those of [`footer_range`].
    ///
    /// # Errors
    /// [`SegmentError`] if they are damaged.
    pub fn read(tail: &[u8], file_length: u64) -> Result<Self, SegmentError> {
        let Trailer { footer, checksum } = trailer(tail, file_length)?;
        let length = usize::try_from(footer.end - footer.start).ok();
        let end = tail.len() - TRAILER_LENGTH;
        let bytes = length.and_then(|length| end.checked_sub(length)).and_then(|start| tail.get(start..end));
        let bytes = bytes.ok_or(SegmentError::NotASegment("its footer is not whole"))?;
        if xxh3_64(bytes) != checksum {
            return Err(SegmentError::Checksum { part: PART, offset: footer.start });
        }
        Self::decode(bytes, footer.start)
    }

    /// Reads the footer of a whole segment in memory, header included.
    ///
    /// # Errors
    /// [`SegmentError`] if header, trailer or footer are damaged; blocks are checked when they are decoded.
    pub fn of(segment: &[u8]) -> Result<Self, SegmentError> {
        check_header(segment)?;
        Self::read(segment, segment.len() as u64)
    }
}
