//! Whatever the waits: nothing is lost of a window, it stays within its bounds, and its sender is never left without credit.

use super::*;
use proptest::prelude::*;

const FAST: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_secs(1);

/// Works off all that may be under way, in batches, so often; the sender always sends what it may.
fn rounds(window: &mut Window, batch: usize, waited: Duration, times: usize) {
    let mut under_way = window.allowed - window.consumed;
    for _ in 0..times {
        let bytes = batch.min(under_way);
        under_way -= bytes;
        under_way += window.consumed(bytes, waited).unwrap_or(0);
    }
}

#[test]
fn a_slow_receiver_gets_a_small_window_and_a_fast_one_the_whole() {
    let mut window = Window::new(256 << 10);
    rounds(&mut window, 4 << 10, FAST, 100);
    assert_eq!(window.allowed, 256 << 10);
    rounds(&mut window, 4 << 10, SLOW, 400);
    assert_eq!(window.allowed, LEAST);
    rounds(&mut window, 4 << 10, FAST, 100);
    assert_eq!(window.allowed, 256 << 10);
}

#[test]
fn a_wait_that_is_about_right_changes_nothing() {
    let mut window = Window { most: 256 << 10, allowed: 100_000, consumed: 0 };
    rounds(&mut window, 4 << 10, LONGEST_WAIT * 3 / 4, 100);
    assert_eq!(window.allowed, 100_000);
}

#[test]
fn a_window_smaller_than_the_least_stays_as_it_is() {
    let mut window = Window::new(100);
    rounds(&mut window, 10, SLOW, 100);
    assert_eq!(window.allowed, 100);
}

proptest! {
    #[test]
    fn what_is_allowed_is_what_the_sender_has_and_what_is_here(
        most in 1_usize..(1 << 18),
        batches in prop::collection::vec((1_usize..(1 << 16), 0_u64..400), 1..200),
    ) {
        let mut window = Window::new(most);
        let mut credit = most as isize;
        for (bytes, waited) in batches {
            prop_assert!(credit > 0, "a sender without credit would wait for ever");
            // It has credit, so it sends, and may overdraw.
            credit -= bytes as isize;
            credit += window.consumed(bytes, Duration::from_millis(waited)).unwrap_or(0) as isize;
            prop_assert_eq!(credit + window.consumed as isize, window.allowed as isize);
            prop_assert!((LEAST.min(most)..=most).contains(&window.allowed));
        }
    }
}
