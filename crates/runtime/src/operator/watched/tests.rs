//! What is shown of a stream with hot keys, and of one without.

use super::*;

struct Nothing;

impl<T> Operator<T> for Nothing {
    fn on_record(&mut self, _: T, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    fn on_signal(&mut self, _: Signal, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }
}

/// Looks ahead over a stream of keys as the head of a chain does, and takes every record.
fn seen(count: u64, key: impl Fn(u64) -> u64) -> Hot {
    let (keys, flow) = (Arc::new(Sampled::new("count")), Rc::new(Flow::default()));
    let mut watched = Watched::new(Arc::clone(&keys), Rc::clone(&flow), Some(7), Nothing);
    for begin in (0..count).step_by(128) {
        let upcoming: Vec<_> = (begin..begin + 128).map(|n| Keyed { hash: key(n), key: key(n), value: () }).collect();
        watched.look_ahead(&upcoming);
        // Those that could not be taken are looked at again.
        watched.look_ahead(&upcoming);
        flow.taken.set(begin + 128);
    }
    keys.read()
}

#[test]
fn a_key_with_a_third_of_the_records_is_shown_with_its_share() {
    let hot = seen(2_000_000, |n| if n % 3 == 0 { 42 } else { n });
    assert_eq!(hot.keys.first().map(|(key, _)| key.as_str()), Some("42"));
    let share = hot.keys[0].1;
    assert!((0.28..=0.36).contains(&share), "{share}");
    assert_eq!(hot.keys.len(), 1);
}

#[test]
fn no_key_is_hot_where_all_are_alike_nor_before_there_is_enough_to_say() {
    assert_eq!(seen(2_000_000, |n| n % 100_000).keys, []);
    assert_eq!(seen(1_000, |_| 1).keys, []);
}

#[test]
fn a_stream_that_goes_round_with_a_period_of_the_samples_shows_all_its_keys() {
    assert_eq!(seen(4_000_000, |n| n % 8).keys.len(), 8);
}

#[test]
fn what_was_hot_long_ago_is_forgotten() {
    let hot = seen(6_000_000, |n| if n < 3_000_000 { 1 } else { 2 });
    assert_eq!(hot.keys, [("2".to_owned(), 1.0)]);
}
