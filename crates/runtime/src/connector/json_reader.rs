//! Reads a file of JSON records, one a line.
//!
//! Lines are found by the line reader; a line feed cannot stand inside a JSON value, so a record that cannot be read costs that
//! line and no more.

use super::file_bytes::FileBytes;
use super::file_source::{FilePosition, FileSource, ParsedFormat, ReadFormat, TimestampOf};
use super::line_reader::LineReader;
use super::unreadable::Unreadable;
use crate::error::{Error, Result};
use crate::operator::try_map::OnError;
use crate::record::Record;
use crate::source::{BoxedReader, Next, SplitReader};
use crate::time::{Time, Timestamp};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// JSON records of type `T`, one a line.
pub struct Json<T> {
    timestamp: Option<TimestampOf<T>>,
    unreadable: Unreadable,
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Json { timestamp: None, unreadable: Unreadable::default() }
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        Json { timestamp: self.timestamp.clone(), unreadable: self.unreadable.clone() }
    }
}

impl<T: Record> FileSource<Json<T>> {
    /// What happens to a line that is no JSON value of type `T`. [`OnError::Fail`] if not set: it ends the job. With
    /// [`OnError::Skip`] it is left out, counted, and reported. Not for a file that cannot be read at all.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.format.unreadable.on_error = on_error;
        self
    }

    /// Takes the event time of each record from it.
    #[must_use]
    pub fn timestamp(mut self, of: impl Fn(&T) -> Timestamp + Send + Sync + 'static) -> Self {
        self.format.timestamp = Some(Arc::new(of));
        self
    }
}

impl<T: Record> ReadFormat for Json<T> {
    type Item = T;

    fn reader(
        &self,
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
    ) -> Result<BoxedReader<T, FilePosition>> {
        let format = Json { timestamp: self.timestamp.clone(), unreadable: self.unreadable.share() };
        Ok(Box::new(JsonReader { lines: LineReader::new(split, bytes, from, None), format }))
    }

    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        self.unreadable.counter()
    }
}

impl<T: Record> ParsedFormat for Json<T> {
    fn keep_unreadable(&mut self) {
        self.unreadable.dead_letters = true;
    }
}

/// See the head of this file.
struct JsonReader<T> {
    lines: LineReader,
    format: Json<T>,
}

impl<T: Record> JsonReader<T> {
    #[cold]
    fn explain(&self, error: &serde_json::Error) -> Error {
        let text = error.to_string();
        // The parser saw one line: its number says nothing.
        let cause = text.split(" at line ").next().unwrap_or(&text);
        let place = format!("{}, column {}", self.lines.describe(), error.column());
        Error::invalid(format!("the JSON record does not fit {}: {cause}", std::any::type_name::<T>()))
            .at_position(place)
    }
}

impl<T: Record> SplitReader for JsonReader<T> {
    type Item = T;
    type Position = FilePosition;

    fn next(&mut self, _: Time) -> Result<Next<T>> {
        // Empty lines are none: `None` of the inner option.
        let keeps = self.format.unreadable.dead_letters;
        let parse = |line: &[u8]| {
            let parse = || serde_json::from_slice::<T>(line).map_err(|error| (error, keeps.then(|| line.to_vec())));
            (!line.trim_ascii().is_empty()).then(parse)
        };
        loop {
            match self.lines.take_line(parse)? {
                None => return Ok(Next::End),
                Some(None) => {}
                Some(Some(Ok(record))) => {
                    let timestamp = self.format.timestamp.as_ref().map(|of| of(&record));
                    return Ok(Next::Record(record, timestamp));
                }
                Some(Some(Err((error, line)))) => {
                    return self.format.unreadable.met(self.explain(&error), &line.unwrap_or_default());
                }
            }
        }
    }

    fn position(&self) -> FilePosition {
        self.lines.position()
    }

    fn describe(&self) -> String {
        self.lines.describe()
    }
}
