//! Entries in memory above a store show what a plain map shows, whatever is driven out and whenever somebody visits.

use super::super::change_log::{ENTRY, EXTRA};
use super::{Cache, Shard};
use crate::segment::StateName;
use crate::state::store::{Change, Space};
use crate::testing::memory_store::MemoryStore;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Plain = BTreeMap<Vec<u8>, Vec<u8>>;

struct Above {
    cache: Cache,
    store: MemoryStore,
}

impl Above {
    fn new(memory: usize) -> Above {
        let store = MemoryStore::below(memory);
        let cache = Cache::new(Box::new(store.clone()), 7);
        for state in ["one", "two"] {
            cache.create(&StateName::new("operator", state)).unwrap();
        }
        Above { cache, store }
    }

    fn gets(&self) -> usize {
        self.store.asked().gets.get()
    }

    fn changes(&self) -> usize {
        self.store.asked().changes.get()
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.cache.write(Space(0), vec![Change::Put(key.to_vec(), value.to_vec())]).unwrap();
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(Space(0), key, false, |found| found.map(<[u8]>::to_vec)).unwrap()
    }
}

fn entry(group: u16, key: u64) -> Vec<u8> {
    [&[ENTRY], &group.to_be_bytes()[..], &key.to_be_bytes()].concat()
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    Get(usize, Vec<u8>, bool),
    /// From one key up to another, at most so many.
    Visit(usize, Vec<u8>, Vec<u8>, usize, bool),
    /// Keys that were not there before.
    Load(usize, u16, u64),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0u16..5, 0u64..40).prop_map(|(group, key)| entry(group, key)),
        1 => (0u16..300, 0u64..3).prop_map(|(group, key)| entry(group, key)),
        1 => (0u64..20).prop_map(|key| [&[EXTRA], &key.to_be_bytes()[..]].concat()),
    ]
}

fn bound() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => key(),
        1 => Just(vec![ENTRY]),
        1 => Just(vec![ENTRY + 1]),
        2 => (0u16..6).prop_map(|group| [&[ENTRY], &group.to_be_bytes()[..]].concat()),
        1 => Just(vec![EXTRA + 1]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let value = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        8 => (0usize..2, key(), value).prop_map(|(space, key, value)| Step::Put(space, key, value)),
        3 => (0usize..2, key()).prop_map(|(space, key)| Step::Delete(space, key)),
        6 => (0usize..2, key(), any::<bool>()).prop_map(|(space, key, once)| Step::Get(space, key, once)),
        2 => (0usize..2, bound(), bound(), 1usize..200, any::<bool>())
            .prop_map(|(space, from, until, most, once)| Step::Visit(space, from, until, most, once)),
        1 => (0usize..2, 0u16..5, 1u64..9).prop_map(|(space, group, keys)| Step::Load(space, group, keys)),
    ]
}

fn apply(above: &Above, plain: &mut [Plain; 2], step: Step, loads: &mut u64) {
    let cache = &above.cache;
    let space = |space: usize| Space(space as u16);
    match step {
        Step::Put(to, key, value) => {
            cache.write(space(to), vec![Change::Put(key.clone(), value.clone())]).unwrap();
            plain[to].insert(key, value);
        }
        Step::Delete(of, key) => {
            cache.write(space(of), vec![Change::Delete(key.clone())]).unwrap();
            plain[of].remove(&key);
        }
        Step::Get(of, key, once) => {
            let found = cache.get(space(of), &key, once, |found| found.map(<[u8]>::to_vec)).unwrap();
            assert_eq!(found.as_ref(), plain[of].get(&key));
        }
        Step::Visit(of, from, until, most, once) => {
            let mut seen = Vec::new();
            let mut look = |key: &[u8], value: &[u8]| {
                seen.push((key.to_vec(), value.to_vec()));
                seen.len() < most
            };
            cache.visit(space(of), (&from, &until), once, &mut look).unwrap();
            let all = plain[of].iter().filter(|(key, _)| **key >= from && **key < until);
            assert_eq!(seen, all.take(most).map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>());
        }
        Step::Load(to, group, keys) => {
            *loads += 1;
            let new: Vec<_> = (0..keys).map(|key| entry(group, (*loads << 32) | key)).collect();
            cache.load(space(to), &mut new.iter().map(|key| (key.as_slice(), &b"loaded"[..]))).unwrap();
            plain[to].extend(new.into_iter().map(|key| (key, b"loaded".to_vec())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn it_shows_what_a_plain_map_shows(
        memory in prop_oneof![Just(0usize), Just(400), Just(2_000), Just(8_000), Just(1 << 20)],
        steps in proptest::collection::vec(step(), 0..400),
    ) {
        let (above, mut plain, mut loads) = (Above::new(memory), <[Plain; 2]>::default(), 0);
        for step in steps {
            apply(&above, &mut plain, step, &mut loads);
            prop_assert!(above.cache.kept.borrow().size <= above.cache.room(), "entries take more than their room");
        }
        let sizes = above.cache.kept.borrow().spaces.iter().flatten().map(Shard::size).sum::<usize>();
        prop_assert_eq!(above.cache.kept.borrow().size, sizes, "the size is that of all parts");
        for shard in above.cache.kept.borrow().spaces.iter().flatten() {
            prop_assert_eq!(shard.bytes().0, shard.bytes().1, "a part knows what its entries take");
        }
        for (space, plain) in plain.iter().enumerate() {
            let mut seen = Plain::new();
            let mut look = |key: &[u8], value: &[u8]| seen.insert(key.to_vec(), value.to_vec()).is_none();
            above.cache.visit(Space(space as u16), (&[], &[u8::MAX]), true, &mut look).unwrap();
            prop_assert_eq!(&seen, plain);
        }
    }
}

#[test]
fn what_fits_never_meets_the_store() {
    let above = Above::new(1 << 20);
    for round in 0..100u64 {
        for key in 0..100 {
            let old = above.get(&entry(0, key));
            assert_eq!(old, round.checked_sub(1).map(|old| old.to_le_bytes().to_vec()));
            above.put(&entry(0, key), &round.to_le_bytes());
        }
    }
    assert_eq!((above.gets(), above.changes()), (0, 0));
}

#[test]
fn what_is_driven_out_is_written_many_at_a_time() {
    let above = Above::new(200_000);
    (0..20_000).for_each(|key| above.put(&entry(key as u16 % 8, key), b"12345678"));
    let (changes, writes) = (above.changes(), above.store.asked().writes.get());
    assert!(changes > 15_000, "most do not fit, and {changes} were written");
    assert!(changes / writes > 100, "{changes} in {writes} writes");
}

#[test]
fn what_is_used_again_stays_when_others_pass() {
    let above = Above::new(100_000);
    let hot = |key| entry(0, key);
    (0..100).for_each(|key| above.put(&hot(key), b"hot"));
    for cold in 0..50_000u64 {
        above.put(&entry(1 + cold as u16 % 7, 1_000 + cold), b"cold");
        above.get(&hot(cold % 100));
    }
    assert!(above.gets() < 100, "hot entries were read again {} times", above.gets());
}

#[test]
fn a_visit_writes_out_only_the_key_groups_it_comes_to() {
    let above = Above::new(1 << 20);
    (0..10).for_each(|group| (0..10).for_each(|key| above.put(&entry(group, key), b"value")));
    let mut seen = 0;
    let mut look = |_: &[u8], _: &[u8]| {
        seen += 1;
        seen < 15
    };
    above.cache.visit(Space(0), (&[ENTRY], &[ENTRY + 1]), true, &mut look).unwrap();
    assert_eq!((seen, above.changes()), (15, 20));
}

#[test]
fn hashes_of_new_entries_take_little_of_the_memory() {
    let above = Above::new(10_000_000);
    let most = |above: &Above| above.cache.kept.borrow().spaces.iter().flatten().map(Shard::news).max().unwrap_or(0);
    for key in 0..100_000 {
        above.put(&entry(0, key % 1_000), &key.to_le_bytes());
        assert!(most(&above) <= 1_000 / 8 + 65);
    }
}

#[test]
fn what_was_driven_out_and_could_not_be_written_fails_all_that_follows() {
    let store = MemoryStore::below(2_000);
    let fuse = store.fuse();
    let cache = Cache::new(Box::new(store), 7);
    cache.create(&StateName::new("operator", "state")).unwrap();
    fuse.set(0);
    let lost = (0..1_000).find(|key| cache.put(Space(0), &entry(0, *key), b"value").is_err()).expect("not all fit");
    fuse.set(i64::MAX);
    for key in 0..lost {
        assert!(cache.get(Space(0), &entry(0, key), false, |_| ()).is_err(), "{key} of {lost} may be nowhere");
    }
    assert!(cache.visit(Space(0), (&[ENTRY], &[ENTRY + 1]), true, &mut |_, _| true).is_err());
}
