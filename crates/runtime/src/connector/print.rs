//! Prints each record on a line of its own, as fast as somebody reads.
//!
//! A record that is a text is printed as it is, everything else as JSON on one line: so it needs nothing of a record that
//! every record does not have, and other programs can read it. Beside events (`--json`) each line is an object. Not transactional: after a restore some lines come again. None is
//! missing: a checkpoint waits until the lines before it are out.

use crate::error::{Error, Result};
use crate::manifest::AdoptedLife;
use crate::record::Record;
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Stdout, Token};
use crate::source::Waker;
use crate::time::Time;
use flott_checkpoint::CheckpointId;
use serde_json::Value;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A sink that prints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Print;

/// A sink that prints each record to the standard output: a text as it is, everything else as JSON. With `--json`
/// each is an object, `{"event":"record","sink":NAME,"record":…}`.
#[must_use]
pub fn print() -> Print {
    Print
}

impl<T: Record> Sink<T> for Print {
    type Writer = PrintWriter;

    fn open(&self, cx: &SinkContext) -> Result<PrintWriter> {
        let sink = cx.stdout.wants_objects().then(|| Value::from(cx.operator.as_str()).to_string());
        Ok(PrintWriter { stdout: cx.stdout.clone(), waker: cx.waker.clone(), sink, has_printed: false })
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        Some(Arc::new(PrintFlusher { stdout: cx.stdout.clone() }))
    }

    fn is_transactional(&self) -> bool {
        false
    }
}

/// Prints the records of one subtask.
pub struct PrintWriter {
    stdout: Arc<dyn Stdout>,
    waker: Waker,
    /// The sink's name as JSON, if every line has to be an object.
    sink: Option<String>,
    /// Since the last seal.
    has_printed: bool,
}

impl<T: Record> SinkWriter<T> for PrintWriter {
    fn ready(&mut self) -> bool {
        self.stdout.ready(&self.waker)
    }

    fn write(&mut self, record: T, _now: Time) -> Result<()> {
        let json = serde_json::to_string(&record)
            .map_err(|error| Error::invalid(format!("a record cannot be printed as JSON: {error}")))?;
        let mut line = match &self.sink {
            Some(sink) => format!("{{\"event\":\"record\",\"sink\":{sink},\"record\":{json}}}"),
            None => plain(json),
        };
        line.push('\n');
        self.stdout.write(&line);
        self.has_printed = true;
        Ok(())
    }

    fn seal(&mut self, _id: CheckpointId) -> Option<Sealed> {
        std::mem::take(&mut self.has_printed).then(|| Box::new(()) as Sealed)
    }
}

/// A text without its quotes and escapes; everything else as it is.
fn plain(json: String) -> String {
    match json.starts_with('"').then(|| serde_json::from_str(&json)) {
        Some(Ok(text)) => text,
        _ => json,
    }
}

/// Lets no checkpoint be recorded before its lines are out. There is nothing to commit.
struct PrintFlusher {
    stdout: Arc<dyn Stdout>,
}

impl Committer for PrintFlusher {
    fn adopt(&self, _lives: &[AdoptedLife]) -> Result<()> {
        Ok(())
    }

    fn claim(&self, _overwrite: bool) -> Result<()> {
        Ok(())
    }

    fn claims_by_looking(&self) -> bool {
        true
    }

    fn overwrite_foreign(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _sealed: &mut Sealed) -> Result<Vec<Token>> {
        self.stdout.flush().map(|()| Vec::new())
    }

    fn commit(&self, _token: &Token) -> Result<()> {
        Ok(())
    }

    fn clean(&self, _restored: &[Token]) -> Result<()> {
        Ok(())
    }
}
