//! The built-in connectors.
//!
//! To write your own, see [`crate::source`] and [`crate::sink`].

pub mod file_sink;
pub mod file_source;
pub mod generator;
pub mod memory;
pub mod print;
pub mod random;
pub mod socket;
pub mod staged;

mod csv_header;
mod csv_reader;
mod file_bytes;
mod file_committer;
mod file_format;
mod gzip;
mod json_reader;
mod line_reader;
mod part_file;
mod part_name;
mod unreadable;
mod watched_files;

pub use csv_reader::Csv;
pub use file_bytes::MAX_RECORD_BYTES;
pub use file_format::{CsvFormat, Encoder, Format, JsonLineFormat, LineFormat, Rest};
pub use file_sink::FileSink;
pub use file_source::{FilePosition, FileSource, Lines};
pub use generator::Generator;
pub use json_reader::Json;
pub use memory::{MemorySink, MemorySource};
pub use print::{Print, print};
pub use random::Random;
pub use socket::SocketSource;
pub use staged::{StagedSink, StagedStore};
pub use watched_files::{WatchPosition, WatchedFiles};
