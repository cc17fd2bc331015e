//! Operators and the chains they form.
//!
//! A chain is a tree of operators that run in one subtask: each owns the next and hands it one record at a time through a
//! `dyn` call. The head checks between two records whether it may take another ([`Context::may_take`]): credits, time
//! quantum, a full segment buffer, a sink that is not ready. What one record causes is never interrupted.
//!
//! An operator never sees a barrier (the subtask does), never blocks, and keeps no state of its own but what is declared.

use crate::error::{Error, Result};
use crate::heartbeat::{Heartbeat, Mark};
use crate::outbox::Outbox;
use crate::record::{AnyBatch, Batch, Record};
use crate::state::AnyFailure;
use crate::subtask::SourcePort;
use crate::time::{Clock, Time, Timestamp, Watermark};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub mod fan;
pub mod filter;
pub mod flat_map;
pub mod fold;
pub mod inspect;
pub mod key_by;
pub mod map;
pub mod part;
pub mod pre_aggregate;
pub mod process;
pub mod side;
pub mod throttle;
pub mod try_map;
pub mod two_inputs;
pub mod watched;

#[cfg(test)]
mod tests;

/// A consumer of records of type `T`: one operator and, behind it, the rest of the chain.
pub trait Operator<T> {
    /// Takes one record.
    ///
    /// # Errors
    /// If user code or the sink fails; ends the attempt.
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()>;

    /// Takes a signal and hands it on.
    ///
    /// # Errors
    /// As `on_record`, for what the signal makes the operator emit.
    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()>;

    /// The records that come next, perhaps not all of them: a chance to bring what they need nearer. Changes nothing.
    fn look_ahead(&mut self, upcoming: &[T]) {
        let _ = upcoming;
    }
}

/// A boxed consumer: what an operator owns of the rest of its chain.
pub type Next<T> = Box<dyn Operator<T>>;

impl<T, O: Operator<T> + ?Sized> Operator<T> for Box<O> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        (**self).on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        (**self).on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[T]) {
        (**self).look_ahead(upcoming);
    }
}

/// What runs through a chain besides records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    /// The watermark of the chain's inputs moved, or they fell idle or became active.
    Watermark(Watermark),
    /// Some timer may be due: fire those up to [`Context::now`] while [`Context::may_fire`] says yes. It comes again for the rest.
    Time,
    /// Emit what is buffered: the cut follows.
    Flush,
    /// No record follows from outside: fire the timers that are left, whenever they are due, while [`Context::may_fire`] says yes.
    /// Who has some left then says [`Context::not_over`] and hands on [`Signal::Time`] instead: what is behind it still gets
    /// records. It comes again for the rest, and barriers come in between.
    Ending,
    /// No record follows, and no timer is left.
    End,
}

/// The erased face of a whole chain.
pub trait Chain {
    /// Takes records out of a batch of a numbered input until it is empty or [`Context::may_take`] says no.
    ///
    /// # Errors
    /// As [`Operator::on_record`]; names the input and the record.
    fn on_batch(&mut self, input: u8, batch: &mut dyn AnyBatch, cx: &mut Context<'_>) -> Result<()>;

    /// Hands a signal through the chain.
    ///
    /// # Errors
    /// As [`Operator::on_signal`].
    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()>;

    /// The source at its head, if it begins with one.
    fn source(&mut self) -> Option<&mut dyn SourcePort> {
        None
    }
}

/// So many records an operator may look at before they come: enough for their memory accesses to overlap, few enough for what
/// was fetched to be still there.
const LOOK_AHEAD: usize = 128;

/// The head of a chain whose inputs all carry the same type. It may own its operator as it is: then the loop over a batch is
/// compiled together with it.
pub struct Head<T, O = Next<T>> {
    next: O,
    taken: u64,
    of: PhantomData<fn(T)>,
}

impl<T: Record, O: Operator<T>> Head<T, O> {
    /// A head before the rest of the chain.
    #[must_use]
    pub fn new(next: O) -> Head<T, O> {
        Head { next, taken: 0, of: PhantomData }
    }
}

impl<T: Record, O: Operator<T>> Chain for Head<T, O> {
    fn on_batch(&mut self, input: u8, batch: &mut dyn AnyBatch, cx: &mut Context<'_>) -> Result<()> {
        let batch =
            batch.as_any().downcast_mut::<Batch<T>>().expect("an edge carries one type, by construction of the plan");
        let mut seen_ahead = 0;
        while cx.may_take() {
            if seen_ahead == 0 {
                let upcoming = batch.upcoming(LOOK_AHEAD);
                seen_ahead = upcoming.len();
                self.next.look_ahead(upcoming);
            }
            let Some((record, at)) = batch.take() else {
                cx.took_none();
                break;
            };
            seen_ahead -= 1;
            self.taken += 1;
            self.next
                .on_record(record, at, cx)
                .map_err(|error| error.at_position(format!("record {} of input {input}", self.taken)))?;
        }
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

/// What an operator may use while it works on one record or signal.
pub struct Context<'a> {
    /// When the step began.
    pub now: Time,
    /// What goes out at the end of the step.
    pub outbox: &'a mut Outbox,
    flow: &'a Flow,
    clock: &'a dyn Clock,
    /// Records that may be taken before the clock is looked at again.
    until_look: u32,
    /// Records of the quantum besides those.
    records_left: u32,
    quantum: Duration,
    looked: Time,
    deadline: Time,
}

/// So many records at most between two looks at the clock: a look costs as much as a few records.
const LONGEST_STRIDE: u32 = 256;

impl<'a> Context<'a> {
    /// A context for one step that may last for `quantum`.
    #[must_use]
    pub fn new(flow: &'a Flow, clock: &'a dyn Clock, quantum: Quantum, outbox: &'a mut Outbox) -> Context<'a> {
        let now = clock.now();
        let until_look = flow.stride.get().clamp(1, LONGEST_STRIDE).min(quantum.records);
        Context {
            now,
            outbox,
            flow,
            clock,
            until_look,
            records_left: quantum.records - until_look,
            quantum: quantum.time,
            looked: now,
            deadline: now.after(quantum.time),
        }
    }

    /// Whether the head may take another record now. Counts it.
    #[inline]
    pub fn may_take(&mut self) -> bool {
        if !self.may_fire() {
            return false;
        }
        let taken = self.flow.taken.get() + 1;
        self.flow.taken.set(taken);
        self.flow.heartbeat.took(taken);
        true
    }

    /// There was none to take after [`Context::may_take`] had counted it.
    pub fn took_none(&mut self) {
        self.flow.taken.set(self.flow.taken.get() - 1);
    }

    /// Whether another timer may fire now: as [`Context::may_take`], for what no record causes. Counts it.
    #[inline]
    pub fn may_fire(&mut self) -> bool {
        if !self.flow.is_open() || (self.until_look == 0 && !self.look_at_clock()) {
            return false;
        }
        self.until_look -= 1;
        true
    }

    /// Whether there is quantum left. The stride to the next look follows the time that the last one took, so that slow user
    /// code does not overrun the quantum by many records.
    #[cold]
    fn look_at_clock(&mut self) -> bool {
        let now = self.clock.now();
        if now >= self.deadline {
            self.records_left = 0;
        }
        let took = now.since(std::mem::replace(&mut self.looked, now));
        self.until_look = self.flow.next_stride(took, self.quantum).min(self.records_left);
        self.records_left -= self.until_look;
        self.until_look > 0
    }

    /// The input has ended, and this operator still has something to give out: [`Signal::Ending`] must come again.
    pub fn not_over(&mut self) {
        self.flow.is_over.set(false);
    }

    /// User code of an operator is about to run: whoever has to explain a panic or a hang wants to know.
    #[inline]
    pub fn enter(&self, mark: Mark) {
        self.flow.heartbeat.enter(mark);
    }

    /// Nothing that user code emitted may leave if its state has failed under it.
    #[inline]
    pub(crate) fn check_state(&self) -> Result<()> {
        self.flow.state_failure.check().map_err(|error| Error::failed(error.to_string()))
    }

    /// Runs `body` for one record of a source; if it panics, `place` says which record it was.
    #[inline]
    pub fn naming<R>(&mut self, place: impl Fn() -> String, body: impl FnOnce(&mut Self) -> R) -> R {
        let flow = self.flow;
        flow.heartbeat.naming(place, || body(self))
    }

    /// What the clock says now; only the cut asks, to measure itself.
    #[must_use]
    pub fn look(&self) -> Time {
        self.clock.now()
    }

    /// Whether the step used up its quantum, so that there may be more to do at once.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.until_look == 0 && self.records_left == 0
    }

    /// Take no further record before this moment (a throttle).
    pub fn hold_until(&mut self, moment: Time) {
        self.flow.held_until.set(self.flow.held_until.get().max(moment));
        self.flow.closed.set(true);
    }

    /// Take no further record until the subtask has asked the sinks again.
    pub fn sink_not_ready(&mut self) {
        self.flow.sink_not_ready.set(true);
        self.flow.closed.set(true);
    }
}

/// How long a step may last; whatever comes first ends it.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// By the clock.
    pub time: std::time::Duration,
    /// By records; the simulator uses this one.
    pub records: u32,
}

/// Why a subtask may take no record now. Shared by the subtask, its outputs and its chain.
#[derive(Debug, Default)]
pub struct Flow {
    /// Records that the head has taken.
    pub taken: Cell<u64>,
    /// The pulse of the worker.
    pub heartbeat: Arc<Heartbeat>,
    /// Whether any of the reasons below is known to hold: what the head looks at between two records.
    closed: Cell<bool>,
    /// Records between the last two looks at the clock.
    stride: Cell<u32>,
    /// Output channels without credit.
    without_credit: Cell<u32>,
    /// No record before this moment.
    pub held_until: Cell<Time>,
    /// A sink's writer is not ready.
    pub sink_not_ready: Cell<bool>,
    /// The segment buffer is full: what a write to state would add has no room.
    pub segment_full: Cell<bool>,
    /// No operator has said of the last [`Signal::Ending`] that it must come again.
    pub(crate) is_over: Cell<bool>,
    /// What user code was not told of its state.
    pub(crate) state_failure: AnyFailure,
}

impl Flow {
    /// Nothing is in the way yet; shows its records in this heartbeat.
    #[must_use]
    pub fn of(heartbeat: Arc<Heartbeat>, state_failure: AnyFailure) -> Flow {
        Flow { heartbeat, state_failure, ..Flow::default() }
    }

    /// Whether a record may be taken.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.closed.get()
    }

    /// A step begins: looks at all reasons again. In between they only add up.
    pub fn begin_step(&self, now: Time) {
        let closed = self.without_credit.get() > 0
            || self.held_until.get() > now
            || self.sink_not_ready.get()
            || self.segment_full.get();
        self.closed.set(closed);
    }

    /// Output channels without credit.
    #[must_use]
    pub fn without_credit(&self) -> u32 {
        self.without_credit.get()
    }

    /// An output channel has used up its credit.
    pub fn credit_spent(&self) {
        self.without_credit.set(self.without_credit.get() + 1);
        self.closed.set(true);
    }

    /// An output channel without credit got some; the next step makes use of it.
    pub fn credit_returned(&self) {
        self.without_credit.set(self.without_credit.get() - 1);
    }

    /// How many records to take before the next look at the clock, when those since the last one took so long.
    fn next_stride(&self, took: Duration, quantum: Duration) -> u32 {
        let stride = self.stride.get().max(1);
        let next = if took >= quantum {
            1
        } else if took > quantum / 16 {
            stride / 2
        } else {
            stride * 2
        };
        self.stride.set(next.clamp(1, LONGEST_STRIDE));
        self.stride.get()
    }
}
