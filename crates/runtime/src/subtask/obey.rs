//! Does what a checkpoint algorithm says. The cut happens here: one uninterruptible step, O(1) in the size of the state.

use super::snapshot::Part;
use super::trail::Trail;
use super::{FirstSeen, Subtask, is_final};
use crate::control::{Captured, ChannelPart, Report};
use crate::error::Result;
use crate::operator::{Context, Signal};
use crate::outbox::Outbox;
use crate::time::{Clock, Time};
use flott_checkpoint::{Action, Actions, Barrier, Channel, CheckpointId, Event};
use std::collections::BTreeMap;

impl Subtask {
    /// The barrier is next on its channel.
    pub(super) fn at_head(&mut self, from: Channel, barrier: Barrier, cx: &mut Context<'_>) -> Result<()> {
        self.see(barrier, cx.now);
        let actions = self.arrivals.on(Event::AtHead { from, barrier });
        self.obey(actions, cx)
    }

    /// Notes the first barrier of a checkpoint: next on its channel, or for a mode that acts on arrival in its queue.
    pub(super) fn see(&mut self, barrier: Barrier, now: Time) {
        if self.first_seen.is_none_or(|seen| seen.id < barrier.id) {
            let triggered = Time(barrier.triggered_at.saturating_mul(1_000));
            self.first_seen = Some(FirstSeen { id: barrier.id, at: now, triggered });
        }
    }

    /// The alignment of a checkpoint has taken too long, if it has.
    pub(super) fn time_out(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        let now = clock.now();
        let Some((id, _)) = self.alignment_ends.take_if(|(_, due)| *due <= now) else { return Ok(()) };
        let actions = self.arrivals.on(Event::Timeout { id });
        self.obey_apart(actions, clock, outbox)
    }

    /// Executes actions in their order.
    pub(super) fn obey(&mut self, actions: Actions, cx: &mut Context<'_>) -> Result<()> {
        let mut forwarded: Option<(Barrier, Time)> = None;
        for action in actions {
            match action {
                Action::Block(channel) => self.block(channel),
                Action::Unblock(channel) => self.unblock(channel, cx.now),
                Action::Pause => self.paused = true,
                Action::Resume => {
                    self.paused = false;
                    self.gate.resume(cx.now);
                }
                Action::Forward(barrier) => {
                    forwarded = Some((barrier, cx.look()));
                    self.forward(barrier, cx)?;
                }
                Action::Snapshot { id } => {
                    let (barrier, began) =
                        forwarded.filter(|(barrier, _)| barrier.id == id).expect("a cut forwards, then snapshots");
                    self.cut(barrier, began, cx)?;
                }
                Action::Decline { id } => self.decline(id, "a newer barrier came", cx),
                // Nothing is in flight between the outside world and a source.
                Action::CaptureStart { .. } | Action::CaptureEnd { .. } if self.is_source => {}
                Action::CaptureStart { id, channel } => {
                    self.gate.start_capture(channel, id);
                    self.parts.iter_mut().filter(|part| part.id() == id).for_each(Part::begin_capture);
                }
                Action::CaptureEnd { id, channel } => self.gate.end_capture(channel, id),
                Action::ArmTimeout { id } => {
                    let seen = self.first_seen.filter(|seen| seen.id == id);
                    let triggered = seen.map_or(cx.now, |seen| seen.triggered);
                    self.alignment_ends = Some((id, triggered.after(self.attempt.options.alignment_timeout)));
                }
            }
        }
        Ok(())
    }

    /// The one channel of a source is the outside world: it is held by taking no trigger and no record, see `work_as_source`.
    fn block(&mut self, channel: Channel) {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::UnblockedChannel) && !self.is_source {
            return;
        }
        if self.is_source { self.held = true } else { self.gate.block(channel) }
    }

    fn unblock(&mut self, channel: Channel, now: Time) {
        if self.is_source { self.held = false } else { self.gate.unblock(channel, now) }
    }

    /// Emits what operators buffer, and the barrier behind it on all outputs.
    fn forward(&mut self, barrier: Barrier, cx: &mut Context<'_>) -> Result<()> {
        if !self.ended {
            self.chain.on_signal(Signal::Flush, cx).map_err(|error| self.fail_at(error))?;
        }
        for (_, output) in &self.outputs {
            output.borrow_mut().barrier(barrier, cx.outbox).map_err(|error| self.fail_at(error))?;
        }
        Ok(())
    }

    /// Takes the handles of all state: tables, sink epochs, positions, watermarks.
    fn cut(&mut self, barrier: Barrier, began: Time, cx: &mut Context<'_>) -> Result<()> {
        let (id, trail) = (barrier.id, Trail::begin(self, barrier));
        if barrier.mode.is_exact() {
            self.gate.assert_cut(id);
        }
        self.sinks.iter_mut().for_each(|sink| sink.seal(id));
        let bases = self.tables.iter().map(|table| table.borrow_mut().cut(id, barrier.base, barrier.kind)).collect();
        let is_open = self.is_open();
        let mut splits = BTreeMap::new();
        if let Some(source) = self.chain.source().filter(|_| is_open) {
            let mut positions = BTreeMap::new();
            positions.extend(source.parts()?);
            splits.insert(source.operator().to_owned(), positions);
        }
        let channels = self.gate.parts().map(|(channel, watermark, end_of_data)| ChannelPart {
            edge: channel.edge,
            from: channel.from,
            watermark,
            end_of_data,
            captured: Captured::default(),
        });
        let first_seen = self.first_seen.filter(|seen| seen.id == id).map_or(began, |seen| seen.at);
        let mut part = Part::new(barrier, self.id, bases, self.ended, channels.collect(), splits, trail);
        part.times(first_seen, began, cx.look());
        self.parts.push(part);
        self.stopped |= is_final(barrier);
        if is_final(barrier) && barrier.mode.acts_on_arrival() && !self.is_source {
            self.rests_at = Some(id);
        }
        self.alignment_ends.take_if(|(ending, _)| *ending <= id);
        Ok(())
    }

    /// Drops what was taken for a checkpoint and says so.
    pub(super) fn decline(&mut self, id: CheckpointId, reason: &str, cx: &mut Context<'_>) {
        self.parts.retain(|part| part.id() != id);
        self.gate.drop_captures(id);
        self.tables.iter().for_each(|table| table.borrow_mut().abort(id));
        cx.outbox.reports.push(Report::Declined { id, subtask: self.id, reason: reason.to_owned() });
    }
}
