//! Nothing is lost, nothing grows without bound.

use super::*;

const SIZE: usize = Saved::<u64, u64>::SIZE;
const GROUPS: usize = 5;
/// The first group of the table, in the job.
const FIRST: u16 = 100;

fn group(number: u64) -> (usize, u16) {
    let index = number % GROUPS as u64;
    (index as usize, FIRST + index as u16)
}

/// Everything in it, as it comes out.
fn drain(saved: &mut Saved<u64, u64>) -> Vec<(u16, u64, u64)> {
    std::iter::from_fn(|| saved.pop()).collect()
}

#[test]
fn what_was_pushed_comes_out_once_with_its_group() {
    let mut saved = Saved::new(ROOM, GROUPS);
    // Some chunks of each group, the last of them not full; and all over again once it was empty.
    let count = (saved.each * GROUPS * 3 + 1) as u64;
    for round in 0..3 {
        assert!((0..count).all(|number| saved.push(group(number), &number, &(number + round))));
        let mut out = drain(&mut saved);
        out.sort_unstable_by_key(|(_, key, _)| *key);
        assert!(out.into_iter().eq((0..count).map(|number| (group(number).1, number, number + round))));
        assert!(saved.is_empty());
        assert_eq!(saved.memory(), 0);
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
            some.for_each(|number| assert!(saved.push(group(number * number / 7), &number, &number)));
            out.extend((0..pops).filter_map(|_| saved.pop()));
        }
        out.extend(drain(&mut saved));
        out.sort_unstable_by_key(|(_, key, _)| *key);
        let pushed = (0..count).map(|number| (group(number * number / 7).1, number, number));
        assert!(out.into_iter().eq(pushed), "{pushes} in, {pops} out");
    }
}

/// Else each entry would be stored with a header of its own.
#[test]
fn entries_of_a_group_come_out_in_a_row() {
    let mut saved = Saved::new(ROOM, GROUPS);
    assert!((0..50_000).all(|number| saved.push(group(number), &number, &number)));
    let out = drain(&mut saved);
    let runs = out.chunk_by(|one, next| one.0 == next.0).count();
    assert!(runs <= out.len() / (saved.each / 2), "{runs} runs of {} entries", out.len());
}

#[test]
fn a_full_one_takes_nothing_until_something_left() {
    let mut saved = Saved::new(10 * SIZE, 1);
    let taken = (0..100u64).take_while(|number| saved.push((0, 0), number, number)).count();
    assert_eq!(taken, 10);
    assert!(saved.pop().is_some());
    assert!(saved.push((0, 0), &7, &7));
    assert!(!saved.push((0, 0), &8, &8));
}

#[test]
fn its_memory_is_bounded_and_counted() {
    for groups in [1, 64, 1_000, 1 << 15] {
        let mut saved = Saved::new(ROOM, groups);
        let group = |number: &u64| ((number % groups as u64) as usize, 0);
        let taken = (0..u64::MAX).take_while(|number| saved.push(group(number), number, number)).count();
        assert!(saved.memory() <= ROOM, "{} bytes, {groups} groups", saved.memory());
        assert!(saved.memory() >= taken * SIZE, "{} bytes, {groups} groups", saved.memory());
        assert!(taken >= ROOM / SIZE / 4, "{taken} entries, {groups} groups");
    }
}

/// Nobody knows how much memory a copy of these takes, or it is not cheap.
#[test]
fn what_owns_memory_elsewhere_or_is_large_is_not_kept() {
    assert!(!Saved::new(ROOM, 1).push((0, 0), &"key".to_owned(), &1));
    assert!(!Saved::new(ROOM, 1).push((0, 0), &1, &vec![1]));
    assert!(!Saved::new(ROOM, 1).push((0, 0), &1, &[0u8; 1 << 11]));
    assert!(Saved::new(ROOM, 1).push((0, 0), &1, &[0u8; 100]));
}
