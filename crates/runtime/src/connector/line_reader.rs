//! Reads a file line by line.

use super::file_bytes::{FileBytes, MAX_RECORD_BYTES};
use super::file_source::{FilePosition, TimestampOf};
use crate::error::{Error, Result};
use crate::source::{Next, SplitReader};
use crate::time::Time;

/// See the head of this file.
pub(super) struct LineReader {
    split: String,
    bytes: FileBytes,
    /// The line that comes next, from 1.
    line: u64,
    timestamp: Option<TimestampOf<String>>,
}

impl LineReader {
    /// Reads on where `bytes` stands.
    pub(super) fn new(
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
        timestamp: Option<TimestampOf<String>>,
    ) -> LineReader {
        LineReader { split: split.to_owned(), bytes, line: from.map_or(1, |position| position.line), timestamp }
    }

    /// The bytes of the next line without its end, and how many bytes it takes with it; `None` at the end of the file.
    fn find_line(&mut self) -> Result<Option<(usize, usize)>> {
        let mut searched = 0;
        loop {
            let unread = self.bytes.unread();
            let found = unread.get(searched..).unwrap_or_default().iter().position(|byte| *byte == b'\n');
            let length = found.map_or(unread.len(), |found| searched + found);
            if length > MAX_RECORD_BYTES {
                return Err(self.error("the line is longer than 16 MiB"));
            }
            if found.is_some() {
                let has_return = length > 0 && unread.get(length - 1) == Some(&b'\r');
                return Ok(Some((length - usize::from(has_return), length + 1)));
            }
            searched = length;
            if !self.bytes.fill()? {
                return Ok((length > 0).then_some((length, length)));
            }
        }
    }

    /// Looks at the next line, without its end, and goes behind it; `None` at the end of the file.
    pub(super) fn take_line<R>(&mut self, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let Some((length, taken)) = self.find_line()? else {
            self.bytes.check_unchanged()?;
            return Ok(None);
        };
        let seen = look(self.bytes.unread().get(..length).unwrap_or_default());
        self.bytes.consume(taken);
        self.line += 1;
        Ok(Some(seen))
    }

    fn error(&self, message: &str) -> Error {
        Error::invalid(message).at_position(format!("{}, line {}", self.split, self.line))
    }
}

impl SplitReader for LineReader {
    type Item = String;
    type Position = FilePosition;

    fn next(&mut self, _now: Time) -> Result<Next<String>> {
        let Some((length, taken)) = self.find_line()? else {
            self.bytes.check_unchanged()?;
            return Ok(Next::End);
        };
        let line = self.bytes.unread().get(..length).unwrap_or_default();
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(self.error("the line is not UTF-8"));
        };
        let line = line.to_owned();
        self.bytes.consume(taken);
        self.line += 1;
        let timestamp = self.timestamp.as_ref().map(|of| of(&line));
        Ok(Next::Record(line, timestamp))
    }

    fn position(&self) -> FilePosition {
        FilePosition {
            offset: self.bytes.offset(),
            line: self.line,
            header_read: false,
            fingerprint: self.bytes.fingerprint(),
        }
    }

    fn describe(&self) -> String {
        format!("{}, line {}", self.split, self.line.saturating_sub(1))
    }
}
