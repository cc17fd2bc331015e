//! One promise per function. They panic with the promise that is broken, as tests do.

use super::{Snapshot, footer, restore, start};
use crate::key::{KeySpace, hash_key};
use crate::segment::{BlockKind, Footer, StateSection};
use crate::state::{
    DueTimer, ListDeclaration, ListState, MapDeclaration, MapState, StateBackend, StateError, StateName,
    TimerDeclaration, TimerState, ValueDeclaration, ValueState,
};
use flott_checkpoint::{CheckpointId, Kind};
use serde::{Deserialize, Serialize};

const SEED: u64 = 42;

fn space() -> KeySpace {
    KeySpace::of_worker(SEED, 16, 1, 0)
}

fn value(state: &str) -> ValueDeclaration {
    ValueDeclaration { name: StateName::new("operator", state) }
}

fn timers(state: &str) -> TimerDeclaration {
    TimerDeclaration { name: StateName::new("operator", state) }
}

fn hash<K: crate::key::Key>(key: &K) -> u64 {
    hash_key(SEED, key).expect("a key")
}

fn add<S: ValueState<u64, u64>>(state: &mut S, key: u64, by: u64) {
    state.update(hash(&key), key, || 0, |sum| *sum += by).expect("a working backend");
}

fn section(segment: &[u8], state: &str) -> StateSection {
    footer(segment).state("operator", state).expect("each declared state has a section").clone()
}

fn entries(section: &StateSection, kind: BlockKind) -> u32 {
    section.blocks.iter().filter(|block| block.kind == kind).map(|block| block.entries).sum()
}

/// Two states of one subtask cannot have one name, whatever their kinds.
pub fn names_are_unique<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    backend.value::<u64, u64>(value("a")).expect("a new name");
    backend.value::<u64, u64>(value("b")).expect("a new name");
    let taken = StateError::Duplicate(StateName::new("operator", "a"));
    assert_eq!(backend.value::<u64, u64>(value("a")).err(), Some(taken.clone()));
    assert_eq!(backend.timers::<u64>(timers("a")).err(), Some(taken));
    assert_eq!(backend.tables().len(), 2);
}

/// Put, update, read and remove do what they say.
pub fn values_keep_what_was_put<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<String, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    let key = "key".to_owned();
    let hash = hash(&key);
    assert_eq!(state.get(hash, &key), Ok(None));
    assert_eq!(state.update(hash, key.clone(), || 5, |sum| (*sum += 1, *sum).1), Ok(6));
    assert_eq!(state.get(hash, &key), Ok(Some(6)));
    state.put(hash, key.clone(), 9).expect("a working backend");
    assert_eq!(state.read(hash, &key, |value| value.copied()), Ok(Some(9)));
    let table = backend.tables().first().expect("one state");
    assert_eq!(table.borrow().len(), 1);
    assert_eq!(state.remove(hash, &key), Ok(Some(9)));
    assert_eq!(state.remove(hash, &key), Ok(None));
    assert!(table.borrow().is_empty());
}

/// A timer fires once, not before its time, and not after it was deleted.
pub fn timers_fire_once_in_order<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.timers::<u64>(timers("timers")).expect("a new name");
    start(&backend, None);
    for (key, time) in [(1, 30), (2, 10), (3, 20), (1, 10)] {
        assert_eq!(state.register(hash(&key), key, time), Ok(true));
        assert_eq!(state.register(hash(&key), key, time), Ok(false), "registered twice");
    }
    assert_eq!(state.next_time(), Some(10));
    assert_eq!(state.delete(hash(&3u64), &3, 20), Ok(true));
    assert_eq!(state.delete(hash(&3u64), &3, 20), Ok(false));
    assert_eq!(state.pop_due(9), Ok(None));
    let mut fired = Vec::new();
    while let Some(DueTimer { time, hash: shipped, key }) = state.pop_due(29).expect("a working backend") {
        assert_eq!(shipped, hash(&key));
        fired.push((time, key));
    }
    fired.sort_unstable();
    assert_eq!(fired, [(10, 1), (10, 2)]);
    assert_eq!(state.next_time(), Some(30));
    // A timer that was deleted and registered again fires once.
    assert_eq!(state.delete(hash(&1u64), &1, 30), Ok(true));
    assert_eq!(state.register(hash(&1u64), 1, 30), Ok(true));
    assert_eq!(state.pop_due(i64::MAX).map(|due| due.map(|due| due.key)), Ok(Some(1)));
    assert_eq!(state.pop_due(i64::MAX), Ok(None));
    assert_eq!(state.next_time(), None);
}

/// Timers of one time fire in the order of their hashes, before and after a restore, however they were registered.
pub fn equal_times_fire_in_the_order_of_hashes<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let fill = |keys: &mut dyn Iterator<Item = u64>| {
        let mut backend = make(space());
        let mut state = backend.timers::<u64>(timers("timers")).expect("a new name");
        start(&backend, None);
        keys.for_each(|key| drop(state.register(hash(&key), key, -5)));
        (backend, state)
    };
    let drain = |mut state: B::Timers<u64>| {
        std::iter::from_fn(move || state.pop_due(0).expect("a working backend").map(|due| due.key)).collect::<Vec<_>>()
    };
    let (backend, up) = fill(&mut (0..100));
    let (_, down) = fill(&mut (0..100).rev());
    let file = Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    let mut restored = make(space());
    let state = restored.timers::<u64>(timers("timers")).expect("a new name");
    restore(&restored, &[vec![file]], &space().owned).expect("the same types");
    start(&restored, Some(1));
    let mut expected: Vec<u64> = (0..100).collect();
    expected.sort_unstable_by_key(hash);
    assert_eq!(drain(up), expected);
    assert_eq!(drain(down), expected);
    assert_eq!(drain(state), expected);
}

/// A savepoint is full whatever base it is offered, and the next checkpoint cannot build on it but on the one before.
pub fn savepoints_are_full_and_no_base<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    (0..100).for_each(|key| add(&mut state, key, 1));
    Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    backend.tables().iter().for_each(|table| table.borrow_mut().completed(CheckpointId(1)));
    state.remove(hash(&7u64), &7).expect("a working backend");
    let savepoint = Snapshot::take(&backend, (2, Some(1)), Kind::Savepoint, &space().owned);
    assert_eq!(section(&savepoint, "sum").base, None);
    assert_eq!(entries(&section(&savepoint, "sum"), BlockKind::Puts), 99);
    backend.tables().iter().for_each(|table| table.borrow_mut().completed(CheckpointId(2)));
    let on_savepoint = Snapshot::take(&backend, (3, Some(2)), Kind::Checkpoint, &space().owned);
    assert_eq!(section(&on_savepoint, "sum").base, None, "a savepoint was a base");
    let next = section(&Snapshot::take(&backend, (4, Some(1)), Kind::Checkpoint, &space().owned), "sum");
    assert_eq!(next.base, Some(CheckpointId(1)), "a savepoint made its predecessor unusable");
    assert_eq!((entries(&next, BlockKind::Puts), entries(&next, BlockKind::Deletes)), (0, 1));
}

/// A base that this backend never cut, or aborted, makes its part full.
pub fn unknown_bases_make_a_full_part<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, Some(3));
    (0..100).for_each(|key| add(&mut state, key, 1));
    let file = Snapshot::take(&backend, (4, Some(2)), Kind::Checkpoint, &space().owned);
    assert_eq!(section(&file, "sum").base, None);
    let file = Snapshot::take(&backend, (5, Some(3)), Kind::Checkpoint, &space().owned);
    assert_eq!(section(&file, "sum").base, Some(CheckpointId(3)), "the restored checkpoint is a base");
    backend.tables().iter().for_each(|table| table.borrow_mut().abort(CheckpointId(5)));
    let file = Snapshot::take(&backend, (6, Some(5)), Kind::Checkpoint, &space().owned);
    assert_eq!(section(&file, "sum").base, None, "an aborted checkpoint was a base");
}

/// Nothing changed, nothing written: the section is there and has no block.
pub fn idle_state_writes_nothing<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    let mut later = backend.timers::<u64>(timers("timers")).expect("a new name");
    start(&backend, None);
    (0..1000).for_each(|key| add(&mut state, key, 1));
    later.register(hash(&1u64), 1, 1).expect("a working backend");
    Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    assert_eq!(state.get(hash(&1u64), &1), Ok(Some(1)));
    let second = footer(&Snapshot::take(&backend, (2, Some(1)), Kind::Checkpoint, &space().owned));
    assert_eq!(second.states.len(), 2);
    assert!(second.states.iter().all(|state| state.blocks.is_empty() && state.base == Some(CheckpointId(1))));
}

/// What is removed or changed between the cut and its scan is in the snapshot as it was at the cut.
pub fn entry_removed_after_the_cut<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    (0..3).for_each(|key| add(&mut state, key, 1));
    let mut snapshot = Snapshot::cut(&backend, 1, None, Kind::Checkpoint);
    state.remove(hash(&0u64), &0).expect("a working backend");
    add(&mut state, 1, 10);
    add(&mut state, 3, 1);
    while !snapshot.scan(&backend, 1).expect("all entries can be serialized") {}
    let file = snapshot.finish(&backend, &space().owned);
    assert_eq!(read_back(make, &[file], 4), [Some(1), Some(1), Some(1), None]);
    assert_eq!(state.get(hash(&1u64), &1), Ok(Some(11)));
}

/// Restores the state `sum` from a chain and reads the keys below `keys`.
fn read_back<B: StateBackend>(make: &dyn Fn(KeySpace) -> B, chain: &[Vec<u8>], keys: u64) -> Vec<Option<u64>> {
    let mut backend = make(space());
    let state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    let chain: Vec<_> = chain.iter().map(|file| vec![file.clone()]).collect();
    restore(&backend, &chain, &space().owned).expect("the same types");
    start(&backend, None);
    (0..keys).map(|key| state.get(hash(&key), &key).expect("a working backend")).collect()
}

/// A chain restores to the same content as a full part cut at the same place, removals and returns of keys included.
pub fn base_and_increments_equal_a_full_part<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    let mut chain = Vec::new();
    for id in 1..=6 {
        for key in 0..300 {
            match (key * 7 + id) % 9 {
                0 => drop(state.remove(hash(&key), &key).expect("a working backend")),
                1..4 => add(&mut state, key, id),
                _ => {}
            }
        }
        let base = (id > 1).then(|| id - 1);
        chain.push(Snapshot::take(&backend, (id, base), Kind::Checkpoint, &space().owned));
        let full = Snapshot::take(&backend, (100 + id, None), Kind::Savepoint, &space().owned);
        assert_eq!(read_back(make, &chain, 300), read_back(make, &[full], 300), "after increment {id}");
    }
    assert!(chain.iter().skip(1).any(|file| section(file, "sum").base.is_some()), "no increment at all");
}

/// Old values saved by writes count as buffered until a scan hands them over; a finished cut holds nothing.
pub fn buffered_bytes_are_visible_and_handed_over<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    (0..1000).for_each(|key| add(&mut state, key, 1));
    let buffered = |backend: &B| backend.tables().iter().map(|table| table.borrow().buffered()).sum::<usize>();
    assert_eq!(buffered(&backend), 0);
    let mut snapshot = Snapshot::cut(&backend, 1, None, Kind::Checkpoint);
    (0..500).for_each(|key| add(&mut state, key, 1));
    assert!(
        buffered(&backend) > 0 || snapshot.scan(&backend, 1).expect("serializable"),
        "saved values are not counted"
    );
    while !snapshot.scan(&backend, 100).expect("all entries can be serialized") {}
    assert_eq!(buffered(&backend), 0);
    let mut aborted = Snapshot::cut(&backend, 2, None, Kind::Checkpoint);
    (0..1000).for_each(|key| add(&mut state, key, 1));
    aborted.scan(&backend, 10).expect("all entries can be serialized");
    backend.tables().iter().for_each(|table| table.borrow_mut().abort(aborted.id));
    assert_eq!(buffered(&backend), 0, "an aborted cut holds memory");
    assert_eq!(read_back(make, &[snapshot.finish(&backend, &space().owned)], 1000), vec![Some(1); 1000]);
}

/// Fails to serialize when told to.
#[derive(Clone, Deserialize)]
struct Stubborn(bool);

impl Serialize for Stubborn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 {
            Err(serde::ser::Error::custom("I will not"))
        } else {
            serializer.serialize_newtype_struct("", &self.0)
        }
    }
}

/// A value that cannot be serialized is refused when it is written, or fails the scan with its reason, not the job; the next
/// checkpoint is whole.
pub fn unserializable_values_decline<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, Stubborn>(value("sum")).expect("a new name");
    start(&backend, None);
    let put = |key| state.put(hash(&key), key, Stubborn(key == 5)).err();
    let refused: Vec<StateError> = (0..10).filter_map(put).collect();
    assert!(refused.len() < 2, "{refused:?}");
    let mut snapshot = Snapshot::cut(&backend, 1, None, Kind::Checkpoint);
    let failed = refused.first().map_or_else(
        || loop {
            match snapshot.scan(&backend, 10) {
                Ok(false) => {}
                Ok(true) => panic!("an entry was left out in silence"),
                Err(error) => break error.to_string(),
            }
        },
        ToString::to_string,
    );
    assert!(failed.contains("operator/sum") && failed.contains("I will not"), "{failed}");
    backend.tables().iter().for_each(|table| table.borrow_mut().abort(CheckpointId(1)));
    state.put(hash(&5u64), 5, Stubborn(false)).expect("a working backend");
    let file = Snapshot::take(&backend, (2, None), Kind::Checkpoint, &space().owned);
    assert_eq!(entries(&section(&file, "sum"), BlockKind::Puts), 10);
}

/// A restore into another key type is refused, naming both shapes; the same type with more values seen is accepted.
pub fn key_types_cannot_change<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    (0..100).for_each(|key| add(&mut state, key, 1));
    let chain = [vec![Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned)]];
    let mut other = make(space());
    other.value::<u32, u64>(value("sum")).expect("a new name");
    let refused = restore(&other, &chain, &space().owned).expect_err("another key type").to_string();
    assert!(refused.contains("u64") && refused.contains("u32"), "{refused}");
    let mut other = make(KeySpace { seed: SEED + 1, ..space() });
    other.value::<u64, u64>(value("sum")).expect("a new name");
    let refused = restore(&other, &chain, &space().owned).expect_err("another seed");
    assert!(matches!(refused, StateError::WrongGroup { .. }), "{refused}");
}

/// Timers under the name of a value are refused.
pub fn state_of_another_kind_is_refused<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    backend.value::<u64, u64>(value("sum")).expect("a new name");
    start(&backend, None);
    let chain = [vec![Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned)]];
    assert_eq!(
        chain.iter().flatten().map(|file| footer(file)).map(|Footer { states, .. }| states.len()).sum::<usize>(),
        1
    );
    let mut other = make(space());
    other.timers::<u64>(timers("sum")).expect("a new name");
    let refused = restore(&other, &chain, &space().owned).expect_err("another kind");
    assert!(matches!(refused, StateError::OtherKind { .. }), "{refused}");
}

fn map(state: &str) -> MapDeclaration {
    MapDeclaration { name: StateName::new("operator", state), copies: false }
}

fn list(state: &str) -> ListDeclaration {
    ListDeclaration { name: StateName::new("operator", state), split: false }
}

/// Maps of different keys are apart, and every operation does what it says.
pub fn maps_keep_what_was_put<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.map::<u64, String, u64>(map("map")).expect("a new name");
    start(&backend, None);
    let (a, b) = ("a".to_owned(), "b".to_owned());
    for (key, field, amount) in [(1, &a, 10), (1, &b, 11), (2, &a, 20)] {
        state.put(hash(&key), &key, field.clone(), amount).expect("a working backend");
    }
    assert_eq!(state.read(hash(&1u64), &1, &a, |value| value.copied()), Ok(Some(10)));
    assert_eq!(state.read(hash(&2u64), &2, &b, |value| value.copied()), Ok(None));
    assert_eq!(state.update(hash(&2u64), &2, a.clone(), || 0, |sum| (*sum += 1, *sum).1), Ok(21));
    assert_eq!(state.update(hash(&2u64), &2, b.clone(), || 5, |sum| *sum), Ok(5));
    let mut seen = Vec::new();
    state.for_each(hash(&1u64), &1, |field, amount| seen.push((field.clone(), *amount))).expect("a working backend");
    seen.sort();
    assert_eq!(seen, [(a.clone(), 10), (b.clone(), 11)]);
    assert_eq!(state.remove(hash(&1u64), &1, &a), Ok(Some(10)));
    assert_eq!(state.remove(hash(&1u64), &1, &a), Ok(None));
    state.clear(hash(&2u64), &2).expect("a working backend");
    assert_eq!(state.is_empty(hash(&2u64), &2), Ok(true));
    assert_eq!(state.is_empty(hash(&1u64), &1), Ok(false), "a neighbour was cleared too");
    assert_eq!(backend.tables().first().map(|table| table.borrow().len()), Some(1));
}

/// The order of a map's entries survives a restore, however they came in.
pub fn maps_keep_their_order_through_a_restore<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.map::<u64, u64, ()>(map("map")).expect("a new name");
    start(&backend, None);
    (0..200u64).rev().for_each(|field| drop(state.put(hash(&1u64), &1, field, ())));
    (0..200u64).step_by(3).for_each(|field| drop(state.remove(hash(&1u64), &1, &field)));
    let order = |state: &B::Map<u64, u64, ()>| {
        let mut order = Vec::new();
        state.for_each(hash(&1u64), &1, |field, ()| order.push(*field)).expect("a working backend");
        order
    };
    let file = Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    let mut restored = make(space());
    let again = restored.map::<u64, u64, ()>(map("map")).expect("a new name");
    restore(&restored, &[vec![file]], &space().owned).expect("the same types");
    start(&restored, Some(1));
    assert_eq!(order(&again), order(&state));
    assert_eq!(order(&again).len(), 133);
}

/// Of a large map an increment holds what changed, and of a long list what was appended.
pub fn increments_hold_single_entries<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut baskets = backend.map::<u64, u64, u64>(map("map")).expect("a new name");
    let mut diaries = backend.list::<u64, u64>(list("list")).expect("a new name");
    start(&backend, None);
    for number in 0..1_000u64 {
        baskets.put(hash(&1u64), &1, number, 0).expect("a working backend");
        diaries.append(hash(&1u64), 1, number).expect("a working backend");
    }
    // With one list only, a full part would be cheaper than a delete.
    (2..6).for_each(|key| diaries.append(hash(&key), key, 0).expect("a working backend"));
    Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    baskets.put(hash(&1u64), &1, 7, 1).expect("a working backend");
    baskets.remove(hash(&1u64), &1, &8).expect("a working backend");
    (0..3).for_each(|item| diaries.append(hash(&1u64), 1, item).expect("a working backend"));
    let file = Snapshot::take(&backend, (2, Some(1)), Kind::Checkpoint, &space().owned);
    let counts = |file: &[u8], state| {
        let section = section(file, state);
        (entries(&section, BlockKind::Puts), entries(&section, BlockKind::Deletes))
    };
    assert_eq!((counts(&file, "map"), counts(&file, "list")), ((1, 1), (3, 0)));
    diaries.clear(hash(&1u64), &1).expect("a working backend");
    diaries.append(hash(&1u64), 1, 9).expect("a working backend");
    let file = Snapshot::take(&backend, (3, Some(2)), Kind::Checkpoint, &space().owned);
    assert_eq!((counts(&file, "map"), counts(&file, "list")), ((0, 0), (1, 1)), "a cleared list is one delete");
}

/// Cuts that overlap each see the list as it was: appended to, cleared and filled again while they are scanned.
pub fn overlapping_cuts_see_a_list_as_it_was<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut backend = make(space());
    let mut state = backend.list::<u64, u64>(list("list")).expect("a new name");
    start(&backend, None);
    let key = 5u64;
    let append = |state: &mut B::List<u64, u64>, items: std::ops::Range<u64>| {
        items.for_each(|item| state.append(hash(&key), key, item).expect("a working backend"));
    };
    append(&mut state, 0..3);
    let first = Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned);
    append(&mut state, 3..5);
    let mut second = Snapshot::cut(&backend, 2, Some(1), Kind::Checkpoint);
    append(&mut state, 5..9);
    let mut third = Snapshot::cut(&backend, 3, Some(1), Kind::Checkpoint);
    assert_eq!(state.clear(hash(&key), &key), Ok((0..9).collect()));
    append(&mut state, 20..22);
    let mut fourth = Snapshot::cut(&backend, 4, Some(1), Kind::Checkpoint);
    append(&mut state, 22..30);
    let mut finish = |snapshot: &mut Snapshot| while !snapshot.scan(&backend, 1).expect("serializable") {};
    // The newest first, and completed: what the older ones need must stay all the same.
    [&mut fourth, &mut third, &mut second].into_iter().for_each(&mut finish);
    let files = [second, third, fourth].map(|snapshot| snapshot.finish(&backend, &space().owned));
    for (file, expected) in files.into_iter().zip([(0..5).collect::<Vec<u64>>(), (0..9).collect(), vec![20, 21]]) {
        let mut restored = make(space());
        let again = restored.list::<u64, u64>(list("list")).expect("a new name");
        restore(&restored, &[vec![first.clone()], vec![file]], &space().owned).expect("the same types");
        assert_eq!(again.read(hash(&key), &key, <[u64]>::to_vec), Ok(expected));
    }
}

/// A user key that cannot be hashed is an error that names the state.
pub fn user_keys_must_be_hashable<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Degrees(f64);
    impl PartialEq for Degrees {
        fn eq(&self, other: &Self) -> bool {
            self.0.to_bits() == other.0.to_bits()
        }
    }
    impl Eq for Degrees {}
    let mut backend = make(space());
    let mut state = backend.map::<u64, Degrees, u64>(map("map")).expect("a new name");
    start(&backend, None);
    let error = state.put(hash(&1u64), &1, Degrees(1.5), 1).expect_err("a float").to_string();
    assert!(error.contains("operator/map"), "{error}");
    assert!(backend.tables().first().is_some_and(|table| table.borrow().is_empty()));
}
