//! What travels between subtasks: data with its trailing watermark, barriers and the end of data in band and in order,
//! and credits the other way.
//!
//! Never here: who sends when (that is the output) and who reads when (that is the gate).

pub mod codec;

use crate::record::AnyBatch;
use crate::time::Watermark;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId};
use std::fmt;

/// One FIFO edge between two subtasks: an edge of the plan, and the indexes of both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId {
    /// The edge, in the order of the plan.
    pub edge: u16,
    /// The sending subtask's index: its worker.
    pub from: u16,
    /// The receiving subtask's index: its worker.
    pub to: u16,
}

/// A packet on a channel. Everything but [`Payload::Credit`] flows from `channel.from` to `channel.to`.
#[derive(Debug)]
pub struct Packet {
    /// Where it belongs.
    pub channel: ChannelId,
    /// The attempt that sent it; a packet of another attempt is dropped.
    pub attempt: AttemptId,
    /// The last barrier that the sender had forwarded, 0 if none: what invariant I1 is asserted on at each cut.
    pub epoch: CheckpointId,
    /// What it carries.
    pub payload: Payload,
}

impl Packet {
    /// The worker that must get it.
    #[must_use]
    pub fn worker(&self) -> u16 {
        match self.payload {
            Payload::Credit { .. } => self.channel.from,
            Payload::Data { .. } | Payload::Barrier(_) | Payload::End => self.channel.to,
        }
    }
}

/// The content of a packet.
pub enum Payload {
    /// Records, then the newest watermark that no record follows.
    Data {
        /// The records; `None` if only the watermark moved.
        batch: Option<Box<dyn AnyBatch>>,
        /// What the batch took of the channel's credit window, in bytes.
        bytes: usize,
        /// The watermark after the records.
        watermark: Option<Watermark>,
    },
    /// A barrier. Needs no credit.
    Barrier(Barrier),
    /// No record follows; barriers do (design D18). Needs no credit.
    End,
    /// The receiver has worked off so many bytes.
    Credit {
        /// Bytes.
        bytes: usize,
    },
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Data { batch, bytes, watermark } => f
                .debug_struct("Data")
                .field("records", &batch.as_ref().map_or(0, |batch| batch.len()))
                .field("bytes", bytes)
                .field("watermark", watermark)
                .finish(),
            Payload::Barrier(barrier) => f.debug_tuple("Barrier").field(barrier).finish(),
            Payload::End => f.write_str("End"),
            Payload::Credit { bytes } => f.debug_struct("Credit").field("bytes", bytes).finish(),
        }
    }
}
