//! Where this subtask stands with a pending checkpoint, for whoever asks. It only looks.

use super::Subtask;
use crate::time::Time;
use crate::whereabouts::{Held, MissingBarrier, Stage, Standing};
use flott_checkpoint::{Channel, CheckpointId, SubtaskId};

impl Subtask {
    /// How far it is, and why it does not move if it does not.
    pub(crate) fn standing(&self, id: CheckpointId, now: Time) -> Standing {
        Standing { subtask: self.id, stage: self.stage(id), held: self.held_by(now) }
    }

    fn stage(&self, id: CheckpointId) -> Stage {
        if self.acked.iter().any(|(acked, _)| *acked == id) {
            return Stage::Acked;
        }
        let missing: Vec<MissingBarrier> =
            self.arrivals.missing(id).into_iter().map(|channel| self.missing(channel, id)).collect();
        if !missing.is_empty() {
            return Stage::Arriving(missing);
        }
        self.parts.iter().find(|part| part.id() == id).map_or(Stage::Over, super::Part::shown)
    }

    fn missing(&self, channel: Channel, id: CheckpointId) -> MissingBarrier {
        if self.is_source {
            let arrived = self.trigger.is_some_and(|barrier| barrier.id == id);
            return MissingBarrier { from: None, arrived, batches: 0 };
        }
        let (sender, batches, arrived) = self.gate.ahead_of(channel, id);
        let from = self.sender_of(sender.edge).map(|vertex| SubtaskId { vertex, index: sender.from });
        MissingBarrier { from, arrived, batches }
    }

    fn held_by(&self, now: Time) -> Option<Held> {
        let flow = &self.flow;
        let reasons = [
            (!self.is_open(), Held::NotOpen),
            (self.paused || self.held || self.rests_at.is_some(), Held::Paused),
            (flow.without_credit() > 0, Held::Backpressure),
            (flow.sink_not_ready.get(), Held::Sink),
            (flow.segment_full.get(), Held::Storage),
            (flow.held_until.get() > now, Held::Throttle),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, held)| held)
    }
}
