//! Puts a segment together: takes blocks and blobs of all subtasks of a worker, in any order, and says which bytes to
//! append to the file. It keeps the index and a running checksum, never the content.

use super::block::Compressor;
use super::index::{BlobSection, BlockEntry, Footer, Piece, StateSection};
use super::reader::MAX_FOOTER;
use super::{Declaration, END_MAGIC, EncodedBlock, MAGIC, MAX_BLOCK, SegmentError, StateName, VERSION};
use bytes::Bytes;
use flott_checkpoint::CheckpointId;
use litemap::LiteMap;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

pub(super) const HEADER_LENGTH: usize = 16;

/// What a section says about its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateHeader {
    /// Name, kind and shapes, as they are when the scan is done.
    pub declaration: Declaration,
    /// The base that the cut really used; `None` if the section is full.
    pub base: Option<CheckpointId>,
    /// The key groups of the worker, [`crate::key::KeySpace::owned`].
    pub owned: Range<u16>,
}

/// The finished file, for the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its length in bytes.
    pub length: u64,
    /// xxh3-64 of all its bytes.
    pub checksum: u64,
}

/// A segment in the making. Append what each method returns, in the order of the calls.
pub struct SegmentAssembler {
    checksum: Xxh3Default,
    length: u64,
    headers: LiteMap<Arc<StateName>, StateHeader>,
    blocks: LiteMap<Arc<StateName>, Vec<BlockEntry>>,
    blobs: LiteMap<(String, String, u32), Vec<Piece>>,
    compressor: Compressor,
}

impl SegmentAssembler {
    /// A new segment and its first bytes.
    #[must_use]
    pub fn begin() -> (Self, Bytes) {
        let mut assembler = Self {
            checksum: Xxh3Default::new(),
            length: 0,
            headers: LiteMap::new_vec(),
            blocks: LiteMap::new_vec(),
            blobs: LiteMap::new_vec(),
            compressor: Compressor::default(),
        };
        let mut header = Vec::with_capacity(HEADER_LENGTH);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&0u32.to_le_bytes());
        let header = assembler.append(header.into());
        (assembler, header)
    }

    /// Bytes so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds a block of a state, which must be declared before [`SegmentAssembler::finish`].
    #[must_use]
    pub fn block(&mut self, block: EncodedBlock) -> Bytes {
        let EncodedBlock { name, kind, compression, raw_length, entries, groups, checksum, bytes } = block;
        let piece = Piece { offset: self.length, length: bytes.len() as u32, raw_length, compression, checksum };
        self.blocks.entry(name).or_default().push(BlockEntry { piece, kind, groups, entries });
        self.append(bytes)
    }

    /// Declares a state, also one without a block: an unchanged increment, or an empty full part.
    pub fn declare(&mut self, header: StateHeader) {
        self.headers.insert(Arc::clone(&header.declaration.name), header);
    }

    /// Adds opaque bytes. Called again with the same names it continues the blob.
    #[must_use]
    pub fn blob(&mut self, operator: &str, name: &str, subtask: u32, bytes: &[u8]) -> Vec<Bytes> {
        let mut stored = Vec::new();
        let mut pieces = Vec::new();
        for raw in bytes.chunks(MAX_BLOCK) {
            let (compression, packed) = self.compressor.store(raw.to_vec());
            let (offset, length) = (self.length, packed.len() as u32);
            let checksum = xxh3_64(&packed);
            pieces.push(Piece { offset, length, raw_length: raw.len() as u32, compression, checksum });
            stored.push(self.append(packed));
        }
        self.blobs.entry((operator.to_owned(), name.to_owned(), subtask)).or_default().append(&mut pieces);
        stored
    }

    /// The last bytes of the file, and what the manifest says of it.
    ///
    /// # Errors
    /// [`SegmentError::Undeclared`] if a state has blocks and no declaration, [`SegmentError::TooManyBlocks`] if a restore
    /// would refuse the index.
    pub fn finish(mut self) -> Result<(Bytes, SegmentSummary), SegmentError> {
        let mut footer = Footer::default();
        for (name, StateHeader { declaration, base, owned }) in std::mem::take(&mut self.headers) {
            let mut blocks = self.blocks.remove(&name).unwrap_or_default();
            blocks.sort_by_key(|block| block.kind);
            footer.states.push(StateSection { declaration, base, owned, blocks });
        }
        if let Some((name, _)) = self.blocks.first() {
            return Err(SegmentError::Undeclared((**name).clone()));
        }
        for ((operator, name, subtask), pieces) in std::mem::take(&mut self.blobs) {
            footer.blobs.push(BlobSection { operator, name, subtask, pieces });
        }
        let mut bytes = footer.encode();
        let (length, checksum) = (bytes.len() as u64, xxh3_64(&bytes));
        if length > MAX_FOOTER {
            return Err(SegmentError::TooManyBlocks { footer: length });
        }
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&END_MAGIC);
        let bytes = self.append(bytes.into());
        Ok((bytes, SegmentSummary { length: self.length, checksum: self.checksum.digest() }))
    }

    fn append(&mut self, bytes: Bytes) -> Bytes {
        self.checksum.update(&bytes);
        self.length += bytes.len() as u64;
        bytes
    }
}
