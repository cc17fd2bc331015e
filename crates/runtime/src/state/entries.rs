//! Entries as bytes: what a scan writes into blocks, and what a restore reads from them.
//!
//! An entry is a few MessagePack values in a row: key and value, or key and time; a delete is the same without what
//! follows the identity of the entry. It needs no length: MessagePack says itself where a value ends.

use super::StateError;
use super::versioned::{Cut, EntrySink, Epoch};
use crate::key::Shape;
pub(crate) use crate::messagepack::write as write_value;
use crate::segment::{BlockBuilder, BlockKind, Compressor, EncodedBlock, SegmentOut, StateName};
use flott_checkpoint::KeyGroup;
use rmp_serde::decode::ReadReader;
use rmp_serde::encode::Error;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use std::ops::Range;
use std::sync::Arc;

/// Lengths in a segment are `u32`.
const LARGEST_ENTRY: usize = 1 << 30;
/// So many letters of a key are shown in an error.
const LONGEST_SHOWN: usize = 80;

/// How the identity and the content of an entry are written.
pub(crate) trait EntryFormat<K, V> {
    /// What tells the entry from all others.
    fn write_key(out: &mut Vec<u8>, key: &K) -> Result<(), Error>;
    /// The rest.
    fn write_value(out: &mut Vec<u8>, value: &V) -> Result<(), Error>;
    /// The shapes of the user's key and value.
    fn shapes(key: &K, value: &V) -> (Shape, Shape);

    /// Whether a cut holds something of an entry whose last write was in `epoch`.
    #[inline]
    fn covers(cut: Cut, epoch: Epoch, _: &V) -> bool {
        cut.covers(epoch)
    }

    /// Which stored entries a cut holds of one entry of the table: one, unless the kind says otherwise.
    #[inline]
    fn pieces(_: Cut, _: &V) -> Range<usize> {
        0..1
    }

    /// Writes one of these stored entries.
    #[inline]
    fn write_piece(out: &mut Vec<u8>, key: &K, value: &V, _: usize) -> Result<(), Error> {
        Self::write_key(out, key)?;
        Self::write_value(out, value)
    }
}

/// The three blocks that a cut fills side by side.
#[derive(Clone, Copy)]
enum Lane {
    Deletes,
    /// Entries saved by writes, from anywhere in the key space: kept apart, so that blocks of the scan stay narrow.
    Early,
    Scanned,
}

/// What one cut of one table has written and not yet handed over.
pub(crate) struct BlockSink<F> {
    name: Arc<StateName>,
    deletes: BlockBuilder,
    early: BlockBuilder,
    scanned: BlockBuilder,
    ready: Vec<EncodedBlock>,
    ready_bytes: usize,
    compressor: Compressor,
    failed: Option<StateError>,
    shapes: (Shape, Shape),
    /// What the cut covers; a full one until it is told.
    cut: Cut,
    format: std::marker::PhantomData<F>,
}

impl<F> BlockSink<F> {
    /// Allocates nothing: it is made in the cut.
    pub(crate) fn new(name: Arc<StateName>) -> Self {
        Self {
            name,
            deletes: BlockBuilder::new(BlockKind::Deletes),
            early: BlockBuilder::new(BlockKind::Puts),
            scanned: BlockBuilder::new(BlockKind::Puts),
            ready: Vec::new(),
            ready_bytes: 0,
            compressor: Compressor::default(),
            failed: None,
            shapes: (Shape::Unknown, Shape::Unknown),
            cut: Cut { epoch: Epoch::MAX, base: None },
            format: std::marker::PhantomData,
        }
    }

    pub(crate) fn set_cut(&mut self, cut: Cut) {
        self.cut = cut;
    }

    pub(crate) fn buffered(&self) -> usize {
        self.ready_bytes + self.deletes.len() + self.early.len() + self.scanned.len()
    }

    /// Hands over what is finished.
    pub(crate) fn flush(&mut self, out: &mut dyn SegmentOut) -> Result<(), StateError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.ready_bytes = 0;
        self.ready.drain(..).for_each(|block| out.block(block));
        Ok(())
    }

    /// Hands over everything, and the shapes that were seen.
    pub(crate) fn finish(mut self, out: &mut dyn SegmentOut) -> Result<(Shape, Shape), StateError> {
        self.flush(out)?;
        for builder in [&mut self.deletes, &mut self.early, &mut self.scanned] {
            if let Some(block) = builder.close() {
                out.block(self.compressor.encode(&self.name, block));
            }
        }
        Ok(self.shapes)
    }

    fn lane(&mut self, lane: Lane) -> &mut BlockBuilder {
        match lane {
            Lane::Deletes => &mut self.deletes,
            Lane::Early => &mut self.early,
            Lane::Scanned => &mut self.scanned,
        }
    }

    fn write(&mut self, lane: Lane, group: u16, entry: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) {
        if self.failed.is_some() {
            return;
        }
        match self.lane(lane).entry(group, entry) {
            Ok(None) => {}
            Ok(Some(full)) => {
                let block = self.compressor.encode(&self.name, full);
                self.ready_bytes += block.bytes.len();
                self.ready.push(block);
            }
            Err(error) => {
                // The checkpoint will be declined: nothing of it is worth its memory.
                *self = Self::new(Arc::clone(&self.name));
                self.failed = Some(StateError::Encode((*self.name).clone(), error.to_string()));
            }
        }
    }
}

impl<K, V, F: EntryFormat<K, V>> EntrySink<K, V> for BlockSink<F> {
    fn put(&mut self, group: u16, key: &K, value: &V, early: bool) {
        let lane = if early { Lane::Early } else { Lane::Scanned };
        if self.lane(lane).is_empty() {
            // The first entry of each block is looked at: shapes have holes that later entries may fill.
            let (key_shape, value_shape) = F::shapes(key, value);
            self.shapes.0.merge(key_shape);
            self.shapes.1.merge(value_shape);
        }
        for piece in F::pieces(self.cut, value) {
            self.write(lane, group, |out| {
                let start = out.len();
                F::write_piece(out, key, value, piece)?;
                if out.len() - start > LARGEST_ENTRY { Err(Error::custom("it is larger than 1 GiB")) } else { Ok(()) }
            });
        }
    }

    #[inline]
    fn covers(cut: Cut, epoch: Epoch, value: &V) -> bool {
        F::covers(cut, epoch, value)
    }

    #[inline]
    fn cost(cut: Cut, value: &V) -> usize {
        F::pieces(cut, value).len()
    }

    fn delete(&mut self, group: u16, key: &K) {
        self.write(Lane::Deletes, group, |out| F::write_key(out, key));
    }
}

/// Reads the values of a run one after the other.
pub(crate) struct EntryReader<'a> {
    source: rmp_serde::Deserializer<ReadReader<&'a [u8]>>,
    entries: &'a [u8],
    left: usize,
    name: &'a StateName,
    group: KeyGroup,
}

impl<'a> EntryReader<'a> {
    pub(crate) fn new(entries: &'a [u8], name: &'a StateName, group: KeyGroup) -> Self {
        Self { source: rmp_serde::Deserializer::new(entries), entries, left: entries.len(), name, group }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Where the next value begins.
    pub(crate) fn place(&self) -> usize {
        self.entries.len() - self.left
    }

    /// The value that begins at a place, as JSON, whatever its type is.
    pub(crate) fn shown(&self, place: usize) -> String {
        let value = self.entries.get(place..).map(rmp_serde::from_slice::<serde_json::Value>);
        let text =
            value.and_then(Result::ok).map_or_else(|| "(one that cannot be shown)".to_owned(), |v| v.to_string());
        if text.chars().count() > LONGEST_SHOWN {
            text.chars().take(LONGEST_SHOWN).chain(['…']).collect()
        } else {
            text
        }
    }

    pub(crate) fn value<T: DeserializeOwned>(&mut self) -> Result<T, StateError> {
        let value = T::deserialize(&mut self.source).map_err(|error| self.decode(&error.to_string()))?;
        let left = self.source.get_ref().len();
        // Without progress an entry of nothing would be read forever.
        if left == self.left {
            return Err(self.decode("a value of no bytes"));
        }
        self.left = left;
        Ok(value)
    }

    /// The next value, and its bytes as they are.
    #[cfg(feature = "stored")]
    pub(crate) fn raw<T: DeserializeOwned>(&mut self) -> Result<(&'a [u8], T), StateError> {
        let start = self.place();
        let value = self.value()?;
        let bytes = self.entries.get(start..self.entries.len() - self.left);
        Ok((bytes.expect("a reader only goes on"), value))
    }

    /// Each entry is of its type, but this one cannot follow the others.
    pub(crate) fn damaged(&self, what: &str) -> StateError {
        StateError::Damaged(self.name.clone(), self.group, what.to_owned())
    }

    pub(crate) fn decode(&self, what: &str) -> StateError {
        StateError::Decode(self.name.clone(), self.group, what.to_owned())
    }
}
