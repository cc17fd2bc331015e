//! What a job's file needs: `use flott::prelude::*;`.

pub use crate::connector::{FileSink, FileSource, Generator, MemorySink, MemorySource, SocketSource, print};
pub use crate::{
    Aggregating, Connected, DeadLetter, Error, Job, Keyed, List, Map, OnError, Out, Reducing, Result, SideOutput,
    SplitList, Stream, Time, TimerOut, Value,
};
