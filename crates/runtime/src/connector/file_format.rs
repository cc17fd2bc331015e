//! How a file sink writes a record: as a line, as CSV, as a line of JSON.

use crate::error::{Error, Result};
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write;
use std::rc::Rc;

/// A format for records of type `T`.
pub trait Format<T>: Send + Sync + 'static {
    /// What writes the parts of one subtask.
    type Encoder: Encoder<T>;
    /// The extension of its files, without the dot.
    const EXTENSION: &'static str;

    /// An encoder for one subtask.
    ///
    /// # Errors
    /// If the format is none for such records; refuses the job before it writes anything.
    fn encoder(&self) -> Result<Self::Encoder>;
}

/// Writes records into a buffer.
pub trait Encoder<T> {
    /// Begins a part: what is written stands alone.
    ///
    /// # Errors
    /// If the beginning cannot be written.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// Appends a record.
    ///
    /// # Errors
    /// If the record does not fit the format; the buffer may hold a piece of it then.
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<()>;

    /// About how many bytes of the part it holds back, beside what it gave out: counts for the size of a part.
    fn held(&self) -> u64 {
        0
    }

    /// What ends the part that was begun last, if anything: nothing more is encoded before the next beginning. Called in the cut,
    /// so it only hands over what is there; the work is done in [`Rest::write`].
    fn take_rest(&mut self) -> Option<Box<dyn Rest>> {
        None
    }
}

/// The end of a part: what was held back, a footer.
pub trait Rest: Send {
    /// Appends it. May take its time: it is called off the worker's thread if a checkpoint closes the part.
    ///
    /// # Errors
    /// If it cannot be written; then the part is lost, and the attempt goes back to its last checkpoint.
    fn write(self: Box<Self>, out: &mut Vec<u8>) -> Result<()>;
}

/// `Display`, and a line feed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineFormat;

impl<T: Display> Format<T> for LineFormat {
    type Encoder = LineFormat;
    const EXTENSION: &'static str = "txt";

    fn encoder(&self) -> Result<LineFormat> {
        Ok(LineFormat)
    }
}

impl<T: Display> Encoder<T> for LineFormat {
    fn begin(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<()> {
        writeln!(out, "{record}")
            .map_err(|error| Error::invalid(format!("a record cannot be written as text: {error}")))
    }
}

/// Compact JSON, and a line feed.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonLineFormat;

impl<T: Serialize> Format<T> for JsonLineFormat {
    type Encoder = JsonLineFormat;
    const EXTENSION: &'static str = "jsonl";

    fn encoder(&self) -> Result<JsonLineFormat> {
        Ok(JsonLineFormat)
    }
}

impl<T: Serialize> Encoder<T> for JsonLineFormat {
    fn begin(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<()> {
        serde_json::to_writer(&mut *out, record)
            .map_err(|error| Error::invalid(format!("a record cannot be written as JSON: {error}")))?;
        out.push(b'\n');
        Ok(())
    }
}

/// CSV (RFC 4180, but with `\n`), with a header in each part: the names of a struct's fields, or those that were given.
#[derive(Clone, Debug)]
pub struct CsvFormat {
    pub(super) delimiter: u8,
    pub(super) header: Header,
}

/// What stands in the first line of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// The names of the fields, if the record is a struct.
    FromRecord,
    /// These names.
    Given(Vec<String>),
    /// A record.
    Absent,
}

impl<T: Serialize> Format<T> for CsvFormat {
    type Encoder = CsvEncoder;
    const EXTENSION: &'static str = "csv";

    fn encoder(&self) -> Result<CsvEncoder> {
        let out = SharedBuffer::default();
        Ok(CsvEncoder { format: self.clone(), writer: self.writer(out.clone()), out })
    }
}

impl CsvFormat {
    fn writer(&self, out: SharedBuffer) -> csv::Writer<SharedBuffer> {
        csv::WriterBuilder::new()
            .delimiter(self.delimiter)
            .has_headers(self.header == Header::FromRecord)
            .from_writer(out)
    }
}

/// Writes CSV. The `csv` crate's writer owns what it writes to; so it writes into a buffer that we share with it.
pub struct CsvEncoder {
    format: CsvFormat,
    writer: csv::Writer<SharedBuffer>,
    out: SharedBuffer,
}

#[derive(Clone, Default)]
struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CsvEncoder {
    fn take(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.flush().map_err(|error| Error::invalid(format!("a record cannot be written as CSV: {error}")))?;
        out.append(&mut self.out.0.borrow_mut());
        Ok(())
    }
}

fn not_csv(error: &csv::Error) -> Error {
    Error::invalid(format!("a record cannot be written as CSV: {error}"))
        .hint("a CSV record is flat: a struct or tuple of numbers, texts and options")
}

impl<T: Serialize> Encoder<T> for CsvEncoder {
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer = self.format.writer(self.out.clone());
        if let Header::Given(names) = &self.format.header {
            self.writer.write_record(names).map_err(|error| not_csv(&error))?;
        }
        self.take(out)
    }

    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<()> {
        self.writer.serialize(record).map_err(|error| not_csv(&error))?;
        self.take(out)
    }
}
