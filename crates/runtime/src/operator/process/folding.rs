//! State that folds what is added to it: reducing and aggregating.
//!
//! Underneath they are values, with or without a time to live: what is stored is the folded value or the accumulator. Their
//! kind is in the manifest, so that neither is taken for a plain value, whose type may be the same and whose meaning is not.

use super::expiring::OpenExpiring;
use super::{ExpiringRef, ExpiringValue, State, Value, ValueRef};
use crate::error::Result;
use crate::key::{Key, Shape};
use crate::plan::StatePlan;
use crate::state::{AnyValue, ValueState};
use crate::subtask::SubtaskBuilder;
use crate::time::Time;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A value, perhaps with a time to live.
struct Kept<V> {
    name: &'static str,
    ttl: Option<Duration>,
    of: std::marker::PhantomData<fn() -> V>,
}

/// The value in one subtask.
enum Open<K, V> {
    Lasting(AnyValue<K, V>),
    Expiring(OpenExpiring<K, V>),
}

/// The value of one key.
enum At<'a, K, V> {
    Lasting(ValueRef<'a, K, V>),
    Expiring(ExpiringRef<'a, K, V>),
}

impl<V: crate::state::Value> Kept<V> {
    const fn named(name: &'static str) -> Kept<V> {
        Kept { name, ttl: None, of: std::marker::PhantomData }
    }

    fn declare<K: Key>(&self, kind: &str) -> Vec<StatePlan> {
        let kind = if self.ttl.is_some() { format!("{kind}-ttl") } else { kind.to_owned() };
        let (key, value) = (Shape::of_type::<K>().to_string(), Shape::of_type::<V>().to_string());
        vec![StatePlan { name: self.name.to_owned(), kind, key, value }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<Open<K, V>> {
        let value = Value::<V>::named(self.name);
        Ok(match self.ttl {
            None => Open::Lasting(value.open(operator, builder)?),
            Some(ttl) => Open::Expiring(value.ttl(ttl).open(operator, builder)?),
        })
    }
}

impl<K: Key, V: crate::state::Value> Open<K, V> {
    fn at<'a>(&'a mut self, hash: u64, key: &'a K, now: Time) -> At<'a, K, V> {
        match self {
            Open::Lasting(open) => At::Lasting(Value::<V>::at(open, hash, key, now)),
            Open::Expiring(open) => At::Expiring(ExpiringValue::<V>::at(open, hash, key, now)),
        }
    }

    fn tend(&mut self, now: Time) {
        if let Open::Expiring(open) = self {
            ExpiringValue::<V>::tend::<K>(open, now);
        }
    }

    fn look_ahead(&self, hashes: impl Iterator<Item = u64> + Clone) {
        if let Open::Lasting(open) = self {
            open.look_ahead(hashes);
        }
    }
}

impl<K: Key, V: crate::state::Value> At<'_, K, V> {
    fn read<R>(&self, look: impl FnOnce(Option<&V>) -> R) -> R {
        match self {
            At::Lasting(value) => value.read(look),
            At::Expiring(value) => value.read(look),
        }
    }

    fn update(&mut self, init: impl FnOnce() -> V, change: impl FnOnce(&mut V)) {
        match self {
            At::Lasting(value) => value.update(init, change),
            At::Expiring(value) => value.update(init, change),
        }
    }

    fn clear(&mut self) {
        match self {
            At::Lasting(value) => value.clear(),
            At::Expiring(value) => value.clear(),
        }
    }
}

type Fold<A, T> = dyn Fn(&mut A, T) + Send + Sync;

/// Declares state that keeps, for each key, what a function makes of all that was added (Flink's `ReducingState`).
///
/// The function is not in a checkpoint: with another one a restored job goes on from what the old one had made.
pub struct Reducing<T> {
    kept: Kept<T>,
    f: Arc<Fold<T, T>>,
}

impl<T: crate::state::Value> Reducing<T> {
    /// Reducing state with a name, unique in its operator, under which checkpoints keep it. The first element added is kept as it
    /// is; `f` puts each later one into what is kept.
    #[must_use]
    pub fn named(name: &'static str, f: impl Fn(&mut T, T) + Send + Sync + 'static) -> Reducing<T> {
        Reducing { kept: Kept::named(name), f: Arc::new(f) }
    }

    /// Lets what is kept for a key expire so long after the last element was added; see [`ExpiringValue`].
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Reducing<T> {
        self.kept.ttl = Some(ttl);
        self
    }
}

/// A reducing state in one subtask.
pub struct OpenReducing<K, T> {
    open: Open<K, T>,
    f: Arc<Fold<T, T>>,
}

impl<T: crate::state::Value> State for Reducing<T> {
    type Open<K: Key> = OpenReducing<K, T>;
    type At<'a, K: Key> = ReducingRef<'a, K, T>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        self.kept.declare::<K>("reducing")
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<OpenReducing<K, T>> {
        Ok(OpenReducing { open: self.kept.open(operator, builder)?, f: Arc::clone(&self.f) })
    }

    fn at<'a, K: Key>(open: &'a mut OpenReducing<K, T>, hash: u64, key: &'a K, now: Time) -> ReducingRef<'a, K, T> {
        ReducingRef { at: open.open.at(hash, key, now), f: &*open.f }
    }

    fn tend<K: Key>(open: &mut OpenReducing<K, T>, now: Time) {
        open.open.tend(now);
    }

    fn look_ahead<K: Key>(open: &OpenReducing<K, T>, hashes: impl Iterator<Item = u64> + Clone) {
        open.open.look_ahead(hashes);
    }
}

/// The reducing state of one key.
pub struct ReducingRef<'a, K, T> {
    at: At<'a, K, T>,
    f: &'a Fold<T, T>,
}

impl<K: Key, T: crate::state::Value> ReducingRef<'_, K, T> {
    /// Puts an element into what is kept.
    pub fn add(&mut self, item: T) {
        // Either the element becomes what is kept, or it is put into what is there: never both.
        let item = Cell::new(Some(item));
        let f = self.f;
        self.at.update(
            || item.take().expect("what is kept is made before it is changed"),
            |kept| {
                if let Some(item) = item.take() {
                    f(kept, item);
                }
            },
        );
    }

    /// A copy of what is kept; nothing if nothing was added since the last [`ReducingRef::clear`].
    #[must_use]
    pub fn get(&self) -> Option<T> {
        self.read(|kept| kept.cloned())
    }

    /// Looks at what is kept without a copy. `look` must not use this state otherwise.
    pub fn read<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.at.read(look)
    }

    /// Forgets everything that was added.
    pub fn clear(&mut self) {
        self.at.clear();
    }
}

/// What an aggregating state does with what is added.
struct Aggregate<In, Acc, Out> {
    begin: Box<dyn Fn() -> Acc + Send + Sync>,
    add: Box<Fold<Acc, In>>,
    result: Box<dyn Fn(&Acc) -> Out + Send + Sync>,
}

/// Declares state that keeps, for each key, an accumulator of all that was added, and gives out a result that is made of it
/// (Flink's `AggregatingState`). What is added, what is kept and what comes out may be of three types.
///
/// The functions are not in a checkpoint: a restored job goes on from the accumulators.
pub struct Aggregating<In, Acc, Out> {
    kept: Kept<Acc>,
    aggregate: Arc<Aggregate<In, Acc, Out>>,
}

impl<In: 'static, Acc: crate::state::Value, Out: 'static> Aggregating<In, Acc, Out> {
    /// Aggregating state with a name, unique in its operator, under which checkpoints keep it: `begin` makes the accumulator of
    /// a key, `add` puts an element into it, `result` says what it comes to.
    #[must_use]
    pub fn named(
        name: &'static str,
        begin: impl Fn() -> Acc + Send + Sync + 'static,
        add: impl Fn(&mut Acc, In) + Send + Sync + 'static,
        result: impl Fn(&Acc) -> Out + Send + Sync + 'static,
    ) -> Aggregating<In, Acc, Out> {
        let aggregate = Aggregate { begin: Box::new(begin), add: Box::new(add), result: Box::new(result) };
        Aggregating { kept: Kept::named(name), aggregate: Arc::new(aggregate) }
    }

    /// Lets the accumulator of a key expire so long after the last element was added; see [`ExpiringValue`].
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Aggregating<In, Acc, Out> {
        self.kept.ttl = Some(ttl);
        self
    }
}

/// An aggregating state in one subtask.
pub struct OpenAggregating<K, In, Acc, Out> {
    open: Open<K, Acc>,
    aggregate: Arc<Aggregate<In, Acc, Out>>,
}

impl<In: 'static, Acc: crate::state::Value, Out: 'static> State for Aggregating<In, Acc, Out> {
    type Open<K: Key> = OpenAggregating<K, In, Acc, Out>;
    type At<'a, K: Key> = AggregatingRef<'a, K, In, Acc, Out>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        self.kept.declare::<K>("aggregating")
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<OpenAggregating<K, In, Acc, Out>> {
        Ok(OpenAggregating { open: self.kept.open(operator, builder)?, aggregate: Arc::clone(&self.aggregate) })
    }

    fn at<'a, K: Key>(
        open: &'a mut OpenAggregating<K, In, Acc, Out>,
        hash: u64,
        key: &'a K,
        now: Time,
    ) -> AggregatingRef<'a, K, In, Acc, Out> {
        AggregatingRef { at: open.open.at(hash, key, now), aggregate: &open.aggregate }
    }

    fn tend<K: Key>(open: &mut OpenAggregating<K, In, Acc, Out>, now: Time) {
        open.open.tend(now);
    }

    fn look_ahead<K: Key>(open: &OpenAggregating<K, In, Acc, Out>, hashes: impl Iterator<Item = u64> + Clone) {
        open.open.look_ahead(hashes);
    }
}

/// The aggregating state of one key.
pub struct AggregatingRef<'a, K, In, Acc, Out> {
    at: At<'a, K, Acc>,
    aggregate: &'a Aggregate<In, Acc, Out>,
}

impl<K: Key, In, Acc: crate::state::Value, Out> AggregatingRef<'_, K, In, Acc, Out> {
    /// Puts an element into the accumulator.
    pub fn add(&mut self, item: In) {
        let Aggregate { begin, add, .. } = self.aggregate;
        self.at.update(begin, |kept| add(kept, item));
    }

    /// What everything that was added comes to; nothing if nothing was added since the last [`AggregatingRef::clear`].
    #[must_use]
    pub fn get(&self) -> Option<Out> {
        self.at.read(|kept| kept.map(&self.aggregate.result))
    }

    /// Forgets everything that was added.
    pub fn clear(&mut self) {
        self.at.clear();
    }
}
