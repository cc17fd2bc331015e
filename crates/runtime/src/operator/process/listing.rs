//! User code without a key, and a list that its worker has for itself: what Flink calls operator state, split.
//!
//! The list is in every checkpoint. On another number of workers its elements are divided anew, so user code may say nothing
//! about which worker has an element, and nothing about how many there are.

use super::{BoxError, ListRef, NoTimers, Out};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::Shape;
use crate::operator::side::Sides;
use crate::operator::{Context, Next, Operator, Signal};
use crate::plan::StatePlan;
use crate::state::{AnyList, Value};
use crate::subtask::SubtaskBuilder;
use crate::time::Timestamp;
use std::marker::PhantomData;
use std::sync::Arc;

/// Declares a list for each worker. It grows at its end and is cleared as a whole; a checkpoint stores only what was appended since
/// the one before. A restore on another number of workers deals the elements out in turn: those of one old worker that
/// meet again keep their order.
pub struct SplitList<V> {
    name: &'static str,
    of: PhantomData<fn() -> V>,
}

impl<V: Value> SplitList<V> {
    /// A list with a name, unique in its operator, under which checkpoints keep it.
    #[must_use]
    pub const fn named(name: &'static str) -> SplitList<V> {
        SplitList { name, of: PhantomData }
    }

    /// What is declared, for the plan.
    #[must_use]
    pub fn declare(&self) -> Vec<StatePlan> {
        let value = Shape::Sequence(Box::new(Shape::of_type::<V>())).to_string();
        let (name, kind) = (self.name.to_owned(), "split-list".to_owned());
        vec![StatePlan { name, kind, key: Shape::of_type::<u64>().to_string(), value }]
    }

    /// Registers the list of the subtask that is being built.
    ///
    /// # Errors
    /// If the name is declared twice, or this worker owns no key group.
    pub fn open(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<OwnList<V>> {
        let (hash, key) = builder.own_key().map_err(|error| error.at_operator(operator))?;
        Ok(OwnList { state: builder.split_list(operator, self.name)?, hash, key })
    }
}

/// The list of one worker, under a key that it owns.
pub struct OwnList<V> {
    state: AnyList<u64, V>,
    hash: u64,
    key: u64,
}

impl<V: Value> OwnList<V> {
    fn at(&mut self) -> ListRef<'_, u64, V> {
        ListRef::new(&mut self.state, self.hash, &self.key)
    }
}

/// Calls user code with every record and the worker's list, and once more when no record follows.
pub struct ListProcess<U, V, F, G> {
    operator: String,
    list: OwnList<V>,
    mark: Mark,
    on_record: Arc<F>,
    on_end: Arc<G>,
    emitted: Vec<U>,
    sides: Sides,
    next: Next<U>,
}

impl<U, V: Value, F, G> ListProcess<U, V, F, G> {
    /// User code before the rest of the chain; `operator` names it in errors.
    pub fn new(
        operator: &str,
        list: OwnList<V>,
        (on_record, on_end): (Arc<F>, Arc<G>),
        mark: Mark,
        (sides, next): (Sides, Next<U>),
    ) -> ListProcess<U, V, F, G> {
        ListProcess { operator: operator.to_owned(), list, mark, on_record, on_end, emitted: Vec::new(), sides, next }
    }

    /// Runs user code, then hands on what it emitted.
    fn call(
        &mut self,
        at: Option<Timestamp>,
        cx: &mut Context<'_>,
        user: impl FnOnce(ListRef<'_, u64, V>, &mut Out<'_, (), U>) -> Result<(), BoxError>,
    ) -> Result<()> {
        cx.enter(self.mark);
        let (emitted, sides) = (&mut self.emitted, &mut self.sides);
        let mut out = Out { key: &(), at, now: cx.now, emitted, sides, timers: NoTimers };
        let returned = user(self.list.at(), &mut out);
        cx.check_state().map_err(|error| error.at_operator(&self.operator))?;
        returned.map_err(|error| Error::failed(error.to_string()).at_operator(&self.operator))?;
        for record in self.emitted.drain(..) {
            self.next.on_record(record, at, cx)?;
        }
        self.sides.hand_on(at, cx).map_err(|error| error.at_operator(&self.operator))
    }
}

impl<T, U, V, F, G> Operator<T> for ListProcess<U, V, F, G>
where
    V: Value,
    F: for<'a> Fn(ListRef<'a, u64, V>, T, &mut Out<'_, (), U>) -> Result<(), BoxError>,
    G: for<'a> Fn(ListRef<'a, u64, V>, &mut Out<'_, (), U>) -> Result<(), BoxError>,
{
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let user = Arc::clone(&self.on_record);
        self.call(at, cx, |list, out| user(list, record, out))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        if signal == Signal::End {
            let user = Arc::clone(&self.on_end);
            self.call(None, cx, |list, out| user(list, out))?;
            // Whoever comes to this end again, on another number of workers, must find nothing that was dealt with here.
            self.list.at().clear();
        }
        self.next.on_signal(signal, cx)?;
        self.sides.on_signal(signal, cx)
    }
}
