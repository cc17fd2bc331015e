//! Writes records as Parquet files, exactly once: a format for the file sink of `flott_runtime`.
//!
//! A floor-2 crate: the one that knows Arrow and Parquet. What makes it exact is the file sink; here is only what turns records
//! into bytes. It never opens a file.
//!
//! ```
//! use flott_parquet::Parquet;
//! use flott_runtime::connector::FileSink;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Sale {
//!     shop: String,
//!     amount: u64,
//!     discount: Option<f64>,
//! }
//!
//! let sink = FileSink::with_format("sales", Parquet::<Sale>::new());
//! ```

#![forbid(unsafe_code)]

mod encoder;
mod schema;
#[cfg(test)]
mod tests;

pub use encoder::ParquetEncoder;

use flott_runtime::connector::Format;
use flott_runtime::error::Result;
use flott_runtime::record::Record;
use std::marker::PhantomData;

/// Encoded bytes of a row group, if nothing else is said.
const ROW_GROUP: u64 = 16 << 20;

/// Parquet, for records of type `T`: a struct or a tuple, whose fields are the columns. Extension `parquet`.
///
/// The schema is that of the type, so it is the same in each part: an `Option` is a nullable column, a list or a struct in it
/// a nested one. A map, an enum and `serde_json::Value` have no fixed columns, so such a type is refused. Columns are
/// compressed by LZ4 (`LZ4_RAW`), with dictionaries.
pub struct Parquet<T> {
    columns: Option<Vec<String>>,
    max_row_group: u64,
    of: PhantomData<fn(T)>,
}

impl<T> Default for Parquet<T> {
    fn default() -> Self {
        Parquet { columns: None, max_row_group: ROW_GROUP, of: PhantomData }
    }
}

impl<T> Clone for Parquet<T> {
    fn clone(&self) -> Self {
        Parquet { columns: self.columns.clone(), ..*self }
    }
}

impl<T: Record> Parquet<T> {
    /// The format with the names and types of the record's fields.
    #[must_use]
    pub fn new() -> Parquet<T> {
        Parquet::default()
    }

    /// Names the columns, instead of the names of the record's fields: those of a tuple are `0`, `1` and so on.
    #[must_use]
    pub fn columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Closes a row group that has so many bytes when encoded; 16 MiB if not set. A row group waits in memory, one for each
    /// subtask, and may be larger by the records of one batch (about 1 MiB); a checkpoint closes it as well.
    #[must_use]
    pub fn max_row_group_bytes(mut self, bytes: u64) -> Self {
        self.max_row_group = bytes.max(1);
        self
    }
}

impl<T: Record> Format<T> for Parquet<T> {
    type Encoder = ParquetEncoder;
    const EXTENSION: &'static str = "parquet";

    fn encoder(&self) -> Result<ParquetEncoder> {
        Ok(ParquetEncoder::new(schema::of::<T>(self.columns.as_deref())?, self.max_row_group))
    }
}
