//! Sources through crashes: whatever they read and however it is packed, each record counts once.

use flott::prelude::*;
use flott::testing::{Crash, MemoryFiles, Test};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sale {
    shop: String,
    amount: u64,
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn compressed_json_lines_count_once_each_through_crashes() {
    let rows = 3_000u64;
    let line = |row: u64| format!("{{\"shop\":\"shop-{}\",\"amount\":{row}}}\n", row % 7);
    let files = MemoryFiles::new();
    for file in 0..3 {
        let (first, second): (Vec<u64>, Vec<u64>) = (0..rows).filter(|row| row % 3 == file).partition(|row| *row < 999);
        let member = |rows: Vec<u64>| gzip(rows.into_iter().map(line).collect::<String>().as_bytes());
        files.put(format!("in/{file}.jsonl.gz"), [member(first), member(second)].concat());
    }
    let (job, out) = (Job::new("sales"), MemorySink::new());
    job.checkpoint_interval(Duration::from_millis(10));
    job.source("sales", FileSource::json::<Sale>("in/*.jsonl.gz"))
        .throttle(20_000)
        .key_by(|sale| sale.shop.clone())
        .fold("amounts", Vec::new(), |amounts: &mut Vec<u64>, sale| amounts.push(sale.amount))
        .map(|(_, amounts)| *amounts.last().expect("just added"))
        .sink("out", out.clone());
    let mut test = Test::new(&job).files(Arc::new(files));
    for checkpoint in [2, 4, 6] {
        test = test.crash(Crash::AfterCheckpoint(checkpoint));
    }
    assert_eq!(test.run().expect("it comes to its end").crashes, 3);
    let mut amounts = out.committed();
    amounts.sort_unstable();
    assert!(amounts.into_iter().eq(0..rows), "each row counts once");
}
