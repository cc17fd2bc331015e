//! Parts as the reader of the `parquet` crate sees them, and the conformance suite of sinks.

use super::*;
use bytes::Bytes;
use flott_checkpoint::CheckpointId;
use flott_runtime::connector::{Encoder, FileSink};
use flott_runtime::error::ErrorKind;
use flott_runtime::sink::{Sink, SinkWriter};
use flott_runtime::testing::connector_contexts::sink_context;
use flott_runtime::testing::memory_files::MemoryFiles;
use flott_runtime::testing::sink_suite::{SinkCase, Visible, check_sink};
use flott_runtime::time::Time;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// All records of a file.
fn read<T: Record>(bytes: Vec<u8>) -> Vec<T> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).expect("a whole Parquet file");
    let batches = reader.build().expect("a reader");
    let records = |batch| serde_arrow::from_record_batch::<Vec<T>>(&batch).expect("records of the type");
    batches.flat_map(|batch| records(batch.expect("a batch"))).collect()
}

/// The committed parts of a sink, in the order of their names.
fn committed(files: &MemoryFiles) -> Vec<Vec<u8>> {
    let parts = files.all_files().into_iter().filter(|path| path.starts_with("out/part-"));
    parts.map(|path| files.get(path).expect("it was listed")).collect()
}

/// Writes records as one epoch and commits it.
fn written<T: Record>(sink: &FileSink<Parquet<T>>, records: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    let files = MemoryFiles::new();
    let cx = sink_context(Arc::new(files.clone()));
    let mut writer = Sink::<T>::open(sink, &cx).expect("it can be opened");
    records.into_iter().for_each(|record| writer.write(record, Time(0)).expect("a record"));
    let mut sealed = SinkWriter::<T>::seal(&mut writer, CheckpointId(7)).expect("there is an epoch");
    let committer = Sink::<T>::committer(sink, &cx).expect("it is transactional");
    let tokens = committer.prepare(&mut sealed).expect("nothing fails");
    tokens.iter().for_each(|token| committer.commit(token).expect("nothing fails"));
    committed(&files)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sale {
    shop: String,
    amount: u64,
    change: i32,
    discount: Option<f64>,
    cash: bool,
    tags: Vec<String>,
    customer: Option<Customer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Customer {
    name: String,
    points: i64,
}

fn sale(n: u64) -> Sale {
    let customer = Customer { name: format!("Zoë {n}"), points: -(n as i64) };
    Sale {
        shop: format!("shop-{}", n % 7),
        amount: u64::MAX - n,
        change: -(n as i32),
        discount: n.is_multiple_of(3).then_some(n as f64 / 8.0),
        cash: n.is_multiple_of(2),
        tags: (0..n % 4).map(|tag| format!("tag {tag}")).collect(),
        customer: n.is_multiple_of(5).then_some(customer),
    }
}

#[test]
fn what_is_written_is_what_a_reader_reads() {
    let sales: Vec<Sale> = (0..5_000).map(sale).collect();
    let parts = written(&FileSink::with_format("out", Parquet::new()), sales.clone());
    assert_eq!(parts.len(), 1);
    assert_eq!(read::<Sale>(parts.concat()), sales);
}

#[test]
fn a_tuple_has_the_columns_that_are_named_and_an_option_is_nullable() {
    let format = Parquet::<(String, Option<u64>)>::new().columns(["word", "count"]);
    let parts = written(&FileSink::with_format("out", format), [("a".to_owned(), Some(1)), ("b".to_owned(), None)]);
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(parts.concat())).expect("a whole file");
    let columns: Vec<(String, bool)> =
        reader.schema().fields().iter().map(|field| (field.name().clone(), field.is_nullable())).collect();
    assert_eq!(columns, [("word".to_owned(), false), ("count".to_owned(), true)]);
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Count {
        word: String,
        count: Option<u64>,
    }
    let counts = [Count { word: "a".to_owned(), count: Some(1) }, Count { word: "b".to_owned(), count: None }];
    assert_eq!(read::<Count>(parts.concat()), counts);
}

#[test]
fn each_part_of_a_size_stands_alone() {
    let sales: Vec<Sale> = (0..4_000).map(sale).collect();
    let sink = FileSink::with_format("out", Parquet::new()).max_part_size(20 << 10);
    let parts = written(&sink, sales.clone());
    assert!(parts.len() > 3, "{} parts", parts.len());
    assert_eq!(parts.into_iter().flat_map(read::<Sale>).collect::<Vec<_>>(), sales);
}

/// Noise that neither a dictionary nor LZ4 makes smaller.
fn noise(n: u64, letters: usize) -> (u64, String) {
    let mut seed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut letter = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        char::from(b'!' + (seed % 90) as u8)
    };
    (n, (0..letters).map(|_| letter()).collect())
}

#[test]
fn row_groups_are_given_out_as_they_fill_and_what_is_held_back_is_bounded() {
    const LIMIT: u64 = 1 << 20;
    // Small rows, and rows of which a batch of 1,024 would take a gigabyte.
    for (rows, letters) in [(40_000, 100), (20, 1 << 20)] {
        let mut encoder = Parquet::<(u64, String)>::new().max_row_group_bytes(LIMIT).encoder().expect("a schema");
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        Encoder::<(u64, String)>::begin(&mut encoder, &mut out).expect("a beginning");
        for n in 0..rows {
            let record = noise(n, letters);
            encoder.encode(&record, &mut out).expect("a record");
            expected.push(record);
            let held = Encoder::<(u64, String)>::held(&encoder);
            assert!(held <= LIMIT + 4 * (1 << 20), "{held} bytes are held back at row {n} of {letters} letters");
        }
        assert!(out.len() as u64 > 2 * LIMIT, "{} bytes were given out before the end", out.len());
        let rest = Encoder::<(u64, String)>::take_rest(&mut encoder).expect("there is a footer");
        rest.write(&mut out).expect("an end");
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out.clone())).expect("a whole file");
        for group in reader.metadata().row_groups() {
            assert!(group.compressed_size() as u64 <= LIMIT + 3 * (1 << 20), "{}", group.compressed_size());
        }
        assert!(read::<(u64, String)>(out) == expected, "{letters} letters");
    }
}

/// The error of a job that would write such records.
fn refusal<T: Record>(format: Parquet<T>) -> String {
    let sink = FileSink::with_format("out", format);
    let files = MemoryFiles::new();
    let error = Sink::<T>::open(&sink, &sink_context(Arc::new(files.clone()))).err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(files.all_files().is_empty());
    error.to_string()
}

#[test]
fn a_type_without_fixed_columns_is_refused_before_anything_is_written() {
    for error in [
        refusal(Parquet::<u64>::new()),
        refusal(Parquet::<std::collections::BTreeMap<String, u64>>::new()),
        refusal(Parquet::<(String, std::collections::BTreeMap<String, u64>)>::new()),
    ] {
        assert!(error.contains("has no Parquet schema") && error.contains("map the stream to a struct"), "{error}");
    }
}

#[test]
fn names_that_do_not_fit_the_fields_are_refused() {
    for names in [&["word"][..], &["word", "count", "more"], &["word", "word"]] {
        let error = refusal(Parquet::<(String, u64)>::new().columns(names.iter().copied()));
        assert!(error.contains("`0`, `1`") && error.contains("a name of its own"), "{error}");
    }
}

/// A small row group, so that the worker's thread writes too.
struct Rows;

#[derive(Clone, Serialize, Deserialize)]
struct Row {
    subtask: u16,
    n: u64,
    payload: String,
}

impl SinkCase for Rows {
    type Record = Row;
    type Sink = FileSink<Parquet<Row>>;
    const SEVERAL_TOKENS: bool = true;

    fn new() -> Self {
        Rows
    }
    fn sink(&self) -> Self::Sink {
        FileSink::with_format("out", Parquet::new().max_row_group_bytes(1)).max_part_size(6 << 10)
    }
    fn record(&self, subtask: u16, n: u64) -> Row {
        Row { subtask, n, payload: noise(n, 2 << 10).1 }
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        let mut visible = Visible::new();
        // Names are in the order of checkpoints, subtasks and parts.
        for row in committed(files).into_iter().flat_map(read::<Row>) {
            visible.entry(row.subtask).or_default().push(row.n);
        }
        visible
    }
}

#[test]
fn parquet_is_committed_exactly_once_whatever_fails() {
    check_sink::<Rows>();
}
