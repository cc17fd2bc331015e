//! How many records a step takes, and how often it looks at the clock for that.

use super::fan::fan;
use super::{Chain, Context, Flow, Head, LONGEST_STRIDE, Quantum};
use crate::outbox::Outbox;
use crate::record::Batch;
use crate::time::{Clock, Time};
use std::cell::Cell;
use std::time::Duration;

/// Counts the looks; time passes when it is told to.
#[derive(Default)]
struct Watch {
    now: Cell<u64>,
    looks: Cell<u64>,
}

impl Clock for Watch {
    fn now(&self) -> Time {
        self.looks.set(self.looks.get() + 1);
        Time(self.now.get())
    }
}

const QUANTUM: Quantum = Quantum { time: Duration::from_millis(1), records: u32::MAX };

/// One step over records that take so many microseconds each; how many it takes.
fn step(flow: &Flow, watch: &Watch, micros: u64, quantum: Quantum) -> u64 {
    let mut outbox = Outbox::default();
    let mut cx = Context::new(flow, watch, quantum, &mut outbox);
    let mut taken = 0;
    while taken < 1 << 20 && cx.may_take() {
        taken += 1;
        watch.now.set(watch.now.get() + micros);
    }
    assert!(cx.is_exhausted() || taken == 1 << 20);
    taken
}

#[test]
fn fast_records_cost_few_looks_at_the_clock() {
    let (flow, watch) = (Flow::default(), Watch::default());
    step(&flow, &watch, 0, QUANTUM);
    let looks = watch.looks.get();
    assert!(looks < 20 + (1 << 20) / u64::from(LONGEST_STRIDE), "{looks} looks");
}

#[test]
fn slow_records_overrun_the_quantum_by_a_stride_once_and_then_hardly() {
    let (flow, watch) = (Flow::default(), Watch::default());
    step(&flow, &watch, 0, QUANTUM);
    let first = step(&flow, &watch, 300, QUANTUM);
    assert!(first <= u64::from(LONGEST_STRIDE) + 4, "{first}");
    for _ in 0..10 {
        let next = step(&flow, &watch, 300, QUANTUM);
        assert!((4..=6).contains(&next), "{next} records of 0.3 ms in a quantum of 1 ms");
    }
}

#[test]
fn a_step_takes_exactly_as_many_records_as_its_quantum_has() {
    let (flow, watch) = (Flow::default(), Watch::default());
    for records in [0, 1, 7, 255, 256, 257, 1_000] {
        for _ in 0..3 {
            let quantum = Quantum { records, ..QUANTUM };
            assert_eq!(step(&flow, &watch, 0, quantum), u64::from(records));
        }
    }
}

#[test]
fn what_closes_the_flow_holds_until_the_next_step_looks_again() {
    let (flow, watch, mut outbox) = (Flow::default(), Watch::default(), Outbox::default());
    let mut cx = Context::new(&flow, &watch, QUANTUM, &mut outbox);
    flow.credit_spent();
    assert!(!cx.may_take());
    flow.credit_returned();
    assert!(!cx.may_take(), "credit comes between steps");
    flow.begin_step(Time(0));
    assert!(cx.may_take());
    cx.hold_until(Time(5));
    assert!(!cx.may_take());
    flow.begin_step(Time(4));
    assert!(!cx.may_take());
    flow.begin_step(Time(5));
    assert!(cx.may_take());
    cx.sink_not_ready();
    flow.begin_step(Time(6));
    assert!(!cx.may_take());
}

#[test]
fn records_are_counted_however_they_are_divided_into_batches() {
    let (flow, watch) = (Flow::default(), Watch::default());
    let mut outbox = Outbox::default();
    let mut head = Head::new(fan::<u64>(Vec::new()));
    for length in [0u64, 1, 1, 5, 1_000] {
        let mut batch = Batch::new((0..length).collect(), None);
        let cx = &mut Context::new(&flow, &watch, QUANTUM, &mut outbox);
        head.on_batch(0, &mut batch, cx).unwrap();
    }
    assert_eq!(flow.taken.get(), 1_007);
}
