//! User code with a keyed input and one that every subtask gets: rules for all, data by key.
//!
//! What the second input says is kept in a map that every subtask has for itself. Each copy is a fold of the same records,
//! so the copies agree as far as the order of records from different senders does not matter.

use super::{BoxError, Core, MapRef, NoTimers, Out, State};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::operator::two_inputs::TwoInputs;
use crate::operator::{Context, Signal};
use crate::record::Keyed;
use crate::state::{AnyMap, Value};
use crate::time::Timestamp;
use std::sync::Arc;

/// A map that every subtask has for itself, under a key that this subtask owns.
pub struct OwnCopy<M, V> {
    pub(crate) state: AnyMap<u64, M, V>,
    pub(crate) hash: u64,
    pub(crate) key: u64,
}

impl<M, V> OwnCopy<M, V> {
    fn at(&mut self) -> MapRef<'_, u64, M, V> {
        MapRef::new(&mut self.state, self.hash, &self.key)
    }
}

/// Calls one function with the records of the keyed input, which may look at the copy, and another one with those that all
/// get, which may change it.
pub struct BroadcastProcess<K: Key, U, S: State, M, V, F, G> {
    core: Core<K, U, S>,
    copy: OwnCopy<M, V>,
    mark: Mark,
    on_record: Arc<F>,
    on_broadcast: Arc<G>,
}

impl<K: Key, U, S: State, M, V, F, G> BroadcastProcess<K, U, S, M, V, F, G> {
    /// User code before the rest of the chain.
    pub fn new(
        core: Core<K, U, S>,
        copy: OwnCopy<M, V>,
        mark: Mark,
        on_record: Arc<F>,
        on_broadcast: Arc<G>,
    ) -> BroadcastProcess<K, U, S, M, V, F, G> {
        BroadcastProcess { core, copy, mark, on_record, on_broadcast }
    }
}

impl<K, T, R, U, S, M, V, F, G> TwoInputs<Keyed<K, T>, R> for BroadcastProcess<K, U, S, M, V, F, G>
where
    K: Key,
    S: State,
    M: Key,
    V: Value,
    F: for<'a> Fn(S::At<'a, K>, &MapRef<'_, u64, M, V>, T, &mut Out<'_, K, U>) -> Result<(), BoxError>,
    G: Fn(&mut MapRef<'_, u64, M, V>, R) -> Result<(), BoxError>,
{
    fn on_first(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        let (copy, f) = (self.copy.at(), &self.on_record);
        self.core.call((hash, &key), at, NoTimers, cx, |state, out| f(state, &copy, value, out))
    }

    fn on_second(&mut self, record: R, _: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        (self.on_broadcast)(&mut self.copy.at(), record)
            .map_err(|error| Error::failed(error.to_string()).at_operator(self.core.operator()))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.core.hand_on_signal(signal, cx)
    }
}
