//! Many timers that are due at once: each step fires some of them, and records and control mail have their turn in between.

use super::job::{KEYS, KeyBy, alone};
use crate::attempt::{Attempt, WorkerOptions};
use crate::control::{Order, Report, ToWorker};
use crate::error::{Error, Result};
use crate::operator::{Context, Operator, Quantum, Signal};
use crate::plan::{OperatorPlan, Plan, Role, Vertex};
use crate::record::Keyed;
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
use crate::state::{AnyTimers, TimerState};
use crate::testing::{DeterministicHost, Random, VirtualClock};
use crate::time::{Time, Timestamp};
use crate::worker::Mail;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, Kind, Mode};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TIMERS: u64 = 100;
/// Half of it is for timers.
const QUANTUM: u32 = 6;
const BEGIN: u64 = 1_000;
/// When all timers are due.
const DUE: i64 = 2_000;

/// Some numbers, and never an end.
struct Endless(u64);

impl Source for Endless {
    type Item = u64;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok(vec!["only".to_owned()])
    }

    fn open(&self, _: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        Ok(Box::new(Endless(from.unwrap_or(0))))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

impl SplitReader for Endless {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, _: Time) -> Result<Next<u64>> {
        if self.0 == TIMERS {
            return Ok(Next::Pending);
        }
        self.0 += 1;
        Ok(Next::Record(self.0 - 1, None))
    }

    fn position(&self) -> u64 {
        self.0
    }

    fn describe(&self) -> String {
        format!("number {}", self.0)
    }
}

/// A timer for each record, and how many fired in each step.
struct Alarm {
    timers: AnyTimers<u64>,
    fired: Arc<Mutex<Vec<u64>>>,
}

impl Operator<Keyed<u64, u64>> for Alarm {
    fn on_record(&mut self, record: Keyed<u64, u64>, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        // One timer per key and millisecond: all of them are due before `DUE`.
        let time = DUE - i64::try_from(record.value / KEYS).expect("a small number");
        self.timers.register(record.hash, record.key, time).map_err(|error| Error::failed(error.to_string()))?;
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        if signal == Signal::Time {
            let now = i64::try_from(cx.now.millis()).expect("a small number");
            let mut fired = 0;
            while cx.may_fire() && self.timers.pop_due(now).map_err(|error| Error::failed(error.to_string()))?.is_some()
            {
                fired += 1;
            }
            self.fired.lock().unwrap().push(fired);
        }
        Ok(())
    }
}

fn plan(fired: &Arc<Mutex<Vec<u64>>>) -> Plan {
    let fired = Arc::clone(fired);
    let vertex = Vertex {
        name: "alarm".into(),
        is_source: true,
        inputs: vec![],
        outputs: vec![],
        build: Arc::new(move |builder| {
            let (seed, timers) = (builder.key_seed(), builder.timers("alarm", "timers")?);
            let next = Box::new(Alarm { timers, fired: Arc::clone(&fired) });
            Ok(builder.source("numbers", Arc::new(Endless(0)), Box::new(KeyBy { seed, next })))
        }),
    };
    let operator =
        |name: &str, role| OperatorPlan { name: name.into(), renamed_from: None, vertex: 0, role, states: vec![] };
    let operators =
        vec![operator("numbers", Role::Source { replayable: true, bounded: false }), operator("alarm", Role::Stateful)];
    Plan { job: "alarm".into(), vertices: vec![vertex], edges: vec![], operators }
}

fn attempt(fired: &Arc<Mutex<Vec<u64>>>) -> Arc<Attempt> {
    let quantum = Quantum { time: Duration::from_secs(1), records: QUANTUM };
    alone(plan(fired), WorkerOptions { quantum, ..WorkerOptions::default() })
}

#[test]
fn timers_that_are_due_at_once_obey_the_quantum_and_hold_back_no_barrier() {
    let fired = Arc::default();
    let (clock, mut random) = (VirtualClock::default(), Random::new(1));
    clock.move_to(Time::of_millis(BEGIN));
    let mut host = DeterministicHost::start(&attempt(&fired), clock.clone()).expect("the plan builds");
    let order = |order| Mail::Order(ToWorker { attempt: AttemptId(1), order });
    let fired_so_far = || fired.lock().unwrap().iter().sum::<u64>();
    host.mail(0, order(Order::Open));
    let mut triggered_at = None;
    for _ in 0..10_000 {
        let Some(turn) = host.turn(&mut random) else {
            let Some(moment) = host.next_moment().filter(|_| fired_so_far() < TIMERS) else { break };
            clock.move_to(moment);
            continue;
        };
        if turn.reports.iter().any(|report| matches!(report, Report::Restored)) {
            host.mail(0, order(Order::Open));
        }
        if turn.reports.iter().any(|report| matches!(report, Report::Triggered { .. })) {
            assert!(fired_so_far() < TIMERS, "the barrier waited for all timers");
            triggered_at = Some(fired_so_far());
        }
        if triggered_at.is_none() && fired_so_far() > 0 {
            let barrier = Barrier {
                id: CheckpointId(1),
                attempt: AttemptId(1),
                mode: Mode::Aligned,
                kind: Kind::Checkpoint,
                base: None,
                triggered_at: BEGIN,
            };
            host.mail(0, order(Order::Trigger(barrier)));
        }
    }
    let fired = fired.lock().unwrap();
    assert_eq!(fired.iter().sum::<u64>(), TIMERS, "{fired:?}");
    assert!(fired.iter().all(|fired| *fired <= u64::from(QUANTUM.div_ceil(2))), "{fired:?}");
    assert!(triggered_at.is_some(), "no barrier came");
}
