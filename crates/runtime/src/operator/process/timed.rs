//! Processing-time timers for user code: registered for a key, fired once, kept in every checkpoint.
//!
//! A timer is an entry of state like any other. Those that came due while the job was down fire after the restore.

use super::{BoxError, Core, Out, State};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::operator::{Context, Operator, Signal};
use crate::record::Keyed;
use crate::state::{AnyTimers, StateError, TimerState};
use crate::time::{Time, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// An [`Out`] that can also set timers for the record's key. There is at most one timer per key and millisecond.
pub type TimerOut<'a, K, U> = Out<'a, K, U, Timers<K>>;

/// The timers of one key.
pub struct Timers<K> {
    table: AnyTimers<K>,
    hash: u64,
    /// The input has ended: nothing will wake this operator again.
    ended: bool,
}

impl<K: Key, U> TimerOut<'_, K, U> {
    /// Sets a timer for this key and returns when it will fire: the next whole millisecond, so never too early. Setting it
    /// again changes nothing. A moment that has passed fires at once, after the current function.
    ///
    /// While the timers that were left fire at the end of the input, no timer is set any more.
    pub fn timer_at(&mut self, moment: Time) -> Time {
        let millis = to_millis(moment);
        let Timers { table, hash, ended } = &mut self.timers;
        if !*ended {
            let registered = table.register(*hash, self.key.clone(), millis);
            table.settle(registered);
        }
        from_millis(millis)
    }

    /// Sets a timer so long after [`Out::now`]. See [`TimerOut::timer_at`].
    pub fn timer_after(&mut self, delay: Duration) -> Time {
        self.timer_at(self.now.after(delay))
    }

    /// Takes back a timer of this key, by the moment that `timer_at` or `timer_after` returned. False if there is none: it
    /// has fired, or was never set.
    pub fn delete_timer(&mut self, moment: Time) -> bool {
        let Timers { table, hash, .. } = &mut self.timers;
        let deleted = table.delete(*hash, self.key, to_millis(moment));
        table.settle(deleted)
    }
}

fn to_millis(moment: Time) -> i64 {
    i64::try_from(moment.0.div_ceil(1_000)).unwrap_or(i64::MAX)
}

fn from_millis(millis: i64) -> Time {
    Time::of_millis(u64::try_from(millis).unwrap_or(0))
}

/// The timers of an operator and the user code that they call.
pub struct Firing<K, G> {
    timers: AnyTimers<K>,
    on_timer: Arc<G>,
}

impl<K: Key, G> Firing<K, G> {
    /// See the type.
    pub fn new(timers: AnyTimers<K>, on_timer: Arc<G>) -> Firing<K, G> {
        Firing { timers, on_timer }
    }

    /// Runs user code for one key, which may set timers.
    pub(super) fn call<U, S: State>(
        &mut self,
        core: &mut Core<K, U, S>,
        (hash, key): (u64, &K),
        at: Option<Timestamp>,
        ended: bool,
        cx: &mut Context<'_>,
        user: impl FnOnce(S::At<'_, K>, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    ) -> Result<()> {
        let timers = Timers { table: self.timers.clone(), hash, ended };
        core.call((hash, key), at, timers, cx, user)
    }

    /// What a signal means to the timers; what it returns must be handed on afterwards.
    pub(super) fn on_signal<U, S>(
        &mut self,
        core: &mut Core<K, U, S>,
        signal: Signal,
        cx: &mut Context<'_>,
    ) -> Result<Signal>
    where
        S: State,
        G: for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    {
        match signal {
            Signal::Time => {
                let now = i64::try_from(cx.now.millis()).unwrap_or(i64::MAX);
                while cx.may_fire() && self.fire_one(core, now, false, cx)? {}
            }
            // Nobody would come for them later: they fire now, in their order.
            Signal::Ending => {
                while cx.may_fire() && self.fire_one(core, i64::MAX, true, cx)? {}
                if self.timers.next_time().is_some() {
                    cx.not_over();
                    return Ok(Signal::Time);
                }
            }
            // Set because of what an operator before this one gave out at its own end.
            Signal::End => while self.fire_one(core, i64::MAX, true, cx)? {},
            Signal::Watermark(_) | Signal::Flush => {}
        }
        Ok(signal)
    }

    /// False if none is due.
    fn fire_one<U, S>(
        &mut self,
        core: &mut Core<K, U, S>,
        until: i64,
        ended: bool,
        cx: &mut Context<'_>,
    ) -> Result<bool>
    where
        S: State,
        G: for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    {
        let failed = |error: StateError| Error::failed(error.to_string());
        let Some(due) = self.timers.pop_due(until).map_err(failed)? else { return Ok(false) };
        let (on_timer, moment) = (Arc::clone(&self.on_timer), from_millis(due.time));
        self.call(core, (due.hash, &due.key), None, ended, cx, |state, out| on_timer(state, moment, out))?;
        Ok(true)
    }
}

/// Calls user code with every record and with every timer that is due.
pub struct TimedProcess<K: Key, U, S: State, F, G> {
    core: Core<K, U, S>,
    firing: Firing<K, G>,
    f: Arc<F>,
}

impl<K: Key, U, S: State, F, G> TimedProcess<K, U, S, F, G> {
    /// User code before the rest of the chain.
    pub fn new(core: Core<K, U, S>, firing: Firing<K, G>, f: Arc<F>) -> TimedProcess<K, U, S, F, G> {
        TimedProcess { core, firing, f }
    }
}

impl<K, T, U, S, F, G> Operator<Keyed<K, T>> for TimedProcess<K, U, S, F, G>
where
    K: Key,
    S: State,
    F: for<'a> Fn(S::At<'a, K>, T, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    G: for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
{
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        let f = &self.f;
        self.firing.call(&mut self.core, (hash, &key), at, false, cx, |state, out| f(state, value, out))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        let signal = self.firing.on_signal(&mut self.core, signal, cx)?;
        self.core.hand_on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        self.core.look_ahead(upcoming);
    }
}
