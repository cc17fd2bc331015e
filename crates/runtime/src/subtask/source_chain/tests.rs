//! How much of a source one step takes.

use super::SourceChain;
use crate::connector::Generator;
use crate::error::Result;
use crate::operator::{Context, Flow, Operator, Quantum, Signal};
use crate::outbox::Outbox;
use crate::source::Source;
use crate::subtask::SourcePort;
use crate::testing::connector_contexts::source_context;
use crate::testing::{VirtualClock, memory_files::MemoryFiles};
use crate::time::Timestamp;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
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

fn taken_in_one_step<S: Source<Item = u64>>(source: S, records: u32) -> u64 {
    let taken = Rc::new(Cell::new(0));
    let flow = Flow::default();
    let mark = flow.heartbeat.mark("numbers");
    let cx = source_context(Arc::new(MemoryFiles::new()));
    let mut chain = SourceChain::new("numbers", Arc::new(source), cx, Box::new(Nowhere), Rc::clone(&taken), mark);
    chain.open(None).unwrap();
    let mut outbox = Outbox::default();
    let quantum = Quantum { time: Duration::from_secs(1), records };
    let clock = VirtualClock::default();
    chain.pull(&mut Context::new(&flow, &clock, quantum, &mut outbox)).unwrap();
    taken.get()
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
