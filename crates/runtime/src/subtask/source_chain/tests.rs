//! How much of a source one step takes.

use super::{Pulled, SourceChain, TURN};
use crate::connector::Generator;
use crate::error::Result;
use crate::operator::fan::fan;
use crate::operator::{Context, Flow, Quantum};
use crate::outbox::Outbox;
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader, Waker};
use crate::subtask::SourcePort;
use crate::testing::connector_contexts::source_context;
use crate::testing::{VirtualClock, memory_files::MemoryFiles};
use crate::time::{Clock, Time};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many records steps of so many records take, one at each of these times since the beginning.
fn taken<S: Source<Item = u64>>(source: S, records: u32, steps: &[Duration]) -> u64 {
    let taken = Rc::new(Cell::new(0));
    let flow = Flow::default();
    let mark = flow.heartbeat.mark("numbers");
    let cx = source_context(Arc::new(MemoryFiles::new()));
    let mut chain = SourceChain::new("numbers", Arc::new(source), cx, fan(Vec::new()), Rc::clone(&taken), mark);
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
    let mut chain = SourceChain::new("lines", source(), cx(), fan(Vec::new()), Rc::default(), mark);
    chain.open(None).unwrap();
    let parts = chain.parts().unwrap();
    assert!(parts.iter().all(|(_, part)| !part.position.is_null()), "{parts:?}");
    files.put("in/b.txt", b"");
    let mut restored = SourceChain::new("lines", source(), cx(), fan(Vec::new()), Rc::default(), mark);
    restored.open(Some(parts)).unwrap();
    let (flow, clock, mut outbox) = (Flow::default(), VirtualClock::default(), Outbox::default());
    let quantum = Quantum { time: Duration::from_secs(1), records: 100 };
    let error = restored.pull(&mut Context::new(&flow, &clock, quantum, &mut outbox)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Unusable, "{error}");
}

/// What an [`Alarm`] answers, and how it was asked.
#[derive(Clone, Default)]
struct Alarms {
    asked: Arc<AtomicU64>,
    waker: Arc<Mutex<Option<Waker>>>,
    /// This split has no moment: it says `Pending`.
    pending: Option<u64>,
    /// It calls its waker while it is asked for the first time.
    wakes_itself: bool,
    /// Each split leaves out so many records first.
    skips: u64,
}

const SPLITS: u64 = 3;
const PAUSE: Duration = Duration::from_millis(10);

impl Source for Alarms {
    type Item = u64;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok((0..SPLITS).map(|split| split.to_string()).collect())
    }

    fn open(&self, split: &str, _: Option<u64>, cx: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        *self.waker.lock().unwrap() = Some(Arc::clone(&cx.waker));
        Ok(Box::new(Alarm { source: self.clone(), split: split.parse().unwrap(), skipped: 0 }))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

struct Alarm {
    source: Alarms,
    split: u64,
    skipped: u64,
}

impl SplitReader for Alarm {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<u64>> {
        let before = self.source.asked.fetch_add(1, Ordering::Relaxed);
        if self.source.wakes_itself && before == 0 {
            (self.source.waker.lock().unwrap().clone().unwrap())();
        }
        if self.skipped < self.source.skips {
            self.skipped += 1;
            return Ok(Next::Skipped);
        }
        Ok(if self.source.pending == Some(self.split) { Next::Pending } else { Next::At(now.after(PAUSE)) })
    }

    fn position(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        "alarm".to_owned()
    }
}

/// A chain of alarms on a virtual clock.
struct Rig {
    source: Alarms,
    chain: SourceChain<Alarms>,
    flow: Flow,
    clock: VirtualClock,
    outbox: Outbox,
}

impl Rig {
    fn new(source: Alarms) -> Rig {
        let flow = Flow::default();
        let mark = flow.heartbeat.mark("alarms");
        let cx = source_context(Arc::new(MemoryFiles::new()));
        let mut chain = SourceChain::new("alarms", Arc::new(source.clone()), cx, fan(Vec::new()), Rc::default(), mark);
        chain.open(None).unwrap();
        Rig { source, chain, flow, clock: VirtualClock::default(), outbox: Outbox::default() }
    }

    /// What a pull says, and how often it has asked.
    fn pull(&mut self) -> (Pulled, u64) {
        let before = self.source.asked.load(Ordering::Relaxed);
        let quantum = Quantum { time: Duration::from_secs(1_000), records: u32::MAX };
        let cx = &mut Context::new(&self.flow, &self.clock, quantum, &mut self.outbox);
        let pulled = self.chain.pull(cx).unwrap();
        (pulled, self.source.asked.load(Ordering::Relaxed) - before)
    }

    fn wake(&self) {
        (self.source.waker.lock().unwrap().clone().unwrap())();
    }

    fn due(&self) -> Pulled {
        Pulled::Wait(Some(self.clock.now().after(PAUSE)))
    }
}

/// Whoever says when it has more is not asked before, however often the worker runs; but a reader that is woken is.
#[test]
fn a_source_is_asked_when_its_moment_has_come_or_its_waker_was_called() {
    let mut rig = Rig::new(Alarms::default());
    let due = rig.due();
    assert_eq!(rig.pull(), (due, SPLITS));
    assert_eq!(rig.pull(), (due, 0), "nothing has happened");
    rig.clock.advance(PAUSE / 2);
    rig.wake();
    let due = rig.due();
    assert_eq!(rig.pull(), (due, SPLITS), "it was woken");
    assert_eq!(rig.pull(), (due, 0), "once");
    rig.clock.advance(PAUSE);
    assert_eq!(rig.pull().1, SPLITS, "the moment has come");
}

#[test]
fn a_reader_that_is_woken_while_it_is_asked_is_asked_again() {
    let mut rig = Rig::new(Alarms { wakes_itself: true, ..Alarms::default() });
    let due = rig.due();
    assert_eq!(rig.pull(), (due, SPLITS));
    assert_eq!(rig.pull(), (due, SPLITS), "what it was woken for may have come after it was asked");
    assert_eq!(rig.pull(), (due, 0));
}

#[test]
fn a_split_that_waits_to_be_woken_does_not_wait_for_the_moments_of_others() {
    for pending in 0..SPLITS {
        let mut rig = Rig::new(Alarms { pending: Some(pending), ..Alarms::default() });
        let due = rig.due();
        assert_eq!(rig.pull(), (due, SPLITS));
        assert_eq!(rig.pull(), (due, 0));
        rig.wake();
        assert_eq!(rig.pull(), (due, SPLITS));
    }
}

/// Nothing is taken, so nothing else has the worker come again.
#[test]
fn a_run_of_records_that_are_left_out_is_gone_through_by_step_after_step() {
    let mut rig = Rig::new(Alarms { skips: 1_000, ..Alarms::default() });
    let mut steps = 0;
    while rig.pull().0 == Pulled::More {
        steps += 1;
        assert!(steps < 1_000, "it never ends");
    }
    assert!(steps >= 1_000 / u64::from(TURN) * SPLITS, "{steps} steps: other work has to wait");
    assert_eq!(rig.source.asked.load(Ordering::Relaxed), 1_001 * SPLITS);
}

#[test]
fn what_is_no_record_is_not_counted_as_taken() {
    let mut rig = Rig::new(Alarms { skips: 10, pending: Some(1), ..Alarms::default() });
    (0..5).for_each(|_| {
        rig.pull();
        rig.wake();
    });
    assert_eq!(rig.flow.taken.get(), 0);
}
