//! What channels promise together.

use super::watermark;
use crate::time::{Timestamp, Watermark};

fn at(at: i64) -> Watermark {
    Watermark { at: Some(Timestamp(at)), idle: false }
}

fn idle(at: i64) -> Watermark {
    Watermark { at: Some(Timestamp(at)), idle: true }
}

fn together(channels: &[(Watermark, bool)]) -> Watermark {
    watermark(channels.iter().copied())
}

#[test]
fn the_oldest_promise_of_those_that_take_part_is_the_common_one() {
    assert_eq!(together(&[(at(7), false), (at(5), false), (idle(2), false), (at(1), true)]), at(5));
    let silent = Watermark::default();
    assert_eq!(together(&[(at(7), false), (silent, false)]), silent, "one has promised nothing");
}

#[test]
fn when_nobody_takes_part_the_newest_promise_stands() {
    assert_eq!(together(&[(idle(2), false), (idle(6), false), (at(4), true)]), idle(6));
    assert_eq!(together(&[(at(4), true), (at(9), true)]), at(9));
    assert_eq!(together(&[]), Watermark::default());
}
