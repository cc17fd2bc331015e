//! flott: stateful stream processing whose heart is the consistent checkpoint.
//!
//! A job is an ordinary program. Its closure describes streams once; what it describes is frozen into a plan, and workers
//! run copies of the plan's chains on the records of their own splits and keys.
//!
//! Never here: how a checkpoint is taken (that is `flott-checkpoint`) and how records move (that is `flott-runtime`).

#![forbid(unsafe_code)]

mod commutative;
mod connected;
mod console;
mod flags;
mod graph;
mod handle;
mod job;
mod keyed;
pub mod prelude;
mod program;
pub mod remote;
mod run;
mod settings;
mod sides;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use commutative::Commutative;
pub use connected::{Connected, WithBroadcast};
pub use flott_checkpoint::{Guarantee, Mode, Restore};
pub use flott_runtime::error::{Error, ErrorKind, Result};
pub use flott_runtime::history::Phases;
pub use flott_runtime::operator::part::DeadLetter;
pub use flott_runtime::operator::process::{
    Aggregating, AggregatingRef, BoxError, ExpiringRef, ExpiringValue, List, ListRef, Map, MapRef, Out, Reducing,
    ReducingRef, SplitList, State, TimerOut, Value, ValueRef,
};
pub use flott_runtime::operator::side::SideOutput;
pub use flott_runtime::operator::try_map::OnError;
pub use flott_runtime::time::Time;
pub use flott_runtime::whereabouts::Whereabouts;
pub use handle::{Commands, JobHandle, SavepointReport};
pub use job::Job;
pub use keyed::Keyed;
pub use program::{main, main_with};
pub use run::{CheckpointStatus, Ended, HotKey, Phase, Report, Status};
pub use settings::{Settings, StateBackend};
pub use stream::{Stream, Sunk};

pub mod connector {
    //! Sources and sinks that come with flott, and the traits for writing others.

    pub use flott_checkpoint::CheckpointId;
    #[cfg(feature = "parquet")]
    pub use flott_parquet::Parquet;
    #[cfg(feature = "postgres")]
    pub use flott_postgres::PostgresSink;
    pub use flott_runtime::connector::staged::{EpochMark, Rows, SinkLife};
    pub use flott_runtime::connector::*;
    pub use flott_runtime::io::{Files, ReadFile, WriteFile};
    pub use flott_runtime::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Stdout, Token};
    pub use flott_runtime::source::{
        BoxedReader, DeadLetters, Next, Source, SourceContext, SplitReader, Unreadable, Waker,
    };
    pub use flott_runtime::time::{Time, Timestamp};
}

/// The documents of the repository: their code is compiled and run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/first-job.md")]
    struct FirstJob;
    #[doc = include_str!("../../../docs/guide/checkpoints-and-guarantees.md")]
    struct CheckpointsAndGuarantees;
    #[doc = include_str!("../../../docs/guide/files.md")]
    struct Files;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/databases.md")]
    struct Databases;
    #[doc = include_str!("../../../docs/guide/state.md")]
    struct StateGuide;
    #[doc = include_str!("../../../docs/guide/operations.md")]
    struct Operations;
    #[doc = include_str!("../../../docs/guide/testing-a-job.md")]
    struct TestingAJob;
}
