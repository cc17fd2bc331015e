//! Tests of stored state that its suite cannot ask for: stores that fail, logs that are trimmed, encodings.

use super::list::Lengths;
use super::{StoredBackend, StoredValue};
use crate::key::{KeySpace, hash_key};
use crate::segment::{Block, BlockEntry, BlockKind, Footer, SegmentAssembler, SegmentBuffer, StateHeader, StateName};
use crate::state::versioned::Cut;
use crate::state::{
    ListDeclaration, ListState, Progress, StateBackend, StateError, TimerDeclaration, TimerState, ValueDeclaration,
    ValueState,
};
use crate::testing::memory_store::{Fuse, MemoryStore};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Kind};

fn space() -> KeySpace {
    KeySpace::of_worker(7, 16, 1, 0)
}

fn name() -> StateName {
    StateName::new("operator", "state")
}

fn hash(key: u64) -> u64 {
    hash_key(7, &key).unwrap()
}

fn value_state() -> (StoredBackend, StoredValue<u64, u64>, MemoryStore, Fuse) {
    let store = MemoryStore::default();
    let fuse = store.fuse();
    let mut backend = StoredBackend::new(Box::new(store.clone()), space());
    let state = backend.value::<u64, u64>(ValueDeclaration { name: name() }).unwrap();
    backend.tables()[0].borrow_mut().start(None);
    (backend, state, store, fuse)
}

fn checkpoint(backend: &StoredBackend, id: u64, base: Option<u64>) -> Result<usize, StateError> {
    let (mut out, id) = (SegmentBuffer::default(), CheckpointId(id));
    let mut table = backend.tables()[0].borrow_mut();
    table.cut(id, base.map(CheckpointId), Kind::Checkpoint);
    while table.scan(id, 10, &mut out)? == Progress::More {}
    Ok(out.ship().iter().map(|block| block.entries as usize).sum())
}

#[test]
fn whatever_call_of_a_store_fails_is_an_error_and_no_later_checkpoint_passes() {
    for calls in 0.. {
        let (backend, mut state, _, fuse) = value_state();
        state.put(hash(1), 1, 1).unwrap();
        fuse.set(calls);
        let worked = (1..4).try_for_each(|key| state.update(hash(key), key, || 0, |sum| *sum += 1));
        let passed = worked.and_then(|()| checkpoint(&backend, 1, None));
        fuse.set(i64::MAX);
        let Err(error) = passed else {
            assert!(calls > 6, "the store was hardly used");
            return;
        };
        assert_eq!(error, StateError::Backend(name(), "the store is out of order".to_owned()));
    }
}

#[test]
fn user_code_sees_nothing_where_a_store_fails_and_the_failure_stays() {
    let (backend, mut state, _, fuse) = value_state();
    state.put(hash(1), 1, 10).unwrap();
    fuse.set(0);
    assert_eq!(state.peek(hash(1), &1, |value| value.copied()), None);
    assert_eq!(state.fold(hash(1), &1, || 5, |sum| (*sum += 1, *sum).1), 6);
    fuse.set(i64::MAX);
    // The store works again, and holds what it held; but nobody knows what user code made of the failure.
    assert_eq!(state.get(hash(1), &1), Ok(Some(10)));
    let failed = backend.failure().get().expect("it is kept");
    assert_eq!(checkpoint(&backend, 1, None), Err(failed));
}

#[test]
fn the_log_of_changes_is_cleared_once_its_checkpoints_are_completed() {
    let (backend, mut state, store, _) = value_state();
    for id in 1..50 {
        (0..20).for_each(|key| state.put(hash(key), key, id).unwrap());
        state.remove(hash(id % 20), &(id % 20)).unwrap();
        assert!(checkpoint(&backend, id, id.checked_sub(1).filter(|base| *base > 0)).is_ok());
        backend.tables()[0].borrow_mut().completed(CheckpointId(id));
    }
    let entries = backend.tables()[0].borrow().len();
    assert_eq!(entries, 19);
    assert_eq!(store.len(), entries, "changes of completed checkpoints are still logged");
}

#[test]
fn changes_that_no_checkpoint_takes_do_not_pile_up_without_end() {
    let (backend, mut state, store, _) = value_state();
    assert_eq!(checkpoint(&backend, 1, None), Ok(0));
    for id in 2..300 {
        (0..20).for_each(|key| state.put(hash(key), key, id).unwrap());
        let mut table = backend.tables()[0].borrow_mut();
        table.cut(CheckpointId(id), Some(CheckpointId(1)), Kind::Checkpoint);
        table.abort(CheckpointId(id));
    }
    assert!(checkpoint(&backend, 300, Some(1)).is_ok());
    assert!(store.len() < 20 * 200, "{} keys for 20 entries", store.len());
}

#[test]
fn an_increment_reads_its_changes_and_not_the_state() {
    let (backend, mut state, _, fuse) = value_state();
    (0..10_000).for_each(|key| state.put(hash(key), key, 0).unwrap());
    assert_eq!(checkpoint(&backend, 1, None), Ok(10_000));
    backend.tables()[0].borrow_mut().completed(CheckpointId(1));
    state.put(hash(3), 3, 1).unwrap();
    // Two areas of the log, the entry, and the log is cleared.
    fuse.set(8);
    assert_eq!(checkpoint(&backend, 2, Some(1)), Ok(1));
}

#[test]
fn asking_when_the_next_timer_is_due_reads_nothing_twice() {
    let store = MemoryStore::default();
    let fuse = store.fuse();
    let mut backend = StoredBackend::new(Box::new(store), space());
    let mut timers = backend.timers::<u64>(TimerDeclaration { name: name() }).unwrap();
    for (key, time) in [(1, 30), (2, -20), (3, 10)] {
        assert_eq!(timers.register(hash(key), key, time), Ok(true));
    }
    assert_eq!(timers.pop_due(0).unwrap().map(|due| due.key), Some(2));
    assert_eq!(timers.next_time(), Some(10));
    fuse.set(0);
    assert_eq!(timers.next_time(), Some(10));
    assert_eq!(backend.failure().get(), None);
}

#[test]
fn a_list_knows_how_long_it_was_at_each_cut() {
    let lengths = Lengths::decode(&[1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0]);
    let at = |base, epoch| Cut { base, epoch };
    assert_eq!(lengths.appended(at(None, 4)), 0..9);
    assert_eq!(lengths.appended(at(Some(1), 3)), 3..3);
    assert_eq!(lengths.held(at(Some(1), 3)), None);
    assert_eq!(lengths.held(at(Some(1), 5)), Some(4));
    assert_eq!(lengths.held(at(None, 2)), Some(1));
}

#[test]
fn an_append_reads_no_element_however_long_the_list_is() {
    let store = MemoryStore::default();
    let fuse = store.fuse();
    let mut backend = StoredBackend::new(Box::new(store), space());
    let mut list = backend.list::<u64, u64>(ListDeclaration { name: name(), split: false }).unwrap();
    backend.tables()[0].borrow_mut().start(None);
    for length in 0..1_000 {
        // How long the list is, and one write.
        fuse.set(2);
        list.append(hash(1), 1, length).expect("two calls of the store");
    }
    fuse.set(i64::MAX);
    assert_eq!(list.read(hash(1), &1, |items| items.len()), Ok(1_000));
}

/// The blocks of a checkpoint, as a restore reads them.
fn blocks(backend: &StoredBackend, id: u64, base: Option<u64>) -> Vec<Block> {
    let (mut out, id) = (SegmentBuffer::default(), CheckpointId(id));
    let mut table = backend.tables()[0].borrow_mut();
    let base = table.cut(id, base.map(CheckpointId), Kind::Checkpoint);
    while table.scan(id, 10, &mut out).unwrap() == Progress::More {}
    let (mut assembler, header) = SegmentAssembler::begin();
    let mut file = header.to_vec();
    out.ship().into_iter().for_each(|block| file.extend_from_slice(&assembler.block(block)));
    assembler.declare(StateHeader { declaration: table.declaration(), base, owned: 0..16 });
    file.extend_from_slice(&assembler.finish().unwrap().0);
    let footer = Footer::of(&file).unwrap();
    let section = footer.state("operator", "state").unwrap();
    let bytes = |entry: &BlockEntry| {
        let range = entry.piece.range();
        Bytes::copy_from_slice(&file[range.start as usize..range.end as usize])
    };
    section.blocks_of(0..16).map(|entry| entry.decode(bytes(entry)).unwrap()).collect()
}

#[test]
fn a_full_part_is_restored_without_reading_and_in_few_writes() {
    let (backend, mut state, ..) = value_state();
    (0..5_000).for_each(|key| state.put(hash(key), key, key).unwrap());
    let store = MemoryStore::default();
    let fuse = store.fuse();
    let mut restored = StoredBackend::new(Box::new(store.clone()), space());
    let again = restored.value::<u64, u64>(ValueDeclaration { name: name() }).unwrap();
    fuse.set(1);
    {
        let mut table = restored.tables()[0].borrow_mut();
        table.restoring(true);
        blocks(&backend, 1, None).iter().for_each(|block| table.restore(block, &(0..16)).unwrap());
        table.start(Some(CheckpointId(1)));
        assert_eq!(table.len(), 5_000);
    }
    fuse.set(i64::MAX);
    assert_eq!(restored.failure().get(), None);
    assert!((0..5_000).all(|key| again.get(hash(key), &key) == Ok(Some(key))));
}

#[test]
fn a_load_that_fails_at_the_end_of_a_restore_ends_the_attempt() {
    let (backend, mut state, ..) = value_state();
    state.put(hash(1), 1, 1).unwrap();
    let store = MemoryStore::default();
    let fuse = store.fuse();
    let mut restored = StoredBackend::new(Box::new(store), space());
    restored.value::<u64, u64>(ValueDeclaration { name: name() }).unwrap();
    let mut table = restored.tables()[0].borrow_mut();
    table.restoring(true);
    blocks(&backend, 1, None).iter().for_each(|block| table.restore(block, &(0..16)).unwrap());
    fuse.set(0);
    table.start(Some(CheckpointId(1)));
    assert!(restored.failure().get().is_some(), "entries were lost and nobody was told");
}

/// The removal of what has expired is a write like others: no scan misses it and no increment is without it.
#[test]
fn a_sweep_takes_nothing_from_an_open_scan_and_an_increment_names_what_it_removed() {
    let (backend, mut state, ..) = value_state();
    (0..3_000).for_each(|key| state.put(hash(key), key, key % 3).unwrap());
    let full = blocks(&backend, 1, None);
    let mut out = SegmentBuffer::default();
    backend.tables()[0].borrow_mut().cut(CheckpointId(2), None, Kind::Checkpoint);
    (0..20).for_each(|_| state.sweep(1_024, |value| *value == 0));
    assert_eq!(backend.tables()[0].borrow().len(), 2_000, "the sweep came to everything");
    while backend.tables()[0].borrow_mut().scan(CheckpointId(2), 10, &mut out).unwrap() == Progress::More {}
    let held: usize = out.ship().iter().map(|block| block.entries as usize).sum();
    assert_eq!(held, 3_000, "what was there at the cut");
    let increment = blocks(&backend, 3, Some(1));
    assert!(increment.iter().all(|block| block.kind == BlockKind::Deletes), "nothing was written");
    let mut restored = StoredBackend::new(Box::new(MemoryStore::default()), space());
    restored.value::<u64, u64>(ValueDeclaration { name: name() }).unwrap();
    let mut table = restored.tables()[0].borrow_mut();
    for (part, of_part) in [(true, &full), (false, &increment)] {
        table.restoring(part);
        of_part.iter().for_each(|block| table.restore(block, &(0..16)).unwrap());
    }
    assert_eq!(table.len(), 2_000, "the removed came back");
}

/// A disk that is full for a moment: the checkpoint fails, and nothing that it had begun to write out is missing later.
#[test]
fn a_scan_that_fails_at_any_call_loses_nothing_of_the_next_checkpoint() {
    for (memory, calls) in
        [0, 300, 2_000, 1 << 20].into_iter().flat_map(|memory| (0..40).map(move |calls| (memory, calls)))
    {
        let store = MemoryStore::below(memory);
        let fuse = store.fuse();
        let mut backend = StoredBackend::new(Box::new(store), space());
        let mut state = backend.value::<u64, u64>(ValueDeclaration { name: name() }).unwrap();
        backend.tables()[0].borrow_mut().start(None);
        (0..100).for_each(|key| state.put(hash(key), key, key).unwrap());
        fuse.set(calls);
        let failed = checkpoint(&backend, 1, None);
        fuse.set(i64::MAX);
        let entries = checkpoint(&backend, 2, None).expect("the store works again");
        assert_eq!(entries, 100, "memory {memory}, {calls} calls, then {failed:?}");
        for key in 0..100 {
            assert_eq!(
                state.read(hash(key), &key, |value| value.copied()),
                Ok(Some(key)),
                "memory {memory}, {calls} calls"
            );
        }
    }
}
