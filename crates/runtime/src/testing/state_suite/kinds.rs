//! Promises about all kinds of state at once: what is stored is what was there, in one canonical form, and fits the types or is
//! refused with everything that one needs to know.

use super::{Snapshot, footer, restore, restore_share, start, visit};
use crate::key::{KeySpace, hash_key};
use crate::segment::BlockKind;
use crate::state::{
    ListDeclaration, ListState, MapDeclaration, MapState, Share, StateBackend, StateError, StateName, TimerDeclaration,
    TimerState, ValueDeclaration, ValueState,
};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Kind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const SEED: u64 = 42;
const GROUPS: u16 = 16;
/// Not a number, and not the usual one either.
const ODD_NAN: u64 = 0x7FF8_0000_DEAD_BEEF;

fn space() -> KeySpace {
    KeySpace::of_worker(SEED, GROUPS, 1, 0)
}

fn name(state: &str) -> StateName {
    StateName::new("operator", state)
}

fn hash<K: crate::key::Key>(key: &K) -> u64 {
    hash_key(SEED, key).expect("a key")
}

/// One worker with a state of each kind.
struct All<B: StateBackend> {
    backend: B,
    space: KeySpace,
    values: B::Value<String, f64>,
    maps: B::Map<u64, String, f64>,
    lists: B::List<u64, f64>,
    timers: B::Timers<u64>,
    copies: B::Map<u64, u64, u64>,
    queue: B::List<u64, u64>,
    own: (u64, u64),
}

impl<B: StateBackend> All<B> {
    fn new(make: &dyn Fn(KeySpace) -> B, workers: u32, index: u32) -> Self {
        let space = KeySpace::of_worker(SEED, GROUPS, workers, index);
        let mut backend = make(space.clone());
        let fresh = "a new name";
        Self {
            values: backend.value(ValueDeclaration { name: name("values") }).expect(fresh),
            maps: backend.map(MapDeclaration { name: name("maps"), copies: false }).expect(fresh),
            lists: backend.list(ListDeclaration { name: name("lists"), split: false }).expect(fresh),
            timers: backend.timers(TimerDeclaration { name: name("timers") }).expect(fresh),
            copies: backend.map(MapDeclaration { name: name("copies"), copies: true }).expect(fresh),
            queue: backend.list(ListDeclaration { name: name("queue"), split: true }).expect(fresh),
            own: space.own_key().expect("it owns key groups"),
            backend,
            space,
        }
    }

    /// Changes some of everything; different turns change different things.
    fn churn(&mut self, turn: u64) {
        let works = "a working backend";
        for key in (0..90u64).filter(|key| (key * 7 + turn).is_multiple_of(3)) {
            let text = format!("key-{key}");
            let float = if key % 5 == 0 { f64::from_bits(ODD_NAN + turn) } else { key as f64 / 7.0 };
            if (key + turn).is_multiple_of(4) {
                self.values.remove(hash(&text), &text).expect(works);
                self.maps.remove(hash(&(key / 9)), &(key / 9), &text).expect(works);
                self.timers.delete(hash(&key), &key, 7).expect(works);
            } else {
                self.values.put(hash(&text), text.clone(), float).expect(works);
                self.maps.put(hash(&(key / 9)), &(key / 9), text, float).expect(works);
                self.timers.register(hash(&key), key, 7).expect(works);
            }
            if (key + turn).is_multiple_of(13) {
                self.lists.clear(hash(&key), &key).expect(works);
            }
            self.lists.append(hash(&key), key, float).expect(works);
            let (own_hash, own) = self.own;
            self.copies.put(own_hash, &own, key % 20, turn).expect(works);
            self.queue.append(own_hash, own, key * 100 + turn).expect(works);
        }
        if turn % 4 == 3 {
            self.queue.clear(self.own.0, &self.own.1).expect(works);
        }
    }

    fn take(&self, id: u64, base: Option<u64>, kind: Kind) -> Vec<u8> {
        Snapshot::take(&self.backend, (id, base), kind, &self.space.owned)
    }
}

/// Every entry that a full segment holds, once: the state it is of and its bytes, sorted. It tells apart what differs in one bit.
fn dump(segment: &[u8]) -> BTreeSet<(String, Vec<u8>)> {
    let mut all = BTreeSet::new();
    for section in &footer(segment).states {
        assert_eq!(section.base, None, "not a full segment");
        for entry in &section.blocks {
            assert_eq!(entry.kind, BlockKind::Puts);
            let range = entry.piece.range();
            let bytes = segment.get(range.start as usize..range.end as usize).expect("checked by the footer");
            let block = entry.decode(Bytes::copy_from_slice(bytes)).expect("undamaged");
            for (_, entries) in block.runs().map(|run| run.expect("a whole run")) {
                let mut rest = entries;
                let parts = match section.declaration.name.state.as_str() {
                    "maps" | "copies" | "lists" | "queue" => 3,
                    _ => 2,
                };
                while !rest.is_empty() {
                    let before = rest;
                    let mut source = rmp_serde::Deserializer::new(before);
                    for _ in 0..parts {
                        serde::de::IgnoredAny::deserialize(&mut source).expect("a value");
                    }
                    rest = source.into_inner();
                    let bytes = before.get(..before.len() - rest.len()).expect("a suffix is shorter");
                    all.insert((section.declaration.name.to_string(), bytes.to_vec()));
                }
            }
        }
    }
    all
}

/// I15: what is restored along a chain and what is restored from a full part at the same place have one canonical dump: entries
/// sorted by their encoded keys, values to the last bit.
pub fn chain_and_full_part_have_one_canonical_dump<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut worker = All::new(make, 1, 0);
    start(&worker.backend, None);
    let (mut chain, mut increments) = (Vec::new(), 0);
    for id in 1..=8u64 {
        worker.churn(id);
        let base = (id > 1).then(|| id - 1);
        let file = worker.take(id, base, Kind::Checkpoint);
        increments += footer(&file).states.iter().filter(|section| section.base.is_some()).count();
        chain.push(vec![file]);
        let full = worker.take(100 + id, None, Kind::Savepoint);
        let again = |chain: &[Vec<Vec<u8>>]| {
            let restored = All::new(make, 1, 0);
            restore(&restored.backend, chain, &restored.space.owned).expect("the same types");
            start(&restored.backend, None);
            restored.take(1, None, Kind::Savepoint)
        };
        let (from_chain, from_full) = (dump(&again(&chain)), dump(&again(&[vec![full.clone()]])));
        assert!(from_chain == from_full && from_full == dump(&full), "after checkpoint {id}");
        let nan = ODD_NAN.to_be_bytes();
        let high = nan.get(..6).expect("of eight");
        assert!(from_chain.iter().any(|(_, bytes)| bytes.windows(6).any(|part| part == high)), "no odd NaN is left");
    }
    assert!(increments > 20, "{increments}");
}

/// I17: a slow scan under writes uploads what was there at the cut, which is what a scan right at the cut finds.
pub fn what_is_uploaded_is_the_state_at_the_cut<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut worker = All::new(make, 1, 0);
    start(&worker.backend, None);
    for turn in 1..=6u64 {
        worker.churn(turn);
        let mut slow = Snapshot::cut(&worker.backend, 2 * turn, None, Kind::Savepoint);
        let at_once = worker.take(2 * turn + 1, None, Kind::Savepoint);
        let mut steps = 0;
        while !slow.scan(&worker.backend, 3).expect("all entries can be serialized") {
            worker.churn(100 * turn + steps);
            steps += 1;
        }
        let uploaded = slow.finish(&worker.backend, &worker.space.owned);
        assert!(dump(&uploaded) == dump(&at_once), "turn {turn}, {steps} steps");
        assert!(steps > 2, "the scan was not slow");
    }
}

/// Split lists of any number of workers are dealt out to any number: nothing is lost, doubled or out of the order of its writer, and
/// the first part after it is full.
pub fn split_lists_are_dealt_out_whole_and_in_order<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    for (before, after) in [(1, 4), (4, 1), (3, 2), (2, 3), (5, 5), (2, 7)] {
        let mut writers: Vec<All<B>> = (0..before).map(|index| All::new(make, before, index)).collect();
        let mut chain = Vec::new();
        for id in 1..=3u64 {
            let append = |(writer, index): (&mut All<B>, u64)| {
                if id == 1 {
                    start(&writer.backend, None);
                }
                let (hash, own) = writer.own;
                if id == 2 && index == 0 {
                    writer.queue.clear(hash, &own).expect("a working backend");
                }
                // Lists of different lengths; that of the third writer stays empty.
                let count = if index == 2 { 0 } else { 5 + index };
                (0..count).for_each(|n| {
                    writer.queue.append(hash, own, index * 1_000 + id * 100 + n).expect("a working backend");
                });
                writer.take(id, (id > 1).then(|| id - 1), Kind::Checkpoint)
            };
            chain.push(writers.iter_mut().zip(0..).map(append).collect::<Vec<_>>());
        }
        let mut all = Vec::new();
        for index in 0..after {
            let worker = All::new(make, after, index);
            let share = Share { before: before as u16, workers: after as u16, worker: index as u16 };
            restore_share(&worker.backend, &chain, &worker.space, share).expect("the same types");
            start(&worker.backend, Some(3));
            let items = worker.queue.read(worker.own.0, &worker.own.1, <[u64]>::to_vec).expect("a working backend");
            let in_order = |writer| items.iter().filter(|item| **item / 1_000 == writer).is_sorted();
            assert!((0..u64::from(before)).all(in_order), "{before} -> {after}: {items:?}");
            let next = footer(&worker.take(4, Some(3), Kind::Checkpoint));
            let base = next.state("operator", "queue").expect("it is declared").base;
            assert_eq!(base.is_none(), before != after, "{before} -> {after}");
            all.extend(items);
        }
        let sizes = all.len();
        let expected: BTreeSet<u64> = (0..u64::from(before))
            .filter(|index| *index != 2)
            .flat_map(|index| {
                let ids = if index == 0 { 2..=3u64 } else { 1..=3 };
                ids.flat_map(move |id| (0..5 + index).map(move |n| index * 1_000 + id * 100 + n))
            })
            .collect();
        assert_eq!((all.into_iter().collect::<BTreeSet<_>>(), sizes), (expected.clone(), expected.len()));
    }
}

/// Every one of another number of workers gets what the first one had.
pub fn copies_are_those_of_the_first_worker<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let write = |index: u32| {
        let mut writer = All::new(make, 3, index);
        start(&writer.backend, None);
        let (hash, own) = writer.own;
        (0..10 + u64::from(index)).for_each(|n| drop(writer.copies.put(hash, &own, n, n * n)));
        writer.take(1, None, Kind::Checkpoint)
    };
    let chain = [(0..3).map(write).collect::<Vec<_>>()];
    for index in 0..5 {
        let worker = All::new(make, 5, index);
        let share = Share { before: 3, workers: 5, worker: index as u16 };
        restore_share(&worker.backend, &chain, &worker.space, share).expect("the same types");
        start(&worker.backend, Some(1));
        let mut entries = Vec::new();
        let (hash, own) = worker.own;
        worker.copies.for_each(hash, &own, |n, square| entries.push((*n, *square))).expect("a working backend");
        entries.sort_unstable();
        assert_eq!(entries, (0..10).map(|n| (n, n * n)).collect::<Vec<_>>(), "worker {index}");
    }
}

/// A backend with a value, a map's entry and a list's element of one type.
type Three<B, V> = (
    B,
    <B as StateBackend>::Value<String, V>,
    <B as StateBackend>::Map<String, u64, V>,
    <B as StateBackend>::List<String, V>,
);

fn three<B: StateBackend, V: crate::state::Value>(make: &dyn Fn(KeySpace) -> B) -> Three<B, V> {
    let mut backend = make(space());
    let value = backend.value(ValueDeclaration { name: name("value") }).expect("a new name");
    let map = backend.map(MapDeclaration { name: name("map"), copies: false }).expect("a new name");
    let list = backend.list(ListDeclaration { name: name("list"), split: false }).expect("a new name");
    (backend, value, map, list)
}

const KEY: &str = "the \"key\"";

fn written<B: StateBackend, V: crate::state::Value>(make: &dyn Fn(KeySpace) -> B, content: &V) -> Vec<Vec<Vec<u8>>> {
    let (backend, mut value, mut map, mut list) = three::<B, V>(make);
    start(&backend, None);
    let key = KEY.to_owned();
    value.put(hash(&key), key.clone(), content.clone()).expect("a working backend");
    map.put(hash(&key), &key, 3, content.clone()).expect("a working backend");
    list.append(hash(&key), key, content.clone()).expect("a working backend");
    vec![vec![Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned)]]
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Was {
    count: u64,
    total: u64,
    dropped: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Is {
    #[serde(alias = "total")]
    sum: u64,
    #[serde(default)]
    added: Option<String>,
    count: u64,
}

/// A field may be added with a default, removed, and renamed with an alias; and what is written then is restored as well.
pub fn fields_may_come_go_and_be_renamed<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    fn content<V: crate::state::Value>(
        (value, map, list): (&impl ValueState<String, V>, &impl MapState<String, u64, V>, &impl ListState<String, V>),
    ) -> [Option<V>; 3] {
        let key = KEY.to_owned();
        let of_map = map.read(hash(&key), &key, &3, |value| value.cloned()).expect("a working backend");
        let of_list = list.read(hash(&key), &key, |items| items.first().cloned()).expect("a working backend");
        [value.get(hash(&key), &key).expect("a working backend"), of_map, of_list]
    }
    let mut chain = written(make, &Was { count: 3, total: 12, dropped: vec![1] });
    let (backend, mut value, map, list) = three::<B, Is>(make);
    restore(&backend, &chain, &space().owned).expect("compatible");
    start(&backend, Some(1));
    let expected = Is { sum: 12, added: None, count: 3 };
    assert_eq!(content((&value, &map, &list)), [(); 3].map(|()| Some(expected.clone())));
    // An increment of the new form on top of a part of the old one.
    let key = KEY.to_owned();
    value.update(hash(&key), key, || expected.clone(), |kept| kept.added = Some("new".to_owned())).expect("works");
    let increment = Snapshot::take(&backend, (2, Some(1)), Kind::Checkpoint, &space().owned);
    assert!(footer(&increment).states.iter().all(|section| section.base == Some(CheckpointId(1))));
    chain.push(vec![increment]);
    let (backend, value, map, list) = three::<B, Is>(make);
    restore(&backend, &chain, &space().owned).expect("compatible");
    start(&backend, Some(2));
    let changed = Is { added: Some("new".to_owned()), ..expected.clone() };
    assert_eq!(content((&value, &map, &list)), [Some(changed), Some(expected.clone()), Some(expected)]);
}

fn refused<B: StateBackend, V: crate::state::Value>(
    make: &dyn Fn(KeySpace) -> B,
    chain: &[Vec<Vec<u8>>],
    looks_only: bool,
) -> Result<(), StateError> {
    let (backend, ..) = three::<B, V>(make);
    let result = visit(
        &backend,
        chain,
        |_| (space().owned, None),
        |table, block, groups, _| {
            if looks_only { table.check(block, groups) } else { table.restore(block, groups) }
        },
    );
    let kept = backend.tables().iter().map(|table| table.borrow().len()).sum::<usize>();
    assert!(!looks_only || kept == 0, "a look keeps {kept} entries");
    result
}

fn is_refused<B: StateBackend, V: crate::state::Value>(
    make: &dyn Fn(KeySpace) -> B,
    chain: &[Vec<Vec<u8>>],
    types: [&str; 2],
) {
    for looks_only in [false, true] {
        let error = refused::<B, V>(make, chain, looks_only).expect_err("another type");
        assert!(matches!(error, StateError::Misfit(_)), "{error}");
        let said = error.to_string();
        for part in ["operator/value", r#""the \"key\"""#, types[0], types[1], "serde(default)"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

/// What cannot be read as the declared type is refused: state, key and both types are named.
pub fn other_types_are_refused_with_key_and_types<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    is_refused::<B, String>(make, &written(make, &7u64), ["u64", "string"]);
    is_refused::<B, u64>(make, &written(make, &"text".to_owned()), ["string", "u64"]);
    let was = Was { count: 1, total: 2, dropped: vec![] };
    is_refused::<B, (u64, u64)>(make, &written(make, &was), ["{count:u64,total:u64,dropped:seq<?>}", "(u64,u64)"]);
    // A new field without a default.
    let changed = written(make, &Is { sum: 1, added: None, count: 2 });
    is_refused::<B, Was>(make, &changed, ["sum:u64", "dropped"]);
    is_refused::<B, u8>(make, &written(make, &300u64), ["u64", "u8"]);
}

/// A look at a checkpoint reads every entry with the types of the job, refuses what a restore would refuse, and keeps nothing.
pub fn a_look_decodes_everything_and_keeps_nothing<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    fn fits<B: StateBackend, V: crate::state::Value>(make: &dyn Fn(KeySpace) -> B, content: &V) {
        refused::<B, V>(make, &written(make, content), true).expect("the same types");
    }
    fits(make, &7u64);
    fits(make, &Was { count: 3, total: 12, dropped: vec![1] });
    // Not only the first entry.
    let (backend, _, _, mut list) = three::<B, Mixed>(make);
    start(&backend, None);
    let key = KEY.to_owned();
    for content in [Mixed::Number(1), Mixed::Number(2), Mixed::Text("two".to_owned())] {
        list.append(hash(&key), key.clone(), content).expect("a working backend");
    }
    let chain = vec![vec![Snapshot::take(&backend, (1, None), Kind::Checkpoint, &space().owned)]];
    let error = refused::<B, u64>(make, &chain, true).expect_err("the third does not fit").to_string();
    assert!(error.contains("operator/list") && error.contains("FixStr"), "{error}");
}

/// Reads as what it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Mixed {
    Number(u64),
    Text(String),
}

/// A checkpoint that failed after a part of it was written leaves its base usable: the next one builds on it and restores whole.
pub fn a_failed_checkpoint_leaves_its_base_usable<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let mut worker = All::new(make, 1, 0);
    start(&worker.backend, None);
    worker.churn(1);
    let first = worker.take(1, None, Kind::Checkpoint);
    worker.backend.tables().iter().for_each(|table| table.borrow_mut().completed(CheckpointId(1)));
    worker.churn(2);
    // One is written whole and never completed, one is given up under its scan.
    worker.take(2, Some(1), Kind::Checkpoint);
    worker.churn(3);
    let mut torn = Snapshot::cut(&worker.backend, 3, Some(1), Kind::Checkpoint);
    torn.scan(&worker.backend, 5).expect("all entries can be serialized");
    worker.backend.tables().iter().for_each(|table| {
        table.borrow_mut().abort(CheckpointId(2));
        table.borrow_mut().abort(CheckpointId(3));
    });
    worker.churn(4);
    let next = worker.take(4, Some(1), Kind::Checkpoint);
    assert!(footer(&next).states.iter().any(|section| section.base == Some(CheckpointId(1))), "no increment at all");
    let full = worker.take(5, None, Kind::Savepoint);
    let restored = All::new(make, 1, 0);
    restore(&restored.backend, &[vec![first], vec![next]], &restored.space.owned).expect("the same types");
    start(&restored.backend, None);
    assert!(dump(&restored.take(1, None, Kind::Savepoint)) == dump(&full));
}
