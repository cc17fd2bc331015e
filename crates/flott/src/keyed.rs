//! Streams divided by a key, and the stateful operators that only they have.

use crate::commutative::Commutative;
use crate::connected::{Connected, WithBroadcast};
use crate::graph::Output;
use crate::job::Job;
use crate::sides::SideOutputs;
use crate::stream::Stream;
use flott_runtime::error::Result;
use flott_runtime::heartbeat::Mark;
use flott_runtime::key::{Key, Shape};
use flott_runtime::operator::fold::{Fold, Reduce};
use flott_runtime::operator::key_by::{KeyBy, KeyOf};
use flott_runtime::operator::process::{BoxError, Core, Firing, Out, Process, State, TimedProcess, TimerOut, Value};
use flott_runtime::operator::side::Sides;
use flott_runtime::operator::{Chain, Head, Next, Operator};
use flott_runtime::plan::{BuildChain, Partitioning, Role, StatePlan};
use flott_runtime::record::{Keyed as KeyedRecord, Record};
use flott_runtime::subtask::{KeyedOutlet, SubtaskBuilder};
use flott_runtime::time::Time;
use std::sync::Arc;

/// The state that holds the timers of an operator.
pub(crate) const TIMERS: &str = "timers";

pub(crate) fn timers_plan<K: Key>() -> StatePlan {
    let (name, kind) = (TIMERS.to_owned(), "timers".to_owned());
    StatePlan { name, kind, key: Shape::of_type::<K>().to_string(), value: Shape::of_type::<()>().to_string() }
}

/// A stream divided by a key: all records of one key meet in one place. Made by [`Stream::key_by`]; a clone is a second
/// consumer.
pub struct Keyed<K, T> {
    pub(crate) stream: Stream<T>,
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
        self.stateful(name, states, None, move |builder, name, mark, _, next| {
            let state = state.open::<K>(name, builder)?;
            Ok(Fold::new(Arc::clone(&init), Arc::clone(&f), state, mark, next))
        })
    }

    /// As [`Keyed::fold`], with the first record of a key as its first value. The state is called `reduce`.
    pub fn reduce(self, name: &str, f: impl Fn(&mut T, T) + Send + Sync + 'static) -> Stream<(K, T)> {
        let f = Arc::new(f);
        let state = Value::<T>::named("reduce");
        let states = state.declare::<K>();
        self.stateful(name, states, None, move |builder, name, mark, _, next| {
            let state = state.open::<K>(name, builder)?;
            Ok(Reduce::new(Arc::clone(&f), state, mark, next))
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
        self.stateful(name, states, Some(Arc::default()), move |builder, name, mark, sides, next| {
            let core = Core::<K, U, S>::new(name, state.open::<K>(name, builder)?, sides, mark, next);
            Ok(Process::new(core, Arc::clone(&f)))
        })
    }

    /// As [`Keyed::process`], with processing-time timers: `f` may set timers for the record's key, and `on_timer` gets the
    /// key's state and the moment for which the timer was set. The timers are the state `timers` of the operator: they are
    /// in every checkpoint, and those that came due while the job was down fire after the restore. When the input ends, those
    /// that are left fire at once, in their order.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # use std::time::Duration;
    /// # fn silent(pings: Stream<String>) -> Stream<String> {
    /// pings.key_by(|host| host.clone()).process_with_timers(
    ///     "silent",
    ///     Value::<Time>::named("alarm"),
    ///     |mut alarm, _ping, out| {
    ///         if let Some(old) = alarm.get() {
    ///             out.delete_timer(*old);
    ///         }
    ///         alarm.set(out.timer_after(Duration::from_secs(60)));
    ///         Ok(())
    ///     },
    ///     |mut alarm, _moment, out| {
    ///         alarm.clear();
    ///         let host = out.key.clone();
    ///         out.emit(format!("{host} is silent"));
    ///         Ok(())
    ///     },
    /// )
    /// # }
    /// ```
    pub fn process_with_timers<S: State, U: Clone + Send + 'static>(
        self,
        name: &str,
        state: S,
        f: impl for<'a> Fn(S::At<'a, K>, T, &mut TimerOut<'_, K, U>) -> Result<(), BoxError> + Send + Sync + 'static,
        on_timer: impl for<'a> Fn(S::At<'a, K>, Time, &mut TimerOut<'_, K, U>) -> Result<(), BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Stream<U> {
        let (f, on_timer) = (Arc::new(f), Arc::new(on_timer));
        let mut states = state.declare::<K>();
        states.push(timers_plan::<K>());
        self.stateful(name, states, Some(Arc::default()), move |builder, name, mark, sides, next| {
            let core = Core::<K, U, S>::new(name, state.open::<K>(name, builder)?, sides, mark, next);
            let firing = Firing::new(builder.timers::<K>(name, TIMERS)?, Arc::clone(&on_timer));
            Ok(TimedProcess::new(core, firing, Arc::clone(&f)))
        })
    }

    /// Says that what follows may take the records of a key in any order and in parts, so that workers fold what they send
    /// before they send it: see [`Commutative`].
    pub fn commutative(self) -> Commutative<K, T> {
        Commutative::new(self)
    }

    /// Puts a stream beside this one of which every worker gets every record: rules to all, data by key.
    pub fn connect_broadcast<R: Record>(self, everywhere: Stream<R>) -> WithBroadcast<K, T, R> {
        WithBroadcast::new(self, everywhere)
    }

    /// Puts two streams side by side whose keys are of one type: what follows gets the records of both, and one state a key.
    pub fn connect<B: Record>(self, other: Keyed<K, B>) -> Connected<K, T, B> {
        Connected::new(self, other)
    }

    /// A keyed edge into a chain of its own, which begins with a stateful operator.
    fn stateful<U: Clone + Send + 'static, O: Operator<KeyedRecord<K, T>> + 'static>(
        self,
        name: &str,
        states: Vec<StatePlan>,
        sides: Option<Arc<SideOutputs>>,
        make: impl Fn(&mut SubtaskBuilder, &str, Mark, Sides, Next<U>) -> Result<O> + Send + Sync + 'static,
    ) -> Stream<U> {
        let job = self.stream.job.clone();
        let make = move |builder: &mut SubtaskBuilder, name: &str, mark, sides, next| {
            let first = make(builder, name, mark, sides, next)?;
            let first = builder.watched::<K, O>(name, first);
            Ok(Box::new(Head::<KeyedRecord<K, T>, _>::new(first)) as Box<dyn Chain>)
        };
        let (vertex, stream) = stateful_vertex(&job, name, states, sides, make);
        self.lead_to(vertex, name);
        stream
    }

    /// The keyed edge into the next free input of a chain.
    pub(crate) fn lead_to(self, vertex: u16, name: &str) {
        self.lead_through(vertex, name, |_, _, outlet| outlet);
    }

    /// The same, through an operator between the key and the edge.
    pub(crate) fn lead_through<A: Record, N: Operator<KeyedRecord<K, T>> + 'static>(
        self,
        vertex: u16,
        name: &str,
        through: impl Fn(&mut SubtaskBuilder, Mark, KeyedOutlet<K, A>) -> N + Send + Sync + 'static,
    ) {
        let Keyed { stream, key } = self;
        let edge = stream.job.graph(|graph| graph.edge::<KeyedRecord<K, A>>(stream.vertex, vertex, Partitioning::Hash));
        let label = format!("key_by before {name}");
        stream.output.attach(Arc::new(move |builder| {
            let outlet = builder.keyed_outlet(edge);
            let mark = builder.mark(&label);
            let next = through(builder, mark, outlet);
            Ok(Box::new(KeyBy::new(Arc::clone(&key), builder.key_seed(), &label, mark, next)))
        }));
    }
}

/// A chain that begins with a stateful operator, without its inputs, and the stream that it gives out.
pub(crate) fn stateful_vertex<U: Clone + Send + 'static>(
    job: &Job,
    name: &str,
    states: Vec<StatePlan>,
    sides: Option<Arc<SideOutputs>>,
    make: impl Fn(&mut SubtaskBuilder, &str, Mark, Sides, Next<U>) -> Result<Box<dyn Chain>> + Send + Sync + 'static,
) -> (u16, Stream<U>) {
    let output = Output::<U>::new();
    let (next, beside, operator) = (Arc::clone(&output), sides.clone(), name.to_owned());
    let build: BuildChain = Arc::new(move |builder| {
        let next = next.make(builder)?;
        let sides = beside.as_ref().map(|sides| sides.make(builder)).transpose()?.unwrap_or_default();
        let mark = builder.mark(&operator);
        make(builder, &operator, mark, sides, next)
    });
    let vertex = job.graph(|graph| graph.vertex(false, build));
    let operator = job.graph(|graph| graph.operator(name, vertex, Role::Stateful, states));
    if let Some(sides) = sides {
        job.graph(|graph| graph.has_sides(operator, sides));
    }
    (vertex, Stream::named(job, vertex, output, name, operator))
}
