//! The seam between a subtask and the checkpoint algorithms: four events in, ten actions out.
//!
//! Everything that is the same for all modes lives here, once: an older barrier is stale, a newer one abandons the
//! round, `Resolved` ends every round up to its id. What differs is one function per mode, under `modes/`.
//!
//! Absent on purpose:
//! - records: a mode never sees one;
//! - the outcome of a checkpoint: what is held is given back either way, only sinks and state care;
//! - the end of data: a finished subtask goes on forwarding barriers, so an ended channel still owes its own;
//! - cancel markers: `Resolved` is repeated to every subtask until it is acknowledged, so nobody waits for a barrier
//!   that will not come, and mail overtakes what is queued where a marker could not.

use crate::barrier::Barrier;
use crate::ids::{Channel, CheckpointId};
use crate::modes;
use crate::round::Round;

/// What happens to barriers at a subtask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The barrier entered the queue of a channel. Always raised, also when the channel is blocked or the subtask
    /// paused, and before `AtHead` of the same barrier.
    Arrived {
        /// The channel; 0 of a source is the outside world, and a trigger the barrier on it.
        from: Channel,
        /// The barrier.
        barrier: Barrier,
    },
    /// Everything before the barrier on this channel has been processed. Never raised while the channel is blocked or
    /// the subtask paused. For a source: before its next record.
    AtHead {
        /// The channel.
        from: Channel,
        /// The barrier.
        barrier: Barrier,
    },
    /// The coordinator completed or aborted the checkpoint. May come late, twice, or before the barrier.
    Resolved {
        /// The checkpoint; every older one is over too.
        id: CheckpointId,
    },
    /// The time that `ArmTimeout` asked for is over.
    Timeout {
        /// The checkpoint it was armed for.
        id: CheckpointId,
    },
}

/// What the step loop shall do, in the given order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Take nothing from the channel; its credits run out and the sender stops.
    Block(Channel),
    /// Take from the channel again.
    Unblock(Channel),
    /// Stop records, timers and user callbacks. The scan, uploads, acks and control mail go on.
    Pause,
    /// Undo `Pause`.
    Resume,
    /// Send the barrier on all outputs, in order: behind all that was emitted so far.
    Forward(Barrier),
    /// Take the handles of all state, sink epochs and positions. The part may be acked when, after all actions of an
    /// event, no capture of this id is open.
    Snapshot {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Add to the part all but barriers that the channel holds before the barrier of this id, and all that still enters
    /// it, until `CaptureEnd`: records, watermarks and the end of data.
    CaptureStart {
        /// The checkpoint.
        id: CheckpointId,
        /// The channel.
        channel: Channel,
    },
    /// The barrier of this id is in the queue: what enters from now on lies behind it.
    CaptureEnd {
        /// The checkpoint.
        id: CheckpointId,
        /// The channel.
        channel: Channel,
    },
    /// Raise `Timeout` when the alignment timeout has passed since the barrier's `triggered_at`.
    ArmTimeout {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// A newer barrier came: drop what was taken for the id and not yet acked, and tell the coordinator, which ignores it
    /// if the id is resolved already. Sealed sink epochs are kept (S2).
    Decline {
        /// The checkpoint.
        id: CheckpointId,
    },
}

/// Empty for nearly all events, and then free of cost.
pub type Actions = Vec<Action>;

/// What one subtask knows about barriers. Outlives every round and every change of mode.
///
/// It belongs to one attempt: the subtask drops barriers and mail of any other before they get here.
///
/// ```
/// use flott_checkpoint::*;
///
/// let barrier = Barrier {
///     id: CheckpointId(1),
///     attempt: AttemptId(1),
///     mode: Mode::Aligned,
///     kind: Kind::Checkpoint,
///     base: None,
///     triggered_at: 0,
/// };
/// let mut arrivals = Arrivals::restored(2, CheckpointId(0));
/// let first = arrivals.on(Event::AtHead { from: Channel(0), barrier });
/// assert_eq!(first, [Action::Block(Channel(0))]);
/// let last = arrivals.on(Event::AtHead { from: Channel(1), barrier });
/// let expected = [
///     Action::Block(Channel(1)),
///     Action::Forward(barrier),
///     Action::Snapshot { id: barrier.id },
///     Action::Unblock(Channel(0)),
///     Action::Unblock(Channel(1)),
/// ];
/// assert_eq!(last, expected);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Arrivals {
    channels: u16,
    /// The newest id that is over here; barriers up to it are stale.
    floor: CheckpointId,
    round: Option<Round>,
}

impl Arrivals {
    /// For a subtask with this many input channels, at the start of an attempt.
    ///
    /// `floor` is the checkpoint that the attempt restored, or 0: ids grow over the whole log, so all that comes is newer.
    #[must_use]
    pub fn restored(channels: u16, floor: CheckpointId) -> Arrivals {
        assert!(channels > 0, "a subtask has at least one channel; a source's is the outside world");
        Arrivals { channels, floor, round: None }
    }

    /// The door of the seam. The step loop executes all actions before it raises the next event.
    #[must_use = "the actions are to be executed"]
    pub fn on(&mut self, event: Event) -> Actions {
        match event {
            Event::Arrived { barrier, .. } if !barrier.mode.acts_on_arrival() => Actions::new(),
            Event::Arrived { barrier, .. } | Event::AtHead { barrier, .. } => self.on_barrier(barrier, event),
            Event::Timeout { id } if self.round_id() == Some(id) => self.obey_mode(event),
            Event::Timeout { .. } => Actions::new(),
            Event::Resolved { id } => self.close_up_to(id),
        }
    }

    /// The checkpoint that this subtask has begun and not yet finished with.
    #[must_use]
    pub fn round_id(&self) -> Option<CheckpointId> {
        self.round.as_ref().map(Round::id)
    }

    /// Whether nothing that is said of this id can matter here any more.
    #[must_use]
    pub fn is_past(&self, id: CheckpointId) -> bool {
        id <= self.floor
    }

    /// The channels whose barrier of this id has not done here what it must: all of them if none has come, none if the
    /// checkpoint is over here. For people; nothing is decided by it.
    #[must_use]
    pub fn missing(&self, id: CheckpointId) -> Vec<Channel> {
        match &self.round {
            _ if self.is_past(id) => Vec::new(),
            Some(round) if round.id() == id => round.missing(),
            Some(round) if round.id() > id => Vec::new(),
            _ => (0..self.channels).map(Channel).collect(),
        }
    }

    fn on_barrier(&mut self, barrier: Barrier, event: Event) -> Actions {
        let newest = self.round_id().unwrap_or(self.floor);
        if self.is_past(barrier.id) || barrier.id < newest {
            return Actions::new();
        }
        let mut actions = Actions::new();
        if let Some(id) = self.round_id().filter(|&id| id < barrier.id) {
            actions.push(Action::Decline { id });
            actions.extend(self.close_up_to(id));
        }
        let round = self.round.get_or_insert_with(|| Round::new(barrier, self.channels));
        if round.note(event) {
            actions.extend(self.obey_mode(event));
        }
        actions
    }

    fn obey_mode(&mut self, event: Event) -> Actions {
        let Some(round) = &mut self.round else { return Actions::new() };
        let mut actions = modes::rules(round.mode())(round, event);
        if round.is_over() {
            let id = round.id();
            actions.extend(self.close_up_to(id));
        }
        actions
    }

    fn close_up_to(&mut self, id: CheckpointId) -> Actions {
        self.floor = self.floor.max(id);
        self.round.take_if(|round| round.id() <= id).map_or_else(Actions::new, Round::give_back)
    }
}

#[cfg(test)]
mod tests;
