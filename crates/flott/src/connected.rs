//! Two keyed streams side by side, and the operators of two inputs.

use crate::keyed::{Keyed, TIMERS, stateful_vertex, timers_plan};
use crate::stream::Stream;
use flott_runtime::key::Key;
use flott_runtime::operator::process::{
    BoxError, BroadcastProcess, Core, Firing, Map, MapRef, Out, State, TimedTwoProcess, TimerOut, TwoProcess,
};
use flott_runtime::operator::two_inputs::TwoHeads;
use flott_runtime::plan::Partitioning;
use flott_runtime::record::{Keyed as KeyedRecord, Record};
use flott_runtime::state::Value;
use flott_runtime::subtask::Partitioner;
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

/// A keyed stream, and one of which every worker gets every record. Made by [`Keyed::connect_broadcast`].
pub struct WithBroadcast<K, T, R> {
    keyed: Keyed<K, T>,
    everywhere: Stream<R>,
}

impl<K: Key, T: Record, R: Record> WithBroadcast<K, T, R> {
    pub(crate) fn new(keyed: Keyed<K, T>, everywhere: Stream<R>) -> WithBroadcast<K, T, R> {
        WithBroadcast { keyed, everywhere }
    }

    /// User code with state per key, and a map of which every worker has a copy: `on_record` gets both with each record of
    /// the keyed stream and may only look at the copy; `on_broadcast` changes it, on every worker with every record.
    ///
    /// Copies are in every checkpoint. They agree once all workers have got the same records: each gets those of one sender
    /// in their order, and those of several in any, so let the outcome not depend on that (a version in each rule helps).
    /// There is no order between the two streams either: a record may come before the rule that was meant for it.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn alerts(readings: Stream<(String, f64)>, limits: Stream<(String, f64)>) -> Stream<String> {
    /// let (state, copy) = (Value::<u64>::named("alerts"), Map::<String, f64>::named("limits"));
    /// readings.key_by(|reading| reading.0.clone()).connect_broadcast(limits).process(
    ///     "alerts",
    ///     state,
    ///     copy,
    ///     |mut alerts, limits, (sensor, value), out| {
    ///         if limits.get(&sensor).is_some_and(|limit| value > limit) {
    ///             let number = alerts.update(|| 0, |alerts| { *alerts += 1; *alerts });
    ///             out.emit(format!("{sensor}: alert {number}"));
    ///         }
    ///         Ok(())
    ///     },
    ///     |limits, (sensor, limit)| {
    ///         limits.insert(sensor, limit);
    ///         Ok(())
    ///     },
    /// )
    /// # }
    /// ```
    pub fn process<S: State, M: Key, V: Value, U: Clone + Send + 'static>(
        self,
        name: &str,
        state: S,
        copy: Map<M, V>,
        on_record: impl for<'a> Fn(S::At<'a, K>, &MapRef<'_, u64, M, V>, T, &mut Out<'_, K, U>) -> Result<(), BoxError>
        + Send
        + Sync
        + 'static,
        on_broadcast: impl Fn(&mut MapRef<'_, u64, M, V>, R) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Stream<U> {
        let job = self.keyed.stream.job.clone();
        let (on_record, on_broadcast) = (Arc::new(on_record), Arc::new(on_broadcast));
        let mut states = state.declare::<K>();
        states.extend(copy.declare_copies());
        let (vertex, stream) =
            stateful_vertex(&job, name, states, Some(Arc::default()), move |builder, name, mark, sides, next| {
                let core = Core::<K, U, S>::new(name, state.open::<K>(name, builder)?, sides, mark, next);
                let copy = copy.open_copy(name, builder)?;
                let operator =
                    BroadcastProcess::new(core, copy, mark, Arc::clone(&on_record), Arc::clone(&on_broadcast));
                Ok(Box::new(TwoHeads::<KeyedRecord<K, T>, R>::new(Box::new(operator))))
            });
        if !job.is_same(&self.everywhere.job) {
            job.graph(|graph| graph.error(format!("`{name}` connects streams of two jobs")));
            return stream;
        }
        self.keyed.lead_to(vertex, name);
        self.everywhere.send(vertex, Partitioning::Broadcast, || Partitioner::Broadcast);
        stream
    }
}
