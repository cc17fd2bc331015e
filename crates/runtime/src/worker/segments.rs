//! The segments that a worker is writing: one a checkpoint, filled by all its subtasks, streamed to the storage.
//!
//! A subtask hands over blocks and blobs and says when its part is done; the last one closes the file. What waits for the
//! storage is counted: when it is too much, the worker's subtasks take no records, so memory stays bounded and nothing is
//! dropped. A segment that nobody put anything into is never written.

use crate::control::BlobRef;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout;
use crate::outbox::Outbox;
use crate::segment::{EncodedBlock, SegmentAssembler, StateHeader};
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointId, lite_map};
use litemap::LiteMap;
use std::collections::VecDeque;

/// So many requests of one segment may be under way; the rest waits here, counted.
const IN_FLIGHT: usize = 16;

/// What became of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SegmentState {
    /// Parts are missing, or the storage has not answered.
    Open,
    /// Durable; `None` if it is empty and was not written.
    Durable(Option<BlobRef>),
    /// The storage refused.
    Failed(String),
}

/// See the head of this file.
pub(crate) struct Segments {
    attempt: AttemptId,
    worker: u16,
    parts: usize,
    open: LiteMap<CheckpointId, Segment>,
    /// Which segment an answer belongs to, and the bytes it frees.
    asked: LiteMap<Ticket, (CheckpointId, usize)>,
    next_ticket: u64,
    buffered: usize,
    limit: usize,
}

struct Segment {
    path: String,
    assembler: Option<SegmentAssembler>,
    waiting: VecDeque<Bytes>,
    in_flight: usize,
    parts_done: usize,
    has_content: bool,
    /// Set when the footer is among the bytes to write.
    summary: Option<BlobRef>,
    finishing: bool,
    state: SegmentState,
}

impl Segments {
    /// For a worker whose checkpoints have `parts` parts. Tickets are counted from `first_ticket`.
    pub(crate) fn new(attempt: AttemptId, worker: u16, parts: usize, first_ticket: u64, limit: usize) -> Segments {
        let (open, asked) = (LiteMap::new_vec(), LiteMap::new_vec());
        Segments { attempt, worker, parts, open, asked, next_ticket: first_ticket, buffered: 0, limit }
    }

    /// Bytes that wait for the storage.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Whether those are as many as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.buffered >= self.limit
    }

    fn segment(&mut self, id: CheckpointId) -> Option<&mut Segment> {
        let (attempt, worker, buffered) = (self.attempt, self.worker, &mut self.buffered);
        let begin = || {
            let (assembler, header) = SegmentAssembler::begin();
            *buffered += header.len();
            Segment {
                path: layout::segment(attempt, id, worker),
                assembler: Some(assembler),
                waiting: VecDeque::from([header]),
                in_flight: 0,
                parts_done: 0,
                has_content: false,
                summary: None,
                finishing: false,
                state: SegmentState::Open,
            }
        };
        let segment = self.open.entry(id).or_insert_with(begin);
        (segment.state == SegmentState::Open).then_some(segment)
    }

    /// A block of a state.
    pub(crate) fn block(&mut self, id: CheckpointId, block: EncodedBlock) {
        let Some(segment) = self.segment(id) else { return };
        let Some(assembler) = &mut segment.assembler else { return };
        let bytes = assembler.block(block);
        segment.has_content = true;
        let length = bytes.len();
        segment.waiting.push_back(bytes);
        self.buffered += length;
    }

    /// A state whose scan is done.
    pub(crate) fn declare(&mut self, id: CheckpointId, header: StateHeader) {
        let Some(segment) = self.segment(id) else { return };
        let Some(assembler) = &mut segment.assembler else { return };
        segment.has_content = true;
        assembler.declare(header);
    }

    /// Opaque bytes of an operator.
    pub(crate) fn blob(&mut self, id: CheckpointId, operator: &str, name: &str, bytes: &[u8]) {
        let worker = u32::from(self.worker);
        let Some(segment) = self.segment(id) else { return };
        let Some(assembler) = &mut segment.assembler else { return };
        segment.has_content = true;
        let pieces = assembler.blob(operator, name, worker, bytes);
        let length: usize = pieces.iter().map(Bytes::len).sum();
        segment.waiting.extend(pieces);
        self.buffered += length;
    }

    /// One more subtask has handed over its whole part.
    pub(crate) fn part_done(&mut self, id: CheckpointId) {
        let parts = self.parts;
        let Some(segment) = self.segment(id) else { return };
        segment.parts_done += 1;
        if segment.parts_done < parts {
            return;
        }
        let assembler = segment.assembler.take().expect("the last part is done once");
        if !segment.has_content {
            segment.state = SegmentState::Durable(None);
            return;
        }
        match assembler.finish() {
            Ok((footer, summary)) => {
                let length = footer.len();
                segment.waiting.push_back(footer);
                let checksum = format!("{:016x}", summary.checksum);
                segment.summary = Some(BlobRef { path: segment.path.clone(), length: summary.length, checksum });
                self.buffered += length;
            }
            Err(error) => segment.state = SegmentState::Failed(error.to_string()),
        }
    }

    /// How it stands with the segment of a checkpoint.
    pub(crate) fn state(&self, id: CheckpointId) -> SegmentState {
        self.open.get(&id).map_or(SegmentState::Open, |segment| segment.state.clone())
    }

    /// The checkpoint is over for this worker, and so are all older ones.
    pub(crate) fn resolved(&mut self, id: CheckpointId, outbox: &mut Outbox) {
        let (over, newer): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|(open, _)| *open <= id);
        self.open = lite_map(newer);
        for (_, segment) in over {
            let freed: usize = segment.waiting.iter().map(Bytes::len).sum();
            self.buffered = self.buffered.saturating_sub(freed);
            let is_durable = matches!(segment.state, SegmentState::Durable(_));
            if !is_durable && segment.has_content {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.asked.insert(ticket, (id, 0));
                outbox.storage.push((ticket, StorageRequest::Discard { path: segment.path }));
            }
        }
    }

    /// Hands to the storage what it has room for.
    pub(crate) fn pump(&mut self, outbox: &mut Outbox) {
        for (&id, segment) in &mut self.open {
            while segment.has_content && segment.state == SegmentState::Open && segment.in_flight < IN_FLIGHT {
                let request = match segment.waiting.pop_front() {
                    Some(bytes) => StorageRequest::Append { path: segment.path.clone(), bytes },
                    None if segment.summary.is_some() && !segment.finishing && segment.in_flight == 0 => {
                        segment.finishing = true;
                        StorageRequest::Finish { path: segment.path.clone() }
                    }
                    None => break,
                };
                let bytes = if let StorageRequest::Append { bytes, .. } = &request { bytes.len() } else { 0 };
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                segment.in_flight += 1;
                self.asked.insert(ticket, (id, bytes));
                outbox.storage.push((ticket, request));
            }
        }
    }

    /// An answer of the storage; false if it was not for a segment.
    pub(crate) fn on_reply(&mut self, ticket: Ticket, reply: &StorageReply) -> bool {
        let Some((id, bytes)) = self.asked.remove(&ticket) else { return false };
        self.buffered = self.buffered.saturating_sub(bytes);
        let Some(segment) = self.open.get_mut(&id) else { return true };
        segment.in_flight = segment.in_flight.saturating_sub(1);
        match reply {
            StorageReply::Done if segment.finishing => segment.state = SegmentState::Durable(segment.summary.clone()),
            StorageReply::Done => {}
            StorageReply::Failed(reason) => segment.state = SegmentState::Failed(reason.clone()),
            other => segment.state = SegmentState::Failed(format!("the storage answered {other:?} to a write")),
        }
        true
    }
}
