//! What the console prints at the start, at the end and in between. Words only: no job runs here.

use super::*;
use crate::run::CheckpointStatus;
use flott_checkpoint::guarantee::{Path, of_path};
use flott_checkpoint::{AttemptId, CheckpointId, Guarantee};
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
    }
}

fn status() -> Status {
    Status { attempt: Some(AttemptId(3)), workers: 2, ..Status::default() }
}

#[test]
fn the_start_says_guarantee_and_warnings() {
    let lines = opening_lines(&opening(false, Some("ck")), &status()).join("\n");
    for words in [
        "attempt 3 with 2 workers, started from nothing",
        "aligned, each 1s, in ck",
        "guarantee: at-least-once",
        "lines -> out: at-least-once, because sink out cannot take back",
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
    assert_eq!(lines, ["counting: attempt 3 with 2 workers, restored from checkpoint 7"]);
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
    };
    let lines = closing_lines(&opening(true, Some("ck")), &report);
    let expected = [
        "finished at checkpoint 9, output in counts; --restore none --overwrite starts over",
        "warning: `try_map after lines` skipped 3 records",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_progress_line_is_that_of_the_contract() {
    let at = |seconds: u64| Time(seconds * 1_000_000);
    let mut progress = Progress::default();
    progress.begin(at(0));
    progress.completed(at(7), Duration::from_millis(18));
    let last = CheckpointStatus { id: CheckpointId(42), duration: Duration::from_millis(18), bytes: 1 };
    let status = Status { records_in: 12_000_000, records_out: 9_000_000, last_checkpoint: Some(last), ..status() };
    assert_eq!(progress.line(at(9), &status, false), None, "it is not time yet");
    let line = progress.line(at(10), &status, false);
    assert_eq!(line.as_deref(), Some("in 1.2M/s out 900.0k/s | checkpoint 42 ok 18 ms, 3 s ago | restarts 0"));
    assert_eq!(progress.line(at(11), &status, false), None, "once in 10 s");
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
    };
    let with = closing_lines(&opening(true, Some("ck")), &stopped(Some(CheckpointId(9)))).join("");
    assert!(with.contains("stopped at checkpoint 9") && with.contains("goes on from there"), "{with}");
    let without = closing_lines(&opening(true, None), &stopped(None)).join("");
    assert!(without.contains("nothing was committed") && !without.contains("goes on"), "{without}");
}
