//! Jobs as programs: command line, exit codes, signals, streams. Runs the examples as processes of their own.

#![cfg(unix)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Where the examples are, built if they are not.
fn examples() -> &'static PathBuf {
    static EXAMPLES: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let build = Command::new(env!("CARGO")).args(["build", "-p", "flott", "--examples", "--quiet"]).status();
        assert!(build.expect("cargo runs").success(), "the examples do not build");
        // The test is in <target>/debug/deps.
        let test = std::env::current_exe().expect("the path of this test");
        test.ancestors().nth(2).expect("a build directory").join("examples")
    })
}

/// An example with clean variables.
fn example(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(examples().join(name));
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("FLOTT_")) {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `flights` with everything below a directory of the test.
fn flights(place: &TempDir, arguments: &[&str]) -> Command {
    let mut command = example("flights", arguments);
    let at = |name: &str| place.path().join(name);
    command.arg("--output").arg(at("out")).arg("--checkpoint-dir").arg(at("checkpoints"));
    command
}

fn place() -> TempDir {
    tempfile::tempdir().expect("a directory for temporary files")
}

fn run(mut command: Command) -> Output {
    command.output().expect("the example runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Reads the log until a line holds these words.
fn wait_for(log: &mut impl BufRead, words: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        let read = log.read_line(&mut line).expect("the log");
        all.push_str(&line);
        assert!(read > 0, "`{words}` never came: {all}");
        if line.contains(words) {
            return all;
        }
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Committed rows, headers left out, in any order.
fn rows(place: &TempDir) -> Vec<String> {
    let parts = std::fs::read_dir(place.path().join("out")).expect("the output");
    let parts = parts.map(|part| part.expect("a part").path());
    let committed = parts.filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')));
    let mut rows: Vec<String> = Vec::new();
    for part in committed {
        let text = std::fs::read_to_string(part).expect("a part");
        rows.extend(text.lines().skip(1).map(str::to_owned));
    }
    rows.sort();
    rows
}

/// Two rows a flight, but for the 155 without a tail number.
const ROWS: usize = 27_004 + 27_004 - 155;

#[test]
fn flights_prints_the_table_and_where_the_output_is() {
    let place = place();
    let output = run(flights(&place, &["--workers", "2"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert_eq!(table.lines().count(), 1 + 16 + 1, "{table}");
    assert!(table.contains("UA          4637    4605       38342        8.33"), "{table}");
    assert!(table.trim_end().ends_with("/out"), "{table}");
    assert!(stderr(&output).contains("guarantee: exactly-once"), "{}", stderr(&output));
    assert_eq!(rows(&place).len(), ROWS);
}

#[test]
fn a_signal_stops_with_a_final_checkpoint_and_the_next_run_goes_on() {
    let place = place();
    for name in ["-INT", "-TERM"] {
        let mut command = flights(&place, &["--rate", "3000", "--checkpoint-interval", "50ms"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the example runs");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
        wait_for(&mut log, "guarantee:");
        signal(&child, name);
        wait_for(&mut log, "stopped at checkpoint");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
    let before = rows(&place).len();
    assert!(before < ROWS, "the signal came too late to show anything");
    let output = run(flights(&place, &[]));
    assert!(stderr(&output).contains("restored from checkpoint"), "{}", stderr(&output));
    assert_eq!(rows(&place).len(), ROWS);
    let again = run(flights(&place, &[]));
    assert_eq!(again.status.code(), Some(0));
    assert!(stderr(&again).contains("--restore none --overwrite starts over"), "{}", stderr(&again));
    assert_eq!(rows(&place).len(), ROWS);
}

#[cfg(target_os = "linux")]
#[test]
fn a_guarantee_that_cannot_be_kept_is_refused_and_says_why() {
    let place = place();
    let checkpoints = place.path().join("checkpoints").display().to_string();
    let required = ["Cargo.toml", "--checkpoint-dir", &checkpoints, "--require", "exactly-once"];
    let output = run(example("word_count", &required));
    assert_eq!(output.status.code(), Some(2));
    let log = stderr(&output);
    assert!(log.contains("lines -> counts: at-least-once") && log.contains("cannot take back"), "{log}");
    assert!(!place.path().join("checkpoints").exists());

    let output = run(example("word_count", &["Cargo.toml", "--require", "at-least-once"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("checkpoints are off"), "{}", stderr(&output));
}

#[test]
fn checkpoints_off_are_said_at_the_start() {
    let output = run(example("word_count", &["run", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("checkpoints are off"), "{}", stderr(&output));
    assert!(stderr(&output).contains("guarantee: none"), "{}", stderr(&output));
    assert!(stdout(&output).contains("[\"flott\",1]"), "{}", stdout(&output));
}

#[test]
fn a_flag_overrules_the_variable_and_the_variable_the_program() {
    let place = place();
    let mut command = flights(&place, &["--workers", "1"]);
    command.env("FLOTT_WORKERS", "3").env("FLOTT_CHECKPOINT_MODE", "stop-the-world");
    let log = stderr(&run(command));
    assert!(log.contains("with 1 workers") && log.contains("checkpoints: stop-the-world, each 1s"), "{log}");
    let mut command = example("flights", &[]);
    command.env("FLOTT_WORKERS", "0");
    let output = run(command);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0 workers"), "{}", stderr(&output));
}

#[test]
fn events_are_one_object_a_line() {
    let place = place();
    let output = run(flights(&place, &["--json", "--rate", "100000", "--checkpoint-interval", "50ms"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let events: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let kind = |event: &Value| event["event"].as_str().map(str::to_owned).expect("every event has a name");
    assert_eq!(kind(&events[0]), "started");
    assert_eq!(events[0]["guarantee"], "exactly-once");
    let checkpoints: Vec<&Value> = events.iter().filter(|event| kind(event) == "checkpoint").collect();
    assert!(!checkpoints.is_empty() && checkpoints.iter().all(|event| event["status"] == "completed"));
    let last = events.last().expect("an end");
    assert_eq!((kind(last).as_str(), &last["ended"]), ("finished", &Value::from("finished")));
    assert_eq!((&last["records_in"], &last["records_out"]), (&Value::from(27_004), &Value::from(ROWS)));
}

#[test]
fn a_failure_is_code_1_and_what_is_refused_is_code_2() {
    let place = place();
    let input = place.path().join("binary.txt").display().to_string();
    std::fs::write(&input, b"good\nb\xffd\n").expect("a file for the test");
    let output = run(example("word_count", &[&input]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("binary.txt, line 2"), "{}", stderr(&output));
    let output = run(example("word_count", &[&input, "--json"]));
    let event: Value = serde_json::from_str(stdout(&output).lines().last().expect("an event")).expect("JSON");
    assert_eq!((&event["event"], &event["exit_code"]), (&Value::from("failed"), &Value::from(1)));
    let missing = place.path().join("missing.txt").display().to_string();
    let output = run(example("word_count", &[&missing]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("missing.txt"), "{}", stderr(&output));
}

#[test]
fn with_json_every_line_is_an_object_also_those_of_the_print_sink() {
    let place = place();
    let input = place.path().join("words.txt").display().to_string();
    std::fs::write(&input, "to be or not to be\n").expect("a file for the test");
    let output = run(example("word_count", &[&input, "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = stdout(&output);
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let records: Vec<&Value> = objects.iter().filter(|object| object["event"] == "record").collect();
    assert_eq!(records.len(), 6, "{lines}");
    assert!(objects.iter().all(|object| object["event"].is_string()), "{lines}");
    assert!(records.iter().all(|record| record["sink"].is_string()), "{lines}");
}

#[test]
fn a_wrong_variable_is_named_as_one() {
    for (variable, value, reason) in [
        ("FLOTT_WORKERS", "many", "whole number"),
        ("FLOTT_JSON", "perhaps", ""),
        ("FLOTT_RESTORE", "0", "number of a checkpoint"),
    ] {
        let mut command = example("flights", &[]);
        command.env(variable, value);
        let output = run(command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("the variable {variable} holds `{value}`: ")) && said.contains(reason),
            "{said}"
        );
    }
    let mut command = example("flights", &["--workers", "none"]);
    command.env("FLOTT_WORKERS", "2");
    let said = stderr(&run(command));
    assert!(said.contains("--workers") && !said.contains("variable"), "a flag is named as one: {said}");
}

#[test]
fn a_variable_that_nothing_reads_is_told_if_it_looks_like_one_of_ours() {
    let place = place();
    let mut command = flights(&place, &["--workers", "1"]);
    command.env("FLOTT_CHECKPOINT_INTERVALL", "50ms").env("FLOTT_PARTY", "yes");
    let output = run(command);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warning = "warning: the variable FLOTT_CHECKPOINT_INTERVALL is set, and nothing reads it: is \
                   FLOTT_CHECKPOINT_INTERVAL meant?";
    assert!(said.contains(warning) && !said.contains("PARTY"), "{said}");
}

#[test]
fn every_job_tells_its_version() {
    let flott = env!("CARGO_PKG_VERSION");
    let output = run(example("flights", &["--version"]));
    assert_eq!(stdout(&output), format!("flights {flott} (flott {flott})\n"));
}

#[test]
fn a_full_standard_output_ends_the_example_with_a_clear_line() {
    let place = place();
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device that is always full");
    let mut command = flights(&place, &["--workers", "1"]);
    command.stdout(full());
    let output = run(command);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot print the table: No space left on device") && !said.contains("panicked"), "{said}");
    let mut command = flights(&place, &["--workers", "1", "--json"]);
    command.stdout(full());
    let output = run(command);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "the job itself is not disturbed: {said}");
    assert_eq!(said.matches("no more events are printed").count(), 1, "{said}");
}

#[test]
fn a_source_and_a_sink_of_ones_own_run() {
    let output = run(example("custom_source", &["--workers", "2"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // 15 counts twice: it is a multiple of 3 and of 5.
    let fives: u64 = (1..100).filter(|n| n % 10 == 5).map(|n| if n % 15 == 0 { 2 * n } else { n }).sum();
    let last = format!("the multiples that end with 5 add up to {fives}");
    assert!(stdout(&output).lines().any(|line| line == last), "{}", stdout(&output));
}

#[test]
fn an_unbounded_job_with_a_transactional_sink_needs_checkpoints() {
    let job = flott::Job::new("endless");
    job.source("numbers", flott::connector::Generator::unbounded(1, |n, _| n))
        .sink("out", flott::connector::MemorySink::new());
    let error = job.run().expect_err("nothing would ever be committed");
    assert_eq!(error.kind(), flott::ErrorKind::Refused);
    assert!(error.to_string().contains("never ends") && error.to_string().contains("--checkpoint-dir"), "{error}");
}
