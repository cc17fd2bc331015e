//! Writes files, exactly once: each checkpoint closes a part, which gets its name when the checkpoint is complete. Size, age
//! and gaps close further ones, at a record.
//!
//! A part is written under a hidden pending name. In the cut the writer only moves it into what it seals; `prepare` writes the
//! rest of the buffer and syncs; `commit` links the final name (rules S1-S4; `file_committer.rs`). Whoever reads the names
//! that begin with `part-` sees, per subtask, a prefix of the epochs, and never a piece of an uncommitted one.

use super::file_committer::FileCommitter;
use super::file_format::{CsvFormat, Encoder, Format, Header, JsonLineFormat, LineFormat};
use super::part_file::PartFile;
use super::part_name::Owner;
use crate::error::{Error, Result};
use crate::io::{Files, failed_at};
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter};
use crate::time::Time;
use flott_checkpoint::{AttemptId, CheckpointId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A sink that writes files into a directory. Made by [`FileSink::lines`], [`FileSink::csv`] and [`FileSink::json_lines`].
/// Transactional. Several sinks may share a directory.
#[derive(Clone, Debug)]
pub struct FileSink<F = ()> {
    directory: PathBuf,
    max_part_size: u64,
    max_part_age: Duration,
    max_part_gap: Duration,
    format: F,
}

impl FileSink {
    /// One line a record, by its `Display`; a record that holds line feeds takes several lines. Extension `txt`.
    pub fn lines(directory: impl Into<PathBuf>) -> FileSink<LineFormat> {
        FileSink::with_format(directory, LineFormat)
    }

    /// CSV with a header in each part. Extension `csv`. A tuple has no names: give them with [`FileSink::header`].
    pub fn csv(directory: impl Into<PathBuf>) -> FileSink<CsvFormat> {
        FileSink::with_format(directory, CsvFormat { delimiter: b',', header: Header::FromRecord })
    }

    /// One line of JSON a record. Extension `jsonl`.
    pub fn json_lines(directory: impl Into<PathBuf>) -> FileSink<JsonLineFormat> {
        FileSink::with_format(directory, JsonLineFormat)
    }

    /// Records in a format of your own: see [`Format`].
    pub fn with_format<F>(directory: impl Into<PathBuf>, format: F) -> FileSink<F> {
        FileSink {
            directory: directory.into(),
            max_part_size: u64::MAX,
            max_part_age: Duration::MAX,
            max_part_gap: Duration::MAX,
            format,
        }
    }
}

impl<F> FileSink<F> {
    /// Begins another part when one has so many bytes; it may be larger by one record. Without it only checkpoints cut.
    #[must_use]
    pub fn max_part_size(mut self, bytes: u64) -> Self {
        self.max_part_size = bytes.max(1);
        self
    }

    /// Begins another part with the first record that comes when one is so old, counted from its own first record by the
    /// host's clock. Nothing is cut while no record comes, and nothing becomes visible earlier than by a checkpoint; so this
    /// bounds what a part spans, not how long its records wait.
    #[must_use]
    pub fn max_part_age(mut self, age: Duration) -> Self {
        self.max_part_age = age;
        self
    }

    /// Begins another part with the first record that comes after so long without one, by the host's clock; as with
    /// [`FileSink::max_part_age`], nothing becomes visible earlier. So two bursts of records do not share a part.
    #[must_use]
    pub fn max_part_gap(mut self, gap: Duration) -> Self {
        self.max_part_gap = gap;
        self
    }
}

impl FileSink<CsvFormat> {
    /// What stands between two fields; a comma if not set.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.format.delimiter = delimiter;
        self
    }

    /// Names the columns, instead of the names of the record's fields.
    #[must_use]
    pub fn header<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.format.header = Header::Given(names.into_iter().map(Into::into).collect());
        self
    }

    /// Writes no header.
    #[must_use]
    pub fn without_header(mut self) -> Self {
        self.format.header = Header::Absent;
        self
    }
}

impl<T: 'static, F: Format<T>> Sink<T> for FileSink<F> {
    type Writer = FileWriter<F::Encoder>;

    fn open(&self, cx: &SinkContext) -> Result<FileWriter<F::Encoder>> {
        let encoder = self.format.encoder()?;
        cx.files.create_dir_all(&self.directory).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
                Error::refused(format!("cannot make the output directory {}: {error}", self.directory.display()))
                    .hint("choose another one, or move away what is there")
            }
            _ => failed_at(&self.directory, "make the output directory", &error),
        })?;
        Ok(FileWriter {
            directory: self.directory.clone(),
            files: cx.files.clone(),
            owner: Owner::new(&cx.operator, &cx.incarnation),
            attempt: cx.attempt,
            subtask: cx.subtask,
            extension: F::EXTENSION,
            max_part_size: self.max_part_size,
            max_part_age: self.max_part_age,
            max_part_gap: self.max_part_gap,
            encoder,
            made: 0,
            open: None,
            opened: Time(0),
            written: Time(0),
            closed: Vec::new(),
        })
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        let owner = Owner::new(&cx.operator, &cx.incarnation);
        Some(Arc::new(FileCommitter::new(self.directory.clone(), cx.files.clone(), owner, cx.attempt)))
    }

    fn is_transactional(&self) -> bool {
        true
    }

    fn place(&self) -> Option<String> {
        Some(self.directory.display().to_string())
    }
}

/// Writes the parts of one subtask.
pub struct FileWriter<E> {
    directory: PathBuf,
    files: Arc<dyn Files>,
    owner: Owner,
    attempt: AttemptId,
    subtask: u16,
    extension: &'static str,
    max_part_size: u64,
    max_part_age: Duration,
    max_part_gap: Duration,
    encoder: E,
    /// How many parts this attempt began: numbers pending names.
    made: u64,
    open: Option<PartFile>,
    /// When the open part's first record came.
    opened: Time,
    /// When its last one came.
    written: Time,
    /// Parts of this epoch that reached their size or age, or had a gap.
    closed: Vec<PartFile>,
}

/// The parts of one epoch of one subtask.
pub(super) struct SealedParts {
    pub(super) checkpoint: CheckpointId,
    pub(super) subtask: u16,
    pub(super) extension: &'static str,
    pub(super) parts: Vec<PartFile>,
}

impl<E> FileWriter<E> {
    /// The open part gets no more records; the next one begins another.
    fn close_part<T>(&mut self) -> Result<()>
    where
        E: Encoder<T>,
    {
        if let Some(part) = &mut self.open {
            part.rest = self.encoder.take_rest();
            part.close(&self.files)?;
            self.closed.extend(self.open.take());
        }
        Ok(())
    }
}

impl<T, E: Encoder<T>> SinkWriter<T> for FileWriter<E> {
    fn write(&mut self, record: T, now: Time) -> Result<()> {
        let is_over = now.since(self.opened) >= self.max_part_age || now.since(self.written) >= self.max_part_gap;
        if self.open.is_some() && is_over {
            self.close_part()?;
        }
        self.written = now;
        if self.open.is_none() {
            let name = self.owner.pending(self.attempt, self.subtask, self.made, self.extension);
            self.made += 1;
            let mut part = PartFile::new(self.directory.join(name));
            self.encoder.begin(&mut part.buffer)?;
            self.open = Some(part);
            self.opened = now;
        }
        let part = self.open.as_mut().expect("it was opened above");
        self.encoder.encode(&record, &mut part.buffer)?;
        if part.length() + self.encoder.held() >= self.max_part_size {
            return self.close_part();
        }
        part.write_full_buffer(&self.files)
    }

    fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
        let mut parts = std::mem::take(&mut self.closed);
        if let Some(mut part) = self.open.take() {
            part.rest = self.encoder.take_rest();
            parts.push(part);
        }
        if parts.is_empty() {
            return None;
        }
        Some(Box::new(SealedParts { checkpoint: id, subtask: self.subtask, extension: self.extension, parts }))
    }
}
