//! flott: stateful stream processing whose heart is the consistent checkpoint.
//!
//! A job is an ordinary program. Its closure describes streams once; what it describes is frozen into a plan, and workers
//! run copies of the plan's chains on the records of their own splits and keys.
//!
//! Never here: how a checkpoint is taken (that is `flott-checkpoint`) and how records move (that is `flott-runtime`).

#![forbid(unsafe_code)]

mod flags;
mod graph;
mod job;
mod keyed;
pub mod prelude;
mod settings;
mod stream;

pub use flott_checkpoint::{Guarantee, Mode, Restore};
pub use flott_runtime::error::{Error, ErrorKind, Result};
pub use flott_runtime::operator::process::{BoxError, Out, State, Value, ValueRef};
pub use flott_runtime::operator::try_map::OnError;
pub use job::Job;
pub use keyed::Keyed;
pub use settings::Settings;
pub use stream::{Stream, Sunk};
