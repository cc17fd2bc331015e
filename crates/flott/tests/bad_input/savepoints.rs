//! What can be wrong with a savepoint that a job is to begin from. Whatever it is, no source opens and nothing is written to the
//! output.

use super::*;
use flott_runtime::layout::SAVEPOINT;

/// A job that was stopped with a savepoint in the middle of its input.
fn with_savepoint() -> Place {
    let place = Place::new();
    place.write("sales.csv", &some_sales(5_000));
    let handle = durable_sales(&place, 5_000).spawn().expect("the job starts");
    while handle.status().completed_checkpoints < 2 {
        assert!(handle.wait_for(Duration::from_millis(5)).is_none(), "it ended before");
    }
    handle.stop_with_savepoint(place.text("savepoint"), false).expect("it is taken");
    assert_eq!(handle.wait().expect("a stop is no failure").ended, Ended::Stopped);
    place
}

/// The same job, for another checkpoint directory and another output.
fn next(place: &Place) -> Job {
    let job = Job::new("sales");
    job.source("sales", FileSource::csv::<Sale>(place.text("sales.csv")))
        .key_by(|sale| sale.shop.clone())
        .fold("total", 0u64, |total, sale| *total += sale.amount)
        .sink("out", FileSink::csv(place.path("out2")).header(["shop", "total"]));
    job.workers(1).checkpoint_dir(place.text("elsewhere")).restore_from(place.text("savepoint"));
    job
}

fn assert_refuses(place: &Place, job: &Job, kind: ErrorKind, words: &[&str]) {
    assert_says(&error(job), kind, words);
    let written = fs::read_dir(place.path("out2"))
        .map_or(0, |entries| entries.flatten().filter(|e| !e.file_name().to_string_lossy().starts_with('.')).count());
    assert_eq!(written, 0, "output was committed");
}

#[test]
fn a_sound_savepoint_is_restored() {
    let place = with_savepoint();
    assert_eq!(next(&place).run().expect("it goes on").ended, Ended::Finished);
}

#[test]
fn a_savepoint_of_another_job_is_refused_and_the_operator_named() {
    let place = with_savepoint();
    let other = Job::new("other");
    other
        .source("numbers", MemorySource::new((0..10u64).collect()))
        .key_by(|number| *number)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", MemorySink::new());
    other.workers(1).checkpoint_dir(place.text("elsewhere")).restore_from(place.text("savepoint"));
    assert_refuses(&place, &other, ErrorKind::Unusable, &["`sales`", "--allow-unclaimed-state"]);
}

#[test]
fn a_savepoint_with_another_key_type_is_refused_before_any_record() {
    let place = with_savepoint();
    let job = Job::new("sales");
    job.source("sales", FileSource::csv::<Sale>(place.text("sales.csv")))
        .key_by(|sale| sale.amount)
        .fold("total", 0u64, |total, sale| *total += sale.amount)
        .sink("out", FileSink::csv(place.path("out2")).header(["shop", "total"]));
    job.workers(1).checkpoint_dir(place.text("elsewhere")).restore_from(place.text("savepoint"));
    assert_refuses(&place, &job, ErrorKind::Unusable, &["`total`", "string", "u64"]);
}

#[test]
fn a_savepoint_with_a_missing_or_changed_file_is_refused_and_the_file_named() {
    for (extension, missing) in [("seg", true), ("seg", false), ("json", true), ("json", false)] {
        let place = with_savepoint();
        let below = if extension == "json" { "savepoint/manifests" } else { "savepoint" };
        let path = newest(&place.path(below), extension);
        if missing {
            fs::remove_file(&path).expect("removed");
        } else {
            let mut bytes = fs::read(&path).expect("read");
            // In a segment: in a block of the state. What is not read, as the tokens of output that is not claimed, is not looked at.
            bytes[60] ^= 1;
            fs::write(&path, bytes).expect("written");
        }
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        assert_refuses(&place, &next(&place), ErrorKind::Unusable, &[&name]);
    }
}

#[test]
fn a_directory_without_a_savepoint_is_refused() {
    let place = with_savepoint();
    fs::remove_file(place.path("savepoint").join(SAVEPOINT)).expect("removed");
    assert_refuses(&place, &next(&place), ErrorKind::Refused, &["no savepoint", "savepoint"]);
    let job = next(&place);
    job.restore_from(place.text("not-there"));
    assert_refuses(&place, &job, ErrorKind::Refused, &["not-there"]);
}

#[test]
fn a_savepoint_of_a_newer_format_says_that_the_program_is_too_old() {
    let place = with_savepoint();
    let path = place.path("savepoint").join(SAVEPOINT);
    let text = fs::read_to_string(&path).expect("read").replacen("\"format\":1", "\"format\":9", 1);
    let body = text.rsplit_once(",\"xxh3\"").expect("a checksum").0;
    fs::write(&path, format!("{body},\"xxh3\":\"{:016x}\"}}\n", xxh3_64(body.as_bytes()))).expect("written");
    assert_refuses(&place, &next(&place), ErrorKind::Unusable, &["log format 9", "newer version"]);
}

#[test]
fn a_savepoint_without_a_checkpoint_directory_and_a_claim_without_a_savepoint_are_refused() {
    let place = with_savepoint();
    let job = sales(&place, 1_000);
    job.restore_from(place.text("savepoint"));
    assert_says(&error(&job), ErrorKind::Refused, &["--restore PATH", "--checkpoint-dir"]);
    let job = durable_sales(&place, 1_000);
    job.claim(true);
    assert_says(&error(&job), ErrorKind::Refused, &["--claim", "--restore PATH"]);
    let job = next(&place);
    job.claim(true).overwrite(true);
    assert_says(&error(&job), ErrorKind::Refused, &["--claim", "--overwrite", "choose one"]);
}

#[test]
fn more_or_fewer_workers_than_the_savepoint_has_are_refused_or_restored_but_never_guessed() {
    let place = with_savepoint();
    let job = next(&place);
    job.workers(3);
    match job.run() {
        Ok(report) => assert_eq!(report.ended, Ended::Finished),
        Err(error) => assert_says(&error, ErrorKind::Unusable, &["1 workers", "3"]),
    }
}
