//! What a user can get wrong, one test a clause: each ends with a message that says what, where, and what to do.

use flott::prelude::*;
use flott::testing::{Crash, Test};
use flott::{Ended, ErrorKind, JobHandle, Report, Restore};
use flott_checkpoint::{CheckpointId, LogEntry};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

#[path = "bad_input/gzip.rs"]
mod gzip;
#[path = "bad_input/savepoints.rs"]
mod savepoints;
#[path = "bad_input/types.rs"]
mod types;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sale {
    shop: String,
    amount: u64,
}

/// A place for input, output and checkpoints.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory for temporary files"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints").join("sales")
    }

    fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).expect("a file for the test");
        self.text(name)
    }
}

/// Adds up sales; checkpoints are off unless the test turns them on.
fn sales(place: &Place, rate: u64) -> Job {
    let job = Job::new("sales");
    job.workers(1).checkpoint_interval(Duration::from_millis(20));
    job.source("sales", FileSource::csv::<Sale>(place.text("sales.csv")))
        .throttle(rate)
        .key_by(|sale| sale.shop.clone())
        .fold("total", 0u64, |total, sale| *total += sale.amount)
        .sink("out", FileSink::csv(place.path("out")).header(["shop", "total"]));
    job
}

fn durable_sales(place: &Place, rate: u64) -> Job {
    let job = sales(place, rate);
    job.checkpoint_dir(place.text("checkpoints"));
    job
}

fn some_sales(rows: u64) -> String {
    let rows = (0..rows).map(|row| format!("shop-{},{row}\n", row % 7));
    std::iter::once("shop,amount\n".to_owned()).chain(rows).collect()
}

/// Waits until the job has completed so many checkpoints, then stops it.
fn stop_after(handle: JobHandle, checkpoints: u64) -> Report {
    while handle.status().completed_checkpoints < checkpoints {
        if let Some(ended) = handle.wait_for(Duration::from_millis(5)) {
            panic!("the job ended before: {ended:?}");
        }
    }
    handle.stop();
    handle.wait().expect("a stop is no failure")
}

/// A job that has read a part of its input, with some checkpoints.
fn stopped(place: &Place) -> Report {
    place.write("sales.csv", &some_sales(5_000));
    let report = stop_after(durable_sales(place, 5_000).spawn().expect("the job starts"), 4);
    assert_eq!(report.ended, Ended::Stopped);
    report
}

/// The error of a job that must fail.
fn error(job: &Job) -> flott::Error {
    job.run().expect_err("the job must not succeed")
}

fn assert_says(error: &flott::Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

/// The newest object below a directory of the checkpoint storage.
fn newest(directory: &Path, extension: &str) -> PathBuf {
    let mut open = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory of the storage") {
            let path = entry.expect("an entry of the storage").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    let number = |path: &PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        name.split('-').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0)
    };
    found.into_iter().max_by_key(number).expect("the storage holds such an object")
}

#[test]
fn more_workers_than_key_groups_are_refused() {
    let place = Place::new();
    place.write("sales.csv", &some_sales(3));
    for (number, says) in [(129, "128 key groups"), (0, "0 workers")] {
        let job = durable_sales(&place, 1_000);
        job.workers(number);
        assert_says(&error(&job), ErrorKind::Refused, &[says]);
    }
    assert!(!place.checkpoints().exists(), "nothing was begun");
}

#[test]
fn a_malformed_csv_line_is_named_with_file_line_column_and_value() {
    let place = Place::new();
    place.write("sales.csv", "shop,amount\na,1\nb,much\n");
    let words = ["`sales`", "sales.csv, line 3", "amount", "much"];
    assert_says(&error(&sales(&place, 1_000)), ErrorKind::Invalid, &words);
    // With checkpoints it could be restarted, but would meet the line again.
    let durable = error(&durable_sales(&place, 1_000));
    assert_says(&durable, ErrorKind::Invalid, &words);
    assert_says(&durable, ErrorKind::Invalid, &["a restart would meet it again"]);
}

#[test]
fn a_csv_file_without_a_needed_column_or_with_one_twice_is_refused_at_its_header() {
    let place = Place::new();
    place.write("sales.csv", "shop,ammount\n");
    let words = ["`sales`", "sales.csv, line 1", "lacks `amount`", "its columns are `shop`, `ammount`"];
    assert_says(&error(&durable_sales(&place, 1_000)), ErrorKind::Invalid, &words);
    place.write("sales.csv", "shop,amount,shop\n");
    let words = ["sales.csv, line 1", "`shop` more than once"];
    assert_says(&error(&durable_sales(&place, 1_000)), ErrorKind::Invalid, &words);
}

#[test]
fn csv_records_that_cannot_be_read_are_left_out_and_counted_if_the_job_says_so_also_through_crashes() {
    let good: u64 = 2_000;
    let mut text = "shop,amount\n".to_owned();
    for row in 0..good {
        text.push_str(&format!("shop-{},1\n", row % 7));
        if row % 5 == 0 {
            text.push_str(if row % 2 == 0 { "shop-0,much\n" } else { "shop-0,1,2\n" });
        }
    }
    for crashed in [false, true] {
        let files = flott::testing::MemoryFiles::new();
        files.put("in/sales.csv", &text);
        let (job, out) = (Job::new("sales"), MemorySink::new());
        job.source("sales", FileSource::csv::<Sale>("in/sales.csv").on_error(OnError::Skip))
            .throttle(10_000)
            .key_by(|sale| sale.shop.clone())
            .fold("total", 0u64, |total, sale| *total += sale.amount)
            .sink("out", out.clone());
        job.checkpoint_interval(Duration::from_millis(10));
        let mut test = Test::new(&job).files(std::sync::Arc::new(files));
        for checkpoint in [2, 4].into_iter().filter(|_| crashed) {
            test = test.crash(Crash::AfterCheckpoint(checkpoint));
        }
        let tested = test.run().expect("what cannot be read is left out");
        assert_eq!(tested.crashes, if crashed { 2 } else { 0 });
        assert_eq!(out.committed().len() as u64, good, "each good record counts once");
        let skipped = tested.report.skipped["sales"];
        assert!(skipped == good / 5 || (crashed && skipped > good / 5), "{skipped}: those met again count again");
    }
}

#[test]
fn a_key_that_cannot_be_encoded_ends_the_job_at_once() {
    let place = Place::new();
    let job = Job::new("floats");
    job.checkpoint_dir(place.text("checkpoints"));
    let numbers = job.source("numbers", MemorySource::new((0..10u32).collect()));
    numbers
        .map(f64::from)
        .key_by(|n| Celsius(*n))
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", MemorySink::new());
    let error = error(&job);
    assert_says(&error, ErrorKind::Invalid, &["`key_by before count`", "float"]);
}

/// Not a good key.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Celsius(f64);

impl Eq for Celsius {}

#[test]
fn a_missing_file_is_named() {
    let place = Place::new();
    let failed = error(&sales(&place, 1_000));
    assert!(failed.to_string().contains("sales.csv"), "{failed}");
    assert_eq!(failed.operator(), Some("sales"));
}

#[test]
fn a_file_that_changed_since_the_checkpoint_is_refused() {
    let place = Place::new();
    stopped(&place);
    place.write("sales.csv", &some_sales(6_000));
    assert_says(
        &error(&durable_sales(&place, 1_000_000)),
        ErrorKind::Unusable,
        &["sales.csv", "changed since the checkpoint"],
    );
}

#[test]
fn a_checkpoint_directory_that_cannot_be_written_is_refused() {
    let place = Place::new();
    place.write("sales.csv", &some_sales(10));
    let job = sales(&place, 1_000);
    // Nobody can make a directory there, not even root.
    job.checkpoint_dir("/proc/flott-checkpoints");
    assert_says(&error(&job), ErrorKind::Refused, &["/proc/flott-checkpoints", "--checkpoint-dir"]);
}

#[test]
fn a_checkpoint_directory_that_is_a_file_is_refused() {
    let place = Place::new();
    place.write("sales.csv", &some_sales(10));
    let job = sales(&place, 1_000);
    job.checkpoint_dir(place.write("file", "not a directory"));
    assert_says(&error(&job), ErrorKind::Refused, &["file", "directory"]);
}

#[test]
fn a_full_checkpoint_directory_ends_the_job_with_the_reason() {
    let job = Job::new("full");
    let out = MemorySink::new();
    job.source("numbers", MemorySource::new((0..20_000u64).collect()))
        .throttle(50_000)
        .key_by(|n| *n)
        .fold("seen", 0u64, |seen, _| *seen += 1)
        .sink("out", out.clone());
    let error = Test::new(&job).storage_room(20_000).run().expect_err("nothing can be written");
    assert!(error.to_string().contains("no space left on device"), "{error}");
    assert!(out.committed().len() < 20_000, "output was committed without a checkpoint");
}

#[test]
fn a_bit_that_flipped_in_a_segment_ends_the_job_rather_than_doubling_its_output() {
    let place = Place::new();
    let last = stopped(&place).checkpoint.expect("a stop takes a checkpoint");
    let segment = newest(&place.checkpoints().join("data"), "seg");
    let mut bytes = fs::read(&segment).expect("the segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).expect("the damaged segment");
    let name = segment.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let damaged = error(&durable_sales(&place, 1_000_000));
    assert_says(&damaged, ErrorKind::Unusable, &[&name, &format!("checkpoint {last}"), "out"]);
}

#[test]
fn a_truncated_segment_falls_back_if_duplicates_are_allowed() {
    let place = Place::new();
    stopped(&place);
    let segment = newest(&place.checkpoints().join("data"), "seg");
    let bytes = fs::read(&segment).expect("the segment");
    fs::write(&segment, &bytes[..bytes.len() - 7]).expect("the truncated segment");
    let refused = durable_sales(&place, 1_000_000);
    refused.no_fallback(true).allow_duplicates(true);
    assert_eq!(error(&refused).kind(), ErrorKind::Unusable);
    let job = durable_sales(&place, 1_000_000);
    job.allow_duplicates(true);
    assert_eq!(job.run().expect("an older checkpoint is whole").ended, Ended::Finished);
}

#[test]
fn a_manifest_of_a_newer_format_says_that_the_program_is_too_old() {
    let place = Place::new();
    stopped(&place);
    // As a newer program would have written both: the manifest in a newer format, the log with its checksum.
    let manifest = newest(&place.checkpoints().join("manifests"), "json");
    let text = fs::read_to_string(&manifest).expect("the manifest").replacen("\"format\":1", "\"format\":99", 1);
    let (body, _) = text.rsplit_once(",\"xxh3\":\"").expect("a manifest ends with its checksum");
    let newer = format!("{body},\"xxh3\":\"{:016x}\"}}\n", xxh3_64(body.as_bytes()));
    fs::write(&manifest, &newer).expect("the newer manifest");
    let slot = newest(&place.checkpoints().join("log"), "json");
    let entry = LogEntry::decode(&fs::read(&slot).expect("the slot")).expect("a log entry");
    let LogEntry::Checkpoint(mut checkpoint) = entry else { panic!("the last entry is the final checkpoint") };
    checkpoint.checksum = xxh3_64(newer.as_bytes());
    fs::write(&slot, LogEntry::Checkpoint(checkpoint).encode()).expect("the slot");
    let job = durable_sales(&place, 1_000_000);
    job.no_fallback(true);
    assert_says(&error(&job), ErrorKind::Unusable, &["format 99", "newer version"]);
}

#[test]
fn a_panic_in_user_code_names_operator_text_and_record() {
    let place = Place::new();
    place.write("sales.csv", "shop,amount\na,1\nb,0\n");
    let job = Job::new("panics");
    job.workers(1);
    job.source("sales", FileSource::csv::<Sale>(place.text("sales.csv")))
        .map(|sale| 100 / sale.amount)
        .sink("out", MemorySink::new());
    let words = ["`map after sales`", "attempt to divide by zero", "sales.csv, line 3"];
    assert_says(&error(&job), ErrorKind::Failed, &words);
}

#[test]
fn a_user_function_that_never_returns_is_named_after_the_stop_timeout() {
    let job = Job::new("hangs");
    job.workers(1).stop_timeout(Duration::from_millis(100));
    let (entered, waits) = std::sync::mpsc::channel();
    job.source("numbers", MemorySource::new(vec![1u64, 2, 3]))
        .inspect(move |n| {
            if *n == 2 {
                let _ = entered.send(());
                loop {
                    std::thread::park();
                }
            }
        })
        .sink("out", MemorySink::new());
    let handle = job.spawn().expect("the job starts");
    waits.recv().expect("the job comes to its second record");
    handle.stop();
    let hung = handle.wait().expect_err("the job cannot stop");
    assert_says(&hung, ErrorKind::Failed, &["`inspect after numbers`", "does not return", "record 2", "100ms"]);
}

#[test]
fn zero_and_absurd_options_are_refused_together() {
    let place = Place::new();
    let job = sales(&place, 1_000);
    job.workers(0).checkpoint_interval(Duration::ZERO).alignment_timeout(Duration::MAX);
    assert_says(&error(&job), ErrorKind::Refused, &["0 workers", "interval", "alignment timeout"]);
    let job = sales(&place, 0);
    assert_says(&error(&job), ErrorKind::Refused, &["throttle(0)"]);
    let job = sales(&place, 1_000);
    job.restore(Restore::Id(CheckpointId(7)));
    assert_says(&error(&job), ErrorKind::Refused, &["--checkpoint-dir"]);
}

#[test]
fn to_restore_nothing_needs_no_checkpoint_directory() {
    let place = Place::new();
    place.write("sales.csv", &some_sales(10));
    let job = sales(&place, 1_000);
    job.restore(Restore::None);
    assert_eq!(job.run().expect("it runs").ended, Ended::Finished);
}

#[test]
fn a_duplicate_name_is_refused_before_anything_runs() {
    let place = Place::new();
    let job = durable_sales(&place, 1_000);
    job.source("total", MemorySource::new(vec![1u64])).sink("more", MemorySink::new());
    assert_says(&error(&job), ErrorKind::Refused, &["two operators are called `total`"]);
    assert!(!place.path("checkpoints").exists(), "a refused job leaves nothing behind");
}

#[test]
fn a_second_run_of_a_finished_job_says_so_and_changes_nothing() {
    let place = Place::new();
    place.write("sales.csv", &some_sales(100));
    let output = || {
        let mut files: Vec<_> =
            fs::read_dir(place.path("out")).expect("the output").map(|f| f.expect("a file").path()).collect();
        files.sort();
        files.into_iter().map(|path| (fs::read(&path).expect("a part"), path)).collect::<Vec<_>>()
    };
    let first = durable_sales(&place, 1_000_000).run().expect("the first run");
    let after_first = output();
    let second = durable_sales(&place, 1_000_000).run().expect("the second run");
    assert_eq!((first.ended, second.ended), (Ended::Finished, Ended::FinishedBefore));
    assert_eq!((first.checkpoint, second.records_in), (second.checkpoint, 0));
    assert_eq!(after_first, output());
}

#[test]
fn a_json_line_of_another_shape_ends_the_job_or_is_left_out_or_becomes_a_dead_letter_with_counts() {
    let place = Place::new();
    let lines = ["{\"shop\":\"a\",\"amount\":1}", "{\"shop\":\"b\"}", "", "not json", "{\"shop\":\"c\",\"amount\":3}"];
    place.write("sales.jsonl", &lines.join("\n"));
    let source = || FileSource::json::<Sale>(place.text("*.jsonl"));
    let job = Job::new("json");
    job.source("sales", source()).sink("out", MemorySink::new());
    let words = ["`sales`", "sales.jsonl, line 2, column", "missing field `amount`"];
    assert_says(&error(&job), ErrorKind::Invalid, &words);
    let (job, out) = (Job::new("json"), MemorySink::new());
    job.source("sales", source().on_error(OnError::Skip)).map(|sale| sale.amount).sink("out", out.clone());
    let report = job.run().expect("what cannot be read is left out");
    assert_eq!(report.skipped.get("sales"), Some(&2));
    let mut amounts = out.committed();
    amounts.sort_unstable();
    assert_eq!(amounts, [1, 3]);
    let (job, out, letters) = (Job::new("json"), MemorySink::new(), MemorySink::new());
    let (sales, dead) = job.source_or_dead_letter("sales", source());
    sales.map(|sale| sale.amount).sink("out", out.clone());
    dead.sink("dead", letters.clone());
    let report = job.run().expect("what cannot be read goes another way");
    assert_eq!((report.dead_letters.get("sales"), report.skipped.get("sales")), (Some(&2), None));
    assert_eq!(out.committed(), amounts);
    let letters = letters.committed();
    assert_letter(&letters[0], "{\"shop\":\"b\"}", "sales.jsonl, line 2, column 12", "missing field `amount`");
    assert_letter(&letters[1], "not json", "sales.jsonl, line 4, column 2", "expected ident");
}

#[track_caller]
fn assert_letter(letter: &DeadLetter<String>, record: &str, position: &str, error: &str) {
    assert_eq!((&*letter.record, letter.position.as_deref()), (record, Some(position)));
    assert_eq!(letter.operator, "sales");
    assert!(letter.error.contains(error), "{}", letter.error);
}

#[test]
fn a_csv_record_that_cannot_be_read_becomes_a_dead_letter_with_its_text_place_and_reason_also_of_watched_files() {
    let place = Place::new();
    let rows = ["shop,amount", "a,1", "\"b\nc\",much", "d,2,3", "", "e,4"];
    place.write("sales.csv", &rows.join("\r\n"));
    let source = || FileSource::csv::<Sale>(place.text("*.csv"));
    for watched in [false, true] {
        let (job, out, letters) = (Job::new("csv"), MemorySink::new(), MemorySink::new());
        job.checkpoint_dir(place.text(&format!("checkpoints-{watched}")))
            .checkpoint_interval(Duration::from_millis(20));
        let (sales, dead) = match watched {
            false => job.source_or_dead_letter("sales", source()),
            true => job.source_or_dead_letter("sales", source().watch()),
        };
        sales.map(|sale| sale.amount).sink("out", out.clone());
        dead.sink("dead", letters.clone());
        let handle = job.spawn().expect("the job starts");
        while letters.committed().len() < 2 || out.committed().len() < 2 {
            if handle.wait_for(Duration::from_millis(5)).is_some() {
                break;
            }
        }
        handle.stop();
        let report = handle.wait().expect("what cannot be read goes another way");
        assert_eq!(report.dead_letters.get("sales"), Some(&2));
        assert_eq!(out.committed(), [1, 4]);
        let letters = letters.committed();
        assert_letter(&letters[0], "\"b\nc\",much", "sales.csv, line 3, column `amount`", "`much`");
        assert_letter(&letters[1], "d,2,3", "sales.csv, line 5", "3 fields, the header has 2");
        assert_eq!(letters.len(), 2);
    }
}

#[test]
fn a_watched_directory_that_is_removed_fails_the_attempt_and_heals_when_it_is_back() {
    let place = Place::new();
    fs::create_dir(place.path("in")).expect("a directory");
    fs::write(place.path("in/1.log"), "one\n").expect("a file");
    let (job, out) = (Job::new("watch"), MemorySink::new());
    job.workers(1).checkpoint_interval(Duration::from_millis(20));
    job.checkpoint_dir(place.text("checkpoints"));
    job.source("lines", FileSource::lines(place.text("in/*.log")).watch()).sink("out", out.clone());
    let handle = job.spawn().expect("the job starts");
    let until = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(handle.wait_for(Duration::from_millis(5)).is_none(), "the job ended");
        }
    };
    until(&|| out.committed() == ["one"]);
    fs::rename(place.path("in"), place.path("away")).expect("moved away");
    until(&|| handle.status().restarts > 0);
    fs::write(place.path("away/2.log"), "two\n").expect("a file");
    fs::rename(place.path("away"), place.path("in")).expect("moved back");
    until(&|| out.committed().len() == 2);
    handle.stop();
    assert_eq!(handle.wait().expect("a stop is no failure").ended, Ended::Stopped);
    assert_eq!(out.committed(), ["one", "two"], "each file is read once");
}
