//! The footer of a segment: which states and blobs it holds and where. Written once, read by restore and tools.
//!
//! The decoder takes any bytes: it never panics, and allocates in proportion to what it was given.

use super::block::{Compression, unpack};
use super::cursor::{Cursor, put_text};
use super::{Block, BlockKind, Declaration, SegmentError, StateKind, StateName};
use bytes::Bytes;
use flott_checkpoint::CheckpointId;
use std::ops::Range;
use std::sync::Arc;

pub(super) const PART: &str = "footer";
const HEADER_LENGTH: u64 = super::writer::HEADER_LENGTH as u64;
const STATE_RECORD: usize = 4 + 4 + 1 + 8 + 2 + 2 + 4 + 4 + 4;
const BLOCK_RECORD: usize = PIECE_RECORD + 1 + 2 + 2 + 4;
const BLOB_RECORD: usize = 4 + 4 + 4 + 4;
const PIECE_RECORD: usize = 8 + 4 + 4 + 1 + 8;
/// Stands for "full" in the place of a base; ids are counted from 1.
const FULL: u64 = 0;

/// Stored bytes in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub length: u32,
    /// How many after unpacking.
    pub raw_length: u32,
    /// How they are stored.
    pub compression: Compression,
    /// xxh3-64 of the stored bytes.
    pub checksum: u64,
}

impl Piece {
    /// Where it lies in the file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }

    /// Checks and unpacks the bytes at [`Piece::range`].
    ///
    /// # Errors
    /// [`SegmentError`] if they are not what was written.
    pub fn decode(&self, stored: Bytes) -> Result<Bytes, SegmentError> {
        self.unpack(stored, "piece of a blob")
    }

    fn unpack(&self, stored: Bytes, part: &'static str) -> Result<Bytes, SegmentError> {
        if stored.len() != self.length as usize {
            return Err(SegmentError::NotASegment("a block was cut short"));
        }
        unpack(stored, self.compression, self.raw_length, self.checksum, (part, self.offset))
    }
}

/// One block of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Where and how it is stored.
    pub piece: Piece,
    /// What its entries do.
    pub kind: BlockKind,
    /// The lowest key group in it and the one after the highest.
    pub groups: Range<u16>,
    /// How many entries it holds.
    pub entries: u32,
}

impl BlockEntry {
    /// Checks and unpacks the bytes at the range of its piece.
    ///
    /// # Errors
    /// [`SegmentError`] if they are not what was written.
    pub fn decode(&self, stored: Bytes) -> Result<Block, SegmentError> {
        Ok(Block { kind: self.kind, raw: self.piece.unpack(stored, "block")? })
    }
}

/// One state in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSection {
    /// Name, kind and shapes.
    pub declaration: Declaration,
    /// The checkpoint that this section adds to; `None` if it is full, and older segments are not to be read for it.
    pub base: Option<CheckpointId>,
    /// The key groups that this section speaks for: those of the worker that wrote it.
    pub owned: Range<u16>,
    /// Its blocks, all deletes before all puts: apply them in this order.
    pub blocks: Vec<BlockEntry>,
}

impl StateSection {
    /// The blocks that may hold entries of some key groups, in the order in which to apply them.
    pub fn blocks_of(&self, groups: Range<u16>) -> impl Iterator<Item = &BlockEntry> {
        self.blocks.iter().filter(move |block| block.groups.start < groups.end && groups.start < block.groups.end)
    }
}

/// Opaque bytes of one subtask: an operator's lists, sink tokens, channel state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobSection {
    /// The operator.
    pub operator: String,
    /// What it is.
    pub name: String,
    /// The index of the subtask that wrote it.
    pub subtask: u32,
    /// Its pieces; their unpacked bytes in this order are the blob.
    pub pieces: Vec<Piece>,
}

/// The index of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// The states, by name.
    pub states: Vec<StateSection>,
    /// The blobs, by operator, name and subtask.
    pub blobs: Vec<BlobSection>,
}

impl Footer {
    /// The section of a state.
    #[must_use]
    pub fn state(&self, operator: &str, state: &str) -> Option<&StateSection> {
        self.states.iter().find(|section| {
            let name = &section.declaration.name;
            name.operator == operator && name.state == state
        })
    }

    /// A blob.
    #[must_use]
    pub fn blob(&self, operator: &str, name: &str, subtask: u32) -> Option<&BlobSection> {
        self.blobs.iter().find(|blob| blob.operator == operator && blob.name == name && blob.subtask == subtask)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(self.states.len() as u32).to_le_bytes());
        for StateSection { declaration, base, owned, blocks } in &self.states {
            put_text(&mut out, &declaration.name.operator);
            put_text(&mut out, &declaration.name.state);
            out.push(declaration.kind.code());
            out.extend_from_slice(&base.map_or(FULL, |base| base.0).to_le_bytes());
            out.extend_from_slice(&owned.start.to_le_bytes());
            out.extend_from_slice(&owned.end.to_le_bytes());
            put_text(&mut out, &declaration.key_shape.to_string());
            put_text(&mut out, &declaration.value_shape.to_string());
            out.extend_from_slice(&(blocks.len() as u32).to_le_bytes());
            for block in blocks {
                put_piece(&mut out, &block.piece);
                out.push(u8::from(block.kind == BlockKind::Puts));
                out.extend_from_slice(&block.groups.start.to_le_bytes());
                out.extend_from_slice(&block.groups.end.to_le_bytes());
                out.extend_from_slice(&block.entries.to_le_bytes());
            }
        }
        out.extend_from_slice(&(self.blobs.len() as u32).to_le_bytes());
        for BlobSection { operator, name, subtask, pieces } in &self.blobs {
            put_text(&mut out, operator);
            put_text(&mut out, name);
            out.extend_from_slice(&subtask.to_le_bytes());
            out.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
            pieces.iter().for_each(|piece| put_piece(&mut out, piece));
        }
        out
    }

    /// Decodes a footer whose checksum has been verified. `content` is where blocks and pieces may lie.
    pub(super) fn decode(bytes: &[u8], footer_offset: u64) -> Result<Self, SegmentError> {
        let content = HEADER_LENGTH..footer_offset;
        let mut cursor = Cursor::new(bytes, PART);
        let count = cursor.count(STATE_RECORD)?;
        let states = (0..count).map(|_| state_section(&mut cursor, &content)).collect::<Result<Vec<_>, _>>()?;
        let count = cursor.count(BLOB_RECORD)?;
        let blobs = (0..count).map(|_| blob_section(&mut cursor, &content)).collect::<Result<Vec<_>, _>>()?;
        if !cursor.is_empty() {
            return Err(cursor.malformed("it goes on after its end"));
        }
        Ok(Self { states, blobs })
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    out.extend_from_slice(&piece.offset.to_le_bytes());
    out.extend_from_slice(&piece.length.to_le_bytes());
    out.extend_from_slice(&piece.raw_length.to_le_bytes());
    out.push(u8::from(piece.compression == Compression::Lz4));
    out.extend_from_slice(&piece.checksum.to_le_bytes());
}

fn piece(cursor: &mut Cursor<'_>, content: &Range<u64>) -> Result<Piece, SegmentError> {
    let (offset, length, raw_length) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
    let compression = match cursor.u8()? {
        0 => Compression::Raw,
        1 => Compression::Lz4,
        _ => return Err(cursor.malformed("a compression that does not exist")),
    };
    let checksum = cursor.u64()?;
    let end = offset.checked_add(length.into());
    if offset < content.start || end.is_none_or(|end| end > content.end) {
        return Err(cursor.malformed("a block outside the file"));
    }
    Ok(Piece { offset, length, raw_length, compression, checksum })
}

fn state_section(cursor: &mut Cursor<'_>, content: &Range<u64>) -> Result<StateSection, SegmentError> {
    let name = Arc::new(StateName::new(cursor.text()?, cursor.text()?));
    let kind = StateKind::from_code(cursor.u8()?).ok_or(cursor.malformed("a kind of state that does not exist"))?;
    let base = Some(cursor.u64()?).filter(|base| *base != FULL).map(CheckpointId);
    let owned = cursor.u16()?..cursor.u16()?;
    let key_shape = cursor.text()?.parse().map_err(|_| cursor.malformed("a key shape that is none"))?;
    let value_shape = cursor.text()?.parse().map_err(|_| cursor.malformed("a value shape that is none"))?;
    let count = cursor.count(BLOCK_RECORD)?;
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let piece = piece(cursor, content)?;
        let kind = match cursor.u8()? {
            0 => BlockKind::Deletes,
            1 => BlockKind::Puts,
            _ => return Err(cursor.malformed("a kind of block that does not exist")),
        };
        blocks.push(BlockEntry { piece, kind, groups: cursor.u16()?..cursor.u16()?, entries: cursor.u32()? });
    }
    if !blocks.is_sorted_by_key(|block| block.kind) {
        return Err(cursor.malformed("deletes after puts"));
    }
    Ok(StateSection { declaration: Declaration { name, kind, key_shape, value_shape }, base, owned, blocks })
}

fn blob_section(cursor: &mut Cursor<'_>, content: &Range<u64>) -> Result<BlobSection, SegmentError> {
    let (operator, name) = (cursor.text()?.to_owned(), cursor.text()?.to_owned());
    let subtask = cursor.u32()?;
    let count = cursor.count(PIECE_RECORD)?;
    let pieces = (0..count).map(|_| piece(cursor, content)).collect::<Result<Vec<_>, _>>()?;
    Ok(BlobSection { operator, name, subtask, pieces })
}
