//! Reads files: lines, CSV records or JSON lines, also compressed, one file a split.
//!
//! The name of a split is the file's path below the pattern's fixed directory (the components before the first one with a
//! wildcard; for a pattern without wildcards, the directory of the file), with `/`. So an input directory can be moved, with
//! the pattern, and the job resumes; a pattern that begins its wildcards elsewhere gives other names.
//!
//! A file must not change once it is seen. Its fingerprint goes into each position; what changed since is refused, because
//! reading on in another file would silently skip or repeat records.

use super::csv_reader::{Csv, CsvReader};
use super::file_bytes::{Compression, FileBytes};
use super::json_reader::Json;
use super::line_reader::LineReader;
use super::watched_files::WatchedFiles;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Files, failed_at};
use crate::record::Record;
use crate::source::{BoxedReader, DeadLetters, Source, SourceContext};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[cfg(test)]
mod tests;

/// Reads the event time off a record.
pub type TimestampOf<T> = Arc<dyn Fn(&T) -> Timestamp + Send + Sync>;

/// A source that reads all files that match a glob pattern (`*`, `?`, `[a-z]`, `**`). Made by [`FileSource::lines`],
/// [`FileSource::csv`] and [`FileSource::json`]. Replayable and bounded. Hidden files (also those in hidden directories) do not match, unless the
/// pattern itself has a name that begins with a dot: so the output of a running job can be read.
#[derive(Clone)]
pub struct FileSource<F = ()> {
    pub(super) pattern: String,
    /// What the user says; else the name does.
    gzip: Option<bool>,
    pub(super) format: F,
}

/// One record a line.
#[derive(Clone, Default)]
pub struct Lines {
    timestamp: Option<TimestampOf<String>>,
}

impl FileSource {
    /// Each line is a record, without its end (`\n` or `\r\n`); the last line may lack one. UTF-8; a byte order mark is
    /// skipped. A line of more than 16 MiB is an error.
    pub fn lines(pattern: impl Into<String>) -> FileSource<Lines> {
        FileSource { pattern: pattern.into(), gzip: None, format: Lines::default() }
    }

    /// Each CSV record (RFC 4180) is a record of type `T`: a struct by the names of the header in the first line, a tuple by
    /// order. Empty lines are skipped. See [`FileSource::delimiter`], [`FileSource::headers`] and [`FileSource::on_error`].
    pub fn csv<T: Record>(pattern: impl Into<String>) -> FileSource<Csv<T>> {
        FileSource { pattern: pattern.into(), gzip: None, format: Csv::default() }
    }

    /// Each line is a JSON value (UTF-8) and a record of type `T`, as serde reads it. Empty lines are skipped; a line of more
    /// than 16 MiB is an error. See [`FileSource::on_error`].
    pub fn json<T: Record>(pattern: impl Into<String>) -> FileSource<Json<T>> {
        FileSource { pattern: pattern.into(), gzip: None, format: Json::default() }
    }
}

impl<F> FileSource<F> {
    /// Whether the files are compressed with gzip. If not set, those are whose name ends in `.gz`. A position counts bytes of
    /// the content, and a reader that resumes unpacks the file from its beginning up to there.
    #[must_use]
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = Some(gzip);
        self
    }

    /// Watches for new files that match the pattern, for ever: see [`WatchedFiles`].
    #[must_use]
    pub fn watch(self) -> WatchedFiles<F> {
        WatchedFiles::new(self)
    }

    pub(super) fn compression_of(&self, name: &str) -> Compression {
        if self.gzip.unwrap_or_else(|| name.ends_with(".gz")) { Compression::Gzip } else { Compression::None }
    }
}

impl FileSource<Lines> {
    /// Takes the event time of each record from it.
    #[must_use]
    pub fn timestamp(mut self, of: impl Fn(&String) -> Timestamp + Send + Sync + 'static) -> Self {
        self.format.timestamp = Some(Arc::new(of));
        self
    }
}

/// Where a file stands. Stored in checkpoints; `docs/formats.md` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePosition {
    /// The byte at which the next record begins, or the end of the one before it.
    pub offset: u64,
    /// The line of that byte, from 1.
    pub line: u64,
    /// The CSV header lies before it; always false without one.
    pub header_read: bool,
    /// What the file looked like.
    pub fingerprint: Fingerprint,
}

/// Tells a file from another one: its length and the xxh3-64 of its first 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Bytes.
    pub length: u64,
    /// Of the first 4 KiB, or of all if there are fewer.
    #[serde(with = "as_hex")]
    pub xxh3: u64,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, xxh3 of the first 4 KiB {:016x}", self.length, self.xxh3)
    }
}

mod as_hex {
    //! JSON numbers lose the low bits of a hash in many readers; 16 hex digits do not.
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{hash:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom("a hash has 16 hex digits"))
    }
}

/// How the bytes of a file become records. Only the formats of this crate are, for nobody else can name the bytes.
pub trait ReadFormat: Send + Sync + 'static {
    /// A record.
    type Item: Record;

    /// Reads records from where `bytes` stands.
    ///
    /// # Errors
    /// If the beginning of the file cannot be read.
    fn reader(
        &self,
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
    ) -> Result<BoxedReader<Self::Item, FilePosition>>;

    /// The counter of what is left out, if anything may be.
    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        None
    }
}

/// A format of records that can be unreadable one by one.
pub trait ParsedFormat: ReadFormat + Clone {
    /// The readers hand over what they cannot read.
    fn keep_unreadable(&mut self);
}

impl ReadFormat for Lines {
    type Item = String;

    fn reader(
        &self,
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
    ) -> Result<BoxedReader<String, FilePosition>> {
        Ok(Box::new(LineReader::new(split, bytes, from, self.timestamp.clone())))
    }
}

impl<T: Record> ReadFormat for Csv<T> {
    type Item = T;

    fn reader(
        &self,
        split: &str,
        bytes: FileBytes,
        from: Option<FilePosition>,
    ) -> Result<BoxedReader<T, FilePosition>> {
        Ok(Box::new(CsvReader::new(split, bytes, from, self)?))
    }

    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        self.counter()
    }
}

impl<T: Record> ParsedFormat for Csv<T> {
    fn keep_unreadable(&mut self) {
        Csv::keep_unreadable(self);
    }
}

impl<F: ParsedFormat> DeadLetters for FileSource<F> {
    fn with_dead_letters(mut self) -> Self {
        self.format.keep_unreadable();
        self
    }
}

impl<F: ReadFormat> Source for FileSource<F> {
    type Item = F::Item;
    type Position = FilePosition;

    fn splits(&self, cx: &SourceContext) -> Result<Vec<String>> {
        splits(&self.pattern, &cx.files)
    }

    fn open(
        &self,
        split: &str,
        from: Option<FilePosition>,
        cx: &SourceContext,
    ) -> Result<BoxedReader<F::Item, FilePosition>> {
        let bytes = open(&self.pattern, split, self.compression_of(split), from.as_ref(), &cx.files)?;
        self.format.reader(split, bytes, from)
    }

    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        self.format.skipped()
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// The pattern's fixed directory: the components before the first with a wildcard, and never the last one.
pub(super) fn fixed_directory(pattern: &str) -> PathBuf {
    let path = Path::new(pattern);
    let mut fixed = PathBuf::new();
    let Some(parent) = path.parent() else { return fixed };
    for component in parent.components() {
        if component.as_os_str().to_string_lossy().contains(['*', '?', '[']) {
            break;
        }
        fixed.push(component);
    }
    // Components know one slash only, and people another URL.
    match (pattern.split_once("://"), fixed.to_str().and_then(|text| text.split_once(":/"))) {
        (Some((scheme, _)), Some((_, rest))) => PathBuf::from(format!("{scheme}://{rest}")),
        _ => fixed,
    }
}

/// A path below a directory, with `/`; `.` components do not count.
fn relative_name(path: &Path, directory: &Path) -> Option<String> {
    let plain = |path: &Path| -> PathBuf {
        path.components().filter(|component| *component != std::path::Component::CurDir).collect()
    };
    let path = plain(path);
    let names: Option<Vec<&str>> = path
        .strip_prefix(plain(directory))
        .ok()?
        .components()
        .map(|component| component.as_os_str().to_str())
        .collect();
    names.map(|names| names.join("/"))
}

/// Whether one of the names begins with a dot.
fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('.'))
}

fn splits(pattern: &str, files: &Arc<dyn Files>) -> Result<Vec<String>> {
    let names: Vec<String> = matching(pattern, files)?.into_iter().map(|(name, _)| name).collect();
    if names.is_empty() {
        return Err(Error::refused(format!("there is no input file `{pattern}`"))
            .hint("check the path and the pattern; a relative one begins at the directory where the job was started"));
    }
    Ok(names)
}

/// The files that match, by name, with their lengths.
pub(super) fn matching(pattern: &str, files: &Arc<dyn Files>) -> Result<Vec<(String, u64)>> {
    let found = files.glob(pattern).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Error::refused(format!("`{pattern}` is not a glob pattern: {error}")),
        _ => Error::failed(format!("cannot look for files `{pattern}`: {error}")),
    })?;
    let directory = fixed_directory(pattern);
    let wants_hidden = relative_name(Path::new(pattern), &directory).is_some_and(|rest| is_hidden(&rest));
    let mut names = Vec::with_capacity(found.len());
    for path in found {
        let name = relative_name(&path, &directory).ok_or_else(|| {
            Error::refused(format!("{} has a name that is not UTF-8", path.display())).hint("rename the file")
        })?;
        if is_hidden(&name) && !wants_hidden {
            continue;
        }
        match files.info(&path) {
            Ok(info) if info.is_file => names.push((name, info.length)),
            // A pattern may match directories beside the files that are meant.
            Ok(info) if info.is_dir && path != Path::new(pattern) => {}
            Ok(info) => return Err(not_a_file(&path, info.is_dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed_at(&path, "look at", &error)),
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A pipe would be waited for, a device read for ever, and none of them can be read again from a position.
fn not_a_file(path: &Path, is_dir: bool) -> Error {
    let (what, hint) = match is_dir {
        true => ("a directory", "to read the files in it, write a pattern: `directory/*`"),
        false => ("a pipe, a socket or a device", "write its content into a file first"),
    };
    Error::refused(format!("input `{}` is {what}, not a regular file", path.display())).hint(hint)
}

/// Opens the file of a split where the position says, if the file is still the same.
pub(super) fn open(
    pattern: &str,
    split: &str,
    compression: Compression,
    from: Option<&FilePosition>,
    files: &Arc<dyn Files>,
) -> Result<FileBytes> {
    let path = fixed_directory(pattern).join(split);
    match files.info(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let kind = if from.is_some() { ErrorKind::Unusable } else { ErrorKind::Refused };
            return Err(Error::new(kind, format!("input file {} is not there any more", path.display()))
                .hint("put it back, or start over with `--restore none --overwrite`"));
        }
        Ok(info) if !info.is_file => return Err(not_a_file(&path, info.is_dir)),
        _ => {}
    }
    let mut bytes = FileBytes::open(files, &path, compression)?;
    if let Some(position) = from {
        let (was, is) = (position.fingerprint, bytes.fingerprint());
        let is_behind = compression == Compression::None && position.offset > is.length;
        if was != is || is_behind {
            return Err(Error::unusable(format!(
                "input file {} changed since the checkpoint: it had {was}; it has {is}",
                path.display()
            ))
            .hint("put the old file back (new input goes into new files), or start over with `--restore none --overwrite`"));
        }
        bytes.seek(position.offset);
    }
    Ok(bytes)
}
