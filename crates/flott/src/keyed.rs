//! Streams divided by a key, and the stateful operators that only they have.

use crate::graph::Output;
use crate::stream::Stream;
use flott_runtime::error::Result;
use flott_runtime::heartbeat::Mark;
use flott_runtime::key::Key;
use flott_runtime::operator::fold::{Fold, Reduce};
use flott_runtime::operator::key_by::{KeyBy, KeyOf};
use flott_runtime::operator::process::{BoxError, Out, Process, State, Value};
use flott_runtime::operator::{Chain, Head, Next};
use flott_runtime::plan::{BuildChain, Partitioning, Role, StatePlan};
use flott_runtime::record::{Keyed as KeyedRecord, Record};
use flott_runtime::subtask::SubtaskBuilder;
use std::sync::Arc;

/// A stream divided by a key: all records of one key meet in one place. Made by [`Stream::key_by`]; a clone is a second
/// consumer.
pub struct Keyed<K, T> {
    stream: Stream<T>,
    key: KeyOf<K, T>,
}

impl<K, T> Clone for Keyed<K, T> {
    fn clone(&self) -> Self {
        Keyed { stream: self.stream.clone(), key: Arc::clone(&self.key) }
    }
}

impl<K: Key, T: Record> Keyed<K, T> {
    pub(crate) fn new(stream: Stream<T>, key: KeyOf<K, T>) -> Keyed<K, T> {
        Keyed { stream, key }
    }

    /// Folds the records of each key into a value that begins as `init`, and gives out key and new value after every
    /// record. The value is the state `fold` of the operator `name`.
    pub fn fold<A: Record + Sync>(
        self,
        name: &str,
        init: A,
        f: impl Fn(&mut A, T) + Send + Sync + 'static,
    ) -> Stream<(K, A)> {
        let (init, f) = (Arc::new(init), Arc::new(f));
        let state = Value::<A>::named("fold");
        let states = state.declare::<K>();
        self.stateful(name, states, move |builder, name, mark, next| {
            let state = state.open::<K>(name, builder)?;
            let fold = Fold::new(Arc::clone(&init), Arc::clone(&f), state, mark, next);
            Ok(Box::new(Head::<KeyedRecord<K, T>, _>::new(fold)))
        })
    }

    /// As [`Keyed::fold`], with the first record of a key as its first value. The state is called `reduce`.
    pub fn reduce(self, name: &str, f: impl Fn(&mut T, T) + Send + Sync + 'static) -> Stream<(K, T)> {
        let f = Arc::new(f);
        let state = Value::<T>::named("reduce");
        let states = state.declare::<K>();
        self.stateful(name, states, move |builder, name, mark, next| {
            let state = state.open::<K>(name, builder)?;
            let reduce = Reduce::new(Arc::clone(&f), state, mark, next);
            Ok(Box::new(Head::<KeyedRecord<K, T>, _>::new(reduce)))
        })
    }

    /// User code with declared state: `f` gets the state of the record's key, the record, and a place for its output.
    /// An error ends the attempt and names this operator and the record.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn every_second(words: Stream<String>) -> Stream<String> {
    /// words.key_by(|word| word.clone()).process("every-second", Value::<u64>::named("n"), |mut n, word, out| {
    ///     let seen = n.get().copied().unwrap_or(0) + 1;
    ///     n.set(seen);
    ///     if seen % 2 == 0 {
    ///         out.emit(word);
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn process<S: State, U: Clone + Send + 'static>(
        self,
        name: &str,
        state: S,
        f: impl for<'a> Fn(S::At<'a, K>, T, &mut Out<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Stream<U> {
        let f = Arc::new(f);
        let states = state.declare::<K>();
        self.stateful(name, states, move |builder, name, mark, next| {
            let state = state.open::<K>(name, builder)?;
            let process = Process::<K, U, S, _>::new(name, Arc::clone(&f), state, mark, next);
            Ok(Box::new(Head::<KeyedRecord<K, T>, _>::new(process)))
        })
    }

    /// A keyed edge into a chain of its own, which begins with a stateful operator.
    fn stateful<U: Clone + Send + 'static>(
        self,
        name: &str,
        states: Vec<StatePlan>,
        make: impl Fn(&mut SubtaskBuilder, &str, Mark, Next<U>) -> Result<Box<dyn Chain>> + Send + Sync + 'static,
    ) -> Stream<U> {
        let Keyed { stream, key } = self;
        let job = stream.job.clone();
        let output = Output::<U>::new();
        let (next, operator) = (Arc::clone(&output), name.to_owned());
        let build: BuildChain = Arc::new(move |builder| {
            let next = next.make(builder)?;
            let mark = builder.mark(&operator);
            make(builder, &operator, mark, next)
        });
        let vertex = job.graph(|graph| graph.vertex(false, build));
        let operator = job.graph(|graph| graph.operator(name, vertex, Role::Stateful, states));
        let edge = job.graph(|graph| graph.edge::<KeyedRecord<K, T>>(stream.vertex, vertex, Partitioning::Hash));
        let label = format!("key_by before {name}");
        stream.output.attach(Arc::new(move |builder| {
            let outlet = builder.keyed_outlet(edge);
            let mark = builder.mark(&label);
            Ok(Box::new(KeyBy::new(Arc::clone(&key), builder.key_seed(), &label, mark, outlet)))
        }));
        Stream::named(&job, vertex, output, name, operator)
    }
}
