//! Runs the built `flott state …` on what real jobs and the heap backend leave behind.

mod copies;
#[cfg(unix)]
mod interrupted;
mod refused;
mod split;
mod variants;

use flott::prelude::*;
use flott_checkpoint::{CheckpointId, InUse, LiteSet};
use flott_runtime::collector::{Collected, Collector};
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{StorageServer, open_storage};
use flott_runtime::testing::Random;
use flott_runtime::testing::sample_job::SampleJob;
use flott_runtime::testing::stateful_job::{StatefulJob, Tally};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn place() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn flott(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flott")).args(arguments).output().expect("it runs")
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = flott(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// What a command that must do well prints.
fn must(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
    stdout
}

fn lines(stdout: &str) -> Vec<Json> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

fn must_verify(directory: &str) {
    let stdout = must(&["checkpoints", "verify", directory]);
    assert!(stdout.contains("is good"), "{stdout}");
}

// The job of the example `flights`, as far as its state goes.

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Flight {
    carrier: String,
    dep_delay: String,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Delays {
    flights: u64,
    known: u64,
    sum: i64,
}

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/flights-2013-01.csv")
}

#[test]
fn an_export_of_the_flights_is_an_independent_count() {
    let place = place();
    let job = Job::new("flights");
    job.checkpoint_dir(text(place.path())).workers(2);
    job.source("flights", FileSource::csv::<Flight>(text(data())))
        .key_by(|flight| flight.carrier.clone())
        .fold("carrier", Delays::default(), |delays, flight: Flight| {
            delays.flights += 1;
            if let Ok(delay) = flight.dep_delay.parse::<i64>() {
                delays.known += 1;
                delays.sum += delay;
            }
        })
        .sink("out", MemorySink::new());
    job.run().expect("it runs");

    let directory = text(place.path());
    let csv = must(&["state", "export", &directory, "--operator", "carrier", "--format", "csv"]);
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("key,value.flights,value.known,value.sum"));
    let exported: BTreeMap<String, String> = rows
        .map(|row| row.split_once(',').map(|(key, rest)| (key.to_owned(), rest.to_owned())).expect("columns"))
        .collect();

    // By cutting the lines of the input: its cells have no commas in them.
    let input = fs::read_to_string(data()).expect("the data");
    let mut counted: BTreeMap<String, (u64, u64, i64)> = BTreeMap::new();
    for line in input.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (flights, known, sum) = counted.entry(cells[9].to_owned()).or_default();
        *flights += 1;
        if let Ok(delay) = cells[5].parse::<i64>() {
            *known += 1;
            *sum += delay;
        }
    }
    let counted: BTreeMap<String, String> =
        counted.into_iter().map(|(key, (flights, known, sum))| (key, format!("{flights},{known},{sum}"))).collect();
    assert_eq!(exported, counted);
    assert_eq!(exported.len(), 16);

    let count = lines(&must(&["state", "count", &directory, "--json"]));
    assert_eq!((&count[0]["state"], &count[0]["keys"], &count[0]["entries"]), (&"fold".into(), &16.into(), &16.into()));
    let list = must(&["state", "list", &directory]);
    assert!(
        list.contains("carrier") && list.contains("string") && list.contains("{flights:u64,known:u64,sum:i64}"),
        "{list}"
    );
    let got = lines(&must(&["state", "get", &directory, "--key", "UA", "--json"]));
    let ua = &got[0]["value"];
    assert_eq!(format!("{},{},{}", ua["flights"], ua["known"], ua["sum"]), exported["UA"]);
}

/// A job over some numbers that has time for a savepoint, and its directory.
fn slow(place: &Path, name: &str) -> Job {
    let job = Job::new("numbers");
    job.checkpoint_dir(text(place.join(name))).workers(2);
    job
}

const NUMBERS: u64 = 6_000;
const KEYS: u64 = 300;

fn counting(job: &Job, place: &Path, rate: Option<u64>) {
    let input = place.join("numbers.txt");
    if !input.exists() {
        fs::write(&input, (0..NUMBERS).map(|n| format!("{n}\n")).collect::<String>()).expect("written");
    }
    let mut numbers = job.source("numbers", FileSource::lines(text(input)));
    if let Some(rate) = rate {
        numbers = numbers.throttle(rate);
    }
    numbers
        .map(|line| line.parse::<u64>().unwrap_or_default())
        .key_by(|n| n % KEYS)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", MemorySink::new());
}

fn counts(directory: &str) -> BTreeMap<u64, u64> {
    let rows = lines(&must(&["state", "export", directory, "--operator", "count"]));
    let number = |value: &Json| value.as_u64().expect("a number");
    rows.iter().map(|row| (number(&row["key"]), number(&row["value"]))).collect()
}

/// Stops the job in the middle of its input, with a savepoint.
/// Who may read a file, the umask says.
fn must_be_as_open_as_any(file: &Path) {
    let other = file.with_extension("other");
    fs::write(&other, "").expect("written");
    let permissions = |path: &Path| fs::metadata(path).expect("it is there").permissions();
    assert_eq!(permissions(file), permissions(&other));
    fs::remove_file(other).expect("removed");
}

fn savepoint(place: &Path) -> String {
    let (job, taken) = (slow(place, "first"), text(place.join("taken")));
    counting(&job, place, Some(NUMBERS / 3));
    let running = job.spawn().expect("it starts");
    while running.status().records_in < 500 {
        std::thread::yield_now();
    }
    running.stop_with_savepoint(taken.clone(), false).expect("it is taken");
    running.wait().expect("it stopped");
    taken
}

fn finish_from(place: &Path, from: &str, name: &str) -> BTreeMap<u64, u64> {
    let job = slow(place, name);
    counting(&job, place, None);
    job.restore_from(from);
    job.run().expect("it runs to its end");
    counts(&text(place.join(name)))
}

#[test]
fn a_job_begins_with_imported_state_and_goes_on_from_where_the_template_was() {
    let place = place();
    let taken = savepoint(place.path());
    let before = counts(&taken);
    let done: u64 = before.values().sum();
    assert!(done > 0 && done < NUMBERS, "it was stopped in the middle, at {done}");

    // Exported and imported, it is the same: as JSON lines and as CSV.
    for (format, file) in [("json", "rows.jsonl"), ("csv", "rows.csv")] {
        let (file, to) = (text(place.path().join(file)), text(place.path().join(format!("from-{format}"))));
        must(&["state", "export", &taken, "--operator", "count", "--format", format, "--output", &file]);
        must_be_as_open_as_any(Path::new(&file));
        must(&["state", "import", &file, "--from", &taken, "--to", &to, "--operator", "count"]);
        must_verify(&to);
        assert_eq!(counts(&to), before, "{format}");
    }
    let from_json = text(place.path().join("from-json"));
    let whole = finish_from(place.path(), &from_json, "same");
    assert_eq!(whole, (0..KEYS).map(|key| (key, NUMBERS / KEYS)).collect());

    // Other counts, for some keys, in the place of all.
    let csv = text(place.path().join("other.csv"));
    fs::write(&csv, "key,value\n5,1000\n7,2000\n").expect("written");
    let to = text(place.path().join("replaced"));
    must(&["state", "import", &csv, "--from", &taken, "--to", &to, "--operator", "count", "--state", "fold"]);
    let rest = |key: u64| NUMBERS / KEYS - before.get(&key).copied().unwrap_or(0);
    let mut expected: BTreeMap<u64, u64> = (0..KEYS).map(|key| (key, rest(key))).collect();
    expected.retain(|_, count| *count > 0);
    *expected.entry(5).or_default() += 1_000;
    *expected.entry(7).or_default() += 2_000;
    assert_eq!(finish_from(place.path(), &to, "other"), expected);

    // On top of what is there.
    let to = text(place.path().join("merged"));
    must(&["state", "import", &csv, "--from", &taken, "--to", &to, "--operator", "count", "--merge"]);
    let mut expected = before.clone();
    expected.extend([(5, 1_000), (7, 2_000)]);
    assert_eq!(counts(&to), expected);

    // A job that has other keys does not take it.
    let stranger = Job::new("strings");
    stranger.checkpoint_dir(text(place.path().join("stranger"))).restore_from(to);
    stranger
        .source("numbers", FileSource::lines(text(place.path().join("numbers.txt"))))
        .key_by(|line| line.clone())
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", MemorySink::new());
    assert_eq!(stranger.run().expect_err("other keys").kind().exit_code(), 4);
}

#[test]
fn a_converted_chain_is_restored_by_the_job() {
    let place = place();
    let taken = savepoint(place.path());
    let (job, to) = (slow(place.path(), "again"), text(place.path().join("converted")));
    counting(&job, place.path(), Some(NUMBERS / 2));
    job.restore_from(taken).checkpoint_interval(std::time::Duration::from_millis(20));
    let running = job.spawn().expect("it starts");
    while running.status().completed_checkpoints < 4 {
        std::thread::yield_now();
    }
    running.stop();
    running.wait().expect("it stopped");
    let directory = text(place.path().join("again"));
    let newest = lines(&must(&["checkpoints", "list", &directory, "--json"])).pop().expect("some");
    must(&["checkpoints", "convert", &directory, "--to", &to]);
    must_verify(&to);
    assert_eq!(counts(&to), counts(&directory), "of checkpoint {newest}");
    assert_eq!(finish_from(place.path(), &to, "end"), (0..KEYS).map(|key| (key, NUMBERS / KEYS)).collect());
    let same = must(&["checkpoints", "diff", &directory, &to, "--json"]);
    assert!(
        lines(&same).iter().all(|state| state["added"] == 0 && state["removed"] == 0 && state["changed"] == 0),
        "{same}"
    );
}

/// A job with a state of every kind, in a local directory.
async fn stateful(place: &Path, changes: u64, links: u64) -> StatefulJob {
    let storage = open_storage(&text(place), "sample").expect("opened");
    let mut job = StatefulJob::new(SampleJob::new(storage)).await;
    let (mut random, mut base) = (Random::new(11), None);
    for _ in 0..links {
        (0..changes).for_each(|_| job.change(&mut random, 40));
        base = Some(job.checkpoint(base).await);
    }
    job
}

#[test]
fn every_kind_of_state_is_exported_with_all_that_it_holds_and_comes_back_by_import() {
    let (place, others) = (place(), place());
    let mut job = block_on(stateful(place.path(), 300, 3)).expect("a runtime");
    let odd = Tally { count: u64::MAX, mean: f64::from_bits(0xfff8_0000_0000_0007), last: Some(String::new()) };
    job.put_tally("a,\"b\"\n", odd);
    let base = job.job.parent;
    block_on(job.checkpoint(base)).expect("a runtime");
    let directory = text(place.path());
    let exported = must(&["state", "export", &directory]);
    assert_eq!(lines(&exported).len(), job.model().len());
    let states: BTreeSet<String> =
        lines(&exported).iter().map(|line| line["state"].as_str().expect("a state").to_owned()).collect();
    assert_eq!(states.iter().map(String::as_str).collect::<Vec<_>>(), ["alarms", "lines", "shares", "tallies"]);
    assert!(exported.contains(r#""mean":{"$f64":"nan:fff8000000000007"}"#), "the bits of a NaN are kept");
    for state in states {
        for format in ["json", "csv"] {
            let file = text(others.path().join(format!("{state}.{format}")));
            let to = text(others.path().join(format!("{state}-{format}")));
            must(&["state", "export", &directory, "--state", &state, "--format", format, "-o", &file]);
            must(&[
                "state",
                "import",
                &file,
                "--from",
                &directory,
                "--to",
                &to,
                "--operator",
                "count",
                "--state",
                &state,
            ]);
            must_verify(&to);
            assert_eq!(must(&["state", "export", &to]), exported, "{state} by {format}");
        }
    }
    let list = must(&["state", "get", &directory, "--state", "lines", "--key", "1", "--json"]);
    let elements = job.lines.get(&1).map_or(0, Vec::len);
    assert_eq!(list.lines().count(), elements);
    let (code, stdout, stderr) = run(&["state", "get", &directory, "--state", "tallies", "--key", "nobody"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("nothing for the key nobody"), "{stderr}");
}

#[test]
fn a_damaged_segment_ends_an_export_with_code_1_and_its_name_and_no_file_appears() {
    let place = place();
    drop(block_on(stateful(place.path(), 300, 2)).expect("a runtime"));
    let segment = place.path().join("sample/data/1/1-1.seg");
    let mut bytes = fs::read(&segment).expect("there");
    bytes[200] ^= 1;
    fs::write(&segment, bytes).expect("written");
    let file = place.path().join("all.jsonl");
    let (code, _, stderr) = run(&["state", "export", &text(place.path()), "-o", &text(&file)]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("data/1/1-1.seg is damaged: block at byte") && stderr.contains("[checkpoint 1]"),
        "{stderr}"
    );
    assert!(!file.exists());
    assert_eq!(fs::read_dir(place.path().join("sample/pins")).map_or(0, Iterator::count), 0, "a pin is left");
}

/// One run of the collector of a job's own attempt.
async fn collect(storage: &StorageServer, collector: &mut Collector, in_use: InUse) -> Collected {
    let mut asked = Vec::new();
    collector.collect(in_use, flott_runtime::time::Time(0), &mut asked);
    loop {
        let (ticket, request) = asked.remove(0);
        let reply = storage.serve(request).await;
        if let Some(ended) = collector.on(ticket, reply, &mut asked) {
            return ended;
        }
    }
}

#[test]
fn exports_beside_a_collector_in_a_loop_are_whole_and_leave_no_pin() {
    let place = place();
    let mut job = block_on(stateful(place.path(), 200, 1)).expect("a runtime");
    let over = AtomicBool::new(false);
    let directory = text(place.path());
    let checkpoints = std::thread::scope(|scope| {
        let exports = scope.spawn(|| {
            let mut exports = Vec::new();
            for _ in 0..15 {
                exports.push(run(&["state", "export", &directory]));
            }
            over.store(true, Ordering::Relaxed);
            exports
        });
        let newest = block_on(async {
            let (mut random, mut collector) = (Random::new(3), Collector::new(job.job.attempt, 1));
            let mut base = job.job.parent;
            while !over.load(Ordering::Relaxed) {
                (0..50).for_each(|_| job.change(&mut random, 40));
                base = Some(job.checkpoint(base.filter(|id| id.0 % 5 != 0)).await);
                let (attempt, newest, pins) = (job.job.attempt, base, LiteSet::new());
                let in_use = InUse { attempt, newest, restored_from: None, pending: None, pins, retained: 1 };
                collect(&job.job.storage.clone(), &mut collector, in_use).await;
            }
            base.map_or(0, |CheckpointId(id)| id)
        });
        for (code, stdout, stderr) in exports.join().expect("no panic") {
            assert_eq!(code, 0, "{stderr}");
            assert!(!lines(&stdout).is_empty());
        }
        newest.expect("a runtime")
    });
    assert!(checkpoints > 5, "the job took {checkpoints} checkpoints");
    assert_eq!(fs::read_dir(place.path().join("sample/pins")).map_or(0, Iterator::count), 0, "a pin is left");
}

#[cfg(unix)]
#[test]
fn an_export_that_is_interrupted_lets_its_checkpoint_go() {
    use std::io::{BufRead, BufReader, Read};
    let place = place();
    let mut job = block_on(stateful(place.path(), 200, 1)).expect("a runtime");
    // The first state alone is more than fits into a pipe, so the command cannot be through when it is interrupted.
    (0..4_000u64).for_each(|key| job.put_alarm(key, 1));
    block_on(job.checkpoint(None)).expect("a runtime");
    let mut export = Command::new(env!("CARGO_BIN_EXE_flott"))
        .args(["state", "export", &text(place.path())])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdout = BufReader::new(export.stdout.take().expect("piped"));
    let mut first = String::new();
    stdout.read_line(&mut first).expect("a line");
    assert_eq!(fs::read_dir(place.path().join("sample/pins")).map_or(0, Iterator::count), 1, "it holds what it reads");
    let signalled = Command::new("kill").args(["-INT", &export.id().to_string()]).status().expect("kill runs");
    assert!(signalled.success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("the rest");
    assert_eq!(export.wait().expect("it ends").code(), Some(130));
    assert_eq!(fs::read_dir(place.path().join("sample/pins")).map_or(0, Iterator::count), 0, "a pin is left");
}

/// The greatest memory of an export of so many keys, in KiB, and the bytes that it wrote.
#[cfg(target_os = "linux")]
fn memory_of_export(keys: u64) -> (u64, usize) {
    use std::io::Read;
    let place = place();
    let mut job = block_on(stateful(place.path(), 1, 1)).expect("a runtime");
    (0..keys).for_each(|key| {
        job.put_tally(&format!("key {key:08}"), Tally { count: key, mean: 0.5, last: Some("x".repeat(32)) });
    });
    block_on(job.checkpoint(None)).expect("a runtime");
    drop(job);
    let export = || {
        Command::new(env!("CARGO_BIN_EXE_flott"))
            .args(["state", "export", &text(place.path()), "--state", "tallies"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it runs")
    };
    let mut first = export();
    let bytes = std::io::copy(first.stdout.as_mut().expect("piped"), &mut std::io::sink()).expect("read");
    assert!(first.wait().expect("it ends").success());
    // Once more, up to what fits into the pipe and more: so it waits at its end, and can be looked at.
    let mut second = export();
    let mut stdout = second.stdout.take().expect("piped");
    let nearly = bytes - 300 * 1024;
    assert_eq!(std::io::copy(&mut stdout.by_ref().take(nearly), &mut std::io::sink()).expect("read"), nearly);
    let status = fs::read_to_string(format!("/proc/{}/status", second.id())).expect("it is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("read");
    assert!(second.wait().expect("it ends").success());
    (peak.trim().trim_end_matches(" kB").parse().expect("a number"), usize::try_from(bytes).expect("it fits"))
}

/// The larger state is three times the smaller one, which is more than what is in memory at once.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_an_export_does_not_grow_with_the_state() {
    let (small, few) = memory_of_export(250_000);
    let (large, many) = memory_of_export(750_000);
    assert!(many > few * 2);
    assert!(large < small * 2, "{large} KiB for {many} bytes, {small} KiB for {few}");
}
