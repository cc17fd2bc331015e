//! Two keyed streams side by side, and the operators of two inputs.

use crate::keyed::{Keyed, TIMERS, stateful_vertex, timers_plan};
use crate::stream::Stream;
use flott_runtime::key::Key;
use flott_runtime::operator::process::{BoxError, Core, Firing, Out, State, TimedTwoProcess, TimerOut, TwoProcess};
use flott_runtime::operator::two_inputs::TwoHeads;
use flott_runtime::record::{Keyed as KeyedRecord, Record};
use flott_runtime::time::Time;
use std::sync::Arc;

/// Two streams divided by keys of one type: records of both with the same key meet in one place. Made by
/// [`Keyed::connect`].
pub struct Connected<K, A, B> {
    first: Keyed<K, A>,
    second: Keyed<K, B>,
}

impl<K: Key, A: Record, B: Record> Connected<K, A, B> {
    pub(crate) fn new(first: Keyed<K, A>, second: Keyed<K, B>) -> Connected<K, A, B> {
        Connected { first, second }
    }

    /// User code with one declared state a key, and a function for the records of each stream. The records of each stream
    /// come in the order of their sender, in no order between the two: what comes first in one run may come last after a
    /// restart, so keep what has to wait for its counterpart.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn enrich(orders: Stream<(u64, String)>, names: Stream<(u64, String)>) -> Stream<String> {
    /// let state = (Value::<String>::named("name"), Value::<Vec<String>>::named("waiting"));
    /// orders.key_by(|order| order.0).connect(names.key_by(|name| name.0)).process(
    ///     "enrich",
    ///     state,
    ///     |(name, mut waiting), (_, order), out| {
    ///         match name.get() {
    ///             Some(name) => out.emit(format!("{order} for {name}")),
    ///             None => waiting.update(Vec::new, |waiting| waiting.push(order)),
    ///         }
    ///         Ok(())
    ///     },
    ///     |(mut name, mut waiting), (_, new), out| {
    ///         for order in waiting.get().cloned().unwrap_or_default() {
    ///             out.emit(format!("{order} for {new}"));
    ///         }
    ///         waiting.clear();
    ///         name.set(new);
    ///         Ok(())
    ///     },
    /// )
    /// # }
    /// ```
    pub fn process<S: State, U: Clone + Send + 'static>(
        self,
        name: &str,
        state: S,
        on_first: impl for<'a> Fn(S::At<'a, K>, A, &mut Out<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
        on_second: impl for<'a> Fn(S::At<'a, K>, B, &mut Out<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Stream<U> {
        let job = self.first.stream.job.clone();
        let (on_first, on_second) = (Arc::new(on_first), Arc::new(on_second));
        let states = state.declare::<K>();
        let (vertex, stream) =
            stateful_vertex(&job, name, states, Some(Arc::default()), move |builder, name, mark, sides, next| {
                let core = Core::<K, U, S>::new(name, state.open::<K>(name, builder)?, sides, mark, next);
                let operator = TwoProcess::new(core, Arc::clone(&on_first), Arc::clone(&on_second));
                Ok(Box::new(TwoHeads::<KeyedRecord<K, A>, KeyedRecord<K, B>>::new(Box::new(operator))))
            });
        self.lead_to(vertex, name);
        stream
    }

    /// As [`Connected::process`], with timers: see [`Keyed::process_with_timers`].
    pub fn process_with_timers<S: State, U: Clone + Send + 'static>(
        self,
        name: &str,
        state: S,
        on_first: impl for<'a> Fn(S::At<'a, K>, A, &mut TimerOut<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
        on_second: impl for<'a> Fn(S::At<'a, K>, B, &mut TimerOut<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
        on_timer: impl for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Stream<U> {
        let job = self.first.stream.job.clone();
        let (on_first, on_second, on_timer) = (Arc::new(on_first), Arc::new(on_second), Arc::new(on_timer));
        let mut states = state.declare::<K>();
        states.push(timers_plan::<K>());
        let (vertex, stream) =
            stateful_vertex(&job, name, states, Some(Arc::default()), move |builder, name, mark, sides, next| {
                let core = Core::<K, U, S>::new(name, state.open::<K>(name, builder)?, sides, mark, next);
                let firing = Firing::new(builder.timers::<K>(name, TIMERS)?, Arc::clone(&on_timer));
                let operator = TimedTwoProcess::new(core, firing, Arc::clone(&on_first), Arc::clone(&on_second));
                Ok(Box::new(TwoHeads::<KeyedRecord<K, A>, KeyedRecord<K, B>>::new(Box::new(operator))))
            });
        self.lead_to(vertex, name);
        stream
    }

    /// Both inputs, in their order.
    fn lead_to(self, vertex: u16, name: &str) {
        let (job, other) = (&self.first.stream.job, &self.second.stream.job);
        if !job.is_same(other) {
            job.graph(|graph| graph.error(format!("`{name}` connects streams of two jobs")));
            return;
        }
        self.first.lead_to(vertex, name);
        self.second.lead_to(vertex, name);
    }
}
