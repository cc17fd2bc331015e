//! Where a pending checkpoint is: said when somebody asks, and by itself when it takes long.

use super::rig::{Rig, settings};
use super::store::Store;
use crate::job_manager::{Command, JobEvent};
use crate::whereabouts::{Cause, Held, Whereabouts};
use flott_checkpoint::{CheckpointId, RequestId, SubtaskId};
use std::sync::Arc;
use std::time::Duration;

fn delayed(rig: &Rig) -> Vec<Arc<Whereabouts>> {
    let delayed = rig.events.iter().filter_map(|event| match event {
        JobEvent::Delayed(whereabouts) => Some(Arc::clone(whereabouts)),
        _ => None,
    });
    delayed.collect()
}

/// A job whose second worker never acks.
fn stuck() -> Rig {
    let mut rig = Rig::new(&Store::default(), 1);
    rig.script.silent = Some(1);
    rig
}

#[test]
fn a_checkpoint_that_takes_long_is_spoken_of_by_itself_and_again_while_it_does() {
    let mut rig = stuck();
    rig.run_until(|rig| delayed(rig).len() == 2);
    let interval = settings().coordinator.interval.expect("periodic checkpoints");
    let long = Duration::from_secs(10).max(interval * 3);
    let (first, second) = (&delayed(&rig)[0], &delayed(&rig)[1]);
    assert_eq!((first.id, second.id), (CheckpointId(1), CheckpointId(1)));
    assert!(first.age >= long && second.age >= first.age + long, "{first:?}, {second:?}");
    assert!(first.silent.is_empty() && !first.recording, "{first:?}");
    let of = |vertex| SubtaskId { vertex, index: 1 };
    let causes: Vec<_> = first.delays.iter().map(|delay| (delay.subtask, delay.from, delay.cause)).collect();
    let queued = Cause::Queued { batches: 0, held: Some(Held::Backpressure) };
    assert_eq!(causes, [(of(0), None, queued), (of(1), Some(of(0)), Cause::Upstream)]);
    let lines = first.lines().join("\n");
    assert!(lines.contains("the trigger waits behind 0 batches; it is backpressured"), "{lines}");
    assert!(lines.contains("the barrier from 0/1 was not sent yet"), "{lines}");
}

#[test]
fn a_worker_that_does_not_answer_is_named_after_a_second() {
    let mut rig = stuck();
    rig.script.mute = Some(1);
    rig.run_until(|rig| rig.triggers > 0);
    rig.command(Command::Locate { request: RequestId(7) });
    let asked = rig.now;
    rig.run_until(|rig| !rig.located.is_empty());
    let (request, found) = rig.located.remove(0);
    let found = found.expect("a checkpoint is pending");
    assert_eq!(request, RequestId(7));
    assert_eq!(found.silent.iter().map(|silent| silent.worker).collect::<Vec<_>>(), [1]);
    assert!(rig.now.since(asked) >= Duration::from_secs(1));
    assert!(delayed(&rig).is_empty(), "only whoever asked is told");
}

#[test]
fn every_question_is_answered_also_when_nothing_is_pending_or_the_job_ends() {
    let mut rig = stuck();
    rig.command(Command::Locate { request: RequestId(1) });
    rig.run_until(|rig| rig.located.len() == 1);
    assert_eq!(rig.located, [(RequestId(1), None)], "it has not begun");
    rig.script.mute = Some(1);
    rig.run_until(|rig| rig.triggers > 0);
    rig.command(Command::Locate { request: RequestId(2) });
    rig.step();
    rig.panic_workers(None);
    rig.run_until(|rig| rig.located.len() == 2);
    assert_eq!(rig.located[1], (RequestId(2), None), "the attempt is gone");
}
