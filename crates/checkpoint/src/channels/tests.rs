//! Channel sets against a plain ordered set.

use super::Channels;
use crate::ids::Channel;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn a_channel_set_agrees_with_a_plain_set(count in 1_u16..700, picks in prop::collection::vec(any::<u16>(), 0..200)) {
        let mut set = Channels::none_of(count);
        let mut plain = BTreeSet::new();
        for channel in picks.into_iter().map(|pick| Channel(pick % count)) {
            prop_assert_eq!(set.insert(channel), plain.insert(channel));
        }
        prop_assert_eq!(set.len() as usize, plain.len());
        prop_assert_eq!(set.is_full(), plain.len() == usize::from(count));
        prop_assert!(set.iter().eq(plain.iter().copied()));
        prop_assert!(set.missing().eq((0..count).map(Channel).filter(|channel| !plain.contains(channel))));
        prop_assert_eq!(set.drain(), plain.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(set, Channels::none_of(count));
    }
}

#[test]
#[should_panic(expected = "channel 3 of a subtask with 3 channels")]
fn a_channel_that_the_subtask_does_not_have_is_a_bug() {
    Channels::none_of(3).insert(Channel(3));
}
