//! What a chain's factory may ask for while it builds the chain of one subtask.
//!
//! Whatever it hands out is registered here as well, so that the subtask can reach it in a cut without going through the
//! chain: outputs, sinks, tables.

use super::output::{KeyedOutlet, Outlet, Output, OutputPort, OutputSite};
use super::sinks::{SinkOperator, SinkPort, WriterCell};
use super::source_chain::{Beside, SourceChain};
use super::trail::Whose;
use crate::attempt::Attempt;
use crate::control::ChannelPart;
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::key::KeySpace;
use crate::operator::part::DeadLetter;
use crate::operator::pre_aggregate::Alarm;
use crate::operator::watched::{Sampled, Watched};
use crate::operator::{Chain, Flow, Next};
use crate::record::{Keyed, Record};
use crate::segment::StateName;
use crate::sink::{Sink, SinkContext, SinkWriter};
use crate::source::{DeadLetters, Source, SourceContext, Waker};
#[cfg(feature = "stored")]
use crate::state::StoredBackend;
use crate::state::{
    AnyBackend, AnyList, AnyMap, AnyTimers, AnyValue, HeapBackend, ListDeclaration, MapDeclaration, StateBackend,
    StateError, TimerDeclaration, TimerState, Value, ValueDeclaration,
};
use flott_checkpoint::SubtaskId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The state of a subtask is on the heap, unless the world has stores.
#[cfg(feature = "stored")]
fn backend(attempt: &Attempt, id: SubtaskId, space: KeySpace) -> Result<AnyBackend> {
    let Some(stores) = &attempt.world.stores else { return Ok(AnyBackend::Heap(HeapBackend::new(space))) };
    let (stores, attempt) = (Arc::clone(stores), attempt.id);
    Ok(AnyBackend::Stored(StoredBackend::lazy(Box::new(move || stores.open(attempt, id)), space)))
}

/// The state of a subtask is on the heap: this build knows no other.
#[cfg(not(feature = "stored"))]
fn backend(attempt: &Attempt, _: SubtaskId, space: KeySpace) -> Result<AnyBackend> {
    match attempt.world.stores {
        None => Ok(AnyBackend::Heap(HeapBackend::new(space))),
        Some(_) => Err(Error::refused("this build keeps state on the heap only; build it with the feature `stored`")),
    }
}

/// A name that is taken is a mistake in the job, a store that cannot be opened a failure.
fn undeclared(error: &StateError, operator: &str) -> Error {
    let kind = if matches!(error, StateError::Backend(..)) { Error::failed } else { Error::refused };
    kind(error.to_string()).at_operator(operator)
}

/// How an outlet finds the receiver of a record: an index among the edge's receivers.
pub enum Partitioner<T> {
    /// The subtask on the same worker.
    Forward,
    /// The owner of the key group of the hash that this function reads off the record.
    Hash(fn(&T) -> u64),
    /// Round robin.
    Rebalance,
    /// Every receiver gets a clone.
    Broadcast,
}

/// When the next timer of some state is due, in milliseconds.
pub(super) type NextTimer = Box<dyn Fn() -> Option<i64>>;

/// Collects what a chain registers with its subtask: outputs, sinks, state.
pub struct SubtaskBuilder {
    pub(super) id: SubtaskId,
    pub(super) attempt: Arc<Attempt>,
    pub(super) waker: Waker,
    pub(super) flow: Rc<Flow>,
    pub(super) outputs: Vec<(u16, Rc<RefCell<dyn OutputPort>>)>,
    pub(super) sinks: Vec<SinkPort>,
    pub(super) backend: AnyBackend,
    pub(super) timers: Vec<NextTimer>,
    pub(super) records_in: Rc<Cell<u64>>,
    pub(super) records_out: Rc<Cell<u64>>,
}

impl SubtaskBuilder {
    pub(super) fn new(id: SubtaskId, attempt: Arc<Attempt>, waker: Waker) -> Result<SubtaskBuilder> {
        let space =
            KeySpace::of_worker(attempt.key_seed, attempt.key_groups, u32::from(attempt.workers), u32::from(id.index));
        let backend = backend(&attempt, id, space)?;
        let heartbeat = attempt.world.heartbeats.of(id.index);
        Ok(SubtaskBuilder {
            id,
            attempt,
            waker,
            flow: Rc::new(Flow::of(heartbeat, backend.failure())),
            outputs: Vec::new(),
            sinks: Vec::new(),
            backend,
            timers: Vec::new(),
            records_in: Rc::default(),
            records_out: Rc::default(),
        })
    }

    /// The subtask that is being built.
    #[must_use]
    pub fn id(&self) -> SubtaskId {
        self.id
    }

    /// The number of subtasks of this vertex.
    #[must_use]
    pub fn parallelism(&self) -> u16 {
        self.attempt.workers
    }

    /// The job's secret for key hashes.
    #[must_use]
    pub fn key_seed(&self) -> u64 {
        self.attempt.key_seed
    }

    /// A declared value state of this chain, one value a key.
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn value<K: Key, V: Value>(&mut self, operator: &str, state: &str) -> Result<AnyValue<K, V>> {
        let declared = self.backend.value(ValueDeclaration { name: StateName::new(operator, state) });
        declared.map_err(|error| undeclared(&error, operator))
    }

    /// A declared map state of this chain, one map a key.
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn map<K: Key, M: Key, V: Value>(&mut self, operator: &str, state: &str) -> Result<AnyMap<K, M, V>> {
        let declared = self.backend.map(MapDeclaration { name: StateName::new(operator, state), copies: false });
        declared.map_err(|error| undeclared(&error, operator))
    }

    /// A map of which this subtask has a copy of its own, under its [own key](SubtaskBuilder::own_key).
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn map_copy<M: Key, V: Value>(&mut self, operator: &str, state: &str) -> Result<AnyMap<u64, M, V>> {
        let declared = self.backend.map(MapDeclaration { name: StateName::new(operator, state), copies: true });
        declared.map_err(|error| undeclared(&error, operator))
    }

    /// A key that lies in a key group of this subtask, and its hash: the smallest number of which this is true.
    ///
    /// # Errors
    /// `Refused` if there are more workers than key groups.
    pub fn own_key(&self) -> Result<(u64, u64)> {
        let space = KeySpace::of_attempt(&self.attempt, self.id.index);
        let (workers, groups) = (self.attempt.workers, self.attempt.key_groups);
        let none = || Error::refused(format!("{workers} workers share {groups} key groups, so some own none"));
        space.own_key().ok_or_else(none)
    }

    /// A declared list state of this chain, one list a key.
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn list<K: Key, V: Value>(&mut self, operator: &str, state: &str) -> Result<AnyList<K, V>> {
        let declared = self.backend.list(ListDeclaration { name: StateName::new(operator, state), split: false });
        declared.map_err(|error| undeclared(&error, operator))
    }

    /// A list that this subtask has for itself, under its [own key](SubtaskBuilder::own_key); other workers divide its elements
    /// anew.
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn split_list<V: Value>(&mut self, operator: &str, state: &str) -> Result<AnyList<u64, V>> {
        let declared = self.backend.list(ListDeclaration { name: StateName::new(operator, state), split: true });
        declared.map_err(|error| undeclared(&error, operator))
    }

    /// Declared processing-time timers of this chain: at most one per key and millisecond. The chain gets [`Signal::Time`]
    /// when one is due.
    ///
    /// [`Signal::Time`]: crate::operator::Signal::Time
    ///
    /// # Errors
    /// `Refused` if the operator declares the name twice.
    pub fn timers<K: Key>(&mut self, operator: &str, state: &str) -> Result<AnyTimers<K>> {
        let declared = self.backend.timers(TimerDeclaration { name: StateName::new(operator, state) });
        let timers: AnyTimers<K> = declared.map_err(|error| undeclared(&error, operator))?;
        let handle = RefCell::new(timers.clone());
        self.timers.push(Box::new(move || handle.borrow_mut().next_time()));
        Ok(timers)
    }

    /// A moment at which this chain wants [`Signal::Time`], in milliseconds, for an operator that sets it as it goes.
    ///
    /// [`Signal::Time`]: crate::operator::Signal::Time
    pub fn alarm(&mut self) -> Alarm {
        let alarm = Alarm::default();
        let due = Rc::clone(&alarm);
        self.timers.push(Box::new(move || due.get()));
        alarm
    }

    /// Puts a look at the heaviest keys in front of the first operator of this chain.
    pub fn watched<K: Key, O>(&self, operator: &str, first: O) -> Watched<K, O> {
        let keys = Arc::new(Sampled::new(operator));
        let samples = self.attempt.options.hot_keys;
        if samples {
            let heartbeat = self.attempt.world.heartbeats.of(self.id.index);
            heartbeat.meters().of(self.id.vertex).watch(Arc::clone(&keys) as _);
        }
        Watched::new(keys, Rc::clone(&self.flow), samples.then_some(self.attempt.key_seed), first)
    }

    /// The mark under which an operator shows in the worker's heartbeat.
    pub fn mark(&self, operator: &str) -> Mark {
        self.flow.heartbeat.mark(operator)
    }

    /// The end of a chain that leads to another vertex: the edge, and how records are spread over it.
    pub fn outlet<T: Record>(&mut self, edge: u16, partitioner: Partitioner<T>) -> Next<T> {
        Box::new(self.open_outlet(edge, partitioner))
    }

    /// The same for keyed records, not boxed: whoever feeds it can be compiled together with it.
    pub fn keyed_outlet<K: Key, T: Record>(&mut self, edge: u16) -> KeyedOutlet<K, T> {
        KeyedOutlet(self.open_outlet(edge, Partitioner::Hash(|record: &Keyed<K, T>| record.hash)))
    }

    fn open_outlet<T: Record>(&mut self, edge: u16, partitioner: Partitioner<T>) -> Outlet<T> {
        let planned =
            self.attempt.plan.edges.get(usize::from(edge)).expect("the plan's factories name the plan's edges");
        let site = OutputSite {
            edge,
            from: self.id.index,
            receivers: planned.receivers(self.id.index, self.attempt.workers),
            attempt: self.attempt.id,
            workers: self.attempt.workers,
            key_groups: self.attempt.key_groups,
            options: self.attempt.options,
        };
        let mut output = Output::new(site, partitioner, Rc::clone(&self.flow));
        self.in_flight_on(edge).into_iter().for_each(|(receiver, bytes)| output.take_credit(receiver, bytes));
        let output = Rc::new(RefCell::new(output));
        self.outputs.push((edge, Rc::clone(&output) as Rc<RefCell<dyn OutputPort>>));
        Outlet(output)
    }

    /// What the receivers of an edge get back that this subtask had sent, by receiver, in bytes of the credit window.
    fn in_flight_on(&self, edge: u16) -> Vec<(u16, usize)> {
        let Some(restore) = self.attempt.restore.as_ref().filter(|_| self.attempt.same_channels()) else {
            return vec![];
        };
        let Some(manifest) = restore.manifests.get(&restore.checkpoint) else { return vec![] };
        let sent = |channel: &&ChannelPart| (channel.edge, channel.from) == (edge, self.id.index);
        let parts = manifest.parts.values();
        let channels =
            parts.flat_map(|part| part.channels.iter().filter(sent).map(|channel| (part.subtask.index, channel)));
        channels.map(|(to, part)| (to, usize::try_from(part.captured.window).unwrap_or(usize::MAX))).collect()
    }

    /// The end of a chain that leads into a sink.
    ///
    /// # Errors
    /// If the sink cannot be opened.
    pub fn sink<T: Record, S: Sink<T>>(&mut self, operator: &str, sink: &S) -> Result<Next<T>>
    where
        S::Writer: 'static,
    {
        if self.attempt.looks_only() {
            return Ok(crate::operator::fan::fan(Vec::new()));
        }
        let cx = SinkContext {
            job: self.attempt.plan.job.clone(),
            operator: operator.to_owned(),
            subtask: self.id.index,
            parallelism: self.attempt.workers,
            incarnation: self.attempt.incarnation.clone(),
            attempt: self.attempt.id,
            first_checkpoint: self.attempt.first_checkpoint,
            files: Arc::clone(&self.attempt.world.files),
            stdout: Arc::clone(&self.attempt.world.stdout),
            waker: Arc::clone(&self.waker),
        };
        let whose = Whose { job: cx.job.clone(), subtask: cx.subtask };
        let writer = sink.open(&cx).map_err(|error| error.at_operator(operator).at_subtask(self.id))?;
        let seal = <S::Writer as SinkWriter<T>>::seal;
        let ready = <S::Writer as SinkWriter<T>>::ready;
        let writer = Rc::new(RefCell::new(WriterCell(writer, seal, ready)));
        self.sinks.push(SinkPort::new(operator, whose, sink.committer(&cx), Rc::clone(&writer) as _));
        let written = Rc::clone(&self.records_out);
        Ok(Box::new(SinkOperator { operator: operator.to_owned(), writer, written, mark: self.mark(operator) }))
    }

    /// The head of a chain that reads a source.
    pub fn source<S: Source>(&mut self, operator: &str, source: Arc<S>, next: Next<S::Item>) -> Box<dyn Chain> {
        Box::new(self.source_chain(operator, source, next))
    }

    /// The same, where what cannot be read goes to `beside` and is counted.
    pub fn source_with_dead_letters<S: DeadLetters>(
        &mut self,
        operator: &str,
        source: Arc<S>,
        next: Next<S::Item>,
        beside: Next<DeadLetter<String>>,
        count: Arc<AtomicU64>,
    ) -> Box<dyn Chain> {
        Box::new(self.source_chain(operator, source, next).with_dead_letters(Beside { next: beside, count }))
    }

    fn source_chain<S: Source>(&mut self, operator: &str, source: Arc<S>, next: Next<S::Item>) -> SourceChain<S> {
        let cx = SourceContext {
            operator: operator.to_owned(),
            subtask: self.id.index,
            parallelism: self.attempt.workers,
            files: Arc::clone(&self.attempt.world.files),
            threads: Arc::clone(&self.attempt.world.threads),
            waker: Arc::clone(&self.waker),
        };
        SourceChain::new(operator, source, cx, next, Rc::clone(&self.records_in), self.mark(operator))
    }
}
