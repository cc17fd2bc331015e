//! What every transactional sink must do, shown on a small engine of its own: two subtasks, epochs, a log, restarts.
//!
//! [`check_sink`] kills the engine before, in and after each call to the file system, with and without a loss of power, lets
//! each call fail once, and draws longer disasters from seeds. After each step it looks at what a reader sees.

mod bucket;
mod engine;

use super::memory_files::{Fault, FileCall, MemoryFiles};
use crate::error::ErrorKind;
use crate::io::Files;
use crate::sink::Sink;
use engine::{Engine, SUBTASKS};
use std::io;
use std::sync::Arc;

pub use bucket::{Bucket, LinesInBucket};
pub use engine::{BETWEEN_RECORDS, Visible};

use crate::connector::random::Random;

/// A sink to be checked, with its target.
pub trait SinkCase {
    /// What it takes.
    type Record: 'static;
    /// The sink.
    type Sink: Sink<Self::Record>;
    /// An epoch of one subtask may become visible in several steps.
    const SEVERAL_TOKENS: bool = false;

    /// A new case, with an empty target.
    fn new() -> Self;
    /// A new case whose target takes its faults from a file system: a store that is no directory of it makes a call there
    /// wherever it may fail.
    fn on(files: &MemoryFiles) -> Self
    where
        Self: Sized,
    {
        let _ = files;
        Self::new()
    }
    /// The sink; each call gives one for the same target.
    fn sink(&self) -> Self::Sink;
    /// Record number `n` of a subtask.
    fn record(&self, subtask: u16, n: u64) -> Self::Record;
    /// What the sink of an attempt gets; the same in all its calls. Faults and their numbers are those of `files`.
    fn files(&self, files: &MemoryFiles, attempt: u64) -> Arc<dyn Files> {
        let _ = attempt;
        Arc::new(files.clone())
    }
    /// What a reader sees: the numbers of each subtask's records, in the order of epochs.
    fn visible(&self, files: &MemoryFiles) -> Visible;
}

/// How the process dies or a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process dies; the system lives on.
    Process,
    /// The power fails.
    Power(u64),
    /// Only this call fails.
    Survives,
}

/// Runs everything.
///
/// # Panics
/// If the sink breaks a promise; the message names the case, which can be run again.
pub fn check_sink<C: SinkCase>() {
    check_part_of_sink::<C>(1, 100);
}

/// The same for a target that is too slow for all of it: one fault in so many, and so many longer disasters.
///
/// # Panics
/// As [`check_sink`].
pub fn check_part_of_sink<C: SinkCase>(one_in: usize, seeds: u64) {
    let calls = undisturbed::<C>();
    let mut faults = Vec::new();
    for call in 0..calls {
        for fault in [Fault::Fail(io::ErrorKind::Other), Fault::FailAfter(io::ErrorKind::Other), Fault::Short(1)] {
            let ends = [End::Survives, End::Process, End::Power(0), End::Power(1), End::Power(2)];
            faults.extend(ends.map(|end| (call, fault, end)));
        }
    }
    for (call, fault, end) in faults.into_iter().step_by(one_in.max(1)) {
        one_fault::<C>(call, fault, end);
    }
    for seed in 0..seeds {
        many_faults::<C>(seed);
    }
    repeated_by_a_zombie::<C>();
    foreign_output::<C>();
}

/// Without faults everything comes, once; returns how many calls it took.
fn undisturbed<C: SinkCase>() -> u64 {
    let mut engine = Engine::<C>::new("undisturbed", "first");
    engine.run_attempt().expect("nothing fails");
    assert!(engine.is_done());
    engine.check_complete();
    engine.files.calls()
}

fn one_fault<C: SinkCase>(call: u64, fault: Fault, end: End) {
    let mut engine = Engine::<C>::new(&format!("call {call}: {fault:?}, then {end:?}"), "first");
    engine.files.set_hook(Some(Box::new(move |seen: &FileCall<'_>| {
        if seen.number == call {
            fault
        } else if seen.number > call && end != End::Survives {
            Fault::Fail(io::ErrorKind::BrokenPipe)
        } else {
            Fault::None
        }
    })));
    let mut first = true;
    for _ in 0..4 {
        let ended = engine.run_attempt();
        if ended.is_ok() && engine.is_done() {
            break;
        }
        if first && end != End::Survives {
            engine.files.set_hook(None);
        }
        if let (true, End::Power(seed)) = (first, end) {
            engine.files.crash(seed);
        }
        first = false;
        engine.check();
    }
    engine.check_complete();
}

fn many_faults<C: SinkCase>(seed: u64) {
    let mut engine = Engine::<C>::new(&format!("seed {seed}"), "first");
    let mut random = Random::new(seed);
    for _ in 0..200 {
        let (mut draws, mut dead) = (Random::new(random.next_u64()), false);
        engine.files.set_hook(Some(Box::new(move |_: &FileCall<'_>| {
            dead |= draws.below(60) == 0;
            match draws.below(80) {
                _ if dead => Fault::Fail(io::ErrorKind::BrokenPipe),
                0 => Fault::Fail(io::ErrorKind::Other),
                1 => Fault::FailAfter(io::ErrorKind::Other),
                2 => Fault::Short(usize::try_from(draws.below(64)).unwrap_or(0)),
                _ => Fault::None,
            }
        })));
        let ended = engine.run_attempt();
        engine.files.set_hook(None);
        if random.below(2) == 0 {
            engine.files.crash(random.next_u64());
        }
        engine.check();
        if ended.is_ok() && engine.is_done() {
            break;
        }
    }
    engine.run_attempt().expect("nothing fails any more");
    engine.check_complete();
}

/// An attempt that was stopped after its checkpoint was recorded goes on when a newer one has done its work (S3).
fn repeated_by_a_zombie<C: SinkCase>() {
    let mut engine = Engine::<C>::new("a zombie commits again", "first");
    engine.stop_after_record = Some(3);
    assert!(engine.run_attempt().is_err(), "the attempt is stopped");
    let zombie = (engine.committers(), engine.recorded_tokens());
    assert!(!zombie.1.is_empty(), "something is to be committed");
    engine.stop_after_record = None;
    engine.run_attempt().expect("nothing fails");
    for token in &zombie.1 {
        for committer in &zombie.0 {
            committer.commit(token).expect("a commit can be repeated by anybody");
        }
    }
    engine.check_complete();
}

/// R4: output of another life of the job is refused, or replaced after the first commit.
fn foreign_output<C: SinkCase>() {
    let mut engine = Engine::<C>::new("another incarnation", "first");
    engine.run_attempt().expect("nothing fails");
    let before = engine.visible();
    let mut second = engine.next_incarnation("second");
    let refused = second.run_attempt().expect_err("there is foreign output");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("--overwrite"), "the error says what to do: {refused}");
    assert_eq!(second.visible(), before, "a refused job changes nothing");
    second.overwrite = true;
    second.run_attempt().expect("nothing fails");
    second.check_complete();
    assert_eq!(second.visible().len(), usize::from(SUBTASKS));
}
