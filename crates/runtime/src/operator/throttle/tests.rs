//! The throttle lets through what its rate says, whatever the number of subtasks. Time is given, never waited for.

use super::*;

/// Two subtasks that take whenever they may; how many records passed before `end`.
fn passed(rate: u64, subtasks: usize, end: Time) -> u64 {
    let bucket = Bucket::per_second(rate);
    let mut held = vec![Time(0); subtasks];
    let (mut now, mut count) = (Time(0), 0);
    while now < end {
        for held in &mut held {
            while *held <= now {
                count += 1;
                *held = bucket.take(now).unwrap_or(*held);
            }
        }
        now = held.iter().copied().min().unwrap_or(end);
    }
    count
}

#[test]
fn the_rate_is_that_of_all_subtasks_together() {
    for (rate, subtasks) in [(1, 1), (10, 2), (1_000, 3), (50_000, 2), (1_000_000, 4)] {
        let seconds = 4;
        let count = passed(rate, subtasks, Time(seconds * 1_000_000));
        // One debt a subtask, and what fits into the slack.
        let slack = subtasks as u64 + rate / 1_000 + 1;
        assert!(count.abs_diff(rate * seconds) <= slack, "{count} records at {rate} a second for {seconds} s");
    }
}
