//! User code with two keyed inputs of one key type, which share their state.

use super::{BoxError, Core, Firing, NoTimers, Out, State, TimerOut};
use crate::error::Result;
use crate::key::Key;
use crate::operator::two_inputs::TwoInputs;
use crate::operator::{Context, Signal};
use crate::record::Keyed;
use crate::time::{Time, Timestamp};
use std::sync::Arc;

/// Calls one function with the records of the first input and another one with those of the second.
pub struct TwoProcess<K: Key, U, S: State, F, G> {
    core: Core<K, U, S>,
    on_first: Arc<F>,
    on_second: Arc<G>,
}

impl<K: Key, U, S: State, F, G> TwoProcess<K, U, S, F, G> {
    /// User code before the rest of the chain.
    pub fn new(core: Core<K, U, S>, on_first: Arc<F>, on_second: Arc<G>) -> TwoProcess<K, U, S, F, G> {
        TwoProcess { core, on_first, on_second }
    }
}

impl<K, A, B, U, S, F, G> TwoInputs<Keyed<K, A>, Keyed<K, B>> for TwoProcess<K, U, S, F, G>
where
    K: Key,
    S: State,
    F: for<'a> Fn(S::At<'a, K>, A, &mut Out<'_, K, U>) -> Result<(), BoxError>,
    G: for<'a> Fn(S::At<'a, K>, B, &mut Out<'_, K, U>) -> Result<(), BoxError>,
{
    fn on_first(&mut self, record: Keyed<K, A>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        self.core.call((hash, &key), at, NoTimers, cx, |state, out| (self.on_first)(state, value, out))
    }

    fn on_second(&mut self, record: Keyed<K, B>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        self.core.call((hash, &key), at, NoTimers, cx, |state, out| (self.on_second)(state, value, out))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.core.hand_on_signal(signal, cx)
    }
}

/// A [`TwoProcess`] with timers.
pub struct TimedTwoProcess<K: Key, U, S: State, F, G, H> {
    core: Core<K, U, S>,
    firing: Firing<K, H>,
    on_first: Arc<F>,
    on_second: Arc<G>,
}

impl<K: Key, U, S: State, F, G, H> TimedTwoProcess<K, U, S, F, G, H> {
    /// User code before the rest of the chain.
    pub fn new(
        core: Core<K, U, S>,
        firing: Firing<K, H>,
        on_first: Arc<F>,
        on_second: Arc<G>,
    ) -> TimedTwoProcess<K, U, S, F, G, H> {
        TimedTwoProcess { core, firing, on_first, on_second }
    }
}

impl<K, A, B, U, S, F, G, H> TwoInputs<Keyed<K, A>, Keyed<K, B>> for TimedTwoProcess<K, U, S, F, G, H>
where
    K: Key,
    S: State,
    F: for<'a> Fn(S::At<'a, K>, A, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    G: for<'a> Fn(S::At<'a, K>, B, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
    H: for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>,
{
    fn on_first(&mut self, record: Keyed<K, A>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        let f = &self.on_first;
        self.firing.call(&mut self.core, (hash, &key), at, false, cx, |state, out| f(state, value, out))
    }

    fn on_second(&mut self, record: Keyed<K, B>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        let f = &self.on_second;
        self.firing.call(&mut self.core, (hash, &key), at, false, cx, |state, out| f(state, value, out))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        let signal = self.firing.on_signal(&mut self.core, signal, cx)?;
        self.core.hand_on_signal(signal, cx)
    }
}
