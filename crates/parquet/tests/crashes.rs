//! A whole job with a Parquet sink, through crashes.

use bytes::Bytes;
use flott::prelude::*;
use flott::testing::{Crash, MemoryFiles, Test};
use flott_parquet::Parquet;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Count {
    key: u64,
    count: u64,
}

/// The rows of all committed parts.
fn rows(files: &MemoryFiles) -> Vec<Count> {
    let parts = files.all_files().into_iter().filter(|path| path.starts_with("out/part-"));
    let read = |path: String| {
        let bytes = Bytes::from(files.get(path).expect("it was listed"));
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("a committed part is whole");
        let batches = reader.build().expect("a reader").map(|batch| batch.expect("a batch"));
        batches
            .flat_map(|batch| serde_arrow::from_record_batch::<Vec<Count>>(&batch).expect("counts"))
            .collect::<Vec<_>>()
    };
    parts.flat_map(read).collect()
}

#[test]
fn parquet_files_are_exact_through_crashes() {
    for seed in 0..10 {
        let files = MemoryFiles::new();
        let job = Job::new("parquet");
        job.source("numbers", MemorySource::new((0..2_000u64).collect()))
            .key_by(|n| n % 7)
            .fold("count", 0u64, |count, _| *count += 1)
            .map(|(key, count)| Count { key, count })
            .sink("out", FileSink::with_format("out", Parquet::new().max_row_group_bytes(256)).max_part_size(2_000));
        let test = Test::new(&job).seed(seed).files(Arc::new(files.clone())).interval(Duration::from_millis(3));
        let tested = test.crash(Crash::AfterCheckpoint(2)).crash(Crash::AtTurn(70 + seed)).run().expect("it ends");
        assert_eq!(tested.crashes, 2, "seed {seed}");
        let mut rows = rows(&files);
        rows.sort_unstable();
        let numbers = |key: u64| (0..2_000u64).filter(|n| n % 7 == key).count() as u64;
        let counts = |key: u64| (1..=numbers(key)).map(move |count| Count { key, count });
        let expected: Vec<Count> = (0..7).flat_map(counts).collect();
        assert!(rows == expected, "seed {seed}: {} rows", rows.len());
    }
}
