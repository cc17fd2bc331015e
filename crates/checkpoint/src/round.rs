//! What one subtask does for one checkpoint, from its first barrier there until the checkpoint is over there.
//!
//! A round is the vocabulary that the modes are written in. It remembers what it holds (blocked channels, the pause) and
//! gives it back when it ends, whoever ends it: this is why no mode has a path for aborts. It never decides anything.

use crate::arrivals::{Action, Actions, Event};
use crate::barrier::{Barrier, Mode};
use crate::channels::Channels;
use crate::ids::{Channel, CheckpointId};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Round {
    barrier: Barrier,
    arrived: Channels,
    at_head: Channels,
    blocked: Channels,
    paused: bool,
    has_cut: bool,
    is_over: bool,
}

impl Round {
    pub(crate) fn new(barrier: Barrier, channels: u16) -> Round {
        let none = Channels::none_of(channels);
        let (arrived, at_head, blocked) = (none.clone(), none.clone(), none);
        Round { barrier, arrived, at_head, blocked, paused: false, has_cut: false, is_over: false }
    }

    /// Writes down what a barrier says. False if it says nothing new: the trigger of a source may come twice.
    pub(crate) fn note(&mut self, event: Event) -> bool {
        match event {
            Event::Arrived { from, barrier } => {
                self.raise_mode(barrier.mode);
                self.arrived.insert(from)
            }
            Event::AtHead { from, .. } => self.at_head.insert(from),
            Event::Resolved { .. } | Event::Timeout { .. } => false,
        }
    }

    /// Subtasks upstream may have turned already; the mode of a round never falls back.
    fn raise_mode(&mut self, mode: Mode) {
        self.barrier.mode = self.barrier.mode.max(mode);
    }

    /// All that the round still holds. A round never ends with a channel blocked or the subtask paused.
    pub(crate) fn give_back(mut self) -> Actions {
        let mut actions = self.unblock_all();
        actions.extend(self.paused.then_some(Action::Resume));
        actions
    }

    pub(crate) fn id(&self) -> CheckpointId {
        self.barrier.id
    }

    pub(crate) fn mode(&self) -> Mode {
        self.barrier.mode
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.has_cut
    }

    pub(crate) fn is_first_arrival(&self) -> bool {
        self.arrived.len() == 1
    }

    pub(crate) fn all_arrived(&self) -> bool {
        self.arrived.is_full()
    }

    pub(crate) fn all_at_head(&self) -> bool {
        self.at_head.is_full()
    }

    pub(crate) fn has_arrived(&self, channel: Channel) -> bool {
        self.arrived.contains(channel)
    }

    /// The channels that may still deliver records of this checkpoint.
    pub(crate) fn before_their_barrier(&self) -> impl Iterator<Item = Channel> + '_ {
        self.at_head.missing()
    }

    /// The channels that the round still waits for: after a cut that needed no alignment, those whose barrier is not in.
    pub(crate) fn missing(&self) -> Vec<Channel> {
        let after_the_cut = self.has_cut && self.barrier.mode.acts_on_arrival();
        self.at_head.missing().filter(|&channel| !after_the_cut || !self.has_arrived(channel)).collect()
    }

    pub(crate) fn block(&mut self, channel: Channel) -> Action {
        self.blocked.insert(channel);
        Action::Block(channel)
    }

    pub(crate) fn unblock_all(&mut self) -> Actions {
        self.blocked.drain().into_iter().map(Action::Unblock).collect()
    }

    pub(crate) fn pause(&mut self) -> Action {
        self.paused = true;
        Action::Pause
    }

    /// The cut: what is emitted from here on lies behind the barrier, what changes from here on is not in the handles.
    pub(crate) fn cut(&mut self) -> [Action; 2] {
        self.has_cut = true;
        [Action::Forward(self.barrier), Action::Snapshot { id: self.barrier.id }]
    }

    /// From here on the subtask acts as if this checkpoint had never been.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// The alignment took too long; the barrier that is forwarded says so to everybody downstream.
    pub(crate) fn turn_unaligned(&mut self) {
        self.raise_mode(Mode::Unaligned);
    }
}
