//! How much of a source one step takes.

use super::{Pulled, SourceChain};
use crate::connector::Generator;
use crate::error::Result;
use crate::operator::{Context, Flow, Operator, Quantum, Signal};
use crate::outbox::Outbox;
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader, Waker};
use crate::subtask::SourcePort;
use crate::testing::connector_contexts::source_context;
use crate::testing::{VirtualClock, memory_files::MemoryFiles};
use crate::time::{Clock, Time, Timestamp};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Nowhere;

impl<T> Operator<T> for Nowhere {
    fn on_record(&mut self, _: T, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    fn on_signal(&mut self, _: Signal, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }
}

/// How many records steps of so many records take, one at each of these times since the beginning.
fn taken<S: Source<Item = u64>>(source: S, records: u32, steps: &[Duration]) -> u64 {
    let taken = Rc::new(Cell::new(0));
    let flow = Flow::default();
    let mark = flow.heartbeat.mark("numbers");
    let cx = source_context(Arc::new(MemoryFiles::new()));
    let mut chain = SourceChain::new("numbers", Arc::new(source), cx, Box::new(Nowhere), Rc::clone(&taken), mark);
    chain.open(None).unwrap();
    let mut outbox = Outbox::default();
    let quantum = Quantum { time: Duration::from_secs(1_000), records };
    let clock = VirtualClock::default();
    let mut now = Duration::ZERO;
    for &step in steps {
        clock.advance(step - now);
        now = step;
        chain.pull(&mut Context::new(&flow, &clock, quantum, &mut outbox)).unwrap();
    }
    taken.get()
}

fn taken_in_one_step<S: Source<Item = u64>>(source: S, records: u32) -> u64 {
    taken(source, records, &[Duration::ZERO])
}

#[test]
fn a_step_takes_as_much_of_a_source_as_its_quantum_allows_bounded_or_not_with_few_splits_or_many() {
    for splits in [1, 3, 40] {
        let bounded = Generator::new(1 << 20, 1, |number, _| number).splits(splits);
        assert_eq!(taken_in_one_step(bounded, 10_000), 10_000, "{splits} splits, bounded");
        let unbounded = Generator::unbounded(1, |number, _| number).splits(splits);
        assert_eq!(taken_in_one_step(unbounded, 10_000), 10_000, "{splits} splits, unbounded");
    }
}

#[test]
fn a_source_that_ends_gives_all_it_has() {
    for splits in [1, 3, 40] {
        let source = Generator::new(1_000, 1, |number, _| number).splits(splits);
        assert_eq!(taken_in_one_step(source, 10_000), 1_000, "{splits} splits");
    }
}

#[test]
fn a_split_that_waits_holds_no_other_split_bounded_or_not() {
    for splits in [1, 2, 8] {
        // All splits together give 100 records a second, each split its first one at once.
        let due = u64::from(splits) * (990 / (10 * u64::from(splits)) + 1);
        let steps = [Duration::ZERO, Duration::from_millis(990)];
        let bounded = Generator::new(1 << 20, 1, |number, _| number).splits(splits).rate(100.0);
        assert_eq!(taken(bounded, 10_000, &steps), due, "{splits} splits, bounded");
        let unbounded = Generator::unbounded(1, |number, _| number).splits(splits).rate(100.0);
        assert_eq!(taken(unbounded, 10_000, &steps), due, "{splits} splits, unbounded");
    }
}

#[test]
fn a_file_that_changes_before_it_is_read_is_noticed_after_a_restore() {
    use crate::connector::FileSource;
    let files = MemoryFiles::new();
    files.put("in/a.txt", b"1\n2\n");
    files.put("in/b.txt", b"3\n");
    let source = || Arc::new(FileSource::lines("in/*.txt"));
    let cx = || source_context(Arc::new(files.clone()));
    let mark = Flow::default().heartbeat.mark("lines");
    let mut chain = SourceChain::new("lines", source(), cx(), Box::new(Nowhere), Rc::default(), mark);
    chain.open(None).unwrap();
    let parts = chain.parts().unwrap();
    assert!(parts.iter().all(|(_, part)| !part.position.is_null()), "{parts:?}");
    files.put("in/b.txt", b"");
    let mut restored = SourceChain::new("lines", source(), cx(), Box::new(Nowhere), Rc::default(), mark);
    restored.open(Some(parts)).unwrap();
    let (flow, clock, mut outbox) = (Flow::default(), VirtualClock::default(), Outbox::default());
    let quantum = Quantum { time: Duration::from_secs(1), records: 100 };
    let error = restored.pull(&mut Context::new(&flow, &clock, quantum, &mut outbox)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Unusable, "{error}");
}

/// Whoever says when it has more is not asked before, however often the worker runs; but a reader that is woken is.
#[test]
fn a_source_is_asked_when_its_moment_has_come_or_its_waker_was_called() {
    let asked = Rc::new(Cell::new(0));
    let cx = source_context(Arc::new(MemoryFiles::new()));
    let taken = Rc::new(Cell::new(0));
    let flow = Flow::default();
    let mark = flow.heartbeat.mark("alarms");
    let waker = Arc::new(Mutex::new(None));
    let source = Alarms { asked: Arc::default(), waker: Arc::clone(&waker) };
    let count = Arc::clone(&source.asked);
    let mut chain = SourceChain::new("alarms", Arc::new(source), cx, Box::new(Nowhere), taken, mark);
    chain.open(None).unwrap();
    let (clock, mut outbox) = (VirtualClock::default(), Outbox::default());
    let quantum = Quantum { time: Duration::from_secs(1_000), records: 10 };
    let mut pull = || {
        let pulled = chain.pull(&mut Context::new(&flow, &clock, quantum, &mut outbox)).unwrap();
        let before = asked.replace(count.load(Ordering::Relaxed));
        (pulled, asked.get() - before)
    };
    let due = Pulled::Wait(Some(clock.now().after(PAUSE)));
    assert_eq!(pull(), (due, SPLITS));
    assert_eq!(pull(), (due, 0), "nothing has happened");
    clock.advance(PAUSE / 2);
    let wake = waker.lock().unwrap().clone().unwrap();
    wake();
    let due = Pulled::Wait(Some(clock.now().after(PAUSE)));
    assert_eq!(pull(), (due, SPLITS), "it was woken");
    assert_eq!(pull(), (due, 0), "once");
    clock.advance(PAUSE);
    assert_eq!(pull().1, SPLITS, "the moment has come");
}

const SPLITS: u64 = 3;
const PAUSE: Duration = Duration::from_millis(10);

/// Counts how often it is asked.
struct Alarms {
    asked: Arc<AtomicU64>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Source for Alarms {
    type Item = u64;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok((0..SPLITS).map(|split| split.to_string()).collect())
    }

    fn open(&self, _: &str, _: Option<u64>, cx: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        *self.waker.lock().unwrap() = Some(Arc::clone(&cx.waker));
        Ok(Box::new(Alarm(Arc::clone(&self.asked))))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

struct Alarm(Arc<AtomicU64>);

impl SplitReader for Alarm {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<u64>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Next::At(now.after(PAUSE)))
    }

    fn position(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        "alarm".to_owned()
    }
}
