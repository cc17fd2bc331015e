//! Blocks: entries of one state, in runs of one key group each, compressed or not, with a checksum.
//!
//! ```text
//! block = run, run, ...        run = key group u16 | length u32 | entries, `length` bytes
//! ```
//! A run's length lets a reader skip the groups it does not want. What an entry is depends on the kind of the state.

use super::cursor::Cursor;
use super::{SegmentError, StateName};
use bytes::Bytes;
use flott_checkpoint::KeyGroup;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// No block is larger before compression, unless a single entry is.
pub const MAX_BLOCK: usize = 1 << 20;

/// A block is closed when it reaches this size before compression: one such block is compressed in about 0.2 ms, which
/// a scan step can afford, and lz4 looks back no further.
pub const TARGET_BLOCK: usize = 60 * 1024;

const RUN_HEADER: usize = 6;
/// lz4 spends a byte on each 255 of a match.
const LARGEST_RATIO: usize = 255;

/// What the entries of a block do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockKind {
    /// Keys that are gone. A reader applies all deletes of a segment before any of its puts.
    Deletes,
    /// Entries that are there.
    Puts,
}

/// How the bytes of a block or of a piece of a blob are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// As they are.
    Raw,
    /// One lz4 block, without a length in front.
    Lz4,
}

/// A finished block on its way into a segment.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    /// Whose entries.
    pub name: Arc<StateName>,
    /// What they do.
    pub kind: BlockKind,
    /// How `bytes` are stored.
    pub compression: Compression,
    /// Length before compression.
    pub raw_length: u32,
    /// How many entries.
    pub entries: u32,
    /// The lowest key group in it and the one after the highest.
    pub groups: Range<u16>,
    /// xxh3-64 of `bytes`.
    pub checksum: u64,
    /// The stored bytes.
    pub bytes: Bytes,
}

/// A block in the making.
#[derive(Debug)]
pub struct BlockBuilder {
    kind: BlockKind,
    raw: Vec<u8>,
    /// Group and start of the open run.
    run: Option<(u16, usize)>,
    groups: Range<u16>,
    entries: u32,
}

/// A block before compression.
#[derive(Debug)]
pub(crate) struct RawBlock {
    kind: BlockKind,
    bytes: Vec<u8>,
    groups: Range<u16>,
    entries: u32,
}

impl BlockBuilder {
    /// An empty one; it allocates nothing before the first entry.
    #[must_use]
    pub fn new(kind: BlockKind) -> Self {
        Self { kind, raw: Vec::new(), run: None, groups: 0..0, entries: 0 }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Writes one entry; returns a block if one is full. A failed entry leaves no trace.
    pub(crate) fn entry<E>(
        &mut self,
        group: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<RawBlock>, E> {
        let start = self.raw.len();
        let run_before = self.run;
        if self.run.is_none_or(|(open, _)| open != group) {
            self.close_run();
            self.run = Some((group, start));
            self.raw.extend_from_slice(&group.to_le_bytes());
            self.raw.extend_from_slice(&[0; RUN_HEADER - 2]);
        }
        let entry_start = self.raw.len();
        if let Err(error) = write(&mut self.raw) {
            self.raw.truncate(start);
            self.run = run_before;
            return Err(error);
        }
        let full = if self.raw.len() > MAX_BLOCK && start > 0 {
            // A large entry after others: they go first, and it begins a block of its own.
            let entry = self.raw.split_off(entry_start);
            self.raw.truncate(start);
            self.run = run_before;
            let full = self.close();
            self.begin_with(group, &entry);
            full
        } else {
            self.count(group);
            None
        };
        Ok(full.or_else(|| if self.raw.len() >= TARGET_BLOCK { self.close() } else { None }))
    }

    fn begin_with(&mut self, group: u16, entry: &[u8]) {
        self.run = Some((group, 0));
        self.raw.extend_from_slice(&group.to_le_bytes());
        self.raw.extend_from_slice(&[0; RUN_HEADER - 2]);
        self.raw.extend_from_slice(entry);
        self.count(group);
    }

    fn count(&mut self, group: u16) {
        self.groups = match self.entries {
            0 => group..group + 1,
            _ => self.groups.start.min(group)..self.groups.end.max(group + 1),
        };
        self.entries += 1;
    }

    fn close_run(&mut self) {
        let Some((_, start)) = self.run.take() else { return };
        let length = (self.raw.len() - start - RUN_HEADER) as u32;
        let place = self.raw.get_mut(start + 2..start + RUN_HEADER).expect("written when the run was opened");
        place.copy_from_slice(&length.to_le_bytes());
    }

    /// Takes what there is, if anything, and begins anew.
    pub(crate) fn close(&mut self) -> Option<RawBlock> {
        self.close_run();
        if self.raw.is_empty() {
            return None;
        }
        // After a full block another one is likely, of the same size.
        let capacity = if self.raw.len() < TARGET_BLOCK { 0 } else { TARGET_BLOCK + TARGET_BLOCK / 16 };
        let next = Self { raw: Vec::with_capacity(capacity), ..Self::new(self.kind) };
        let whole = std::mem::replace(self, next);
        Some(RawBlock { kind: whole.kind, bytes: whole.raw, groups: whole.groups, entries: whole.entries })
    }
}

/// Compresses blocks while it pays: if one saved less than a quarter, the next are stored raw, and each 16th tries again.
#[derive(Default)]
pub struct Compressor {
    /// Blocks left to store raw.
    raw_left: u32,
    table: Option<Box<CompressTable>>,
}

impl Compressor {
    const RAW_IN_A_ROW: u32 = 15;

    /// Stores some bytes in the better way.
    pub fn store(&mut self, raw: Vec<u8>) -> (Compression, Bytes) {
        if self.raw_left > 0 {
            self.raw_left -= 1;
            return (Compression::Raw, raw.into());
        }
        let mut packed = vec![0; get_maximum_output_size(raw.len())];
        let table = self.table.get_or_insert_default();
        let length = compress_into_with_table(&raw, &mut packed, table).unwrap_or(usize::MAX);
        if length > raw.len() / 4 * 3 {
            self.raw_left = Self::RAW_IN_A_ROW;
        }
        if length >= raw.len() {
            return (Compression::Raw, raw.into());
        }
        packed.truncate(length);
        packed.shrink_to_fit();
        (Compression::Lz4, packed.into())
    }

    pub(crate) fn encode(&mut self, name: &Arc<StateName>, block: RawBlock) -> EncodedBlock {
        let RawBlock { kind, bytes, groups, entries } = block;
        let raw_length = bytes.len() as u32;
        let (compression, bytes) = self.store(bytes);
        let checksum = xxh3_64(&bytes);
        EncodedBlock { name: Arc::clone(name), kind, compression, raw_length, entries, groups, checksum, bytes }
    }
}

/// Checks and unpacks stored bytes. Allocates `raw_length` bytes only if so few stored ones can mean so many.
pub(super) fn unpack(
    stored: Bytes,
    compression: Compression,
    raw_length: u32,
    checksum: u64,
    (part, offset): (&'static str, u64),
) -> Result<Bytes, SegmentError> {
    if xxh3_64(&stored) != checksum {
        return Err(SegmentError::Checksum { part, offset });
    }
    let raw_length = raw_length as usize;
    match compression {
        Compression::Raw if stored.len() == raw_length => Ok(stored),
        Compression::Raw => Err(SegmentError::malformed(part, "its two lengths differ")),
        Compression::Lz4 if raw_length > stored.len().saturating_mul(LARGEST_RATIO) => {
            Err(SegmentError::malformed(part, "no compression is that good"))
        }
        Compression::Lz4 => {
            let mut raw = vec![0; raw_length];
            match decompress_into(&stored, &mut raw) {
                Ok(length) if length == raw_length => Ok(raw.into()),
                _ => Err(SegmentError::malformed(part, "it does not unpack to its length")),
            }
        }
    }
}

/// A block that has been read, checked and unpacked.
#[derive(Clone, Debug)]
pub struct Block {
    /// What its entries do.
    pub kind: BlockKind,
    pub(super) raw: Bytes,
}

impl Block {
    /// Its runs: key group and entries. An error ends the iteration.
    pub fn runs(&self) -> impl Iterator<Item = Result<(KeyGroup, &[u8]), SegmentError>> {
        let mut cursor = Cursor::new(&self.raw, "block");
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed || cursor.is_empty() {
                return None;
            }
            let run = next_run(&mut cursor);
            failed = run.is_err();
            Some(run)
        })
    }
}

fn next_run<'a>(cursor: &mut Cursor<'a>) -> Result<(KeyGroup, &'a [u8]), SegmentError> {
    let group = KeyGroup(cursor.u16()?);
    let length = cursor.u32()? as usize;
    Ok((group, cursor.take(length)?))
}
