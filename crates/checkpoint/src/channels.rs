//! A set of the input channels of one subtask: what the modes count with.
//!
//! One bit per channel, in place up to 128 channels, since most subtasks have few and some have hundreds. It knows
//! nothing of barriers.

use crate::ids::Channel;
use smallvec::{SmallVec, smallvec};

/// A subset of the channels `0..count`. Two sets can be compared only if they were made for the same count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Channels {
    words: SmallVec<[u64; 2]>,
    members: u32,
    count: u32,
}

impl Channels {
    pub(crate) fn none_of(count: u16) -> Channels {
        let count = u32::from(count);
        Channels { words: smallvec![0; count.div_ceil(u64::BITS) as usize], members: 0, count }
    }

    /// Whether the channel is new to the set.
    ///
    /// A channel that the subtask does not have is a bug of the step loop.
    pub(crate) fn insert(&mut self, channel: Channel) -> bool {
        assert!(u32::from(channel.0) < self.count, "channel {channel} of a subtask with {} channels", self.count);
        let (word, bit) = position(channel);
        let word = self.words.get_mut(word).expect("the words cover all channels");
        let is_new = *word & bit == 0;
        *word |= bit;
        self.members += u32::from(is_new);
        is_new
    }

    pub(crate) fn contains(&self, channel: Channel) -> bool {
        let (word, bit) = position(channel);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn len(&self) -> u32 {
        self.members
    }

    pub(crate) fn is_full(&self) -> bool {
        self.members == self.count
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Channel> + '_ {
        self.all().filter(|&channel| self.contains(channel))
    }

    /// The channels that are not in the set, in ascending order.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Channel> + '_ {
        self.all().filter(|&channel| !self.contains(channel))
    }

    /// Empties the set and gives what was in it.
    pub(crate) fn drain(&mut self) -> Vec<Channel> {
        let members = self.iter().collect();
        self.words.fill(0);
        self.members = 0;
        members
    }

    fn all(&self) -> impl Iterator<Item = Channel> + use<> {
        (0..self.count as u16).map(Channel)
    }
}

fn position(channel: Channel) -> (usize, u64) {
    let word = u32::from(channel.0) / u64::BITS;
    (word as usize, 1 << (u32::from(channel.0) % u64::BITS))
}

#[cfg(test)]
mod tests;
