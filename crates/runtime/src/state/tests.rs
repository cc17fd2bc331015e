//! What only the heap promises, and what a restore does with blocks that nobody wrote.

use super::*;
use crate::key::{KeySpace, Shape, hash_key};
use crate::segment::{BlockEntry, BlockKind, Compression, EncodedBlock, Piece};
use proptest::prelude::*;
use serde::Deserialize;
use std::sync::Arc;

const SEED: u64 = 3;

fn space() -> KeySpace {
    KeySpace::of_worker(SEED, 8, 1, 0)
}

fn named(state: &str) -> StateName {
    StateName::new("operator", state)
}

fn hash<K: Key>(key: &K) -> u64 {
    hash_key(SEED, key).expect("a key")
}

fn value<K: Key, V: Value>() -> (HeapBackend, HeapValue<K, V>) {
    let mut backend = HeapBackend::new(space());
    let state = backend.value(ValueDeclaration { name: named("state") }).expect("a new name");
    (backend, state)
}

/// A block of one run.
fn block(kind: BlockKind, group: u16, entries: &[u8]) -> Block {
    let mut raw = group.to_le_bytes().to_vec();
    raw.extend((entries.len() as u32).to_le_bytes());
    raw.extend(entries);
    decoded(kind, raw)
}

fn decoded(kind: BlockKind, raw: Vec<u8>) -> Block {
    let (length, checksum) = (raw.len() as u32, xxhash_rust::xxh3::xxh3_64(&raw));
    let piece = Piece { offset: 16, length, raw_length: length, compression: Compression::Raw, checksum };
    BlockEntry { piece, kind, groups: 0..8, entries: 1 }.decode(raw.into()).expect("undamaged")
}

fn entry<K: Key, V: Serialize>(key: &K, value: &V) -> Block {
    let mut bytes = rmp_serde::to_vec_named(key).expect("a key");
    bytes.extend(rmp_serde::to_vec_named(value).expect("a value"));
    block(BlockKind::Puts, space().group(hash(key)).0, &bytes)
}

fn restore(backend: &HeapBackend, block: &Block) -> Result<(), StateError> {
    backend.tables()[0].borrow_mut().restore(block, &(0..8))
}

fn drain(table: &SharedTable, id: u64) -> SegmentBuffer {
    let mut out = SegmentBuffer::default();
    while table.borrow_mut().scan(CheckpointId(id), 100, &mut out).expect("serializable") == Progress::More {}
    out
}

#[test]
fn clones_of_a_handle_share_one_table() {
    let (_backend, state) = value::<String, u64>();
    let key = "k".to_owned();
    state.clone().put(hash(&key), key.clone(), 4).expect("the heap");
    assert_eq!(state.get(hash(&key), &key), Ok(Some(4)));
}

#[test]
fn fields_can_be_added_and_removed_between_two_runs() {
    #[derive(Serialize)]
    struct Old {
        count: u64,
        dropped: Vec<u8>,
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct New {
        #[serde(default)]
        added: Option<String>,
        count: u64,
    }
    let (backend, state) = value::<u64, New>();
    restore(&backend, &entry(&7u64, &Old { count: 3, dropped: vec![1, 2] })).expect("compatible");
    assert_eq!(state.get(hash(&7u64), &7), Ok(Some(New { added: None, count: 3 })));
}

#[test]
fn a_value_that_lost_its_type_is_an_error_that_names_the_state_and_the_way_out() {
    let (backend, _state) = value::<u64, u64>();
    let error = restore(&backend, &entry(&7u64, &"text")).expect_err("another type").to_string();
    assert!(error.contains("operator/state") && error.contains("serde(default)"), "{error}");
}

#[test]
fn a_deletion_in_a_restore_is_not_logged_for_the_next_increment() {
    let (backend, _state) = value::<u64, u64>();
    let table = &backend.tables()[0];
    for key in 0..20u64 {
        restore(&backend, &entry(&key, &1u64)).expect("of this state");
    }
    let gone = rmp_serde::to_vec_named(&7u64).expect("a key");
    restore(&backend, &block(BlockKind::Deletes, space().group(hash(&7u64)).0, &gone)).expect("of this state");
    table.borrow_mut().start(Some(CheckpointId(4)));
    assert_eq!(table.borrow().len(), 19);
    let base = table.borrow_mut().cut(CheckpointId(5), Some(CheckpointId(4)), Kind::Checkpoint);
    assert_eq!(base, Some(CheckpointId(4)));
    assert!(drain(table, 5).is_empty());
}

#[test]
fn shapes_of_keys_and_values_are_known_once_a_snapshot_was_scanned() {
    let (backend, mut state) = value::<(String, u32), Option<f64>>();
    let table = &backend.tables()[0];
    table.borrow_mut().start(None);
    assert_eq!(table.borrow().declaration().key_shape, Shape::Unknown);
    let key = ("a".to_owned(), 1);
    state.put(hash(&key), key, None).expect("the heap");
    table.borrow_mut().cut(CheckpointId(1), None, Kind::Checkpoint);
    drain(table, 1);
    let declaration = table.borrow().declaration();
    assert_eq!(declaration.key_shape.to_string(), "(string,u32)");
    assert_eq!(declaration.value_shape.to_string(), "option<?>");
    assert_eq!(declaration.name, Arc::new(named("state")));
}

#[test]
fn the_queue_of_timers_does_not_grow_with_timers_that_were_deleted() {
    let mut backend = HeapBackend::new(space());
    let mut timers = backend.timers::<u64>(TimerDeclaration { name: named("timers") }).expect("a new name");
    let table = Rc::clone(&backend.tables()[0]);
    table.borrow_mut().start(None);
    for time in 0..100_000 {
        timers.register(hash(&1u64), 1, time).expect("the heap");
        if time > 0 {
            timers.delete(hash(&1u64), &1, time - 1).expect("the heap");
        }
    }
    assert_eq!(table.borrow().len(), 1);
    let memory = table.borrow().memory();
    assert!(memory < 32 * 1024, "{memory} bytes for one timer");
    assert_eq!(timers.pop_due(i64::MAX).map(|due| due.map(|due| due.time)), Ok(Some(99_999)));
    assert_eq!(timers.pop_due(i64::MAX), Ok(None));
}

#[test]
fn a_list_with_a_hole_is_an_error_that_names_the_state() {
    let mut backend = HeapBackend::new(space());
    let state: HeapList<u64, u64> =
        backend.list(ListDeclaration { name: named("list"), split: false }).expect("a new name");
    let put = |position: u64| {
        let mut bytes = rmp_serde::to_vec_named(&7u64).expect("a key");
        bytes.extend(rmp_serde::to_vec_named(&position).expect("a position"));
        bytes.extend(rmp_serde::to_vec_named(&(position * 10)).expect("an element"));
        restore(&backend, &block(BlockKind::Puts, space().group(hash(&7u64)).0, &bytes))
    };
    // The same again is what a scan that began anew writes.
    for position in [0, 1, 0, 1, 2] {
        put(position).expect("in order");
    }
    let error = put(4).expect_err("a hole");
    assert!(matches!(error, StateError::Damaged(..)), "no matter of types, so an older checkpoint can help: {error:?}");
    let error = error.to_string();
    assert!(error.contains("operator/list") && error.contains("element 4 of a list of 3"), "{error}");
    assert_eq!(state.read(hash(&7u64), &7, <[u64]>::to_vec), Ok(vec![0, 10, 20]));
}

/// What a restore finds in the segment of one cut.
fn restored(mut out: SegmentBuffer) -> (HeapBackend, HeapValue<u64, u64>) {
    let (backend, state) = value();
    for block in out.ship() {
        let EncodedBlock { kind, compression, raw_length, entries, groups, checksum, bytes, .. } = block;
        let piece = Piece { offset: 16, length: bytes.len() as u32, raw_length, compression, checksum };
        let block = BlockEntry { piece, kind, groups, entries }.decode(bytes).expect("undamaged");
        restore(&backend, &block).expect("of this state");
    }
    (backend, state)
}

/// More old values than may wait for a scan, for three cuts at once, one of which is aborted.
#[test]
fn what_is_all_written_again_right_after_each_cut_is_in_each_segment_as_it_was() {
    const KEYS: u64 = 300_000;
    let (backend, mut state) = value::<u64, u64>();
    let table = &backend.tables()[0];
    table.borrow_mut().start(None);
    let hashes: Vec<u64> = (0..KEYS).map(|key| hash(&key)).collect();
    let mut write = |value: u64| {
        (0..KEYS).zip(&hashes).for_each(|(key, hash)| state.put(*hash, key, value + key).expect("the heap"));
    };
    write(0);
    for id in 1..=3 {
        table.borrow_mut().cut(CheckpointId(id), None, Kind::Checkpoint);
        write(id);
    }
    let waiting = table.borrow().buffered();
    assert!(waiting > 3 * (4 << 20), "old values wait for no scan, or are not counted: {waiting} bytes");
    table.borrow_mut().abort(CheckpointId(2));
    assert!(table.borrow().buffered() <= waiting - (4 << 20), "the old values of an aborted cut are kept");
    for id in [3, 1] {
        let (stored, state) = restored(drain(table, id));
        assert_eq!(stored.tables()[0].borrow().len() as u64, KEYS);
        for (key, hash) in (0..KEYS).zip(&hashes) {
            assert_eq!(state.get(*hash, &key), Ok(Some(id - 1 + key)));
        }
    }
    assert_eq!(table.borrow().buffered(), 0);
}

#[test]
fn swept_values_are_deletes_of_the_next_increment_and_still_in_an_open_cut() {
    let (backend, mut state) = value::<u64, u64>();
    let table = &backend.tables()[0];
    table.borrow_mut().start(None);
    (0..100u64).for_each(|key| state.put(hash(&key), key, key % 4).expect("the heap"));
    table.borrow_mut().cut(CheckpointId(1), None, Kind::Checkpoint);
    let mut cursor = SweepCursor::default();
    (0..200).for_each(|_| state.sweep(&mut cursor, 16, |value| *value == 0));
    assert_eq!(table.borrow().len(), 75);
    let count = |blocks: Vec<EncodedBlock>, kind| {
        blocks.iter().filter(|block| block.kind == kind).map(|block| block.entries).sum::<u32>()
    };
    assert_eq!(count(drain(table, 1).ship(), BlockKind::Puts), 100, "swept before it was scanned");
    let base = table.borrow_mut().cut(CheckpointId(2), Some(CheckpointId(1)), Kind::Checkpoint);
    assert_eq!(base, Some(CheckpointId(1)));
    assert_eq!(count(drain(table, 2).ship(), BlockKind::Deletes), 25);
}

#[test]
fn memory_grows_with_the_table() {
    let (backend, mut state) = value::<u64, u64>();
    let before = backend.tables()[0].borrow().memory();
    (0..10_000u64).for_each(|key| state.put(hash(&key), key, key).expect("the heap"));
    let after = backend.tables()[0].borrow().memory();
    assert!(after - before >= 10_000 * 24 && after < 10_000 * 100, "{before} {after}");
}

/// Keys whose equality ignores what their serialization shows would lie in two places.
#[test]
#[should_panic(expected = "serialize alike")]
#[cfg(debug_assertions)]
fn keys_that_serialize_alike_and_are_not_equal_are_found_in_debug_builds() {
    #[derive(Clone, Serialize, Deserialize)]
    struct Never(u8);
    impl PartialEq for Never {
        fn eq(&self, _: &Self) -> bool {
            false
        }
    }
    impl Eq for Never {}
    let (_backend, mut state) = value::<Never, u64>();
    state.put(hash(&Never(1)), Never(1), 1).expect("the heap");
    state.put(hash(&Never(1)), Never(1), 2).expect("the heap");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_a_block_restore_or_are_an_error(raw: Vec<u8>, entries: Vec<u8>, group in 0..10u16, deletes: bool) {
        let kind = if deletes { BlockKind::Deletes } else { BlockKind::Puts };
        let blocks = [decoded(kind, raw), block(kind, group, &entries)];
        let (numbers, _state) = value::<u64, Vec<u64>>();
        let (texts, _state) = value::<(String, Option<u8>), serde_json::Value>();
        let (units, _state) = value::<(), ()>();
        let mut timers = HeapBackend::new(space());
        timers.timers::<String>(TimerDeclaration { name: named("timers") }).expect("a new name");
        let (mut maps, mut lists) = (HeapBackend::new(space()), HeapBackend::new(space()));
        maps.map::<u8, String, Option<u8>>(MapDeclaration { name: named("map"), copies: false }).expect("a new name");
        lists.list::<u8, u8>(ListDeclaration { name: named("list"), split: false }).expect("a new name");
        for block in &blocks {
            for backend in [&numbers, &texts, &units, &timers, &maps, &lists] {
                drop(restore(backend, block));
            }
        }
    }

    #[test]
    fn a_damaged_entry_restores_or_is_an_error(at: prop::sample::Index, byte: u8, count in 1..4u64) {
        let mut bytes = Vec::new();
        for key in 0..count {
            bytes.extend(rmp_serde::to_vec_named(&key).unwrap());
            bytes.extend(rmp_serde::to_vec_named(&serde_json::json!({"a": [1, "x", null], "b": {"c": 1.5}})).unwrap());
        }
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let (backend, _state) = value::<u64, serde_json::Value>();
        (0..8).for_each(|group| drop(restore(&backend, &block(BlockKind::Puts, group, &bytes))));
    }
}

#[test]
fn a_length_that_is_a_lie_allocates_nothing() {
    // A string of 4 GiB, an array of 4 G elements, and bytes of 4 GiB, each with a few bytes behind.
    for lie in [[0xdb, 255, 255, 255, 255, 1], [0xdd, 255, 255, 255, 255, 1], [0xc6, 255, 255, 255, 255, 1]] {
        let group = space().group(hash(&1u64)).0;
        let (backend, _state) = value::<u64, serde_json::Value>();
        let bytes = [&[1u8][..], &lie].concat();
        assert!(restore(&backend, &block(BlockKind::Puts, group, &bytes)).is_err());
        let (backend, _state) = value::<u64, Vec<u64>>();
        assert!(restore(&backend, &block(BlockKind::Puts, group, &bytes)).is_err());
    }
}
