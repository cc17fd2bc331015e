//! User code with declared state: what `fold` cannot say.
//!
//! User code gets the state of the record's key and a place to put its output; what it puts there leaves after it has
//! returned. Whether it may also set timers, or has a second input, is said by the operator's type.

mod broadcast;
mod collections;
mod expiring;
mod folding;
mod listing;
mod state;
mod timed;
mod two;

pub use broadcast::{BroadcastProcess, OwnCopy};
pub use collections::{List, ListRef, Map, MapRef};
pub use expiring::{Expiring, ExpiringRef, ExpiringValue};
pub use folding::{Aggregating, AggregatingRef, Reducing, ReducingRef};
pub use listing::{ListProcess, OwnList, SplitList};
pub use state::{State, Value, ValueRef};
pub use timed::{Firing, TimedProcess, TimerOut, Timers};
pub use two::{TimedTwoProcess, TwoProcess};

use super::side::{SideOutput, Sides};
use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::record::Keyed;
use crate::time::{Time, Timestamp};
use std::sync::Arc;

/// What user code may fail with: `?` turns every error into it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where user code puts its output, and what it may know about the record.
pub struct Out<'a, K, U, T = NoTimers> {
    /// The record's key.
    pub key: &'a K,
    /// The record's event time, if it has one; what is emitted carries it too.
    pub at: Option<Timestamp>,
    now: Time,
    emitted: &'a mut Vec<U>,
    sides: &'a mut Sides,
    timers: T,
}

/// An operator without a function for timers cannot set any.
#[derive(Debug)]
pub struct NoTimers;

impl<K, U, T> Out<'_, K, U, T> {
    /// Gives out a record, after the function has returned.
    pub fn emit(&mut self, record: U) {
        self.emitted.push(record);
    }

    /// Gives out a record on a side output, whose stream was taken with `.side(…)` behind the operator.
    ///
    /// A side output that nobody took is a mistake in the job: the record cannot go anywhere, so the attempt ends with an
    /// error that names both.
    pub fn emit_to<L: 'static>(&mut self, side: SideOutput<L>, record: L) {
        self.sides.emit(side, record);
    }

    /// The host's clock when the step began. A record that is processed again after a restart sees another time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }
}

/// What every operator with user code and declared state has.
pub struct Core<K: Key, U, S: State> {
    operator: String,
    state: S::Open<K>,
    mark: Mark,
    emitted: Vec<U>,
    sides: Sides,
    next: Next<U>,
}

impl<K: Key, U, S: State> Core<K, U, S> {
    /// The state and the rest of the chain; `operator` names it in errors.
    pub fn new(operator: &str, state: S::Open<K>, sides: Sides, mark: Mark, next: Next<U>) -> Core<K, U, S> {
        Core { operator: operator.to_owned(), state, mark, emitted: Vec::new(), sides, next }
    }

    fn operator(&self) -> &str {
        &self.operator
    }

    /// Runs user code for one key, then hands on what it emitted.
    fn call<T>(
        &mut self,
        (hash, key): (u64, &K),
        at: Option<Timestamp>,
        timers: T,
        cx: &mut Context<'_>,
        user: impl FnOnce(S::At<'_, K>, &mut Out<'_, K, U, T>) -> Result<(), BoxError>,
    ) -> Result<()> {
        cx.enter(self.mark);
        let state = S::at(&mut self.state, hash, key, cx.now);
        let mut out = Out { key, at, now: cx.now, emitted: &mut self.emitted, sides: &mut self.sides, timers };
        let returned = user(state, &mut out);
        cx.check_state().map_err(|error| error.at_operator(&self.operator))?;
        returned.map_err(|error| Error::failed(error.to_string()).at_operator(&self.operator))?;
        for record in self.emitted.drain(..) {
            self.next.on_record(record, at, cx)?;
        }
        self.sides.hand_on(at, cx).map_err(|error| error.at_operator(&self.operator))
    }

    fn look_ahead<T>(&self, upcoming: &[Keyed<K, T>]) {
        S::look_ahead::<K>(&self.state, upcoming.iter().map(|record| record.hash));
    }

    fn hand_on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        if signal == Signal::Flush {
            S::tend::<K>(&mut self.state, cx.now);
        }
        self.next.on_signal(signal, cx)?;
        self.sides.on_signal(signal, cx)
    }
}

/// Calls user code with every record, its key and its state.
pub struct Process<K: Key, U, S: State, F> {
    core: Core<K, U, S>,
    f: Arc<F>,
}

impl<K: Key, U, S: State, F> Process<K, U, S, F> {
    /// User code before the rest of the chain.
    pub fn new(core: Core<K, U, S>, f: Arc<F>) -> Process<K, U, S, F> {
        Process { core, f }
    }
}

impl<K, T, U, S, F> Operator<Keyed<K, T>> for Process<K, U, S, F>
where
    K: Key,
    S: State,
    F: for<'a> Fn(S::At<'a, K>, T, &mut Out<'_, K, U>) -> Result<(), BoxError>,
{
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        self.core.call((hash, &key), at, NoTimers, cx, |state, out| (self.f)(state, value, out))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.core.hand_on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        self.core.look_ahead(upcoming);
    }
}
