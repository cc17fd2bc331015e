//! The step loop: a bounded amount of work, then what is due, then what the snapshots under way need.
//!
//! Between two records it looks whether it may go on; while paused it takes no record and fires no timer, and everything
//! else goes on.

use super::gate::Element;
use super::snapshot::Work;
use super::{Phase, Pulled, Subtask};
use crate::control::Report;
use crate::error::{Error, Result};
use crate::io::{BlockingCall, Ticket};
use crate::operator::{Context, Quantum, Signal};
use crate::outbox::Outbox;
use crate::time::{Clock, Time};
use crate::worker::{Next, Segments};
use flott_checkpoint::Channel;
use std::rc::Rc;

/// What a step may use besides the subtask itself.
pub(crate) struct Surroundings<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) segments: &'a mut Segments,
    pub(crate) tickets: &'a mut dyn FnMut() -> Ticket,
    pub(crate) outbox: &'a mut Outbox,
}

impl Subtask {
    /// Does a bounded amount of work and says when to come again.
    pub(crate) fn step(&mut self, around: &mut Surroundings<'_>) -> Result<Next> {
        let (now, sent) = (around.clock.now(), around.outbox.packets.len());
        self.prepare_flow(now, around.segments);
        self.time_out(around.clock, around.outbox)?;
        let mut again = false;
        let taken = self.flow.taken.get();
        if self.is_open() {
            again = self.work(around.clock, around.outbox)?;
        }
        self.flow.state_failure.check().map_err(|error| Error::failed(error.to_string()).at_subtask(self.id))?;
        let mut wake = self.send_due(now, around.outbox)?;
        let ended = around.clock.now();
        let work = Work { records: self.flow.taken.get() - taken, time: ended.since(now) };
        again |= self.advance_parts(work, around.segments, ended, around.outbox)?;
        self.call_sinks(now, around);
        self.report_commits(around.outbox);
        self.count_step(now, ended, around.outbox.packets.get(sent..).unwrap_or_default());
        if again {
            return Ok(Next::Now);
        }
        wake.extend(self.alignment_ends.map(|(_, due)| due));
        wake.extend(self.sinks.iter().filter_map(super::SinkPort::wake_at));
        if self.is_open() && !self.is_still() && !self.ended {
            wake.extend(self.source_wait);
            wake.extend(Some(self.flow.held_until.get()).filter(|moment| *moment > now));
            // One that is due already waits for what holds back records too.
            wake.extend(self.next_timer().filter(|due| *due > now));
        }
        Ok(wake.into_iter().min().map_or(Next::Idle, Next::At))
    }

    /// Whether records may flow: not before all hold the restored state (R1), for what was in flight comes before what is sent.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether no record is taken and no timer fires.
    fn is_still(&self) -> bool {
        self.paused || self.rests_at.is_some()
    }

    fn prepare_flow(&mut self, now: Time, segments: &Segments) {
        let full = segments.buffered() + self.buffered() >= self.attempt.options.segment_buffer;
        self.flow.segment_full.set(full);
        if self.flow.sink_not_ready.get() {
            self.flow.sink_not_ready.set(!self.sinks.iter().all(super::SinkPort::ready));
        }
        self.flow.begin_step(now);
    }

    /// Records, signals and barriers, until the quantum is used up or nothing can be taken; true in the first case.
    fn work(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Result<bool> {
        let late = !self.is_still() && !self.ended && !self.ending && self.fire_timers(clock, outbox)?;
        let flow = Rc::clone(&self.flow);
        let cx = &mut Context::new(&flow, clock, self.attempt.options.quantum, outbox);
        let more = if self.is_source { self.work_as_source(cx)? } else { self.work_on_gate(cx)? };
        Ok(late || more)
    }

    /// Timers have half a quantum of their own, so that records and barriers have their turn however many are due. True if
    /// some are left that may fire at once.
    fn fire_timers(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Result<bool> {
        let flow = Rc::clone(&self.flow);
        let Quantum { time, records } = self.attempt.options.quantum;
        let half = Quantum { time: time / 2, records: records.div_ceil(2) };
        let cx = &mut Context::new(&flow, clock, half, outbox);
        if self.next_timer().is_none_or(|due| due > cx.now) {
            return Ok(false);
        }
        self.chain.on_signal(Signal::Time, cx).map_err(|error| self.fail_at(error))?;
        Ok(flow.is_open() && self.next_timer().is_some_and(|due| due <= cx.now))
    }

    fn work_as_source(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        // One that may not be asked waits for no moment: it would have the worker come again and again once that is past.
        self.source_wait = None;
        // A trigger lies in front of the next record; a paused subtask raises no `AtHead`.
        if let Some(barrier) = self.trigger.take_if(|_| !self.paused && !self.held) {
            self.at_head(Channel(0), barrier, cx)?;
        }
        if self.paused || self.held || self.ended || self.stopped {
            return Ok(false);
        }
        if self.draining || self.ending {
            return self.work_on_end(cx);
        }
        let source = self.chain.source().expect("the vertex is a source");
        match source.pull(cx).map_err(|error| self.fail_at(error))? {
            Pulled::More => Ok(true),
            // Without credit there is nothing to be done until some comes.
            Pulled::Stopped => Ok(cx.is_exhausted()),
            Pulled::Wait(moment) => {
                self.source_wait = moment;
                Ok(false)
            }
            Pulled::End => self.work_on_end(cx),
        }
    }

    fn work_on_gate(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        // Channels in a row whose head could not be taken: when that is all of them, nothing can be.
        let mut stuck = 0;
        while !self.is_still() && stuck < self.gate.len() && !cx.is_exhausted() {
            let Some(channel) = self.gate.next_ready() else { break };
            if self.take(channel, cx)? {
                stuck = 0;
            } else {
                stuck += 1;
            }
        }
        if self.ending && !self.is_still() && !self.stopped {
            return self.work_on_end(cx);
        }
        Ok(cx.is_exhausted() && !self.is_still() && self.gate.is_ready())
    }

    /// Takes the head of a channel, or as much of it as may be taken; false if that is nothing.
    fn take(&mut self, channel: Channel, cx: &mut Context<'_>) -> Result<bool> {
        let (input, element) = self.gate.take(channel).expect("the gate said that it is ready");
        match element {
            Element::Batch { mut batch, bytes, epoch, since } => {
                let before = batch.len();
                self.chain.on_batch(input, &mut *batch, cx).map_err(|error| self.fail_at(error))?;
                let moved = batch.len() < before;
                if moved {
                    self.gate.note_epoch(epoch);
                }
                if batch.is_empty() {
                    self.gate.consumed(channel, bytes, since, cx.now, cx.outbox);
                } else {
                    self.gate.put_back(channel, Element::Batch { batch, bytes, epoch, since });
                }
                return Ok(moved);
            }
            Element::Watermark(watermark) => {
                self.gate.set_watermark(channel, watermark);
                self.hand_on_watermark(cx)?;
            }
            Element::Barrier(barrier) => self.at_head(channel, barrier, cx)?,
            Element::End => {
                if self.gate.end(channel) {
                    self.work_on_end(cx)?;
                } else {
                    self.hand_on_watermark(cx)?;
                }
            }
        }
        Ok(true)
    }

    fn hand_on_watermark(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let watermark = self.gate.watermark();
        if watermark == self.watermark || self.ending || self.ended {
            return Ok(());
        }
        self.watermark = watermark;
        self.chain.on_signal(Signal::Watermark(watermark), cx).map_err(|error| self.fail_at(error))
    }

    /// All inputs have ended: timers that are left fire, some in each step, and barriers pass in between; then the end of data goes
    /// on. True if there is more to do at once.
    fn work_on_end(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        self.ending = true;
        if self.ended {
            return Ok(false);
        }
        self.flow.is_over.set(true);
        self.chain.on_signal(Signal::Ending, cx).map_err(|error| self.fail_at(error))?;
        if self.flow.is_over.get() { self.end(cx).map(|()| false) } else { Ok(self.flow.is_open()) }
    }

    /// No record follows: what operators hold goes out, then the end of data. Barriers still pass (D18).
    fn end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.ended = true;
        self.chain.on_signal(Signal::End, cx).map_err(|error| self.fail_at(error))?;
        for (_, output) in &self.outputs {
            output.borrow_mut().end(cx.outbox)?;
        }
        cx.outbox.reports.push(Report::Finished { subtask: self.id });
        Ok(())
    }

    fn send_due(&mut self, now: Time, outbox: &mut Outbox) -> Result<Vec<Time>> {
        let sent = self.outputs.iter().filter_map(|(_, output)| output.borrow_mut().send_due(now, outbox).transpose());
        sent.collect::<Result<_>>().map_err(|error| self.fail_at(error))
    }

    fn next_timer(&self) -> Option<Time> {
        let due = self.timers.iter().filter_map(|next| next()).min()?;
        Some(Time::of_millis(u64::try_from(due).unwrap_or(0)))
    }

    fn call_sinks(&mut self, now: Time, around: &mut Surroundings<'_>) {
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            let Some(call): Option<BlockingCall> = sink.next_call(now) else { continue };
            let ticket = (around.tickets)();
            self.calls.insert(ticket, index);
            around.outbox.calls.push((ticket, call));
        }
    }

    /// Says of each completed checkpoint that everything up to it is committed; a subtask without sinks says so at once.
    fn report_commits(&mut self, outbox: &mut Outbox) {
        while let Some(&id) = self.committing.first().filter(|id| self.sinks.iter().all(|sink| sink.is_committed(**id)))
        {
            self.committing.remove(0);
            outbox.reports.push(Report::Committed { id, subtask: self.id });
        }
    }
}
