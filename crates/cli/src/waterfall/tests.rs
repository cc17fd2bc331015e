//! What a bar shows of long and of short steps.

use super::*;

#[test]
fn steps_are_as_long_as_they_took() {
    let bar = bar(&[('.', 10), ('a', 20), ('s', 30)], 0, 60);
    assert_eq!(bar, format!("{}{}{}", ".".repeat(10), "a".repeat(20), "s".repeat(30)));
}

#[test]
fn a_short_step_shows_beside_long_ones_and_none_is_drawn_beyond_the_end() {
    let shown = bar(&[('.', 5_000), ('c', 1), ('s', 5_000), ('u', 1)], 0, 10_002);
    for letter in [".", "c", "s", "u"] {
        assert!(shown.contains(letter), "{shown}");
    }
    assert_eq!(shown.len(), 60);
    assert_eq!(bar(&[('r', 1)], 10_001, 10_002).len(), 60);
    assert_eq!(bar(&[('r', u64::MAX / 2)], 0, u64::MAX / 2), "r".repeat(60));
}

#[test]
fn what_took_no_time_at_all_is_no_bar() {
    assert_eq!(bar(&[('.', 0), ('u', 0)], 0, 7), "");
}
