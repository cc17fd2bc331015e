//! The packet codec: what was written is read back, and nothing else is ever taken for a packet without an error or harm.

use super::{decode, encode};
use crate::operator::Chain;
use crate::packet::{ChannelId, Packet, Payload};
use crate::plan::{Edge, Partitioning, Plan, Vertex};
use crate::record::{AnyBatch, Batch, TypedCodec};
use crate::time::{Timestamp, Watermark};
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode};
use proptest::prelude::*;
use std::sync::Arc;

const WORKERS: u16 = 3;

type Row = (u64, String);

fn plan() -> Plan {
    let vertex = |inputs: &[u16], outputs: &[u16]| Vertex {
        name: "vertex".into(),
        is_source: inputs.is_empty(),
        inputs: inputs.into(),
        outputs: outputs.into(),
        build: Arc::new(|_| -> crate::Result<Box<dyn Chain>> { Err(crate::Error::failed("never built")) }),
    };
    let edge = |input, partitioning| Edge {
        from: 0,
        to: 1,
        input,
        partitioning,
        codec: Arc::new(TypedCodec::<Row>::default()),
    };
    Plan {
        job: "job".into(),
        vertices: vec![vertex(&[], &[0, 1]), vertex(&[0, 1], &[])],
        edges: vec![edge(0, Partitioning::Hash), edge(1, Partitioning::Forward)],
        operators: vec![],
    }
}

/// A packet with its records beside it, since a batch shows only its length.
fn packets() -> impl Strategy<Value = (Packet, Vec<Row>, Option<Vec<i64>>)> {
    let channel = prop_oneof![
        (0..WORKERS, 0..WORKERS).prop_map(|(from, to)| ChannelId { edge: 0, from, to }),
        (0..WORKERS).prop_map(|both| ChannelId { edge: 1, from: both, to: both }),
    ];
    let watermark = proptest::option::of((proptest::option::of(any::<i64>()), any::<bool>()))
        .prop_map(|found| found.map(|(at, idle)| Watermark { at: at.map(Timestamp), idle }));
    let rows = proptest::collection::vec((any::<u64>(), ".{0,5}"), 0..20);
    let data =
        (proptest::option::of((rows, any::<bool>())), any::<u32>(), watermark).prop_map(|(rows, bytes, mark)| {
            let has_batch = rows.is_some();
            let (rows, has_times) = rows.unwrap_or_default();
            let times = has_times.then(|| (0..rows.len() as i64).collect::<Vec<_>>());
            let column = times.clone().map(|times| times.into_iter().map(Timestamp).collect());
            let batch = has_batch.then(|| Box::new(Batch::new(rows.clone(), column)) as Box<dyn AnyBatch>);
            (Payload::Data { batch, bytes: bytes as usize, watermark: mark }, rows, times)
        });
    let barrier =
        (any::<u64>(), 0..5_usize, 0..3_usize, proptest::option::of(1..u64::MAX)).prop_map(|(id, mode, kind, base)| {
            let kind = [Kind::Checkpoint, Kind::Savepoint, Kind::Final][kind];
            let (id, base) = (CheckpointId(id), base.map(CheckpointId));
            let barrier = Barrier { id, attempt: AttemptId(7), mode: Mode::ALL[mode], kind, base, triggered_at: 99 };
            (Payload::Barrier(barrier), vec![], None)
        });
    let payload = prop_oneof![
        4 => data,
        1 => barrier,
        1 => Just(()).prop_map(|()| (Payload::End, vec![], None)),
        1 => any::<u32>().prop_map(|bytes| (Payload::Credit { bytes: bytes as usize }, vec![], None)),
    ];
    (channel, any::<u64>(), any::<u64>(), payload).prop_map(|(channel, attempt, epoch, (payload, rows, times))| {
        (Packet { channel, attempt: AttemptId(attempt), epoch: CheckpointId(epoch), payload }, rows, times)
    })
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(packet, &mut bytes).expect("rows can be encoded");
    bytes
}

fn content(packet: &mut Packet) -> Option<Vec<(Row, Option<Timestamp>)>> {
    let Payload::Data { batch: Some(batch), .. } = &mut packet.payload else { return None };
    let batch = batch.as_any().downcast_mut::<Batch<Row>>().expect("the edge carries rows");
    Some(std::iter::from_fn(|| batch.take()).collect())
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded((mut packet, rows, times) in packets()) {
        let mut read = decode(&bytes_of(&packet), &plan(), WORKERS).expect("a whole packet");
        prop_assert_eq!(format!("{packet:?}"), format!("{read:?}"));
        let expected = rows.into_iter().enumerate();
        let expected: Vec<_> =
            expected.map(|(index, row)| (row, times.as_ref().map(|times| Timestamp(times[index])))).collect();
        let has_batch = content(&mut packet).is_some();
        prop_assert_eq!(content(&mut read), has_batch.then_some(expected));
    }

    #[test]
    fn a_packet_cut_short_is_refused((packet, _, _) in packets(), cut in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&packet);
        prop_assert!(decode(&bytes[..cut.index(bytes.len())], &plan(), WORKERS).is_err());
    }

    #[test]
    fn flipped_bits_never_panic((packet, _, _) in packets(), flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8), 1..5)) {
        let mut bytes = bytes_of(&packet);
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1_u8 << bit;
        }
        let _ = decode(&bytes, &plan(), WORKERS);
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, &plan(), WORKERS);
    }
}

fn end() -> Packet {
    let channel = ChannelId { edge: 0, from: 1, to: 2 };
    Packet { channel, attempt: AttemptId(1), epoch: CheckpointId(0), payload: Payload::End }
}

#[test]
fn a_packet_of_a_channel_that_the_plan_does_not_have_is_refused() {
    for channel in [
        ChannelId { edge: 2, from: 0, to: 0 },
        ChannelId { edge: 0, from: WORKERS, to: 0 },
        ChannelId { edge: 0, from: 0, to: WORKERS },
        ChannelId { edge: 1, from: 0, to: 1 },
        ChannelId { edge: 1, from: u16::MAX, to: u16::MAX },
    ] {
        let bytes = bytes_of(&Packet { channel, ..end() });
        assert!(decode(&bytes, &plan(), WORKERS).is_err(), "{channel:?}");
    }
}

#[test]
fn another_version_is_told() {
    let mut bytes = bytes_of(&end());
    bytes[0] = 9;
    let error = decode(&bytes, &plan(), WORKERS).expect_err("another version").to_string();
    assert!(error.contains("its version is 9"), "{error}");
}

#[test]
fn bytes_after_the_end_are_refused() {
    let mut bytes = bytes_of(&end());
    bytes.push(0);
    assert!(decode(&bytes, &plan(), WORKERS).is_err());
}

#[test]
fn a_length_that_the_bytes_do_not_hold_allocates_nothing() {
    // A batch of 2^32 - 1 records, a string of 2^32 - 1 bytes: both are refused at once.
    let mut head = bytes_of(&Packet {
        payload: Payload::Data { batch: Some(Box::new(Batch::<Row>::new(vec![], None))), bytes: 0, watermark: None },
        ..end()
    });
    head.truncate(head.len() - 3);
    for claim in [&[0x92, 0xdd, 0xff, 0xff, 0xff, 0xff][..], &[0x92, 0x91, 0x92, 1, 0xdb, 0xff, 0xff, 0xff, 0xff][..]] {
        let bytes = [&head[..], claim].concat();
        assert!(decode(&bytes, &plan(), WORKERS).is_err());
    }
}
