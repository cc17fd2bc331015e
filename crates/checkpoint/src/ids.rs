//! The names of things that a checkpoint speaks of. Plain numbers with a type, so that one cannot stand for another.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A checkpoint of a job. Ids grow over the whole log (L6); the first one is 1.
    CheckpointId(u64)
}
number! {
    /// One try at running a job: the slot of its `Start` in the log (L1). A newer attempt fences all older ones.
    AttemptId(u64)
}
number! {
    /// A position in the log of a job. The first slot is 1.
    Slot(u64)
}
number! {
    /// An input channel of one subtask: all its channels, over all its inputs, counted from 0.
    Channel(u16)
}
number! {
    /// One of the fixed number of parts that keyed state is divided into (default 128, D9).
    KeyGroup(u16)
}

/// One parallel instance of a chain of operators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SubtaskId {
    /// Which chain, in the order in which the plan names them.
    pub vertex: u16,
    /// Which instance: the index of the worker that runs it.
    pub index: u16,
}

impl fmt::Display for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vertex, self.index)
    }
}
