//! The segment: the file that holds one worker's part of one checkpoint. Byte by byte in `docs/formats.md`, "Segment".
//!
//! ```text
//! header | block, piece of a blob, block, ... in the order they were finished | footer | trailer
//! ```
//! A block holds entries of one state; a blob is opaque bytes of one operator and subtask. The footer is the index. The
//! segment is put together and taken apart here by plain functions over bytes; nothing in this module does I/O.

mod block;
mod cursor;
mod index;
mod plan;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use block::{Block, BlockBuilder, BlockKind, Compression, Compressor, EncodedBlock, MAX_BLOCK, TARGET_BLOCK};
pub use index::{BlobSection, BlockEntry, Footer, Piece, StateSection};
pub use plan::{Apply, restore_plan};
pub use reader::{MAX_FOOTER, TRAILER_LENGTH, footer_range};
pub use writer::{SegmentAssembler, SegmentSummary, StateHeader};

use crate::key::Shape;
use std::fmt;
use std::sync::Arc;

/// The first eight bytes of a segment.
pub const MAGIC: [u8; 8] = *b"FLOTTSEG";
/// The last eight bytes of a segment.
pub const END_MAGIC: [u8; 8] = *b"flottseg";
/// The version of the format that this build writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// Names one declared state of a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateName {
    /// The operator, as the user named it.
    pub operator: String,
    /// The state inside it.
    pub state: String,
}

impl StateName {
    /// The state `state` of the operator `operator`.
    #[must_use]
    pub fn new(operator: impl Into<String>, state: impl Into<String>) -> Self {
        Self { operator: operator.into(), state: state.into() }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operator, self.state)
    }
}

/// What the entries of a state are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// One entry per key: key, value.
    Value,
    /// One entry per key and time: key, time in milliseconds.
    Timers,
    /// One entry per key and user key: key, user key, value.
    Map,
    /// One entry per key and position: key, position, value. A delete is a whole list: key.
    List,
    /// As a map, with one key per worker: every worker has a copy.
    Broadcast,
    /// As a list, with one key per worker: other workers divide the elements anew.
    SplitList,
}

impl StateKind {
    const ALL: [Self; 6] = [Self::Value, Self::Timers, Self::Map, Self::List, Self::Broadcast, Self::SplitList];

    /// Whether its entries are elements of lists.
    #[must_use]
    pub fn is_list(self) -> bool {
        matches!(self, Self::List | Self::SplitList)
    }

    /// Its byte in a segment.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Value => 1,
            Self::Timers => 2,
            Self::Map => 3,
            Self::List => 4,
            Self::Broadcast => 5,
            Self::SplitList => 6,
        }
    }

    /// The kind that a byte of a segment stands for.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// What a manifest and a segment say about a state besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Operator and state.
    pub name: Arc<StateName>,
    /// What its entries are.
    pub kind: StateKind,
    /// The shape of the keys seen so far; a restore into another key type is refused.
    pub key_shape: Shape,
    /// The shape of the values seen so far; for people, values may evolve.
    pub value_shape: Shape,
}

/// Why a segment cannot be read. The caller adds which file it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// Not a segment, or cut short: the text says which part is missing.
    NotASegment(&'static str),
    /// Written by a newer build.
    NewerVersion {
        /// The version in the file.
        found: u32,
    },
    /// The bytes are not those that were written.
    Checksum {
        /// Which part of the file.
        part: &'static str,
        /// Where that part starts, in bytes.
        offset: u64,
    },
    /// The checksum is right and the content makes no sense: written by a faulty program.
    Malformed {
        /// Which part of the file.
        part: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A chain of increments does not reach down to a full section.
    NoFullSection(StateName),
    /// Blocks of a state came without its declaration. A bug of the caller.
    Undeclared(StateName),
    /// The index of a segment would be longer than [`MAX_FOOTER`].
    TooManyBlocks {
        /// The bytes that it would have.
        footer: u64,
    },
}

impl SegmentError {
    pub(crate) fn malformed(part: &'static str, reason: &'static str) -> Self {
        Self::Malformed { part, reason }
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASegment(what) => write!(f, "not a whole segment: {what}"),
            Self::NewerVersion { found } => {
                write!(
                    f,
                    "segment format {found} is newer than {VERSION}, the newest this build reads; use a newer build"
                )
            }
            Self::Checksum { part, offset } => {
                write!(f, "the {part} at byte {offset} is damaged: its checksum does not match")
            }
            Self::Malformed { part, reason } => write!(f, "the {part} is malformed: {reason}"),
            Self::NoFullSection(name) => {
                write!(
                    f,
                    "state {name}: the chain of increments does not begin with a full section; a segment is missing"
                )
            }
            Self::Undeclared(name) => write!(f, "blocks of state {name} were written without its declaration"),
            Self::TooManyBlocks { footer } => write!(
                f,
                "the index of the segment has {footer} bytes, more than the {MAX_FOOTER} that a restore reads; run the job with \
                 more workers"
            ),
        }
    }
}

impl std::error::Error for SegmentError {}

/// Takes the finished blocks of a scan.
pub trait SegmentOut {
    /// Takes one block.
    fn block(&mut self, block: EncodedBlock);

    /// Bytes taken and not yet safe on disk. When they reach the caller's bound its subtask takes no records; nothing
    /// is ever dropped to get below it.
    fn buffered(&self) -> usize;
}

/// The plain [`SegmentOut`]: a queue from which the caller ships blocks, counting what is still under way.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Default)]
pub struct SegmentBuffer {
    queue: Vec<EncodedBlock>,
    queued: usize,
    under_way: usize,
}

#[cfg(any(test, feature = "testing"))]
impl SegmentBuffer {
    /// Takes all queued blocks; they count as buffered until [`SegmentBuffer::written`].
    pub fn ship(&mut self) -> Vec<EncodedBlock> {
        self.under_way += std::mem::take(&mut self.queued);
        std::mem::take(&mut self.queue)
    }

    /// So many bytes of shipped blocks are on disk.
    pub fn written(&mut self, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(bytes);
    }

    /// Whether there is anything to ship.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(any(test, feature = "testing"))]
impl SegmentOut for SegmentBuffer {
    fn block(&mut self, block: EncodedBlock) {
        self.queued += block.bytes.len();
        self.queue.push(block);
    }

    fn buffered(&self) -> usize {
        self.queued + self.under_way
    }
}
