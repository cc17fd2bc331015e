//! Nothing is lost, nothing grows without bound.

use super::*;

const SIZE: usize = Saved::<u64, u64>::SIZE;

#[test]
fn what_was_pushed_comes_out_once() {
    let mut saved = Saved::new(ROOM);
    let each = Saved::<u64, u64>::EACH as u64;
    for round in 0..3 {
        // Several chunks, the last of them not full.
        let numbers = 0..each * 3 + round;
        assert!(numbers.clone().all(|number| saved.push(round as u16, &number, &(number + round))));
        let out = std::iter::from_fn(|| saved.pop());
        let mut out: Vec<_> = out.collect();
        out.sort_unstable();
        assert!(out.into_iter().eq(numbers.map(|number| (round as u16, number, number + round))));
        assert!(saved.is_empty());
        assert_eq!(saved.memory(), 0);
    }
}

#[test]
fn a_full_one_takes_nothing_until_something_left() {
    let mut saved = Saved::new(10 * SIZE);
    let taken = (0..100u64).take_while(|number| saved.push(0, number, number)).count();
    assert_eq!(taken, 10);
    assert!(saved.pop().is_some());
    assert!(saved.push(0, &7, &7));
    assert!(!saved.push(0, &8, &8));
}

#[test]
fn its_memory_is_bounded_and_counted() {
    let mut saved = Saved::new(ROOM);
    let taken = (0..u64::MAX).take_while(|number| saved.push(0, number, number)).count();
    assert_eq!(taken, ROOM / SIZE);
    assert!((ROOM..=ROOM + CHUNK).contains(&(saved.memory() + SIZE)), "{} bytes", saved.memory());
}

/// Nobody knows how much memory a copy of these takes, or it is not cheap.
#[test]
fn what_owns_memory_elsewhere_or_is_large_is_not_kept() {
    assert!(!Saved::new(ROOM).push(0, &"key".to_owned(), &1));
    assert!(!Saved::new(ROOM).push(0, &1, &vec![1]));
    assert!(!Saved::new(ROOM).push(0, &1, &[0u8; 1 << 16]));
    assert!(Saved::new(ROOM).push(0, &1, &[0u8; 100]));
}
