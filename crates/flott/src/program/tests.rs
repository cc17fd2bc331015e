//! What the start says of the program itself. No job runs here.

use super::*;
use flott_runtime::connector::memory::{MemorySink, MemorySource};

#[test]
fn a_program_that_panics_cannot_leave_says_so_at_its_start() {
    let job = Job::new("numbers");
    job.source("numbers", MemorySource::with_splits(vec![vec![1u64]])).sink("out", MemorySink::new());
    let frozen = job.freeze().expect("a job");
    assert_eq!(warnings(&frozen, true), Vec::<String>::new());
    let told = warnings(&frozen, false).join("");
    assert!(told.contains("panic = \"abort\"") && told.contains("restarts after a panic are off"), "{told}");
}

#[test]
fn the_last_line_of_an_interrupted_job_says_what_a_restart_does() {
    use flott_checkpoint::{AttemptId, CheckpointId};
    let running = Status { attempt: Some(AttemptId(1)), ..Status::default() };
    let restored = Status { restored: Some(CheckpointId(7)), ..running.clone() };
    assert!(farewell(true, &restored).ends_with("goes on from checkpoint 7"));
    assert!(farewell(true, &running).ends_with("begins anew"));
    assert!(farewell(true, &Status::default()).ends_with("its last completed checkpoint"));
    assert!(farewell(false, &running).contains("nothing is kept of this run"));
}

#[test]
fn the_level_of_the_log_is_a_word_and_anything_else_is_none() {
    assert_eq!(log_level(""), Some(LevelFilter::WARN));
    assert_eq!(log_level("off"), Some(LevelFilter::OFF));
    assert_eq!(log_level("DEBUG"), Some(LevelFilter::DEBUG));
    for wrong in ["loud", "flott=debug", "3", "warn,info"] {
        assert_eq!(log_level(wrong), None, "{wrong}");
    }
}
