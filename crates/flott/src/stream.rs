//! Streams: what a job's closure passes around. A [`Stream`] is only a name for records to come.

use crate::graph::{MakeNext, Output};
use crate::job::Job;
use crate::keyed::Keyed;
use crate::sides::SideOutputs;
use flott_runtime::heartbeat::Mark;
use flott_runtime::key::Key;
use flott_runtime::operator::filter::Filter;
use flott_runtime::operator::flat_map::FlatMap;
use flott_runtime::operator::inspect::Inspect;
use flott_runtime::operator::map::Map;
use flott_runtime::operator::part::{DeadLetter, Part};
use flott_runtime::operator::process::{BoxError, ListProcess, ListRef, Out, SplitList};
use flott_runtime::operator::side::SideOutput;
use flott_runtime::operator::throttle::{Bucket, Throttle};
use flott_runtime::operator::try_map::{OnError, Skipped, TryMap};
use flott_runtime::operator::{Next, Operator};
use flott_runtime::plan::{Partitioning, Role};
use flott_runtime::record::Record;
use flott_runtime::sink::Sink;
use flott_runtime::state::Value;
use flott_runtime::subtask::Partitioner;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of records of type `T`. A clone is a second consumer of the same stream (a fork); all consumers see all
/// records.
///
/// Closures are `Fn + Send + Sync`, not `FnMut`: state hidden in a closure would not be in a checkpoint. Keep state in a
/// stateful operator behind [`Stream::key_by`].
pub struct Stream<T> {
    pub(crate) job: Job,
    /// The chain that makes its records.
    pub(crate) vertex: u16,
    pub(crate) output: Arc<Output<T>>,
    /// The nearest operator with a name, for messages.
    pub(crate) origin: String,
    /// The named operator that gives out this very stream.
    pub(crate) operator: Option<usize>,
    label: String,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Stream {
            job: self.job.clone(),
            vertex: self.vertex,
            output: Arc::clone(&self.output),
            origin: self.origin.clone(),
            operator: self.operator,
            label: self.label.clone(),
        }
    }
}

impl<T: Clone + Send + 'static> Stream<T> {
    /// The stream of a named operator.
    pub(crate) fn named(job: &Job, vertex: u16, output: Arc<Output<T>>, name: &str, operator: usize) -> Stream<T> {
        job.graph(|graph| graph.stream(name, Some(operator), &output));
        Stream {
            job: job.clone(),
            vertex,
            output,
            origin: name.to_owned(),
            operator: Some(operator),
            label: name.to_owned(),
        }
    }

    pub(crate) fn unnamed(job: &Job, vertex: u16, output: Arc<Output<T>>, origin: &str, label: String) -> Stream<T> {
        job.graph(|graph| graph.stream(&label, None, &output));
        Stream { job: job.clone(), vertex, output, origin: origin.to_owned(), operator: None, label }
    }

    /// Chains an operator without a name behind this stream.
    fn then<U: Clone + Send + 'static, O: Operator<T> + 'static>(
        self,
        kind: &str,
        make: impl Fn(Mark, &str, Next<U>) -> O + Send + Sync + 'static,
    ) -> Stream<U> {
        let label = self.job.graph(|graph| graph.label(kind, &self.origin));
        let output = Output::<U>::new();
        let (next, name) = (Arc::clone(&output), label.clone());
        let consumer: MakeNext<T> = Arc::new(move |builder| {
            let next = next.make(builder)?;
            Ok(Box::new(make(builder.mark(&name), &name, next)))
        });
        self.output.attach(consumer);
        Stream::unnamed(&self.job, self.vertex, output, &self.origin, label)
    }

    /// One record out for each record in.
    pub fn map<U: Clone + Send + 'static>(self, f: impl Fn(T) -> U + Send + Sync + 'static) -> Stream<U> {
        let f = Arc::new(f);
        self.then("map", move |mark, _, next| Map::new(Arc::clone(&f), mark, next))
    }

    /// Keeps the records for which `f` says yes.
    pub fn filter(self, f: impl Fn(&T) -> bool + Send + Sync + 'static) -> Stream<T> {
        let f = Arc::new(f);
        self.then("filter", move |mark, _, next| Filter::new(Arc::clone(&f), mark, next))
    }

    /// Any number of records out for each record in. The iterator is drained at once.
    pub fn flat_map<I>(self, f: impl Fn(T) -> I + Send + Sync + 'static) -> Stream<I::Item>
    where
        I: IntoIterator<Item: Clone + Send + 'static> + 'static,
    {
        let f = Arc::new(f);
        self.then("flat_map", move |mark, _, next| FlatMap::new(Arc::clone(&f), mark, next))
    }

    /// A map that may fail. With [`OnError::Fail`] an error ends the attempt and names this operator and the record; with
    /// [`OnError::Skip`] the record is left out, counted, and reported at the end of the job. To keep such records, see
    /// [`Stream::try_map_or_dead_letter`].
    pub fn try_map<U: Clone + Send + 'static, E: Display + 'static>(
        self,
        on_error: OnError,
        f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<U> {
        let f = Arc::new(f);
        let count = Arc::default();
        let counted = Arc::clone(&count);
        let stream = self.then("try_map", move |mark, name, next| {
            let skipped = Skipped { operator: name.to_owned(), count: Arc::clone(&counted) };
            TryMap::new(Arc::clone(&f), on_error, skipped, mark, next)
        });
        if on_error == OnError::Skip {
            stream.job.graph(|graph| graph.skipped(Skipped { operator: stream.label.clone(), count }));
        }
        stream
    }

    /// A map that may fail, where what it cannot use becomes a stream of its own: the record, the error's text and the name of
    /// this operator. `f` borrows the record, so that it can be kept; no record is copied. Sink the dead letters, count them,
    /// or mend them and lead them back with `union`.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn numbers(lines: Stream<String>) -> Stream<u64> {
    /// let (numbers, dead) = lines.try_map_or_dead_letter(|line| line.parse::<u64>());
    /// dead.map(|letter| (letter.record, letter.error)).sink("dead", FileSink::csv("dead-letters"));
    /// # numbers
    /// # }
    /// ```
    pub fn try_map_or_dead_letter<U: Clone + Send + 'static, E: Display>(
        self,
        f: impl Fn(&T) -> Result<U, E> + Send + Sync + 'static,
    ) -> (Stream<U>, Stream<DeadLetter<T>>) {
        let label = self.job.graph(|graph| graph.label("try_map", &self.origin));
        let (operator, count) = (label.clone(), Arc::new(AtomicU64::new(0)));
        let counted = Skipped { operator: label.clone(), count: Arc::clone(&count) };
        self.job.graph(|graph| graph.dead_letters(counted));
        self.part(label, move |record| {
            f(&record).map_err(|error| {
                count.fetch_add(1, Ordering::Relaxed);
                let (error, operator) = (error.to_string(), operator.clone());
                DeadLetter { record, error, operator, position: None }
            })
        })
    }

    /// Two streams out of this one.
    fn part<U: Clone + Send + 'static, L: Clone + Send + 'static>(
        self,
        label: String,
        f: impl Fn(T) -> Result<U, L> + Send + Sync + 'static,
    ) -> (Stream<U>, Stream<L>) {
        let (f, name) = (Arc::new(f), label.clone());
        let (output, beside) = (Output::<U>::new(), Output::<L>::new());
        let (next, other) = (Arc::clone(&output), Arc::clone(&beside));
        self.output.attach(Arc::new(move |builder| {
            let (next, other) = (next.make(builder)?, other.make(builder)?);
            Ok(Box::new(Part::new(Arc::clone(&f), builder.mark(&name), next, other)))
        }));
        let rest = format!("the rest of {label}");
        let first = Stream::unnamed(&self.job, self.vertex, output, &self.origin, label);
        (first, Stream::unnamed(&self.job, self.vertex, beside, &self.origin, rest))
    }

    /// Shows every record to `f` and hands it on. What `f` does outside is repeated after a restart.
    pub fn inspect(self, f: impl Fn(&T) + Send + Sync + 'static) -> Stream<T> {
        let f = Arc::new(f);
        self.then("inspect", move |mark, _, next| Inspect::new(Arc::clone(&f), mark, next))
    }

    /// Lets through so many records a second, 1 to 1,000,000,000, over all subtasks together. A chain that is held takes
    /// no record at all, so everything in the same chain waits with it.
    pub fn throttle(self, records_per_second: u64) -> Stream<T> {
        if !(1..=1_000_000_000).contains(&records_per_second) {
            let error = format!(
                "`throttle({records_per_second})` behind `{}` is not between 1 and 1,000,000,000 records a second",
                self.origin
            );
            self.job.graph(|graph| graph.error(error));
        }
        let bucket = Arc::new(Bucket::per_second(records_per_second));
        self.then("throttle", move |_, _, next| Throttle::new(Arc::clone(&bucket), next))
    }

    /// User code with a list that each worker has for itself (Flink's operator state, split): `on_record` gets the worker's list,
    /// a record and a place for its output, `on_end` the list and that place when no record follows. After `on_end` the list is
    /// empty, whatever it left there. For state by key see [`Keyed::process`].
    ///
    /// The list is in every checkpoint. On another number of workers its elements are dealt out anew, so let it not matter
    /// which worker has an element.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn pairs(numbers: Stream<u64>) -> Stream<Vec<u64>> {
    /// numbers.process_with_list(
    ///     "batches",
    ///     SplitList::<u64>::named("waiting"),
    ///     |mut waiting, number, out| {
    ///         waiting.push(number);
    ///         if waiting.len() == 100 {
    ///             out.emit(waiting.take());
    ///         }
    ///         Ok(())
    ///     },
    ///     |mut waiting, out| {
    ///         out.emit(waiting.take());
    ///         Ok(())
    ///     },
    /// )
    /// # }
    /// ```
    pub fn process_with_list<V: Value, U: Clone + Send + 'static>(
        self,
        name: &str,
        list: SplitList<V>,
        on_record: impl for<'a> Fn(ListRef<'a, u64, V>, T, &mut Out<'_, (), U>) -> Result<(), BoxError>
        + Send
        + Sync
        + 'static,
        on_end: impl for<'a> Fn(ListRef<'a, u64, V>, &mut Out<'_, (), U>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Stream<U> {
        let (states, on_record, on_end) = (list.declare(), Arc::new(on_record), Arc::new(on_end));
        let (output, sides) = (Output::<U>::new(), Arc::<SideOutputs>::default());
        let operator = self.job.graph(|graph| graph.operator(name, self.vertex, Role::Stateful, states));
        self.job.graph(|graph| graph.has_sides(operator, Arc::clone(&sides)));
        let (next, own) = (Arc::clone(&output), name.to_owned());
        self.output.attach(Arc::new(move |builder| {
            let after = (sides.make(builder)?, next.make(builder)?);
            let (list, mark) = (list.open(&own, builder)?, builder.mark(&own));
            Ok(Box::new(ListProcess::new(&own, list, (Arc::clone(&on_record), Arc::clone(&on_end)), mark, after)))
        }));
        Stream::named(&self.job, self.vertex, output, name, operator)
    }

    /// The stream of a side output of the operator right before, which is a `process` in one of its forms. It can be taken
    /// several times.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// const LATE: SideOutput<String> = SideOutput::named("late");
    ///
    /// # fn split(words: Stream<String>) -> (Stream<String>, Stream<String>) {
    /// let firsts = words.key_by(|word| word.clone()).process("firsts", Value::<bool>::named("seen"), |mut seen, word, out| {
    ///     if seen.get().is_some() {
    ///         out.emit_to(LATE, word);
    ///     } else {
    ///         seen.set(true);
    ///         out.emit(word);
    ///     }
    ///     Ok(())
    /// });
    /// let repeated = firsts.side(LATE);
    /// # (firsts, repeated)
    /// # }
    /// ```
    #[must_use]
    pub fn side<L: Clone + Send + 'static>(&self, side: SideOutput<L>) -> Stream<L> {
        let name = side.name();
        let label = format!("{name} of {}", self.label);
        let sides = self.job.graph(|graph| graph.sides(self.operator, name, &self.label));
        let output = match sides.map(|sides| sides.take(side)) {
            Some(Some((output, true))) => {
                return Stream::unnamed(&self.job, self.vertex, output, &self.origin, label);
            }
            Some(Some((output, false))) => output,
            Some(None) => {
                let error = format!("the side output `{label}` is taken twice, as records of two types");
                self.job.graph(|graph| graph.error(error));
                Output::new()
            }
            None => Output::new(),
        };
        let (job, origin) = (self.job.clone(), self.origin.clone());
        Stream { job, vertex: self.vertex, output, origin, operator: None, label }
    }

    /// Says under which name an older version of the job stored the state of the operator that this stamps: the source or
    /// stateful operator right before.
    #[must_use]
    pub fn renamed_from(self, old: &str) -> Stream<T> {
        self.job.graph(|graph| graph.rename(self.operator, old, &self.label));
        self
    }

    /// Ends the stream in a sink, whose name must be unique in the job.
    pub fn sink<S: Sink<T>>(self, name: &str, sink: S) -> Sunk
    where
        T: Record,
        S::Writer: 'static,
    {
        let role = Role::Sink { transactional: sink.is_transactional() };
        let operator = self.job.graph(|graph| graph.operator(name, self.vertex, role, Vec::new()));
        self.job.graph(|graph| graph.output(sink.place()));
        let sink = Arc::new(sink);
        let of = Arc::clone(&sink);
        self.job.graph(|graph| graph.committer(name, Arc::new(move |cx| of.committer(cx))));
        let operator_name = name.to_owned();
        self.output.attach(Arc::new(move |builder| builder.sink(&operator_name, &*sink)));
        Sunk { job: self.job, operator, name: name.to_owned() }
    }
}

impl<T: Clone + Send + 'static, E: Clone + Send + 'static> Stream<Result<T, E>> {
    /// What is `Ok` and what is `Err`, each as a stream.
    pub fn split_results(self) -> (Stream<T>, Stream<E>) {
        let label = self.job.graph(|graph| graph.label("split_results", &self.origin));
        self.part(label, |record| record)
    }
}

impl<T: Record> Stream<T> {
    /// The records of both streams: in the order of each, in no order between them.
    pub fn union(self, other: Stream<T>) -> Stream<T> {
        let origin = format!("{}+{}", self.origin, other.origin);
        let job = self.job.clone();
        if !job.is_same(&other.job) {
            job.graph(|graph| graph.error(format!("`{origin}` is a union of streams of two jobs")));
            return self;
        }
        let label = job.graph(|graph| graph.label("union", &origin));
        let (vertex, output) = job.chain::<T>();
        self.send(vertex, Partitioning::Forward, || Partitioner::Forward);
        other.send(vertex, Partitioning::Forward, || Partitioner::Forward);
        Stream::unnamed(&job, vertex, output, &origin, label)
    }

    /// Spreads the records evenly over all workers, round robin: for a source with few splits, or a stream whose records
    /// differ in cost. Their order is lost.
    pub fn rebalance(self) -> Stream<T> {
        self.cross("rebalance", Partitioning::Rebalance, || Partitioner::Rebalance)
    }

    /// Gives every record to every worker. For "rules to all, data by key" see [`Keyed::connect_broadcast`].
    pub fn broadcast(self) -> Stream<T> {
        self.cross("broadcast", Partitioning::Broadcast, || Partitioner::Broadcast)
    }

    /// Divides the stream by a key. All records of one key go to the same worker, in the order of their sender.
    ///
    /// `f` is called once a record, by the sender, and must give equal keys for equal records. The key's type may hold no
    /// float and no map, and cannot change while there is state of it (design D9).
    pub fn key_by<K: Key>(self, f: impl Fn(&T) -> K + Send + Sync + 'static) -> Keyed<K, T> {
        Keyed::new(self, Arc::new(f))
    }

    fn cross(self, kind: &str, partitioning: Partitioning, partitioner: fn() -> Partitioner<T>) -> Stream<T> {
        let (job, origin) = (self.job.clone(), self.origin.clone());
        let label = job.graph(|graph| graph.label(kind, &origin));
        let (vertex, output) = job.chain::<T>();
        self.send(vertex, partitioning, partitioner);
        Stream::unnamed(&job, vertex, output, &origin, label)
    }

    /// Leads the stream into another chain.
    pub(crate) fn send(self, to: u16, partitioning: Partitioning, partitioner: fn() -> Partitioner<T>) {
        let edge = self.job.graph(|graph| graph.edge::<T>(self.vertex, to, partitioning));
        self.output.attach(Arc::new(move |builder| Ok(builder.outlet(edge, partitioner()))));
    }
}

/// A sink in the job: what is left to say about it.
pub struct Sunk {
    job: Job,
    operator: usize,
    name: String,
}

impl Sunk {
    /// Says under which name an older version of the job stored this sink's state.
    pub fn renamed_from(self, old: &str) -> Sunk {
        self.job.graph(|graph| graph.rename(Some(self.operator), old, &self.name));
        self
    }
}
