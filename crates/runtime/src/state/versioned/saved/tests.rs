//! Nothing is lost, nothing grows without bound.

use super::*;

const SIZE: usize = Saved::<u64, u64>::SIZE;
const EACH: usize = Saved::<u64, u64>::EACH;
const GROUPS: usize = 5;
/// The first group of the table, in the job.
const FIRST_GROUP: u16 = 100;

fn position(number: u64) -> Position {
    let index = number % GROUPS as u64;
    Position { index: index as usize, group: FIRST_GROUP + index as u16 }
}

/// The only group of a table.
const ONLY: Position = Position { index: 0, group: 0 };

/// Everything in it, as it comes out.
fn drain(saved: &mut Saved<u64, u64>) -> Vec<(u16, u64, u64)> {
    std::iter::from_fn(|| saved.pop()).collect()
}

#[test]
fn what_was_pushed_comes_out_once_with_its_group() {
    let mut saved = Saved::new(ROOM, GROUPS);
    // Some chunks of each group, the last of them not full; and all over again once it was empty.
    let count = (EACH * GROUPS * 3 + 1) as u64;
    for round in 0..3 {
        assert!((0..count).all(|number| saved.push(position(number), &number, &(number + round))));
        let mut out = drain(&mut saved);
        out.sort_unstable_by_key(|(_, key, _)| *key);
        assert!(out.into_iter().eq((0..count).map(|number| (position(number).group, number, number + round))));
        assert!(saved.is_empty());
        assert_eq!(saved.memory(), GROUPS * size_of::<u32>(), "what waits is gone");
    }
}

/// A scan takes some while writes go on: whatever the order, each comes out once.
#[test]
fn it_is_drained_and_filled_at_once() {
    for (pushes, pops) in [(3, 1), (3, 2), (40, 39), (700, 650), (7, 9)] {
        let mut saved = Saved::new(ROOM, GROUPS);
        let mut out = Vec::new();
        let count = 20_000u64;
        let mut next = 0..count;
        while next.start < count {
            let some = next.by_ref().take(pushes);
            some.for_each(|number| assert!(saved.push(position(number * number / 7), &number, &number)));
            out.extend((0..pops).filter_map(|_| saved.pop()));
        }
        out.extend(drain(&mut saved));
        out.sort_unstable_by_key(|(_, key, _)| *key);
        let pushed = (0..count).map(|number| (position(number * number / 7).group, number, number));
        assert!(out.into_iter().eq(pushed), "{pushes} in, {pops} out");
    }
}

/// Else each entry would be stored with a header of its own.
#[test]
fn entries_of_a_group_come_out_in_a_row() {
    let mut saved = Saved::new(ROOM, GROUPS);
    assert!((0..50_000).all(|number| saved.push(position(number), &number, &number)));
    let out = drain(&mut saved);
    let runs = out.chunk_by(|one, next| one.0 == next.0).count();
    assert!(runs <= out.len() / (EACH / 2), "{runs} runs of {} entries", out.len());
}

/// A few entries of each of many groups take no more than some: what is held is what records wait for.
#[test]
fn few_entries_take_little() {
    const MANY: usize = 1_000;
    let mut saved = Saved::new(ROOM, MANY);
    assert!((0..MANY).all(|index| saved.push(Position { index, group: 0 }, &0u64, &0u64)));
    assert!(saved.memory() < MANY * 200, "{} bytes", saved.memory());
}

#[test]
fn a_full_one_takes_nothing_until_something_left() {
    let mut saved = Saved::new(ROOM, 1);
    let push = |saved: &mut Saved<u64, u64>| saved.push(ONLY, &7, &7);
    let taken = (0..ROOM).take_while(|_| push(&mut saved)).count();
    assert!(taken < ROOM / SIZE);
    assert!(!push(&mut saved));
    (0..EACH).for_each(|_| assert!(saved.pop().is_some()));
    assert!(push(&mut saved));
    assert_eq!(drain(&mut saved).len(), taken - EACH + 1);
}

#[test]
fn its_memory_is_bounded_and_counted() {
    for (room, groups) in [(ROOM, 1), (ROOM, 64), (ROOM, 1_000), (ROOM, 1 << 15), (1_000, 5), (0, 5), (100, 1 << 15)] {
        let mut saved = Saved::new(room, groups);
        let position = |number: &u64| Position { index: (number % groups as u64) as usize, group: 0 };
        let taken = (0..u64::MAX).take_while(|number| saved.push(position(number), number, number)).count();
        assert!(saved.memory() <= room, "{} of {room} bytes, {groups} groups", saved.memory());
        assert!(saved.memory() >= taken * SIZE, "{} of {room} bytes, {groups} groups", saved.memory());
        assert!(
            room < ROOM || taken >= (room / SIZE / 4).min(room / 200),
            "{taken} entries, {room} bytes, {groups} groups"
        );
    }
}

/// Nobody knows how much memory a copy of these takes, or it is not cheap, or there is nothing to copy.
#[test]
fn what_owns_memory_elsewhere_or_is_large_or_nothing_is_not_kept() {
    assert!(!Saved::new(ROOM, 1).push(ONLY, &"key".to_owned(), &1));
    assert!(!Saved::new(ROOM, 1).push(ONLY, &1, &vec![1]));
    assert!(!Saved::new(ROOM, 1).push(ONLY, &1, &[0u8; 1 << 11]));
    assert!(!Saved::new(ROOM, 1).push(ONLY, &(), &()));
    assert!(Saved::new(ROOM, 1).push(ONLY, &1, &[0u8; 100]));
}
