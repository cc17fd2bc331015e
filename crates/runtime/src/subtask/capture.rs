//! What one channel holds for one unaligned checkpoint: all that lies before the barrier and was not processed before the cut.
//!
//! Nothing is copied at the cut. The capture remembers a range of the queue, by number, and an element is written down either
//! when the snapshot gets to it or, if that is sooner, right before it is taken: as the heap saves an old value right before
//! it is overwritten. So it never holds more than what the sender had credit for. It decides nothing; `Action` says when.

use super::gate::Element;
use crate::control::Captured;
use crate::error::{Error, Result};
use crate::packet::ChannelId;
use crate::packet::codec::{self, Origin};
use flott_checkpoint::{AttemptId, CheckpointId};

/// See the head of this file. Elements of a channel are numbered in the order in which they entered.
pub(super) struct Capture {
    pub(super) id: CheckpointId,
    /// The next element to write down.
    next: u64,
    /// The barrier's number; `None` until it enters.
    end: Option<u64>,
    /// Written down, not handed over.
    bytes: Vec<u8>,
    captured: Captured,
    /// Records that entered before the barrier and were not taken before the cut: as many must be written down (I4).
    owed: u64,
    failed: Option<Error>,
}

/// The length that precedes each element.
const LENGTH: usize = 4;

impl Capture {
    /// From the element `next` on, which is the head; `owed` records are in the queue and before the barrier.
    pub(super) fn new(id: CheckpointId, next: u64, owed: u64) -> Capture {
        Capture { id, next, end: None, bytes: Vec::new(), captured: Captured::default(), owed, failed: None }
    }

    /// Whether what enters now still belongs to it.
    pub(super) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// So many records entered.
    pub(super) fn owe(&mut self, records: usize) {
        if self.is_open() {
            self.owed += records as u64;
        }
    }

    /// The barrier has this number.
    pub(super) fn close(&mut self, end: u64) {
        self.end.get_or_insert(end);
    }

    /// The next element to write down, if it has entered already.
    pub(super) fn wanted(&self) -> Option<u64> {
        Some(self.next).filter(|next| self.failed.is_none() && self.end.is_none_or(|end| *next < end))
    }

    /// Writes an element down, if it is the next one. Barriers of other checkpoints are nothing to restore.
    pub(super) fn write(&mut self, number: u64, element: &Element, channel: ChannelId, attempt: AttemptId) {
        if self.wanted() != Some(number) {
            return;
        }
        self.next += 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH]);
        let origin = |epoch| Origin { channel, attempt, epoch };
        let no_epoch = CheckpointId(0);
        let written = match element {
            Element::Batch { batch, bytes, epoch, .. } => {
                assert!(*epoch < self.id, "I4: a record of epoch {epoch} lies before the barrier of {}", self.id);
                self.captured.records += batch.len() as u64;
                self.captured.window += *bytes as u64;
                codec::encode_data(origin(*epoch), Some(&**batch), *bytes, None, &mut self.bytes)
            }
            Element::Watermark(watermark) => {
                codec::encode_data(origin(no_epoch), None, 0, Some(*watermark), &mut self.bytes)
            }
            Element::End => {
                codec::encode_end(origin(no_epoch), &mut self.bytes);
                Ok(())
            }
            Element::Barrier(_) => {
                self.bytes.truncate(start);
                return;
            }
        };
        match written.and_then(|()| self.seal_length(start)) {
            Ok(()) => self.captured.bytes += (self.bytes.len() - start) as u64,
            Err(error) => self.failed = Some(error),
        }
    }

    fn seal_length(&mut self, start: usize) -> Result<()> {
        let length = u32::try_from(self.bytes.len() - start - LENGTH)
            .map_err(|_| Error::failed("a batch of more than 4 GiB cannot be captured"))?;
        let place = self.bytes.get_mut(start..start + LENGTH).expect("put there by the caller");
        place.copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Bytes that wait to be handed over.
    pub(super) fn buffered(&self) -> usize {
        self.bytes.len()
    }

    /// What there is to hand over: at least `least` bytes, or the last ones.
    ///
    /// # Errors
    /// If a record could not be encoded.
    pub(super) fn hand_over(&mut self, least: usize) -> Result<Option<Vec<u8>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let ready = !self.bytes.is_empty() && (self.bytes.len() >= least || self.is_written());
        Ok(ready.then(|| std::mem::take(&mut self.bytes)))
    }

    fn is_written(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// What was captured, once all of it is handed over.
    pub(super) fn done(&self) -> Option<Captured> {
        if !self.is_written() || !self.bytes.is_empty() || self.failed.is_some() {
            return None;
        }
        let (records, owed, id) = (self.captured.records, self.owed, self.id);
        assert!(records == owed, "I4: {records} records were captured for {id}, {owed} lay before its barrier");
        Some(self.captured)
    }
}

/// Takes the first whole element off captured bytes: what follows its length. `None` if there is not enough of it yet.
pub(crate) fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
