//! What every host owes the engine, as one suite: order in channels, nothing lost, a wake for every reason, an end that is
//! told exactly once.
//!
//! Every function states a promise and panics if it is broken. [`every_host`] is for all hosts; [`threads`] adds what only a
//! host with threads can break: panics of user code must end the attempt, not the process.

mod director;
mod job;
mod ledger;
mod subject;

pub use director::Director;
pub use job::{Gate, Job, Shape, Trouble};
pub use ledger::{Book, Ledger};
pub use subject::{Run, Subject, Threaded};

use crate::error::Error;
use crate::host::HostPorts;
use crate::plan::Partitioning;
use flott_checkpoint::Mode;
use std::sync::Arc;

/// Everything that any host promises.
pub fn every_host(subject: &mut dyn Subject) {
    channels_keep_order_and_lose_nothing(subject);
    a_worker_wakes_at_the_moment_it_named(subject);
    a_worker_wakes_when_its_source_calls(subject);
    sleeping_workers_wake_for_mail_and_answers(subject);
    the_smallest_window_with_many_barriers_does_not_deadlock(subject);
    stopped_at_any_moment_an_attempt_ends_once(subject);
    attempts_follow_each_other_in_one_process(subject);
}

/// What a host with threads promises besides.
pub fn threads(subject: &mut dyn Subject) {
    a_panic_ends_the_attempt_with_its_text(subject);
    a_panic_while_a_chain_is_built_ends_the_attempt(subject);
    a_panic_while_a_chain_is_dropped_ends_the_attempt(subject);
    an_error_while_a_chain_is_built_ends_the_attempt(subject);
}

/// Rows of one channel arrive in the order in which they were sent, and all of them do, however they are spread.
pub fn channels_keep_order_and_lose_nothing(subject: &mut dyn Subject) {
    for partitioning in [Partitioning::Hash, Partitioning::Rebalance, Partitioning::Broadcast, Partitioning::Forward] {
        let job = Job { shape: Shape::Straight(partitioning), rows: 3_000, ..Job::default() };
        let expected = job.expected_rows();
        let book = run_to_the_end(subject, job, Mode::Aligned);
        assert_eq!(book.rows, expected, "{partitioning:?}: rows that arrived");
    }
}

/// A source that names a moment is asked again then, with nothing else going on.
pub fn a_worker_wakes_at_the_moment_it_named(subject: &mut dyn Subject) {
    let job = Job { rows: 12, pause_micros: Some(3_000), ..Job::default() };
    let expected = job.expected_rows();
    assert_eq!(run_to_the_end(subject, job, Mode::Aligned).rows, expected);
}

/// A source that has nothing is asked again when it calls its waker, from whatever thread.
pub fn a_worker_wakes_when_its_source_calls(subject: &mut dyn Subject) {
    let gate = Arc::new(Gate::default());
    let job = Job { gate: Some(gate.clone()), ..Job::default() };
    let expected = job.expected_rows();
    let mut stage = Stage::set(subject, job, Mode::Aligned);
    stage.until("all sources wait at the gate", |_, _| gate.waiting() >= Job::SPLITS);
    gate.open();
    assert_eq!(stage.play_out().rows, expected);
}

/// With all sources silent, a trigger and then the answers of the storage still bring a checkpoint to its end.
pub fn sleeping_workers_wake_for_mail_and_answers(subject: &mut dyn Subject) {
    let gate = Arc::new(Gate::default());
    let mut stage = Stage::set(subject, Job { gate: Some(gate.clone()), ..Job::default() }, Mode::Aligned);
    stage.until("all sources wait at the gate", |_, _| gate.waiting() >= Job::SPLITS);
    for wanted in 1..=3 {
        stage.ledger.note(|book| book.due = true);
        stage.until("a checkpoint of silent sources", |director, _| director.completed() >= wanted);
    }
    gate.open();
    stage.play_out();
}

/// One byte of credit a channel, a diamond of channels, and a barrier after every third batch: everything still flows.
pub fn the_smallest_window_with_many_barriers_does_not_deadlock(subject: &mut dyn Subject) {
    for mode in Mode::ALL {
        let job = Job {
            shape: Shape::Diamond,
            rows: 400,
            credit_window: 1,
            batch_records: 4,
            rows_between_barriers: Some(12),
            ..Job::default()
        };
        let expected = job.expected_rows();
        let mut stage = Stage::set(subject, job, mode);
        stage.play();
        let completed = stage.director.completed();
        assert!(completed > 2, "{mode}: only {completed} checkpoints");
        assert_eq!(stage.finish().rows, expected, "{mode}: rows that arrived");
    }
}

/// Stopped before, while and after it runs, an attempt ends, once, without an error.
pub fn stopped_at_any_moment_an_attempt_ends_once(subject: &mut dyn Subject) {
    for changes in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        let job = Job { shape: Shape::Diamond, rows_between_barriers: Some(50), ..Job::default() };
        let mut stage = Stage::set(subject, job, Mode::Aligned);
        let mut left = changes;
        stage.until("some things happen", |director, book| {
            let is_over = director.advance(book) || left == 0;
            left -= i32::from(!is_over);
            is_over
        });
        stage.run.stop();
        stage.run.stop();
        assert!(stage.finish_with_error().is_none(), "stopped after {changes} changes");
    }
}

/// The same process runs attempt after attempt.
pub fn attempts_follow_each_other_in_one_process(subject: &mut dyn Subject) {
    for attempt in 1..=10 {
        let job = Job { attempt, rows: 50, ..Job::default() };
        let expected = job.expected_rows();
        assert_eq!(run_to_the_end(subject, job, Mode::Aligned).rows, expected, "attempt {attempt}");
    }
}

/// A panic in a user function ends the attempt with operator, text and place, also while other workers sleep.
pub fn a_panic_ends_the_attempt_with_its_text(subject: &mut dyn Subject) {
    for gate in [None, Some(Arc::new(Gate::default()))] {
        let job = Job { trouble: Some(Trouble::PanicAtRow(7)), gate: gate.clone(), gated_splits: 2, ..Job::default() };
        let error = Stage::set(subject, job, Mode::Aligned).fails();
        assert!(error.to_string().contains(Trouble::TEXT), "{error}");
        assert!(error.to_string().contains("job.rs:"), "the place is missing: {error}");
        assert_eq!(error.operator(), Some("check"), "{error}");
    }
}

/// As above, before the worker is there.
pub fn a_panic_while_a_chain_is_built_ends_the_attempt(subject: &mut dyn Subject) {
    let error =
        Stage::set(subject, Job { trouble: Some(Trouble::PanicInBuild), ..Job::default() }, Mode::Aligned).fails();
    assert!(error.to_string().contains(Trouble::TEXT), "{error}");
}

/// As above, when the worker goes.
pub fn a_panic_while_a_chain_is_dropped_ends_the_attempt(subject: &mut dyn Subject) {
    let error =
        Stage::set(subject, Job { trouble: Some(Trouble::PanicInDrop), ..Job::default() }, Mode::Aligned).fails();
    assert!(error.to_string().contains(Trouble::TEXT), "{error}");
}

/// An error of a factory ends the attempt as it is.
pub fn an_error_while_a_chain_is_built_ends_the_attempt(subject: &mut dyn Subject) {
    let error =
        Stage::set(subject, Job { trouble: Some(Trouble::ErrorInBuild), ..Job::default() }, Mode::Aligned).fails();
    assert_eq!(error.kind(), crate::ErrorKind::Refused);
    assert!(error.to_string().contains(Trouble::TEXT), "{error}");
}

fn run_to_the_end(subject: &mut dyn Subject, job: Job, mode: Mode) -> Book {
    Stage::set(subject, job, mode).play_out()
}

/// One started attempt with all that watches it.
struct Stage {
    ledger: Arc<Ledger>,
    director: Director,
    run: Box<dyn Run>,
}

impl Stage {
    fn set(subject: &mut dyn Subject, job: Job, mode: Mode) -> Stage {
        let ledger = Arc::new(Ledger::default());
        let attempt = job.attempt(&ledger);
        let run = subject.start(attempt.clone(), ledger.clone() as HostPorts);
        let mailboxes = (0..attempt.workers).map(|worker| run.mailbox(worker)).collect();
        Stage { ledger, director: Director::new(&attempt, mailboxes, mode), run }
    }

    /// Goes on until the condition holds, with the director at work.
    fn until(&mut self, what: &str, mut condition: impl FnMut(&mut Director, &mut Book) -> bool) {
        let Stage { ledger, director, run } = self;
        let held = run.until(ledger, &mut |book| {
            director.advance(book);
            condition(director, book)
        });
        assert!(held, "the host stands still before this: {what}; {director:?}");
    }

    fn play(&mut self) {
        self.until("all workers closed", |director, _| director.is_closed());
    }

    fn play_out(mut self) -> Book {
        self.play();
        self.finish()
    }

    fn finish(self) -> Book {
        let ledger = self.ledger.clone();
        assert!(self.finish_with_error().is_none(), "the attempt ended with an error");
        let book = ledger.take();
        assert!(book.failures.is_empty(), "workers failed: {:?}", book.failures);
        book
    }

    fn fails(mut self) -> Error {
        self.until("the attempt ends", |_, book| !book.ended.is_empty());
        self.finish_with_error().expect("the host knows why the attempt ended")
    }

    /// Lets the host clear up, and checks that it told the end exactly once.
    fn finish_with_error(self) -> Option<Error> {
        let Stage { ledger, director, run } = self;
        run.finish(&ledger);
        ledger.note(|book| {
            assert_eq!(book.ended.len(), 1, "the end of an attempt is told once");
            let (attempt, error) = book.ended.first().expect("counted").clone();
            assert_eq!(attempt, director.attempt());
            error
        })
    }
}
