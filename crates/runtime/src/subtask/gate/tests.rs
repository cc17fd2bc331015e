//! What a gate captures for an unaligned checkpoint: exactly what lies before the barrier, in order, whatever is taken meanwhile.

use super::*;
use crate::packet::codec;
use crate::plan::{Edge, Partitioning, Plan};
use crate::record::{Batch, TypedCodec};
use crate::subtask::split_first;
use flott_checkpoint::{Kind, Mode};
use proptest::prelude::*;

const HERE: ChannelId = ChannelId { edge: 0, from: 0, to: 0 };
const CHANNEL: Channel = Channel(0);
const NOW: Time = Time(0);
const ATTEMPT: AttemptId = AttemptId(3);

fn gate() -> Gate {
    Gate::new(ATTEMPT, 1 << 20, vec![ChannelSite { id: HERE, input: 0 }])
}

fn plan() -> Plan {
    let (partitioning, codec) = (Partitioning::Forward, TypedCodec::<u64>::default());
    let edge = Edge { from: 0, to: 0, input: 0, partitioning, codec: std::sync::Arc::new(codec) };
    Plan { job: "gate".into(), vertices: vec![], edges: vec![edge], operators: vec![] }
}

fn packet(epoch: u64, payload: Payload) -> Packet {
    Packet { channel: HERE, attempt: ATTEMPT, epoch: CheckpointId(epoch), payload }
}

fn data(epoch: u64, records: &[u64], watermark: Option<i64>) -> Packet {
    let batch = (!records.is_empty()).then(|| Box::new(Batch::new(records.to_vec(), None)) as Box<dyn AnyBatch>);
    let watermark = watermark.map(|at| Watermark { at: Some(Timestamp(at)), idle: false });
    packet(epoch, Payload::Data { batch, bytes: records.len() * 8, watermark })
}

fn barrier(id: u64) -> Packet {
    let (id, mode, kind) = (CheckpointId(id), Mode::Unaligned, Kind::Checkpoint);
    let barrier = Barrier { id, attempt: ATTEMPT, mode, kind, base: None, triggered_at: 0 };
    packet(id.0 - 1, Payload::Barrier(barrier))
}

/// What a reader sees in a channel: records, watermarks as negative numbers, the end.
fn seen(packet: Packet) -> Vec<i64> {
    match packet.payload {
        Payload::Data { batch, watermark, .. } => {
            let mut all = batch.map(|mut batch| rest_of(&mut *batch)).unwrap_or_default();
            all.extend(watermark.and_then(|watermark| watermark.at).map(|at| -at.0));
            all
        }
        Payload::End => vec![i64::MAX],
        other => panic!("{other:?} is not captured"),
    }
}

fn rest_of(batch: &mut dyn AnyBatch) -> Vec<i64> {
    let batch = batch.as_any().downcast_mut::<Batch<u64>>().expect("numbers");
    std::iter::from_fn(|| batch.take()).map(|(number, _)| number as i64).collect()
}

/// Hands everything over, in portions.
fn written(gate: &mut Gate, id: u64, least: usize, bytes: &mut Vec<u8>) {
    while let Some((channel, more)) = gate.captured(CheckpointId(id), least).expect("numbers can be encoded") {
        assert_eq!(channel, HERE);
        bytes.extend(more);
    }
}

fn read(mut bytes: &[u8]) -> Vec<i64> {
    let (plan, mut all) = (plan(), Vec::new());
    while let Some((packet, rest)) = split_first(bytes) {
        all.extend(seen(codec::decode(packet, &plan, 1).expect("as it was written")));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
    all
}

/// Takes at most so many records of the head, as a chain does.
fn take(gate: &mut Gate, records: usize) -> Vec<i64> {
    let Some((_, element)) = gate.take(CHANNEL) else { return vec![] };
    match element {
        Element::Batch { mut batch, bytes, epoch, since } => {
            let numbers = batch.as_any().downcast_mut::<Batch<u64>>().expect("numbers");
            let taken = std::iter::from_fn(|| numbers.take()).take(records).map(|(number, _)| number as i64).collect();
            if !batch.is_empty() {
                gate.put_back(CHANNEL, Element::Batch { batch, bytes, epoch, since });
            }
            taken
        }
        Element::Watermark(watermark) => watermark.at.map(|at| -at.0).into_iter().collect(),
        Element::End => vec![i64::MAX],
        Element::Barrier(_) => vec![],
    }
}

#[test]
fn the_rest_of_a_half_consumed_batch_is_captured_once_though_it_is_taken_before_it_is_scanned() {
    let mut gate = gate();
    gate.deliver(data(0, &[1, 2, 3, 4, 5], Some(7)), NOW);
    assert_eq!(take(&mut gate, 2), [1, 2]);
    gate.start_capture(CHANNEL, CheckpointId(1));
    assert_eq!(take(&mut gate, 2), [3, 4]);
    assert_eq!(take(&mut gate, 2), [5]);
    gate.deliver(data(0, &[6], None), NOW);
    gate.deliver(packet(0, Payload::End), NOW);
    gate.deliver(barrier(1), NOW);
    gate.end_capture(CHANNEL, CheckpointId(1));
    gate.deliver(data(1, &[], Some(9)), NOW);
    let mut bytes = Vec::new();
    assert!(gate.take_captured(CheckpointId(1)).is_none(), "nothing is handed over yet");
    written(&mut gate, 1, 1, &mut bytes);
    assert_eq!(read(&bytes), [3, 4, 5, -7, 6, i64::MAX]);
    let captured = gate.take_captured(CheckpointId(1)).expect("all is handed over");
    // The window counts a batch in whole: its credit comes back in whole.
    let expected = Captured { records: 4, bytes: bytes.len() as u64, window: 48 };
    assert_eq!(captured, [expected]);
    assert_eq!(gate.buffered(), 0);
}

#[test]
fn a_newer_watermark_does_not_replace_one_that_is_written_down() {
    let mut gate = gate();
    gate.start_capture(CHANNEL, CheckpointId(1));
    gate.deliver(data(0, &[], Some(5)), NOW);
    gate.deliver(data(0, &[], Some(6)), NOW);
    let mut bytes = Vec::new();
    assert!(gate.captured(CheckpointId(1), 1).expect("numbers").is_some_and(|(_, more)| {
        bytes.extend(more);
        true
    }));
    gate.deliver(data(0, &[], Some(8)), NOW);
    gate.deliver(barrier(1), NOW);
    gate.end_capture(CHANNEL, CheckpointId(1));
    written(&mut gate, 1, 1, &mut bytes);
    assert_eq!(read(&bytes), [-6, -8]);
    assert_eq!([take(&mut gate, 1), take(&mut gate, 1)].concat(), [-6, -8]);
}

#[test]
fn what_is_restored_comes_first_and_an_end_that_was_in_flight_is_still_to_come() {
    let mut gate = gate();
    let captured = vec![data(0, &[1, 2], None), packet(0, Payload::End)];
    gate.restore(HERE, Watermark { at: Some(Timestamp(4)), idle: false }, true, captured);
    assert!(!gate.all_ended());
    assert_eq!(gate.watermark().at, Some(Timestamp(4)));
    assert_eq!(take(&mut gate, 9), [1, 2]);
    let mut gate = self::gate();
    gate.restore(HERE, Watermark::default(), true, vec![]);
    assert!(gate.all_ended(), "nothing was in flight, and the sender had finished");
}

#[test]
fn a_capture_that_was_dropped_holds_and_hands_over_nothing() {
    let mut gate = gate();
    gate.deliver(data(0, &[1], None), NOW);
    gate.start_capture(CHANNEL, CheckpointId(1));
    take(&mut gate, 1);
    assert!(gate.buffered() > 0);
    gate.drop_captures(CheckpointId(1));
    assert_eq!(gate.buffered(), 0);
    assert!(gate.captured(CheckpointId(1), 1).expect("numbers").is_none());
}

#[derive(Clone, Debug)]
enum Move {
    Send(usize),
    Watermark,
    Take(usize),
    Write(usize),
    Cut,
    Barrier,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (1..6usize).prop_map(Move::Send),
        1 => Just(Move::Watermark),
        4 => (1..8usize).prop_map(Move::Take),
        2 => (1..200usize).prop_map(Move::Write),
        1 => Just(Move::Cut),
        1 => Just(Move::Barrier),
    ];
    proptest::collection::vec(one, 1..80)
}

/// One channel, and beside it what must be captured: the records between the cut and the barrier. (Watermarks replace each other,
/// and are compared by the tests above.)
struct Model {
    gate: Gate,
    next: u64,
    /// Sent and not taken, before the barrier only.
    waiting: std::collections::VecDeque<i64>,
    id: u64,
    cut: bool,
    expected: Vec<i64>,
    bytes: Vec<u8>,
}

impl Model {
    fn enter(&mut self, number: i64) {
        self.waiting.push_back(number);
        if self.cut {
            self.expected.push(number);
        }
    }

    fn apply(&mut self, step: &Move) {
        match *step {
            Move::Send(count) => {
                let records: Vec<u64> = (self.next..self.next + count as u64).collect();
                self.next += count as u64;
                self.gate.deliver(data(self.id - 1, &records, None), NOW);
                records.iter().for_each(|&number| self.enter(number as i64));
            }
            Move::Watermark => drop(self.gate.deliver(data(self.id - 1, &[], Some(self.next as i64)), NOW)),
            Move::Take(most) => {
                let taken: Vec<i64> = take(&mut self.gate, most).into_iter().filter(|number| *number >= 0).collect();
                for number in taken {
                    assert_eq!(self.waiting.pop_front(), Some(number), "order");
                }
            }
            Move::Write(least) if self.cut => written(&mut self.gate, self.id, least, &mut self.bytes),
            Move::Cut if !self.cut => {
                self.cut = true;
                self.expected = self.waiting.iter().copied().collect();
                self.gate.start_capture(CHANNEL, CheckpointId(self.id));
            }
            Move::Barrier if self.cut => self.barrier(),
            Move::Write(_) | Move::Cut | Move::Barrier => {}
        }
    }

    fn barrier(&mut self) {
        self.gate.deliver(barrier(self.id), NOW);
        self.gate.end_capture(CHANNEL, CheckpointId(self.id));
        self.gate.deliver(data(self.id, &[1_000_000 + self.id], None), NOW);
        self.waiting.push_back(1_000_000 + self.id as i64);
        written(&mut self.gate, self.id, 1, &mut self.bytes);
        assert!(self.gate.take_captured(CheckpointId(self.id)).is_some());
        let captured: Vec<i64> = read(&std::mem::take(&mut self.bytes)).into_iter().filter(|n| *n >= 0).collect();
        assert_eq!(captured, std::mem::take(&mut self.expected));
        (self.cut, self.id) = (false, self.id + 1);
    }
}

proptest! {
    #[test]
    fn what_lies_between_cut_and_barrier_is_captured_whatever_is_taken_and_written_meanwhile(moves in moves()) {
        let mut model = Model {
            gate: gate(),
            next: 1,
            waiting: Default::default(),
            id: 1,
            cut: false,
            expected: vec![],
            bytes: vec![],
        };
        moves.iter().for_each(|step| model.apply(step));
        model.apply(&Move::Cut);
        model.barrier();
    }
}
