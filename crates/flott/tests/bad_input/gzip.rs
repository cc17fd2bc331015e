//! Gzip files that are cut off, damaged or none at all.

use super::*;
use std::io::Write;

fn gzipped(content: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(content.as_bytes()).expect("memory");
    gzip.finish().expect("memory")
}

#[test]
fn a_broken_gzip_is_named_with_file_and_offset_and_ends_the_job_at_once() {
    let place = Place::new();
    let whole = gzipped(&some_sales(1_000));
    for (bytes, what) in [(&whole[..whole.len() / 2], "cut off"), (b"not compressed", "gzip header")] {
        fs::write(place.path("sales.csv.gz"), bytes).expect("a file for the test");
        let job = Job::new("gzip");
        job.source("sales", FileSource::csv::<Sale>(place.text("*.gz"))).sink("out", MemorySink::new());
        let words = ["`sales`", "sales.csv.gz is no whole gzip file", what, "bytes of content"];
        assert_says(&error(&job), ErrorKind::Invalid, &words);
    }
}

/// A flipped bit in the head may mean nothing (the time of the file, the system it was made on). Wherever else it is, the job ends
/// and says so; nothing of what the file seemed to hold is committed.
#[test]
fn a_bit_that_flipped_in_a_gzip_file_is_found_wherever_it_is() {
    let place = Place::new();
    let content = some_sales(300);
    let whole = gzipped(&content);
    // Magic number, method and flags, then what is stored, its checksum and its length.
    let (head, harmless) = (0..4, 4..10);
    let mut found = 0;
    for at in head.chain((harmless.end..whole.len()).step_by(11)).chain(whole.len() - 8..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(place.path("lines.gz"), &bytes).expect("a file for the test");
        let (job, out) = (Job::new("gzip"), MemorySink::new());
        job.workers(1);
        job.source("lines", FileSource::lines(place.text("lines.gz"))).sink("out", out.clone());
        match job.run() {
            Err(error) => {
                let of = format!("of {} bytes", whole.len());
                assert_says(&error, ErrorKind::Invalid, &["`lines`", "lines.gz is no whole gzip file", &of]);
                assert_eq!(out.committed(), Vec::<String>::new(), "byte {at}");
                found += 1;
            }
            Ok(_) => assert!(out.committed().into_iter().eq(content.lines()), "byte {at}: silently wrong"),
        }
    }
    assert!(found > 20, "{found}");
}
