//! What is promised after which changes, checkpoints and restarts.

use super::*;
use crate::Job;
use crate::connector::{MemorySink, MemorySource};
use flott_checkpoint::Options;

const ALL: Guarantee = Guarantee::ExactlyOnce;
const LESS: Guarantee = Guarantee::AtLeastOnce;

fn outlook(checkpoints: bool, require: Option<Guarantee>) -> Outlook {
    let job = Job::new("numbers");
    job.source("numbers", MemorySource::new(vec![1u64])).sink("out", MemorySink::new());
    let coordinator = Options { mode: Mode::Aligned, ..Options::default() };
    let settings = JobSettings { checkpoints, require, coordinator, ..JobSettings::default() };
    Outlook::new(job.freeze().expect("a good job").plan, &settings)
}

#[test]
fn the_guarantee_is_the_weakest_since_the_last_exact_checkpoint() {
    let mut outlook = outlook(true, None);
    assert_eq!(outlook.guarantee(), ALL);
    outlook.changed(Mode::AtLeastOnce, None);
    assert_eq!(outlook.guarantee(), LESS, "the next checkpoint is worth less");
    outlook.completed(Mode::Aligned);
    assert_eq!(outlook.guarantee(), LESS, "one that was pending changes nothing");
    outlook.completed(Mode::AtLeastOnce);
    outlook.changed(Mode::StopTheWorld, None);
    assert_eq!(outlook.guarantee(), LESS, "a crash now goes back to the lesser one");
    outlook.completed(Mode::AtLeastOnce);
    assert_eq!(outlook.guarantee(), LESS, "it was pending when the mode was changed back");
    outlook.completed(Mode::StopTheWorld);
    assert_eq!(outlook.guarantee(), ALL);
}

#[test]
fn what_was_restored_limits_the_whole_attempt() {
    let mut outlook = outlook(true, None);
    outlook.begun(LESS);
    outlook.completed(Mode::Aligned);
    assert_eq!(outlook.guarantee(), LESS, "state that counted twice stays so");
    outlook.begun(ALL);
    assert_eq!(outlook.guarantee(), ALL);
}

#[test]
fn what_the_job_cannot_keep_is_refused_before_it_is_asked() {
    let free = outlook(true, None);
    assert!(free.check(Some(Mode::AtLeastOnce), Some(Duration::from_secs(2))).is_ok());
    assert!(free.check(None, Some(Duration::ZERO)).is_err());
    let bound = outlook(true, Some(ALL));
    let error = bound.check(Some(Mode::AtLeastOnce), None).expect_err("--require").to_string();
    assert!(error.contains("--require exactly-once cannot be kept"), "{error}");
    let off = outlook(false, None);
    assert_eq!((off.mode(), off.guarantee()), (None, Guarantee::None));
    assert!(off.check(Some(Mode::Aligned), None).expect_err("off").to_string().contains("checkpoints are off"));
}
