//! A source that waits for a moment and may not be asked any more does not have its worker come again and again.

use super::job::alone;
use crate::attempt::{Attempt, WorkerOptions};
use crate::control::{Order, ToWorker};
use crate::error::Result;
use crate::operator::fan::fan;
use crate::plan::{OperatorPlan, Plan, Role, Vertex};
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
use crate::testing::{DeterministicHost, Random, VirtualClock};
use crate::time::{Clock, Time};
use crate::worker::Mail;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode};
use std::sync::Arc;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(10);
const BEGIN: u64 = 1_000;

/// Never has anything, and always says when it will.
struct Soon;

impl Source for Soon {
    type Item = u64;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok(vec!["only".to_owned()])
    }

    fn open(&self, _: &str, _: Option<u64>, _: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        Ok(Box::new(Soon))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

impl SplitReader for Soon {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<u64>> {
        Ok(Next::At(now.after(PAUSE)))
    }

    fn position(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        "soon".to_owned()
    }
}

fn attempt() -> Arc<Attempt> {
    let vertex = Vertex {
        name: "soon".into(),
        is_source: true,
        inputs: vec![],
        outputs: vec![],
        build: Arc::new(|builder| Ok(builder.source("soon", Arc::new(Soon), fan(Vec::new())))),
    };
    let role = Role::Source { replayable: true, bounded: false };
    let source = OperatorPlan { name: "soon".into(), renamed_from: None, vertex: 0, role, states: vec![] };
    let plan = Plan { job: "soon".into(), vertices: vec![vertex], edges: vec![], operators: vec![source] };
    alone(plan, WorkerOptions::default())
}

/// How many turns the worker takes in a second in which nothing happens, after a barrier of this kind.
fn turns_after(kind: Option<Kind>, mode: Mode) -> usize {
    let (clock, mut random) = (VirtualClock::default(), Random::new(1));
    clock.move_to(Time::of_millis(BEGIN));
    let mut host = DeterministicHost::start(&attempt(), clock.clone()).expect("the plan builds");
    let order = |order| Mail::Order(ToWorker { attempt: AttemptId(1), order });
    while host.turn(&mut random).is_some() {}
    host.mail(0, order(Order::Open));
    while host.turn(&mut random).is_some() {}
    if let Some(kind) = kind {
        let (id, attempt) = (CheckpointId(1), AttemptId(1));
        let barrier = Barrier { id, attempt, mode, kind, base: None, triggered_at: BEGIN };
        host.mail(0, order(Order::Trigger(barrier)));
    }
    let (mut turns, end) = (0, clock.now().after(Duration::from_secs(1)));
    while turns < 10_000 {
        if host.turn(&mut random).is_some() {
            turns += 1;
            continue;
        }
        let Some(moment) = host.next_moment().filter(|moment| *moment < end) else { break };
        clock.move_to(moment);
    }
    turns
}

#[test]
fn a_source_that_may_not_be_asked_waits_for_no_moment() {
    let asked = turns_after(None, Mode::Aligned);
    assert!((90..300).contains(&asked), "each {PAUSE:?}: {asked} turns");
    for mode in Mode::ALL {
        for kind in [Kind::Checkpoint, Kind::Final] {
            let turns = turns_after(Some(kind), mode);
            assert!(turns < 400, "{turns} turns after a barrier, {kind:?}, {mode}");
        }
    }
}
