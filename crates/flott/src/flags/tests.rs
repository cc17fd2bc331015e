//! The command line of a job: flags beside the job's own, their environment variables and their limits. No job runs here.

use super::*;
use crate::settings::StateBackend;
use flott_checkpoint::{Guarantee, Mode};
use std::time::Duration;

#[derive(Args, Debug)]
struct Own {
    /// Where to read.
    #[arg(long, default_value = "in.csv")]
    input: String,
}

fn parsed(words: &[&str]) -> Result<(Own, Settings), String> {
    let line = std::iter::once("job").chain(words.iter().copied()).map(OsString::from).collect();
    parse::<Own>("job", line).map_err(|error| error.to_string())
}

fn settings(words: &[&str]) -> Settings {
    parsed(words).unwrap().1
}

#[test]
fn the_word_run_changes_nothing() {
    assert_eq!(settings(&["run", "--workers", "3"]), settings(&["--workers", "3"]));
    assert_eq!(settings(&["run"]), Settings::default());
}

#[test]
fn every_flag_arrives() {
    let all = settings(&[
        "--workers=2",
        "--checkpoint-dir=ck",
        "--checkpoint-mode=stop-the-world",
        "--alignment-timeout=1s 500ms",
        "--checkpoint-interval=250ms",
        "--restore=7",
        "--require=exactly-once",
        "--no-fallback",
        "--allow-duplicates",
        "--allow-unclaimed-state",
        "--overwrite",
        "--stop-timeout=5s",
        "--longest-restart-delay=2s",
        "--hot-keys",
        "--work-dir=w",
        "--state-backend=heap",
        "--state-memory=2GiB",
        "--claim",
        "--dry-run",
        "--json",
        "--metrics=127.0.0.1:0",
    ]);
    let expected = Settings {
        workers: Some(2),
        checkpoint_dir: Some("ck".to_owned()),
        checkpoint_mode: Some(Mode::StopTheWorld),
        alignment_timeout: Some(Duration::from_millis(1_500)),
        // The program alone sets it.
        checkpoint_interval: Some(Duration::from_millis(250)),
        restore: Some(flott_checkpoint::Restore::Id(flott_checkpoint::CheckpointId(7))),
        restore_from: None,
        claim: Some(true),
        dry_run: Some(true),
        require: Some(Guarantee::ExactlyOnce),
        no_fallback: Some(true),
        allow_duplicates: Some(true),
        allow_unclaimed_state: Some(true),
        overwrite: Some(true),
        stop_timeout: Some(Duration::from_secs(5)),
        longest_restart_delay: Some(Duration::from_secs(2)),
        hot_keys: Some(true),
        work_dir: Some("w".into()),
        state_backend: Some(StateBackend::Heap),
        state_memory: Some(2 << 30),
        json: Some(true),
        metrics: Some("127.0.0.1:0".to_owned()),
        credit_window: None,
    };
    assert_eq!(all, expected);
}

#[test]
fn a_job_has_arguments_of_its_own_beside() {
    let (own, settings) = parsed(&["--input", "x.csv", "--json"]).unwrap();
    assert_eq!((own.input.as_str(), settings.json), ("x.csv", Some(true)));
    assert_eq!(parsed(&[]).unwrap().0.input, "in.csv");
}

#[test]
fn zero_and_absurd_options_are_refused_with_a_reason() {
    let cases = [
        ("--workers=0", "0 workers"),
        ("--workers=99999999999", "128"),
        ("--workers=many", "whole number"),
        ("--checkpoint-interval=0s", "interval"),
        ("--checkpoint-interval=900years", "year"),
        ("--checkpoint-interval=5", "500ms"),
        ("--checkpoint-mode=fast", "stop-the-world, aligned, at-least-once, aligned-then-unaligned, unaligned"),
        ("--alignment-timeout=soon", "500ms"),
        ("--alignment-timeout=900years", "year"),
        ("--checkpoint-dir=", "empty"),
        ("--restore=0", "number of a checkpoint"),
        ("--restore=yesterday", "number of a checkpoint"),
        ("--require=at-most-once", "exactly-once"),
        ("--state-backend=disk", "heap, rocksdb"),
        ("--state-memory=64", "64MiB"),
        ("--state-memory=1MiB", "at least 8MiB"),
        ("--state-memory=99999999999999GiB", "64MiB"),
        ("--stop-timeout=0s", "final checkpoint"),
        ("--stop-timeout=900years", "year"),
        ("--longest-restart-delay=0s", "busy"),
        ("--longest-restart-delay=900years", "year"),
    ];
    for (flag, reason) in cases {
        let error = parsed(&[flag]).unwrap_err();
        assert!(error.contains(reason), "{flag}: {error}");
    }
}

#[test]
fn every_mode_can_be_named() {
    for mode in Mode::ALL {
        assert_eq!(settings(&["--checkpoint-mode", &mode.to_string()]).checkpoint_mode, Some(mode));
    }
}

#[test]
fn the_version_is_that_of_flott_and_of_the_job_if_it_tells() {
    #[derive(Args, Debug)]
    #[command(version = "7.8.9")]
    struct Told {}
    let version = |command: Command| command.render_version();
    let flott = env!("CARGO_PKG_VERSION");
    assert_eq!(version(command::<()>("job")), format!("job (flott {flott})\n"));
    assert_eq!(version(command::<Told>("job")), format!("job 7.8.9 (flott {flott})\n"));
    let error = parse::<Told>("job", vec!["job".into(), "--version".into()]).unwrap_err();
    assert_eq!(error.kind(), clap::error::ErrorKind::DisplayVersion);
}

#[test]
fn the_command_line_is_well_formed() {
    command::<Own>("job").debug_assert();
}

#[test]
fn the_help_opens_with_the_usage_or_with_what_the_job_says_of_itself() {
    /// Counts what it is given.
    #[derive(Args, Debug)]
    struct Told {
        /// Where to read.
        #[arg(long)]
        input: Option<String>,
    }
    let help = |mut command: Command| command.render_help().to_string();
    assert!(help(command::<()>("job")).starts_with("Usage: job"), "{}", help(command::<()>("job")));
    assert!(help(command::<Told>("job")).starts_with("Counts what it is given"), "{}", help(command::<Told>("job")));
}
