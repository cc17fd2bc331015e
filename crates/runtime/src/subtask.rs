//! A subtask: one parallel instance of a chain, with its gate, its outputs, its state, and its part in every checkpoint.

mod builder;

pub use builder::{Partitioner, SubtaskBuilder};
