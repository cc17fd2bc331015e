//! What only a process of its own can show: no thread is left behind, and an idle job costs next to nothing.
//!
//! One test, since both look at the whole process.

mod support;

use flott_checkpoint::Mode;
use flott_runtime::testing::host_suite::{self, Director, Gate, Job, Ledger, Shape, Subject, Threaded};
use flott_runtime::time::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux shows threads").count()
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux shows times");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program ends");
    let ticks = |field: usize| fields.split_whitespace().nth(field).expect("a field").parse::<u64>().expect("a number");
    // Fields 14 and 15 of proc(5), which counts the two that are cut off; 100 ticks a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

#[test]
#[cfg(target_os = "linux")]
fn attempts_leave_no_thread_behind_and_an_idle_one_sleeps() {
    let mut subject = Threaded(support::host());
    // Whatever the test harness starts is there after the first.
    host_suite::attempts_follow_each_other_in_one_process(&mut subject);
    let before = threads();
    for _ in 0..5 {
        host_suite::attempts_follow_each_other_in_one_process(&mut subject);
        host_suite::stopped_at_any_moment_an_attempt_ends_once(&mut subject);
        host_suite::threads(&mut subject);
    }
    assert_eq!(threads(), before, "threads were left behind");
    an_idle_attempt_uses_less_than_a_hundredth_of_a_core(&mut subject);
}

fn an_idle_attempt_uses_less_than_a_hundredth_of_a_core(subject: &mut Threaded<flott_timely::TimelyHost>) {
    let gate = Arc::new(Gate::default());
    let job = Job { shape: Shape::Diamond, gate: Some(gate.clone()), ..Job::default() };
    let ledger = Arc::new(Ledger::default());
    let attempt = job.attempt(&ledger);
    let mut run = subject.start(attempt.clone(), ledger.clone());
    let mailboxes = (0..attempt.workers).map(|worker| run.mailbox(worker)).collect();
    let mut director = Director::new(&attempt, mailboxes, Mode::Aligned);
    assert!(run.until(&ledger, &mut |book| {
        director.advance(book);
        gate.waiting() == Job::SPLITS
    }));
    let clock = support::SystemClock;
    let (from, used) = (clock.now(), processor_time());
    // Nothing can come: this only lets time pass.
    assert!(!ledger.wait(Duration::from_secs(3), &mut |book| !book.ended.is_empty()));
    let (idle, used) = (clock.now().since(from), processor_time() - used);
    println!("idle: {used:?} of processor time in {idle:?}");
    assert!(used * 100 < idle, "{used:?} of processor time in {idle:?}");
    run.stop();
    run.finish(&ledger);
}
