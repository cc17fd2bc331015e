//! The plan of a job: what runs where, immutable and shared by all workers, which instantiate their subtasks from it.
//!
//! Two levels, not four: vertices (chains of operators) and edges. Every vertex has one subtask on every worker.
//! The plan is a DAG by construction; it is made by the users' library and never changes afterwards.

use crate::error::Result;
use crate::operator::Chain;
use crate::record::BatchCodec;
use crate::subtask::SubtaskBuilder;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes the chain of one subtask, on the worker's thread.
pub type BuildChain = Arc<dyn Fn(&mut SubtaskBuilder) -> Result<Box<dyn Chain>> + Send + Sync>;

/// A job, ready to be instantiated.
#[derive(Clone)]
pub struct Plan {
    /// The job's name: its directory in the checkpoint storage.
    pub job: String,
    /// The chains, upstream before downstream.
    pub vertices: Vec<Vertex>,
    /// The edges between them.
    pub edges: Vec<Edge>,
    /// Every source, stateful operator and sink, by name.
    pub operators: Vec<OperatorPlan>,
}

/// A chain: one subtask of it runs on every worker.
#[derive(Clone)]
pub struct Vertex {
    /// The names of its named operators, joined; for messages.
    pub name: String,
    /// Whether it starts with a source (then it has no inputs).
    pub is_source: bool,
    /// Indexes of the edges that come in, in input order.
    pub inputs: Vec<u16>,
    /// Indexes of the edges that go out.
    pub outputs: Vec<u16>,
    /// The factory.
    pub build: BuildChain,
}

/// A connection between two vertices.
#[derive(Clone)]
pub struct Edge {
    /// The sending vertex.
    pub from: u16,
    /// The receiving vertex.
    pub to: u16,
    /// Which numbered input of the receiver.
    pub input: u8,
    /// Which subtasks it connects.
    pub partitioning: Partitioning,
    /// How its batches are decoded.
    pub codec: Arc<dyn BatchCodec>,
}

/// How records find their subtask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// To the subtask on the same worker.
    Forward,
    /// By the key's group.
    Hash,
    /// Round robin.
    Rebalance,
    /// To all.
    Broadcast,
}

impl Edge {
    /// The senders that a receiving subtask has on this edge, in channel order.
    #[must_use]
    pub fn senders(&self, receiver: u16, workers: u16) -> std::ops::Range<u16> {
        match self.partitioning {
            Partitioning::Forward => receiver..receiver + 1,
            _ => 0..workers,
        }
    }

    /// The receivers that a sending subtask has on this edge.
    #[must_use]
    pub fn receivers(&self, sender: u16, workers: u16) -> std::ops::Range<u16> {
        match self.partitioning {
            Partitioning::Forward => sender..sender + 1,
            _ => 0..workers,
        }
    }
}

/// A named operator, as a restore and the guarantee see it.
#[derive(Clone, Debug)]
pub struct OperatorPlan {
    /// Its name, unique in the job.
    pub name: String,
    /// The name under which an older version of the job stored its state.
    pub renamed_from: Option<String>,
    /// The vertex it runs in.
    pub vertex: u16,
    /// What it is.
    pub role: Role,
    /// The states it declares.
    pub states: Vec<StatePlan>,
}

/// What a named operator is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A source.
    Source {
        /// It can be opened at a stored position.
        replayable: bool,
        /// It ends by itself.
        bounded: bool,
    },
    /// A stateful operator.
    Stateful,
    /// A sink.
    Sink {
        /// Its output becomes visible by commits, exactly once.
        transactional: bool,
    },
}

/// A declared state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePlan {
    /// Its name, unique in the operator.
    pub name: String,
    /// `value`, `reducing`, `aggregating` (each also with `-ttl`), `map`, `list`, `timers`, `broadcast` or `split-list`.
    pub kind: String,
    /// The shape of the key type, as [`crate::key::Shape::of_type`] finds it; keys cannot evolve.
    pub key: String,
    /// The shape of the value type, for messages.
    pub value: String,
}
