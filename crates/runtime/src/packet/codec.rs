//! Packets as bytes, for channels that leave the process (docs/formats.md, "Packets on the wire").
//!
//! Both ends run the same build and the same plan; the version byte is there so that a mistake is told, not misread.
//! Decoding takes nothing for granted: it never panics and allocates no more than the bytes justify.

#[cfg(test)]
mod tests;

use super::{ChannelId, Packet, Payload};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::record::AnyBatch;
use crate::time::{Timestamp, Watermark};
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode};

/// The first byte of every packet.
pub const VERSION: u8 = 1;

const DATA: u8 = 1;
const BARRIER: u8 = 2;
const END: u8 = 3;
const CREDIT: u8 = 4;

const HAS_BATCH: u8 = 1;
const HAS_WATERMARK: u8 = 2;
const HAS_TIME: u8 = 4;
const IS_IDLE: u8 = 8;

const KINDS: [Kind; 3] = [Kind::Checkpoint, Kind::Savepoint, Kind::Final];

/// Appends a packet.
///
/// # Errors
/// If a record's own `Serialize` fails; `out` then ends in a torn packet.
pub fn encode(packet: &Packet, out: &mut Vec<u8>) -> Result<()> {
    let Packet { channel, attempt, epoch, payload } = packet;
    let origin = Origin { channel: *channel, attempt: *attempt, epoch: *epoch };
    match payload {
        Payload::Data { batch, bytes, watermark } => {
            return encode_data(origin, batch.as_deref(), *bytes, *watermark, out);
        }
        Payload::Barrier(barrier) => {
            encode_head(origin, BARRIER, out);
            encode_barrier(barrier, out);
        }
        Payload::End => encode_end(origin, out),
        Payload::Credit { bytes } => {
            encode_head(origin, CREDIT, out);
            out.extend((*bytes as u64).to_le_bytes());
        }
    }
    Ok(())
}

/// Where a packet comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) channel: ChannelId,
    pub(crate) attempt: AttemptId,
    pub(crate) epoch: CheckpointId,
}

/// Appends a data packet whose batch is somebody else's.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_data(
    origin: Origin,
    batch: Option<&dyn AnyBatch>,
    bytes: usize,
    watermark: Option<Watermark>,
    out: &mut Vec<u8>,
) -> Result<()> {
    encode_head(origin, DATA, out);
    out.push(data_flags(batch.is_some(), watermark));
    out.extend((bytes as u64).to_le_bytes());
    if let Some(Timestamp(at)) = watermark.and_then(|watermark| watermark.at) {
        out.extend(at.to_le_bytes());
    }
    batch.map_or(Ok(()), |batch| batch.encode(out))
}

/// Appends the end of data.
pub(crate) fn encode_end(origin: Origin, out: &mut Vec<u8>) {
    encode_head(origin, END, out);
}

fn encode_head(origin: Origin, kind: u8, out: &mut Vec<u8>) {
    let Origin { channel, attempt, epoch } = origin;
    out.extend([VERSION, kind]);
    for number in [channel.edge, channel.from, channel.to] {
        out.extend(number.to_le_bytes());
    }
    out.extend(attempt.0.to_le_bytes());
    out.extend(epoch.0.to_le_bytes());
}

fn data_flags(has_batch: bool, watermark: Option<Watermark>) -> u8 {
    let mut flags = if has_batch { HAS_BATCH } else { 0 };
    if let Some(watermark) = watermark {
        flags |= HAS_WATERMARK;
        flags |= if watermark.at.is_some() { HAS_TIME } else { 0 };
        flags |= if watermark.idle { IS_IDLE } else { 0 };
    }
    flags
}

fn encode_barrier(barrier: &Barrier, out: &mut Vec<u8>) {
    let Barrier { id, attempt, mode, kind, base, triggered_at } = barrier;
    out.extend(id.0.to_le_bytes());
    out.extend(attempt.0.to_le_bytes());
    out.extend([number_of(&Mode::ALL, mode), number_of(&KINDS, kind)]);
    // Checkpoint ids begin with 1, so 0 can say that there is no base.
    out.extend(base.map_or(0, |base| base.0).to_le_bytes());
    out.extend(triggered_at.to_le_bytes());
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let index = all.iter().position(|each| each == one).expect("the list is complete");
    u8::try_from(index).expect("the list is short")
}

/// Reads what [`encode`] wrote, with the codecs of the plan; `workers` is the size of the attempt.
///
/// # Errors
/// If the bytes are no packet on a channel of this plan.
pub fn decode(bytes: &[u8], plan: &Plan, workers: u16) -> Result<Packet> {
    let mut input = Input(bytes);
    let version = input.u8()?;
    if version != VERSION {
        return Err(damaged(format!("its version is {version}, this program speaks version {VERSION}")));
    }
    let kind = input.u8()?;
    let channel = ChannelId { edge: input.u16()?, from: input.u16()?, to: input.u16()? };
    let edge = plan.edges.get(usize::from(channel.edge)).ok_or_else(|| damaged(format!("no edge {}", channel.edge)))?;
    if channel.to >= workers || channel.from >= workers || !edge.senders(channel.to, workers).contains(&channel.from) {
        return Err(damaged(format!("edge {} has no channel {} to {}", channel.edge, channel.from, channel.to)));
    }
    let attempt = AttemptId(input.u64()?);
    let epoch = CheckpointId(input.u64()?);
    let payload = match kind {
        DATA => {
            let (flags, bytes, watermark) = decode_data_head(&mut input)?;
            let batch = if flags & HAS_BATCH == 0 { None } else { Some(edge.codec.decode(input.rest())?) };
            Payload::Data { batch, bytes, watermark }
        }
        BARRIER => Payload::Barrier(decode_barrier(&mut input)?),
        END => Payload::End,
        CREDIT => Payload::Credit { bytes: input.size()? },
        other => return Err(damaged(format!("unknown kind {other}"))),
    };
    if !input.0.is_empty() {
        return Err(damaged(format!("{} bytes too many", input.0.len())));
    }
    Ok(Packet { channel, attempt, epoch, payload })
}

fn decode_data_head(input: &mut Input<'_>) -> Result<(u8, usize, Option<Watermark>)> {
    let flags = input.u8()?;
    let without_watermark = flags & HAS_WATERMARK == 0;
    if flags > (HAS_BATCH | HAS_WATERMARK | HAS_TIME | IS_IDLE)
        || (without_watermark && flags & (HAS_TIME | IS_IDLE) != 0)
    {
        return Err(damaged(format!("unknown flags {flags:#x}")));
    }
    let bytes = input.size()?;
    if without_watermark {
        return Ok((flags, bytes, None));
    }
    let at = if flags & HAS_TIME == 0 { None } else { Some(Timestamp(i64::from_le_bytes(input.array()?))) };
    Ok((flags, bytes, Some(Watermark { at, idle: flags & IS_IDLE != 0 })))
}

fn decode_barrier(input: &mut Input<'_>) -> Result<Barrier> {
    let id = CheckpointId(input.u64()?);
    let attempt = AttemptId(input.u64()?);
    let (mode, kind) = (input.u8()?, input.u8()?);
    let mode = *Mode::ALL.get(usize::from(mode)).ok_or_else(|| damaged(format!("unknown mode {mode}")))?;
    let kind = *KINDS.get(usize::from(kind)).ok_or_else(|| damaged(format!("unknown checkpoint kind {kind}")))?;
    let base = Some(input.u64()?).filter(|id| *id != 0).map(CheckpointId);
    Ok(Barrier { id, attempt, mode, kind, base, triggered_at: input.u64()? })
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| damaged("it ends too early".to_owned()))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn size(&mut self) -> Result<usize> {
        let size = self.u64()?;
        usize::try_from(size).map_err(|_| damaged(format!("a size of {size} bytes")))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

fn damaged(what: String) -> Error {
    Error::failed(format!("cannot read a packet: {what}"))
}
