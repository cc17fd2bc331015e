//! C2: mail is lost and doubled in both directions, and the job still ends as it should.

use super::rig::{Rig, When, settings};
use super::store::{Fault, Store};
use crate::error::Error;
use crate::job_manager::{Command, JobSettings, Outcome};
use flott_checkpoint::Options;
use std::time::Duration;

/// The workers of these tests say each thing once, unlike real ones: a checkpoint whose ack is lost expires.
fn impatient() -> JobSettings {
    let coordinator = Options { timeout: Duration::from_secs(10), tolerable_failures: 1_000, ..Options::default() };
    JobSettings { coordinator, ..settings() }
}

#[test]
fn a_job_ends_whatever_mail_is_lost_or_doubled() {
    for seed in 0..60 {
        let store = Store::default();
        let mut rig = Rig::with(&store, seed, super::rig::plan(), impatient());
        rig.script.lossy = 25;
        rig.script.ends_after = Some(3);
        let outcome = rig.run();
        let Outcome::Finished { checkpoint: Some(last), before: false } = outcome else {
            panic!("seed {seed}: {outcome:?}")
        };
        for worker in 0..2 {
            let commits = rig.committed_by.contains(&(worker, last));
            assert!(commits, "seed {seed}: worker {worker} did not commit {last}: {:?}", rig.committed_by);
        }
        let completed = rig.completed();
        assert!(completed.is_sorted_by(|a, b| a < b), "seed {seed}: each id once and in order, {completed:?}");
        for (_, id) in &rig.committed {
            assert!(completed.contains(&id.0), "seed {seed}: {id} was committed and not completed");
        }
    }
}

#[test]
fn a_stop_ends_whatever_mail_is_lost_or_doubled_and_whoever_fails() {
    for seed in 100..140 {
        let store = Store::default();
        let mut rig = Rig::with(&store, seed, super::rig::plan(), impatient());
        rig.script.lossy = 20;
        rig.run_until(|rig| !rig.completed().is_empty());
        let attempt = rig.attempts.last().expect("it runs").id.0;
        rig.script.fails.push((attempt, When::Triggered, Error::failed("injected")));
        store.break_next("create log", Fault::AnswerLost, 2);
        rig.command(Command::Stop);
        let outcome = rig.run();
        let Outcome::Stopped { checkpoint: Some(id) } = outcome else { panic!("seed {seed}: {outcome:?}") };
        assert_eq!(rig.completed().last(), Some(&id.0), "seed {seed}");
    }
}

#[test]
fn an_idle_source_is_told_to_open_until_it_takes_part_in_a_checkpoint() {
    let store = Store::default();
    let mut rig = Rig::new(&store, 210);
    rig.script.idle = true;
    rig.run_until(|rig| rig.completed().len() == 1);
    let opens = rig.opens;
    assert!(opens >= 2, "{opens}");
    rig.run_until(|rig| rig.completed().len() == 20);
    assert_eq!(rig.opens, opens);
}

#[test]
fn a_finished_job_closes_whatever_mail_is_lost_or_doubled() {
    for seed in 200..220 {
        let store = Store::default();
        let mut rig = Rig::new(&store, seed);
        rig.script.ends_after = Some(0);
        rig.run();
        let mut rig = Rig::new(&store, seed);
        rig.script.lossy = 40;
        assert!(matches!(rig.run(), Outcome::Finished { before: true, .. }), "seed {seed}");
    }
}
