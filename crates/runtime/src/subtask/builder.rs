//! What a chain's factory may ask for while it builds the chain of one subtask.

use crate::error::Result;
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::operator::{Chain, Next};
use crate::record::Record;
use crate::sink::Sink;
use crate::source::Source;
use crate::state::{HeapValue, Value, ValueDeclaration};
use flott_checkpoint::SubtaskId;
use std::sync::Arc;

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

/// Collects what a chain registers with its subtask: outputs, sinks, sources, state.
pub struct SubtaskBuilder {
    id: SubtaskId,
}

impl SubtaskBuilder {
    /// The subtask that is being built.
    #[must_use]
    pub fn id(&self) -> SubtaskId {
        self.id
    }

    /// The number of subtasks of this vertex.
    #[must_use]
    pub fn parallelism(&self) -> u16 {
        todo!()
    }

    /// The job's secret for key hashes.
    #[must_use]
    pub fn key_seed(&self) -> u64 {
        todo!()
    }

    /// The mark under which an operator shows in the worker's heartbeat.
    pub fn mark(&self, operator: &str) -> Mark {
        let _ = operator;
        todo!()
    }

    /// A declared value state of this chain, one value a key.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn value<K: Key, V: Value>(&mut self, declaration: ValueDeclaration) -> Result<HeapValue<K, V>> {
        let _ = declaration;
        todo!()
    }

    /// The end of a chain that leads to another vertex: the edge, and how records are spread over it.
    pub fn outlet<T: Record>(&mut self, edge: u16, partitioner: Partitioner<T>) -> Next<T> {
        let _ = (edge, partitioner);
        todo!()
    }

    /// The end of a chain that leads into a sink.
    ///
    /// # Errors
    /// If the sink cannot be opened.
    pub fn sink<T: Record, S: Sink<T>>(&mut self, operator: &str, sink: &S) -> Result<Next<T>>
    where
        S::Writer: 'static,
    {
        let _ = (operator, sink);
        todo!()
    }

    /// The head of a chain that reads a source.
    pub fn source<S: Source>(&mut self, operator: &str, source: Arc<S>, next: Next<S::Item>) -> Box<dyn Chain> {
        let _ = (operator, source, next);
        todo!()
    }
}
