//! The receiving end: a queue a channel, in order, with what was consumed given back as credit, as `window` says.
//!
//! The gate obeys: it takes nothing from a channel that is blocked, and decides nothing about barriers.

use super::capture::Capture;
use super::window::Window;
use crate::control::Captured;
use crate::error::Result;
use crate::outbox::Outbox;
use crate::packet::{ChannelId, Packet, Payload};
use crate::record::AnyBatch;
use crate::time::{Time, Timestamp, Watermark};
use flott_checkpoint::{AttemptId, Barrier, Channel, CheckpointId};
use std::collections::VecDeque;

/// Debug builds and the simulator check what a protocol promises about records.
const CHECKED: bool = cfg!(any(debug_assertions, feature = "testing"));

/// What waits in a channel.
pub(super) enum Element {
    /// `since` says when it arrived.
    Batch {
        batch: Box<dyn AnyBatch>,
        bytes: usize,
        epoch: CheckpointId,
        since: Time,
    },
    Watermark(Watermark),
    Barrier(Barrier),
    End,
}

/// All input channels of a subtask.
pub(super) struct Gate {
    attempt: AttemptId,
    channels: Vec<InputChannel>,
    /// Where the next look for work begins, so that no channel starves another.
    turn: usize,
    /// The newest epoch that a taken record was sent in: for invariant I1.
    newest_epoch: CheckpointId,
}

struct InputChannel {
    id: ChannelId,
    input: u8,
    queue: VecDeque<Element>,
    blocked: bool,
    ended: bool,
    watermark: Watermark,
    window: Window,
    /// Since when its head may be taken: what waited before was held back, and not worked off slowly.
    open_since: Time,
    /// The number of the head: so many elements were taken.
    taken: u64,
    /// The unaligned checkpoints that this channel is being captured for. Empty nearly always.
    captures: Vec<Capture>,
}

impl InputChannel {
    fn enter(&mut self, element: Element) {
        if let (false, Element::Batch { batch, .. }) = (self.captures.is_empty(), &element) {
            self.captures.iter_mut().for_each(|capture| capture.owe(batch.len()));
        }
        self.queue.push_back(element);
    }

    /// The last element may become a newer watermark, unless it is written down already.
    fn enter_watermark(&mut self, watermark: Watermark) {
        let last = (self.taken + self.queue.len() as u64).checked_sub(1);
        let written = |capture: &Capture| capture.is_open() && capture.wanted() > last;
        match self.queue.back_mut() {
            // A newer one replaces an older one that no record separates from it (D4).
            Some(Element::Watermark(older)) if !self.captures.iter().any(written) => *older = watermark,
            _ => self.queue.push_back(Element::Watermark(watermark)),
        }
    }

    /// Writes down what lies at a number, for every checkpoint that it belongs to.
    fn capture(&mut self, number: u64, attempt: AttemptId) {
        let index = number.checked_sub(self.taken).and_then(|index| usize::try_from(index).ok());
        let Some(element) = index.and_then(|index| self.queue.get(index)) else { return };
        self.captures.iter_mut().for_each(|capture| capture.write(number, element, self.id, attempt));
    }
}

/// A channel as the plan has it: its id, and the numbered input that it belongs to.
pub(super) struct ChannelSite {
    pub(super) id: ChannelId,
    pub(super) input: u8,
}

impl Gate {
    pub(super) fn new(attempt: AttemptId, credit_window: usize, channels: Vec<ChannelSite>) -> Gate {
        let channel = |ChannelSite { id, input }| InputChannel {
            id,
            input,
            queue: VecDeque::new(),
            blocked: false,
            ended: false,
            watermark: Watermark::default(),
            window: Window::new(credit_window),
            open_since: Time::default(),
            taken: 0,
            captures: Vec::new(),
        };
        let channels = channels.into_iter().map(channel).collect();
        Gate { attempt, channels, turn: 0, newest_epoch: CheckpointId(0) }
    }

    fn channel(&mut self, channel: Channel) -> &mut InputChannel {
        self.channels.get_mut(usize::from(channel.0)).expect("channels are numbered by the gate itself")
    }

    /// How many channels there are.
    pub(super) fn len(&self) -> u16 {
        u16::try_from(self.channels.len()).expect("a plan has fewer channels per subtask than u16 holds")
    }

    /// Queues a packet's content; returns the channel, and the barrier if one entered its queue.
    pub(super) fn deliver(&mut self, packet: Packet, now: Time) -> Option<(Channel, Barrier)> {
        let index = self.channels.iter().position(|channel| channel.id == packet.channel);
        let index = index.expect("the plan of sender and receiver is the same");
        let channel = self.channels.get_mut(index).expect("just found");
        match packet.payload {
            Payload::Data { batch, bytes, watermark } => {
                if let Some(batch) = batch {
                    assert!(!CHECKED || !channel.ended, "I11: a record came after the end of data of its channel");
                    channel.enter(Element::Batch { batch, bytes, epoch: packet.epoch, since: now });
                }
                if let Some(watermark) = watermark {
                    channel.enter_watermark(watermark);
                }
                None
            }
            Payload::End => {
                channel.queue.push_back(Element::End);
                None
            }
            Payload::Barrier(barrier) => {
                channel.queue.push_back(Element::Barrier(barrier));
                Some((Channel(u16::try_from(index).expect("checked by len")), barrier))
            }
            Payload::Credit { .. } => unreachable!("credits go to outputs"),
        }
    }

    /// A channel that has something to take, in turn.
    pub(super) fn next_ready(&mut self) -> Option<Channel> {
        let count = self.channels.len();
        let ready = |channel: &InputChannel| !channel.blocked && !channel.queue.is_empty();
        let offset = (0..count).find(|offset| self.channels.get((self.turn + offset) % count).is_some_and(ready))?;
        let index = (self.turn + offset) % count;
        self.turn = (index + 1) % count;
        Some(Channel(u16::try_from(index).expect("checked by len")))
    }

    /// Whether some channel has something to take.
    pub(super) fn is_ready(&self) -> bool {
        self.channels.iter().any(|channel| !channel.blocked && !channel.queue.is_empty())
    }

    /// Takes the head of a channel, with the number of the input that the channel belongs to.
    pub(super) fn take(&mut self, channel: Channel) -> Option<(u8, Element)> {
        let attempt = self.attempt;
        let channel = self.channel(channel);
        if !channel.captures.is_empty() {
            channel.capture(channel.taken, attempt);
        }
        let element = channel.queue.pop_front()?;
        channel.taken += 1;
        Some((channel.input, element))
    }

    /// Puts back a batch that was not used up.
    pub(super) fn put_back(&mut self, channel: Channel, element: Element) {
        let channel = self.channel(channel);
        channel.queue.push_front(element);
        channel.taken -= 1;
    }

    /// A batch that arrived at `since` is used up: gives its bytes back, as its window says.
    pub(super) fn consumed(&mut self, channel: Channel, bytes: usize, since: Time, now: Time, outbox: &mut Outbox) {
        let attempt = self.attempt;
        let channel = self.channel(channel);
        let waited = now.since(since.max(channel.open_since));
        if let Some(bytes) = channel.window.consumed(bytes, waited) {
            let payload = Payload::Credit { bytes };
            outbox.packets.push(Packet { channel: channel.id, attempt, epoch: CheckpointId(0), payload });
        }
    }

    /// A record of this epoch is about to be taken.
    pub(super) fn note_epoch(&mut self, epoch: CheckpointId) {
        self.newest_epoch = self.newest_epoch.max(epoch);
    }

    /// Invariant I1, for a cut that holds back what lies behind its barrier: nothing of a later epoch was taken before.
    pub(super) fn assert_cut(&self, id: CheckpointId) {
        let newest = self.newest_epoch;
        assert!(!CHECKED || newest < id, "I1: a record of epoch {newest} was taken before cut {id}");
    }

    pub(super) fn block(&mut self, channel: Channel) {
        self.channel(channel).blocked = true;
    }

    pub(super) fn unblock(&mut self, channel: Channel, now: Time) {
        let channel = self.channel(channel);
        channel.blocked = false;
        channel.open_since = now;
    }

    /// The subtask was paused as a whole.
    pub(super) fn resume(&mut self, now: Time) {
        self.channels.iter_mut().for_each(|channel| channel.open_since = now);
    }

    /// The end of data on a channel was taken; true if that was the last one.
    pub(super) fn end(&mut self, channel: Channel) -> bool {
        self.channel(channel).ended = true;
        self.all_ended()
    }

    pub(super) fn all_ended(&self) -> bool {
        self.channels.iter().all(|channel| channel.ended)
    }

    pub(super) fn set_watermark(&mut self, channel: Channel, watermark: Watermark) {
        self.channel(channel).watermark = watermark;
    }

    /// What all channels promise together: the oldest watermark of those that take part.
    pub(super) fn watermark(&self) -> Watermark {
        let mut active = self.channels.iter().filter(|channel| !channel.ended && !channel.watermark.idle).peekable();
        let idle = active.peek().is_none();
        let at: Option<Option<Timestamp>> = active.map(|channel| channel.watermark.at).min();
        // With nobody taking part the last promise stands; the newest one that any channel made.
        let newest = || self.channels.iter().filter_map(|channel| channel.watermark.at).max();
        Watermark { at: if idle { newest() } else { at.flatten() }, idle }
    }

    /// What the snapshot keeps of each channel.
    pub(super) fn parts(&self) -> impl Iterator<Item = (ChannelId, Watermark, bool)> {
        self.channels.iter().map(|channel| (channel.id, channel.watermark, channel.ended))
    }

    /// Restores what a snapshot kept; `ended` says what the *sender's* part says. What was captured comes before all else.
    pub(super) fn restore(&mut self, id: ChannelId, watermark: Watermark, ended: bool, captured: Vec<Packet>) {
        let Some(index) = self.channels.iter().position(|channel| channel.id == id) else { return };
        let channel = self.channels.get_mut(index).expect("just found");
        assert!(channel.queue.is_empty(), "nobody sends before all hold the restored state (R1)");
        channel.watermark = watermark;
        for packet in captured {
            // It waits for nobody here: as if it arrived when it is taken.
            self.deliver(packet, Time(u64::MAX));
        }
        let channel = self.channels.get_mut(index).expect("as above");
        // An end that is among the captured is still to come.
        channel.ended = ended && !channel.queue.iter().any(|element| matches!(element, Element::End));
    }

    /// Captures what lies in a channel, and what enters it until [`Gate::end_capture`].
    pub(super) fn start_capture(&mut self, channel: Channel, id: CheckpointId) {
        let channel = self.channel(channel);
        let before = |element: &&Element| !matches!(element, Element::Barrier(barrier) if barrier.id == id);
        let records =
            |element: &Element| if let Element::Batch { batch, .. } = element { batch.len() as u64 } else { 0 };
        let owed = channel.queue.iter().take_while(before).map(records).sum();
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::CaptureForgotten) {
            let skipped = channel.queue.iter().take_while(before).count() as u64;
            channel.captures.push(Capture::new(id, channel.taken + skipped, 0));
            return;
        }
        channel.captures.push(Capture::new(id, channel.taken, owed));
    }

    /// The barrier is in the queue: what lies behind it belongs to a later checkpoint.
    pub(super) fn end_capture(&mut self, channel: Channel, id: CheckpointId) {
        let channel = self.channel(channel);
        let is_it = |element: &Element| matches!(element, Element::Barrier(barrier) if barrier.id == id);
        let end = channel.queue.iter().rposition(is_it).map(|index| channel.taken + index as u64);
        if let Some(capture) = channel.captures.iter_mut().find(|capture| capture.id == id) {
            capture.close(end.expect("a capture ends when the barrier enters the queue"));
        }
    }

    /// Captured bytes to hand over: at least `least` of one channel, or its last ones; `None` if there are none now.
    ///
    /// # Errors
    /// If a record could not be encoded.
    pub(super) fn captured(&mut self, id: CheckpointId, least: usize) -> Result<Option<(ChannelId, Vec<u8>)>> {
        let attempt = self.attempt;
        for channel in &mut self.channels {
            while let Some(place) = channel.captures.iter().position(|capture| capture.id == id) {
                let capture = channel.captures.get_mut(place).expect("just found");
                if let Some(bytes) = capture.hand_over(least)? {
                    return Ok(Some((channel.id, bytes)));
                }
                let end = channel.taken + channel.queue.len() as u64;
                match capture.wanted().filter(|number| *number < end) {
                    Some(number) => channel.capture(number, attempt),
                    None => break,
                }
            }
        }
        Ok(None)
    }

    /// What was captured for a checkpoint, by channel in order, once it is complete and handed over; it is forgotten then.
    pub(super) fn take_captured(&mut self, id: CheckpointId) -> Option<Vec<Captured>> {
        let of = |channel: &InputChannel| {
            let capture = channel.captures.iter().find(|capture| capture.id == id);
            capture.map_or(Some(Captured::default()), Capture::done)
        };
        let captured = self.channels.iter().map(of).collect::<Option<Vec<_>>>()?;
        self.drop_captures(id);
        Some(captured)
    }

    /// No checkpoint up to this one needs anything any more.
    pub(super) fn drop_captures(&mut self, id: CheckpointId) {
        self.channels.iter_mut().for_each(|channel| channel.captures.retain(|capture| capture.id > id));
    }

    /// Captured bytes that wait to be handed over.
    pub(super) fn buffered(&self) -> usize {
        self.channels.iter().flat_map(|channel| &channel.captures).map(Capture::buffered).sum()
    }

    /// The channel, its batches before the barrier of this id, and whether that is there; without it, all of its batches.
    pub(super) fn ahead_of(&self, channel: Channel, id: CheckpointId) -> (ChannelId, usize, bool) {
        let channel = self.channels.get(usize::from(channel.0)).expect("channels are numbered by the gate itself");
        let is_it = |element: &Element| matches!(element, Element::Barrier(barrier) if barrier.id == id);
        let batches = channel.queue.iter().take_while(|element| !is_it(element));
        let batches = batches.filter(|element| matches!(element, Element::Batch { .. })).count();
        (channel.id, batches, channel.queue.iter().any(is_it))
    }

    /// Whether records wait in some channel, blocked or not: none may when a stopped world is cut (I3).
    pub(super) fn holds_records(&self) -> bool {
        self.channels.iter().any(|channel| channel.queue.iter().any(|element| matches!(element, Element::Batch { .. })))
    }
}

#[cfg(test)]
mod tests;
