//! Records become columns in small batches, batches a row group, row groups a part.
//!
//! What is held back is bounded: a batch by rows and by what the rows before took in memory, a row group by its encoded bytes.
//! A whole row group is given out at once; the last one and the footer are the part's rest.

use crate::schema::Columns;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flott_runtime::connector::{Encoder, Rest};
use flott_runtime::error::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use serde_arrow::ArrayBuilder;
use std::fmt::Display;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 1024;
/// What a batch should take in memory, at most.
const BATCH_BYTES: usize = 1 << 20;

/// Encodes the parts of one subtask.
pub struct ParquetEncoder {
    columns: Columns,
    max_row_group: u64,
    part: Option<Part>,
}

impl ParquetEncoder {
    pub(crate) fn new(columns: Columns, max_row_group: u64) -> ParquetEncoder {
        ParquetEncoder { columns, max_row_group, part: None }
    }
}

/// The part that is being encoded.
struct Part {
    schema: SchemaRef,
    max_row_group: u64,
    /// The rows of the next batch, and how many.
    batch: ArrayBuilder,
    rows: usize,
    /// Rows that end the batch, and what one took in memory in the batch before.
    full_at: usize,
    row_bytes: usize,
    writer: ArrowWriter<Vec<u8>>,
}

fn not_parquet(error: impl Display) -> Error {
    Error::invalid(format!("a record cannot be written as Parquet: {error}"))
}

impl Part {
    fn new(columns: &Columns, max_row_group: u64) -> Result<Part> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_max_row_group_row_count(None)
            .set_created_by(concat!("flott ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let schema = SchemaRef::clone(&columns.schema);
        let writer = ArrowWriter::try_new(Vec::new(), SchemaRef::clone(&schema), Some(properties));
        Ok(Part {
            schema,
            max_row_group,
            batch: ArrayBuilder::from_arrow(&columns.fields).map_err(not_parquet)?,
            rows: 0,
            // It doubles from batch to batch: nothing is known of how large a row is.
            full_at: 1,
            row_bytes: 0,
            writer: writer.map_err(not_parquet)?,
        })
    }

    /// Hands the batch to the row group.
    fn end_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self.batch.to_arrow().map_err(not_parquet)?;
        let batch = RecordBatch::try_new(SchemaRef::clone(&self.schema), arrays).map_err(not_parquet)?;
        self.row_bytes = batch.get_array_memory_size().div_ceil(self.rows);
        self.full_at = (BATCH_BYTES / self.row_bytes.max(1)).min(2 * self.rows).clamp(1, BATCH_ROWS);
        self.rows = 0;
        self.writer.write(&batch).map_err(not_parquet)
    }

    /// Gives out the row group if it is large enough.
    fn end_row_group(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if (self.writer.in_progress_size() as u64) < self.max_row_group {
            return Ok(());
        }
        self.writer.flush().map_err(not_parquet)?;
        self.writer.sync().map_err(not_parquet)?;
        // The writer counts what it wrote and never looks at it again.
        out.append(self.writer.inner_mut());
        Ok(())
    }
}

impl<T: Serialize> Encoder<T> for ParquetEncoder {
    fn begin(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        self.part = Some(Part::new(&self.columns, self.max_row_group)?);
        Ok(())
    }

    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<()> {
        let part = self.part.as_mut().expect("a part is begun before records are encoded");
        part.batch.push(record).map_err(|error| not_parquet(error.message()))?;
        part.rows += 1;
        if part.rows < part.full_at {
            return Ok(());
        }
        part.end_batch()?;
        part.end_row_group(out)
    }

    fn held(&self) -> u64 {
        let held = |part: &Part| part.writer.in_progress_size() + part.rows * part.row_bytes;
        self.part.as_ref().map_or(0, held) as u64
    }

    fn take_rest(&mut self) -> Option<Box<dyn Rest>> {
        Some(Box::new(self.part.take()?))
    }
}

/// The last row group, and the footer.
impl Rest for Part {
    fn write(mut self: Box<Self>, out: &mut Vec<u8>) -> Result<()> {
        self.end_batch()?;
        out.append(&mut self.writer.into_inner().map_err(not_parquet)?);
        Ok(())
    }
}
