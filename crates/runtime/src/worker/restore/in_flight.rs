//! Reads back what was in flight at an unaligned cut: of each input channel of this worker, the packets in their order.
//!
//! Pieces come one after the other, so no more is in memory than what the queues are to hold, and the piece at hand. What does
//! not decode is no reason to go on without it: the restore fails.

use super::{Piece, unreadable};
use crate::attempt::{Attempt, Restore};
use crate::control::Captured;
use crate::error::{Error, Result};
use crate::packet::{ChannelId, Packet, Payload, codec};
use crate::segment::Footer;
use crate::subtask::{NO_OPERATOR, channel_blob, split_first};
use flott_checkpoint::SubtaskId;
use litemap::LiteMap;
use std::collections::VecDeque;

/// The packets of each channel, as far as they are read.
#[derive(Default)]
pub(super) struct InFlight(LiteMap<ChannelId, Channel>);

#[derive(Default)]
struct Channel {
    packets: Vec<Packet>,
    /// The beginning of a packet whose rest is in the next piece.
    rest: Vec<u8>,
    bytes: u64,
    path: String,
}

/// The pieces of all channels of a subtask, in order.
pub(super) fn plan(
    restore: &Restore,
    subtask: SubtaskId,
    footers: &LiteMap<String, Footer>,
    pieces: &mut VecDeque<Piece>,
) -> Result<()> {
    let part = restore.manifests.get(&restore.checkpoint).and_then(|manifest| manifest.parts.get(&subtask));
    let Some(part) = part else { return Ok(()) };
    for captured in part.channels.iter().filter(|channel| !channel.captured.is_nothing()) {
        let channel = ChannelId { edge: captured.edge, from: captured.from, to: subtask.index };
        let name = channel_blob(channel.edge, channel.from);
        let path = part.segment.as_ref().map(|blob| blob.path.as_str()).unwrap_or_default();
        let section = footers.get(path).and_then(|f| f.blob(NO_OPERATOR, &name, u32::from(subtask.index)));
        let section = section.ok_or_else(|| unreadable(path, &format!("it does not hold `{name}`")))?;
        pieces.extend(section.pieces.iter().map(|piece| {
            let (path, piece) = (path.to_owned(), piece.clone());
            Piece::InFlight { path, channel, piece }
        }));
    }
    Ok(())
}

impl InFlight {
    /// The next piece of a channel.
    pub(super) fn take(&mut self, path: &str, id: ChannelId, bytes: &[u8], attempt: &Attempt) -> Result<()> {
        let channel = self.0.entry(id).or_default();
        path.clone_into(&mut channel.path);
        channel.bytes += bytes.len() as u64;
        channel.rest.extend_from_slice(bytes);
        let whole = std::mem::take(&mut channel.rest);
        let mut left = whole.as_slice();
        while let Some((packet, after)) = split_first(left) {
            channel.packets.push(decode(packet, id, attempt).map_err(|error| incompatible(path, &error))?);
            left = after;
        }
        channel.rest = left.to_vec();
        Ok(())
    }

    /// What was in flight on a channel, all of it.
    pub(super) fn of(&mut self, id: ChannelId, captured: &Captured) -> Result<Vec<Packet>> {
        if captured.is_nothing() {
            return Ok(Vec::new());
        }
        let channel = self.0.remove(&id).unwrap_or_default();
        let (bytes, records) = (channel.bytes, channel.packets.iter().map(records).sum::<u64>());
        if !channel.rest.is_empty() || (bytes, records) != (captured.bytes, captured.records) {
            let what = format!(
                "of edge {} it holds {records} records in {bytes} bytes instead of {} in {}",
                id.edge, captured.records, captured.bytes
            );
            return Err(unreadable(&channel.path, &what));
        }
        Ok(channel.packets)
    }
}

fn records(packet: &Packet) -> u64 {
    match &packet.payload {
        Payload::Data { batch: Some(batch), .. } => batch.len() as u64,
        _ => 0,
    }
}

fn decode(bytes: &[u8], channel: ChannelId, attempt: &Attempt) -> Result<Packet> {
    let packet = codec::decode(bytes, &attempt.plan, attempt.workers)?;
    match packet.payload {
        Payload::Data { .. } | Payload::End if packet.channel == channel => Ok(packet),
        _ => Err(Error::failed(format!("a packet of another channel, or none of data: {packet:?}"))),
    }
}

/// The bytes are what was written: the type of the records has changed, or the writer was faulty.
fn incompatible(path: &str, error: &Error) -> Error {
    Error::unusable(format!("records that were in flight cannot be read from {path}: {error}")).hint(
        "restore with the types that wrote them and take one checkpoint in another mode than unaligned before changing them",
    )
}
