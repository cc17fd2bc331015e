//! What the console prints at the start, at the end and in between. Words only: no job runs here.

use super::*;
use crate::run::CheckpointStatus;
use flott_checkpoint::guarantee::{Path, of_path};
use flott_checkpoint::{AttemptId, CheckpointId, Dropped, Guarantee};
use std::collections::BTreeMap;

fn opening(transactional: bool, checkpoint_dir: Option<&str>) -> Opening {
    let path = Path { source: "lines".to_owned(), replayable: true, sink: "out".to_owned(), transactional };
    Opening {
        job: "counting".to_owned(),
        checkpoint_dir: checkpoint_dir.map(str::to_owned),
        mode: Mode::Aligned,
        interval: Duration::from_secs(1),
        paths: vec![of_path(path, checkpoint_dir.map(|_| Mode::Aligned), Guarantee::ExactlyOnce)],
        outputs: vec!["counts".to_owned()],
        warnings: vec!["nothing consumes the stream".to_owned()],
        socket: Some("/run/flott/counting-7.sock".to_owned()),
    }
}

fn status() -> Status {
    Status { attempt: Some(AttemptId(3)), workers: 2, ..Status::default() }
}

#[test]
fn the_start_says_guarantee_and_warnings() {
    let lines = opening_lines(&opening(false, Some("ck")), &status()).join("\n");
    for words in [
        "attempt 1 of this process, with 2 workers, started from nothing",
        "aligned, each 1s, in ck",
        "guarantee: at-least-once",
        "lines -> out: at-least-once, because sink out cannot take back",
        "socket: /run/flott/counting-7.sock",
        "warning: nothing consumes",
    ] {
        assert!(lines.contains(words), "`{words}` is missing in {lines}");
    }
    let lines = opening_lines(&opening(true, None), &status()).join("\n");
    assert!(lines.contains("checkpoints are off") && lines.contains("guarantee: none"), "{lines}");
    assert!(lines.contains("a failure or a stop ends the job") && !lines.contains("starts over"), "{lines}");
}

#[test]
fn a_restart_does_not_repeat_the_whole_start() {
    let restarted = Status { restarts: 1, restored: Some(CheckpointId(7)), ..status() };
    let lines = opening_lines(&opening(true, Some("ck")), &restarted);
    assert_eq!(lines, ["counting: attempt 2 of this process, with 2 workers, restored from checkpoint 7"]);
}

#[test]
fn the_end_says_where_the_output_is_and_what_was_skipped() {
    let report = Report {
        ended: Ended::FinishedBefore,
        checkpoint: Some(CheckpointId(9)),
        records_in: 5,
        records_out: 4,
        restarts: 0,
        skipped: BTreeMap::from([("try_map after lines".to_owned(), 3)]),
        dead_letters: BTreeMap::from([("sales".to_owned(), 2)]),
        ignored: Dropped::default(),
    };
    let lines = closing_lines(&opening(true, Some("ck")), &report);
    let expected = [
        "warning: nothing was read or computed: the job had finished before this start",
        "finished at checkpoint 9, output in counts; --restore none --overwrite starts over",
        "warning: `try_map after lines` skipped 3 records",
        "`sales` made dead letters of 2 records",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn ignored_messages_are_shown_if_there_are_unexpected_ones() {
    let report = |ignored| Report {
        ended: Ended::Finished,
        checkpoint: None,
        records_in: 0,
        records_out: 0,
        restarts: 0,
        skipped: BTreeMap::new(),
        dead_letters: BTreeMap::new(),
        ignored,
    };
    let expected = Dropped { repeated: 7, ..Dropped::default() };
    assert_eq!(closing_lines(&opening(true, None), &report(expected)).len(), 1, "workers repeat themselves by plan");
    let odd = report(Dropped { late: 2, foreign: 1, repeated: 7 });
    let lines = closing_lines(&opening(true, None), &odd).join("");
    assert!(lines.contains("2 late, 1 foreign, 7 repeated"), "{lines}");
    assert_eq!(json::end(&Ok(odd))["ignored"]["foreign"], 1);
}

#[test]
fn events_tell_the_attempt_of_the_log_from_the_try_of_the_process_and_times_in_milliseconds() {
    let dead_letters = BTreeMap::from([("b".to_owned(), 4)]);
    let status = Status { restarts: 1, skipped: BTreeMap::from([("a".to_owned(), 2)]), dead_letters, ..status() };
    let of = |event: &JobEvent| json::event(&opening(true, Some("ck")), Guarantee::ExactlyOnce, event, &status);
    let started = of(&JobEvent::Started { attempt: AttemptId(9), workers: 2 });
    assert_eq!((&started["attempt"], &started["try"], &started["workers"]), (&9.into(), &2.into(), &2.into()));
    assert_eq!(started["checkpoints"]["interval_ms"], 1_000.0);
    let (mode, duration) = (Mode::Aligned, Duration::from_micros(1_500));
    let completed =
        of(&JobEvent::Completed { id: CheckpointId(1), mode, duration, bytes: 1, phases: Default::default() });
    assert_eq!(completed["duration_ms"], 1.5);
    let progress = of(&JobEvent::Progress { records_in: 1, records_out: 1 });
    assert_eq!((&progress["skipped"]["a"], &progress["dead_letters"]["b"]), (&2.into(), &4.into()));
}

#[test]
fn the_progress_line_is_that_of_the_contract() {
    let at = |seconds: u64| Time(seconds * 1_000_000);
    let mut progress = Progress::default();
    progress.begin(at(0));
    progress.completed(at(7), Duration::from_millis(18));
    let (mode, duration) = (Mode::Aligned, Duration::from_millis(18));
    let last = CheckpointStatus { id: CheckpointId(42), mode, duration, bytes: 1, phases: Default::default() };
    let status = Status { records_in: 12_000_000, records_out: 9_000_000, last_checkpoint: Some(last), ..status() };
    assert_eq!(progress.line(at(9), &status, false), None, "it is not time yet");
    let line = progress.line(at(10), &status, false);
    assert_eq!(line.as_deref(), Some("in 1.2M/s out 900.0k/s | checkpoint 42 ok 18 ms, 3 s ago | restarts 0"));
    assert_eq!(progress.line(at(11), &status, false), None, "once in 10 s");
    let status = Status { skipped: BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 3)]), ..status };
    let line = progress.line(at(20), &status, false).unwrap_or_default();
    assert!(line.ends_with("| restarts 0 | skipped 5"), "{line}");
    let status = Status { dead_letters: BTreeMap::from([("a".to_owned(), 2)]), ..status };
    let line = progress.line(at(30), &status, false).unwrap_or_default();
    assert!(line.ends_with("| skipped 5 | dead letters 2"), "{line}");
}

#[test]
fn a_stop_promises_to_go_on_only_from_a_checkpoint() {
    let stopped = |checkpoint| Report {
        ended: Ended::Stopped,
        checkpoint,
        records_in: 5,
        records_out: 4,
        restarts: 0,
        skipped: BTreeMap::new(),
        dead_letters: BTreeMap::new(),
        ignored: Dropped::default(),
    };
    let with = closing_lines(&opening(true, Some("ck")), &stopped(Some(CheckpointId(9)))).join("");
    assert!(with.contains("stopped at checkpoint 9") && with.contains("goes on from there"), "{with}");
    let without = closing_lines(&opening(true, None), &stopped(None)).join("");
    assert!(without.contains("nothing was committed") && !without.contains("goes on"), "{without}");
}
