//! Parts leave whole and in order: before everything that must not overtake them, and after a while.

use super::*;
use crate::operator::{Flow, Quantum};
use crate::outbox::Outbox;
use crate::testing::VirtualClock;
use crate::time::{Time, Watermark};
use std::cell::RefCell;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Part(u64, u64),
    Signal(Signal),
}

struct Recorder(Rc<RefCell<Vec<Seen>>>);

impl Operator<Keyed<u64, u64>> for Recorder {
    fn on_record(&mut self, record: Keyed<u64, u64>, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        assert_eq!(record.hash, record.key % 7, "a part under a foreign hash");
        self.0.borrow_mut().push(Seen::Part(record.key, record.value));
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, _: &mut Context<'_>) -> Result<()> {
        self.0.borrow_mut().push(Seen::Signal(signal));
        Ok(())
    }
}

struct Rig {
    operator: Box<dyn Operator<Keyed<u64, u64>>>,
    alarm: Alarm,
    seen: Rc<RefCell<Vec<Seen>>>,
    clock: VirtualClock,
    flow: Flow,
}

impl Rig {
    fn new() -> Rig {
        let (flow, seen, alarm) = (Flow::default(), Rc::default(), Alarm::default());
        let next = Box::new(Recorder(Rc::clone(&seen)));
        let (begin, fold) = (Arc::new(|n| n), Arc::new(|sum: &mut u64, n: u64| *sum += n));
        let mark = flow.heartbeat.mark("sum");
        let operator = Box::new(PreAggregate::new(begin, fold, Rc::clone(&alarm), mark, next));
        Rig { operator, alarm, seen, clock: VirtualClock::default(), flow }
    }

    fn with<R>(&mut self, body: impl FnOnce(&mut dyn Operator<Keyed<u64, u64>>, &mut Context<'_>) -> R) -> R {
        let quantum = Quantum { time: Duration::from_secs(1), records: 1 };
        let mut outbox = Outbox::default();
        body(&mut *self.operator, &mut Context::new(&self.flow, &self.clock, quantum, &mut outbox))
    }

    /// Hashes collide on purpose.
    fn record(&mut self, key: u64, value: u64) {
        self.with(|operator, cx| operator.on_record(Keyed { hash: key % 7, key, value }, None, cx)).unwrap();
    }

    fn signal(&mut self, signal: Signal) -> Vec<Seen> {
        self.with(|operator, cx| operator.on_signal(signal, cx)).unwrap();
        self.seen.take()
    }
}

#[test]
fn parts_leave_before_a_barrier_a_watermark_and_the_end_in_the_order_of_their_first_records() {
    let watermark = Signal::Watermark(Watermark { at: Some(Timestamp(4)), idle: false });
    for signal in [Signal::Flush, watermark, Signal::End] {
        let mut rig = Rig::new();
        for (key, value) in [(9, 1), (2, 10), (9, 2), (16, 5), (2, 20)] {
            rig.record(key, value);
        }
        let parts = [Seen::Part(9, 3), Seen::Part(2, 30), Seen::Part(16, 5)];
        assert_eq!(rig.signal(signal), [&parts[..], &[Seen::Signal(signal)]].concat());
        assert_eq!(rig.signal(signal), [Seen::Signal(signal)], "a part left twice");
        rig.record(9, 4);
        assert_eq!(rig.signal(signal), [Seen::Part(9, 4), Seen::Signal(signal)], "a part was not forgotten");
    }
}

#[test]
fn a_part_waits_for_a_few_milliseconds_and_no_longer() {
    let mut rig = Rig::new();
    rig.clock.move_to(Time(10_000));
    assert_eq!(rig.alarm.get(), None);
    rig.record(1, 1);
    assert_eq!(rig.alarm.get(), Some(10 + LONGEST_HOLD));
    rig.clock.move_to(Time(12_000));
    rig.record(2, 1);
    assert_eq!(rig.signal(Signal::Time), [Seen::Signal(Signal::Time)], "it left too early");
    rig.clock.move_to(Time(15_000));
    assert_eq!(rig.signal(Signal::Time), [Seen::Part(1, 1), Seen::Part(2, 1), Seen::Signal(Signal::Time)]);
    assert_eq!(rig.alarm.get(), None, "an empty table wakes its worker");
}

#[test]
fn the_table_is_bounded() {
    let mut rig = Rig::new();
    let keys = MOST_KEYS as u64;
    (0..keys).for_each(|key| rig.record(key, key));
    assert!(rig.seen.borrow().is_empty());
    rig.record(0, 1);
    assert!(rig.seen.borrow().is_empty(), "a key that is there needs no room");
    rig.record(keys, 1);
    assert_eq!(rig.seen.borrow().len(), MOST_KEYS);
    assert_eq!(rig.signal(Signal::End).last(), Some(&Seen::Signal(Signal::End)));
}

#[test]
fn a_part_stands_for_a_bounded_number_of_records() {
    let mut rig = Rig::new();
    (0..MOST_RECORDS).for_each(|_| rig.record(3, 1));
    assert!(rig.seen.borrow().is_empty());
    rig.record(3, 1);
    assert_eq!(rig.seen.take(), [Seen::Part(3, MOST_RECORDS as u64)]);
    assert_eq!(rig.signal(Signal::End), [Seen::Part(3, 1), Seen::Signal(Signal::End)]);
}
