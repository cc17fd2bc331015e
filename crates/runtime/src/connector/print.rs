//! Prints each record on a line of its own, at once.
//!
//! A record that is a text is printed as it is, everything else as JSON on one line: so it needs nothing of a record that
//! every record does not have, and other programs can read it. Not transactional: after a restore some lines come again.

use crate::error::{Error, Result};
use crate::record::Record;
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter};
use flott_checkpoint::CheckpointId;
use serde_json::Value;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A sink that prints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Print;

/// A sink that prints each record to the standard output: a text as it is, everything else as JSON.
#[must_use]
pub fn print() -> Print {
    Print
}

impl<T: Record> Sink<T> for Print {
    type Writer = PrintWriter;

    fn open(&self, cx: &SinkContext) -> Result<PrintWriter> {
        Ok(PrintWriter { stdout: cx.stdout.clone() })
    }

    fn committer(&self, _cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

/// Prints the records of one subtask.
pub struct PrintWriter {
    stdout: Arc<dyn Fn(&str) + Send + Sync>,
}

impl<T: Record> SinkWriter<T> for PrintWriter {
    fn write(&mut self, record: T) -> Result<()> {
        let json = serde_json::to_string(&record)
            .map_err(|error| Error::failed(format!("a record cannot be printed as JSON: {error}")))?;
        let text = if json.starts_with('"') { serde_json::from_str(&json).ok() } else { None };
        let mut line = match text {
            Some(Value::String(text)) => text,
            _ => json,
        };
        line.push('\n');
        (self.stdout)(&line);
        Ok(())
    }

    fn seal(&mut self, _id: CheckpointId) -> Option<Sealed> {
        None
    }
}
