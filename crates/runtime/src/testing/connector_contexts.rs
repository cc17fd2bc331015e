//! Contexts for connectors that are tested alone, without an engine.

use crate::error::{Error, Result};
use crate::io::Files;
use crate::sink::SinkContext;
use crate::source::{SourceContext, Threads};
use flott_checkpoint::{AttemptId, CheckpointId};
use std::sync::Arc;

/// A source's context: operator `source`, the only subtask, no threads, a waker that does nothing.
#[must_use]
pub fn source_context(files: Arc<dyn Files>) -> SourceContext {
    SourceContext {
        operator: "source".to_owned(),
        subtask: 0,
        parallelism: 1,
        files,
        threads: Arc::new(NoThreads),
        waker: Arc::new(|| ()),
    }
}

/// A sink's context: operator `out` of the job `job`, the only subtask, attempt 1 of incarnation `life`, output that goes nowhere.
#[must_use]
pub fn sink_context(files: Arc<dyn Files>) -> SinkContext {
    SinkContext {
        job: "job".to_owned(),
        operator: "out".to_owned(),
        subtask: 0,
        parallelism: 1,
        incarnation: "life".to_owned(),
        attempt: AttemptId(1),
        first_checkpoint: CheckpointId(1),
        files,
        stdout: Arc::new(|_: &str| ()),
        waker: Arc::new(|| ()),
    }
}

struct NoThreads;

impl Threads for NoThreads {
    fn spawn(&self, name: &str, _body: Box<dyn FnOnce() + Send>) -> Result<()> {
        Err(Error::failed(format!("no thread `{name}` in this test")))
    }
}
