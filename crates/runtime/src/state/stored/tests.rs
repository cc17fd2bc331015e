//! Tests of stored state that its suite cannot ask for: stores that fail, logs that are trimmed, encodings.

use super::list::Lengths;
use super::{StoredBackend, StoredValue};
use crate::key::{KeySpace, hash_key};
use crate::segment::{SegmentBuffer, StateName};
use crate::state::store::{Change, Space, Store, StoreError};
use crate::state::versioned::Cut;
use crate::state::{Progress, StateBackend, StateError, TimerDeclaration, TimerState, ValueDeclaration, ValueState};
use crate::testing::memory_store::{Fuse, MemoryStore};
use flott_checkpoint::{CheckpointId, Kind};
use std::rc::Rc;

fn space() -> KeySpace {
    KeySpace::of_worker(7, 16, 1, 0)
}

fn name() -> StateName {
    StateName::new("operator", "state")
}

fn hash(key: u64) -> u64 {
    hash_key(7, &key).unwrap()
}

/// A store that its test can still look at.
struct Shared(Rc<MemoryStore>);

impl Store for Shared {
    fn create(&self, name: &StateName) -> Result<Space, StoreError> {
        self.0.create(name)
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(space, key)
    }

    fn write(&self, space: Space, changes: Vec<Change>) -> Result<(), StoreError> {
        self.0.write(space, changes)
    }

    fn remove_range(&self, space: Space, from: &[u8], until: &[u8]) -> Result<(), StoreError> {
        self.0.remove_range(space, from, until)
    }

    fn visit(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.0.visit(space, from, until, look)
    }
}

fn value_state() -> (StoredBackend, StoredValue<u64, u64>, Rc<MemoryStore>, Fuse) {
    let store = Rc::new(MemoryStore::default());
    let fuse = store.fuse();
    let mut backend = StoredBackend::new(Box::new(Shared(Rc::clone(&store))), space());
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
