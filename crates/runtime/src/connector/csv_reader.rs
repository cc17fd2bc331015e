//! Reads a file of CSV records (RFC 4180), each at a known byte and line.
//!
//! The parser is that of the `csv` crate; the bytes, offsets and errors are ours. Every reader first reads the header (or,
//! without one, the first record), wherever it starts, so one that resumes knows names and number of columns like one that
//! did not.

use super::csv_header;
use super::file_bytes::{FileBytes, MAX_RECORD_BYTES};
use super::file_source::{FilePosition, FileSource, TimestampOf};
use super::unreadable::Unreadable;
use crate::error::{Error, Result};
use crate::operator::try_map::OnError;
use crate::record::Record;
use crate::source::{Next, SplitReader};
use crate::time::{Time, Timestamp};
use csv::ByteRecord;
use csv_core::ReadRecordResult;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// CSV records of type `T`, and how they are written.
pub struct Csv<T> {
    delimiter: u8,
    headers: bool,
    timestamp: Option<TimestampOf<T>>,
    unreadable: Unreadable,
}

impl<T> Default for Csv<T> {
    fn default() -> Self {
        Csv { delimiter: b',', headers: true, timestamp: None, unreadable: Unreadable::default() }
    }
}

impl<T> Clone for Csv<T> {
    fn clone(&self) -> Self {
        Csv { timestamp: self.timestamp.clone(), unreadable: self.unreadable.clone(), ..*self }
    }
}

impl<T> Csv<T> {
    /// The same, with the same counter.
    fn share(&self) -> Self {
        Csv { unreadable: self.unreadable.share(), ..self.clone() }
    }

    /// Hands over what cannot be read.
    pub(super) fn keep_unreadable(&mut self) {
        self.unreadable.dead_letters = true;
    }

    /// The counter of what is left out, if anything may be.
    pub(super) fn counter(&self) -> Option<Arc<AtomicU64>> {
        self.unreadable.counter()
    }
}

impl<T: Record> FileSource<Csv<T>> {
    /// What stands between two fields; a comma if not set.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.format.delimiter = delimiter;
        self
    }

    /// Whether the first record of each file names the columns; it does if not set.
    #[must_use]
    pub fn headers(mut self, headers: bool) -> Self {
        self.format.headers = headers;
        self
    }

    /// What happens to a record that cannot be read: one with another number of fields than the header, or with a field that
    /// does not fit its type. [`OnError::Fail`] if not set: it ends the job. With [`OnError::Skip`] it is left out, counted,
    /// and reported. Not for what makes a whole file unreadable: a header that lacks a column, a quote that never ends.
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

/// See the head of this file.
pub(super) struct CsvReader<T> {
    split: String,
    bytes: FileBytes,
    format: Csv<T>,
    parser: csv_core::Reader,
    /// The line of the next unread byte, from 1.
    line: u64,
    /// The line on which the record last read begins.
    record_line: u64,
    header: Option<ByteRecord>,
    /// How many fields each record must have; `None` until the first one.
    columns: Option<usize>,
    record: ByteRecord,
    /// The fields of the record being read, one after the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// The bytes of the record last read, if somebody wants them.
    raw: Vec<u8>,
}

impl<T: Record> CsvReader<T> {
    /// Reads the header, then goes where the position says.
    pub(super) fn new(
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
        format: &Csv<T>,
    ) -> Result<CsvReader<T>> {
        let place = from.map(|position| (position.offset, position.line));
        let parser = fresh_parser(format.delimiter);
        let mut reader = CsvReader {
            split: split.to_owned(),
            bytes,
            format: format.share(),
            parser,
            line: 1,
            record_line: 1,
            header: None,
            columns: None,
            record: ByteRecord::new(),
            fields: vec![0; 1 << 10],
            ends: vec![0; 32],
            raw: Vec::new(),
        };
        match place {
            None if reader.format.headers => reader.read_header()?,
            None => {}
            Some((offset, line)) => {
                reader.bytes.rewind()?;
                reader.read_header()?;
                reader.bytes.seek(offset);
                reader.parser = fresh_parser(reader.format.delimiter);
                (reader.line, reader.record_line) = (line, line);
            }
        }
        Ok(reader)
    }

    /// Reads the first record: the header, or the one that says how many columns there are.
    fn read_header(&mut self) -> Result<()> {
        if self.read_record()? {
            self.columns = Some(self.record.len());
            if self.format.headers {
                if let Some(fault) = csv_header::fault_of::<T>(&self.record) {
                    let type_name = std::any::type_name::<T>();
                    return Err(self.error(&format!("{fault} (a record is {type_name})")));
                }
                self.header = Some(self.record.clone());
            }
        }
        Ok(())
    }

    /// Reads a record into `self.record`; false at the end of the file.
    fn read_record(&mut self) -> Result<bool> {
        if !self.skip_line_ends()? {
            return Ok(false);
        }
        self.record_line = self.line;
        self.raw.clear();
        let (mut fields, mut ends, mut taken) = (0, 0, 0);
        loop {
            if self.bytes.unread().is_empty() {
                // Without more input, the parser ends the last record.
                self.bytes.fill()?;
            }
            let output = self.fields.get_mut(fields..).unwrap_or_default();
            let (result, read, written, ended) =
                self.parser.read_record(self.bytes.unread(), output, self.ends.get_mut(ends..).unwrap_or_default());
            if self.format.unreadable.dead_letters {
                self.raw.extend_from_slice(self.bytes.unread().get(..read).unwrap_or_default());
            }
            self.consume(read);
            fields += written;
            ends += ended;
            taken += read;
            if taken > MAX_RECORD_BYTES {
                let hint = "is a quote missing its end?";
                return Err(self.error("the CSV record is longer than 16 MiB").hint(hint));
            }
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(2 * self.fields.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => {
                    self.collect_fields(ends);
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
    }

    /// Goes to the first byte of a record, so that its line is known. Empty lines are none.
    fn skip_line_ends(&mut self) -> Result<bool> {
        loop {
            let unread = self.bytes.unread();
            let ends = unread.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let at_record = ends < unread.len();
            self.consume(ends);
            if at_record {
                return Ok(true);
            }
            if !self.bytes.fill()? {
                return Ok(false);
            }
        }
    }

    fn consume(&mut self, count: usize) {
        let taken = self.bytes.unread().get(..count).unwrap_or_default();
        self.line += taken.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.bytes.consume(count);
    }

    fn collect_fields(&mut self, count: usize) {
        self.record.clear();
        let mut start = 0;
        for end in self.ends.iter().take(count) {
            self.record.push_field(self.fields.get(start..*end).unwrap_or_default());
            start = *end;
        }
    }

    fn check_columns(&mut self) -> Result<()> {
        let (expected, found) = (*self.columns.get_or_insert(self.record.len()), self.record.len());
        if expected == found {
            return Ok(());
        }
        let model = if self.header.is_some() { "the header" } else { "the first record" };
        Err(self.error(&format!("the CSV record has {found} fields, {model} has {expected}")))
    }

    fn parse(&mut self) -> Result<T> {
        self.check_columns()?;
        self.record.deserialize(self.header.as_ref()).map_err(|error| self.explain(&error))
    }

    fn error(&self, message: &str) -> Error {
        Error::invalid(message).at_position(format!("{}, line {}", self.split, self.record_line))
    }

    /// Says which column and value could not be read.
    fn explain(&self, error: &csv::Error) -> Error {
        let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
            return self.error(&format!("the CSV record cannot be read: {error}"));
        };
        let cause = err.kind();
        let Some(index) = err.field().and_then(|field| usize::try_from(field).ok()) else {
            let columns = self.header.iter().flatten().map(|name| format!("`{}`", String::from_utf8_lossy(name)));
            let columns = columns.collect::<Vec<_>>().join(", ");
            let columns = if columns.is_empty() { columns } else { format!(" (the columns are {columns})") };
            let type_name = std::any::type_name::<T>();
            return self.error(&format!("the CSV record does not fit {type_name}: {cause}{columns}"));
        };
        let name = self.header.as_ref().and_then(|header| header.get(index));
        let column = name.map_or_else(
            || format!("column {}", index + 1),
            |name| format!("column `{}`", String::from_utf8_lossy(name)),
        );
        let value: String =
            String::from_utf8_lossy(self.record.get(index).unwrap_or_default()).chars().take(80).collect();
        let place = format!("{}, line {}, {column}", self.split, self.record_line);
        Error::invalid(format!("the value `{value}` cannot be read: {cause}")).at_position(place)
    }
}

/// The parser may take the end of the line with the record.
fn without_line_end(raw: &[u8]) -> &[u8] {
    let ends = raw.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    raw.get(..raw.len() - ends).unwrap_or_default()
}

/// A parser at the beginning of a record, that takes no byte order mark for one in the middle of a file.
fn fresh_parser(delimiter: u8) -> csv_core::Reader {
    let mut parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
    let _ = parser.read_record(b"\n", &mut [0], &mut [0]);
    parser
}

impl<T: Record> SplitReader for CsvReader<T> {
    type Item = T;
    type Position = FilePosition;

    fn next(&mut self, _now: Time) -> Result<Next<T>> {
        if !self.read_record()? {
            self.bytes.check_unchanged()?;
            return Ok(Next::End);
        }
        let record = match self.parse() {
            Ok(record) => record,
            Err(error) => return self.format.unreadable.met(error, without_line_end(&self.raw)),
        };
        let timestamp = self.format.timestamp.as_ref().map(|of| of(&record));
        Ok(Next::Record(record, timestamp))
    }

    fn position(&self) -> FilePosition {
        FilePosition {
            offset: self.bytes.offset(),
            line: self.line,
            header_read: self.header.is_some(),
            fingerprint: self.bytes.fingerprint(),
        }
    }

    fn describe(&self) -> String {
        format!("{}, line {}", self.split, self.record_line)
    }
}
