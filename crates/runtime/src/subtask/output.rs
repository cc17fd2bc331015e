//! The sending end of an edge: one lane a receiver, with its open batch and its credit.
//!
//! A sender keeps no queue (design D4). The chain's head takes a record only while every lane of every output has credit;
//! what that record causes is sent in full and may overdraw. Barriers and the end of data need no credit, so alignment
//! cannot deadlock (reference: credits are per channel, never pooled; an operator without credit stops consuming but never
//! blocks its thread).

use crate::attempt::WorkerOptions;
use crate::error::{Error, Result};
use crate::key::{Key, key_group, owner};
use crate::operator::{Context, Flow, Operator, Signal};
use crate::outbox::Outbox;
use crate::packet::{ChannelId, Packet, Payload};
use crate::record::{AnyBatch, Batch, BatchCodec, Keyed, Record, TypedCodec, weight};
use crate::subtask::Partitioner;
use crate::time::{Time, Timestamp, Watermark};
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, KeyGroup};
use std::cell::RefCell;
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// In debug builds so many records of each output are encoded and decoded, so that a type that cannot cross a process
/// boundary is found on the developer's machine (design D8).
const CHECKED_RECORDS: usize = 64;

/// What the subtask does with an output, whatever its type.
pub(super) trait OutputPort {
    /// The receiver worked off so many bytes.
    fn on_credit(&mut self, receiver: u16, bytes: usize);
    /// The credit of the receiver that has least, in bytes.
    fn least_credit(&self) -> isize;
    /// Sends what has waited for its batch to fill for too long; says when the next one is due.
    ///
    /// # Errors
    /// In debug builds, if records do not survive encoding.
    fn send_due(&mut self, now: Time, outbox: &mut Outbox) -> Result<Option<Time>>;
    /// Puts the watermark behind what was emitted; it replaces one that no record separates from it.
    fn watermark(&mut self, watermark: Watermark, now: Time);
    /// Sends what is open and the barrier behind it, to all receivers.
    ///
    /// # Errors
    /// As [`OutputPort::send_due`].
    fn barrier(&mut self, barrier: Barrier, outbox: &mut Outbox) -> Result<()>;
    /// Sends what is open and the end of data behind it.
    ///
    /// # Errors
    /// As [`OutputPort::send_due`].
    fn end(&mut self, outbox: &mut Outbox) -> Result<()>;
}

/// One output of a subtask.
pub(super) struct Output<T> {
    edge: u16,
    from: u16,
    attempt: AttemptId,
    epoch: CheckpointId,
    partitioner: Partitioner<T>,
    /// By key group: the lane of its owner. Empty unless the edge is partitioned by hash.
    lane_of_group: Vec<u32>,
    key_groups: u16,
    lanes: Vec<Lane<T>>,
    turn: usize,
    flow: Rc<Flow>,
    options: WorkerOptions,
    unchecked: usize,
}

struct Lane<T> {
    to: u16,
    records: Vec<T>,
    timestamps: Option<Vec<Timestamp>>,
    bytes: usize,
    watermark: Option<Watermark>,
    /// When the oldest thing in the open batch came in.
    opened: Time,
    credit: isize,
    /// Records of the last batch: about as many come in the next one.
    usual: usize,
}

impl<T> Lane<T> {
    fn is_open(&self) -> bool {
        !self.records.is_empty() || self.watermark.is_some()
    }
}

/// Where an output stands in the plan and in the attempt.
pub(super) struct OutputSite {
    pub(super) edge: u16,
    pub(super) from: u16,
    pub(super) receivers: std::ops::Range<u16>,
    pub(super) attempt: AttemptId,
    pub(super) workers: u16,
    pub(super) key_groups: u16,
    pub(super) options: WorkerOptions,
}

impl<T: Record> Output<T> {
    pub(super) fn new(site: OutputSite, partitioner: Partitioner<T>, flow: Rc<Flow>) -> Output<T> {
        let OutputSite { edge, from, receivers, attempt, workers, key_groups, options } = site;
        let lane_of_group = match partitioner {
            Partitioner::Hash(_) => {
                (0..key_groups).map(|group| owner(KeyGroup(group), key_groups, workers.into())).collect()
            }
            _ => Vec::new(),
        };
        let credit = isize::try_from(options.credit_window).unwrap_or(isize::MAX);
        let lane = |to| Lane {
            to,
            records: Vec::new(),
            timestamps: None,
            bytes: 0,
            watermark: None,
            opened: Time::default(),
            credit,
            usual: 0,
        };
        let lanes = receivers.map(lane).collect();
        let unchecked = if cfg!(debug_assertions) { CHECKED_RECORDS } else { 0 };
        let epoch = CheckpointId(0);
        Output {
            edge,
            from,
            attempt,
            epoch,
            partitioner,
            lane_of_group,
            key_groups,
            lanes,
            turn: 0,
            flow,
            options,
            unchecked,
        }
    }

    /// A receiver got back so many bytes that were in flight: they are taken from its window, and it returns them as any others.
    pub(super) fn take_credit(&mut self, receiver: u16, bytes: usize) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.to == receiver) else { return };
        let had_credit = lane.credit > 0;
        lane.credit = lane.credit.saturating_sub_unsigned(bytes);
        if had_credit && lane.credit <= 0 {
            self.flow.credit_spent();
        }
    }

    #[inline]
    fn emit(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let lane = match &self.partitioner {
            Partitioner::Forward => 0,
            Partitioner::Hash(hash) => self.lane_of(hash(&record)),
            Partitioner::Rebalance => {
                self.turn = (self.turn + 1) % self.lanes.len();
                self.turn
            }
            Partitioner::Broadcast => return self.emit_to_all(&record, at, cx),
        };
        self.emit_to(lane, record, at, cx)
    }

    #[inline]
    fn lane_of(&self, hash: u64) -> usize {
        let group = key_group(hash, self.key_groups);
        *self.lane_of_group.get(usize::from(group.0)).expect("a key group is below their number") as usize
    }

    fn emit_to_all(&mut self, record: &T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        (0..self.lanes.len()).try_for_each(|lane| self.emit_to(lane, record.clone(), at, cx))
    }

    #[inline]
    fn emit_to(&mut self, index: usize, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let lane = self.lanes.get_mut(index).expect("a partitioner names one of the edge's lanes");
        // A watermark lies behind all records of its packet, and a batch has timestamps for all its records or for none.
        let mixed = !lane.records.is_empty() && lane.timestamps.is_some() != at.is_some();
        if lane.watermark.is_some() || mixed {
            self.send(index, cx.outbox)?;
        }
        let lane = self.lanes.get_mut(index).expect("as above");
        if lane.records.is_empty() {
            lane.opened = cx.now;
            lane.records.reserve(lane.usual);
        }
        let bytes = weight(&record).max(1);
        lane.records.push(record);
        if let Some(at) = at {
            lane.timestamps.get_or_insert_default().push(at);
        }
        lane.bytes += bytes;
        let had_credit = lane.credit > 0;
        lane.credit -= bytes.cast_signed();
        let spent = had_credit && lane.credit <= 0;
        let full = lane.records.len() >= self.options.batch_records || lane.bytes >= self.options.batch_bytes;
        if spent {
            self.flow.credit_spent();
        }
        // What a spent lane holds goes out at the end of the step: until then the rest of what this record causes joins it.
        if full { self.send(index, cx.outbox) } else { Ok(()) }
    }

    #[inline(never)]
    fn send(&mut self, index: usize, outbox: &mut Outbox) -> Result<()> {
        let lane = self.lanes.get_mut(index).expect("callers name one of the edge's lanes");
        if !lane.is_open() {
            return Ok(());
        }
        lane.usual = lane.records.len();
        let records = std::mem::take(&mut lane.records);
        let batch = (!records.is_empty()).then(|| Batch::new(records, lane.timestamps.take()));
        if let Some(batch) = batch.as_ref().filter(|_| self.unchecked > 0) {
            self.unchecked = self.unchecked.saturating_sub(batch.len());
            check_round_trip(batch)?;
        }
        let channel = ChannelId { edge: self.edge, from: self.from, to: lane.to };
        let payload = Payload::Data {
            batch: batch.map(|batch| Box::new(batch) as Box<dyn AnyBatch>),
            bytes: std::mem::take(&mut lane.bytes),
            watermark: lane.watermark.take(),
        };
        outbox.packets.push(Packet { channel, attempt: self.attempt, epoch: self.epoch, payload });
        Ok(())
    }

    fn send_control(&mut self, outbox: &mut Outbox, payload: impl Fn() -> Payload) -> Result<()> {
        for index in 0..self.lanes.len() {
            self.send(index, outbox)?;
            let to = self.lanes.get(index).expect("in range").to;
            let channel = ChannelId { edge: self.edge, from: self.from, to };
            outbox.packets.push(Packet { channel, attempt: self.attempt, epoch: self.epoch, payload: payload() });
        }
        Ok(())
    }
}

impl<T: Record> OutputPort for Output<T> {
    fn on_credit(&mut self, receiver: u16, bytes: usize) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.to == receiver) else { return };
        let had_credit = lane.credit > 0;
        lane.credit += bytes.cast_signed();
        debug_assert!(
            lane.credit <= self.options.credit_window.cast_signed(),
            "a receiver returns what it was sent, once"
        );
        if !had_credit && lane.credit > 0 {
            self.flow.credit_returned();
        }
    }

    fn least_credit(&self) -> isize {
        self.lanes.iter().map(|lane| lane.credit).min().unwrap_or_default()
    }

    fn send_due(&mut self, now: Time, outbox: &mut Outbox) -> Result<Option<Time>> {
        let mut next: Option<Time> = None;
        for index in 0..self.lanes.len() {
            let lane = self.lanes.get(index).expect("in range");
            if !lane.is_open() {
                continue;
            }
            let due = lane.opened.after(self.options.batch_delay);
            // Without credit nothing more joins the batch: the receiver must get it, or the credit never comes back.
            if due <= now || lane.credit <= 0 {
                self.send(index, outbox)?;
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        Ok(next)
    }

    fn watermark(&mut self, watermark: Watermark, now: Time) {
        for lane in &mut self.lanes {
            if !lane.is_open() {
                lane.opened = now;
            }
            lane.watermark = Some(watermark);
        }
    }

    fn barrier(&mut self, barrier: Barrier, outbox: &mut Outbox) -> Result<()> {
        self.send_control(outbox, || Payload::Barrier(barrier))?;
        self.epoch = barrier.id;
        Ok(())
    }

    fn end(&mut self, outbox: &mut Outbox) -> Result<()> {
        self.send_control(outbox, || Payload::End)
    }
}

/// Whether a batch comes back from its encoding as it went in.
fn check_round_trip<T: Record>(batch: &Batch<T>) -> Result<()> {
    let type_name = std::any::type_name::<T>();
    let wrong = |how: &str| {
        Error::invalid(format!("records of type {type_name} do not survive encoding: {how}")).hint(
            "give the type a serde representation that MessagePack can read back; it has to cross process boundaries",
        )
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    batch.encode(&mut first)?;
    let again = TypedCodec::<T>::default().decode(&first).map_err(|error| wrong(&error.to_string()))?;
    again.encode(&mut second)?;
    // Not their bytes: a map has no order of its own.
    if first.len() == second.len() { Ok(()) } else { Err(wrong("what was decoded encodes to something else")) }
}

/// The last operator of a chain: hands its records to an output.
pub(super) struct Outlet<T>(pub(super) Rc<RefCell<Output<T>>>);

impl<T: Record> Operator<T> for Outlet<T> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.0.borrow_mut().emit(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        if let Signal::Watermark(watermark) = signal {
            self.0.borrow_mut().watermark(watermark, cx.now);
        }
        // Flush and End: the subtask sends barrier and end itself, on all outputs at once.
        Ok(())
    }
}

/// The outlet of an edge that is partitioned by hash, for keyed records: the hash is at hand, and not asked for through the
/// partitioner, so a record can be made where it will lie in its batch.
pub struct KeyedOutlet<K, T>(pub(super) Outlet<Keyed<K, T>>);

impl<K: Key, T: Record> Operator<Keyed<K, T>> for KeyedOutlet<K, T> {
    #[inline]
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let mut output = self.0.0.borrow_mut();
        let lane = output.lane_of(record.hash);
        output.emit_to(lane, record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_signal(signal, cx)
    }
}
