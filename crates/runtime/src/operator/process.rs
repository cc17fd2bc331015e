//! User code with declared state: what `fold` cannot say.
//!
//! States are declared when the job is built, so that a restore can be checked before anything runs. User code gets a guard
//! per state and a place to put its output; what it puts there leaves after it has returned.

use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::{Key, Shape};
use crate::plan::StatePlan;
use crate::record::Keyed;
use crate::state::{HeapValue, ValueState};
use crate::subtask::SubtaskBuilder;
use crate::time::Timestamp;
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// What user code may fail with: `?` turns every error into it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Declared state: one [`Value`], or a tuple of up to four.
pub trait State: Send + Sync + 'static {
    /// The state in one subtask.
    type Open<K: Key>: 'static;
    /// The state of one key, as user code gets it.
    type At<'a, K: Key>;

    /// What is declared, for the plan.
    fn declare<K: Key>(&self) -> Vec<StatePlan>;

    /// Registers it with the subtask that is being built.
    ///
    /// # Errors
    /// If a name is declared twice.
    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<Self::Open<K>>;

    /// The state of one key.
    fn at<'a, K: Key>(open: &'a mut Self::Open<K>, hash: u64, key: &'a K) -> Self::At<'a, K>;

    /// Keys with these hashes come next; see [`ValueState::look_ahead`].
    fn look_ahead<K: Key>(open: &Self::Open<K>, hashes: impl Iterator<Item = u64> + Clone);
}

/// Declares one value per key.
pub struct Value<V> {
    name: &'static str,
    of: PhantomData<fn() -> V>,
}

impl<V> Value<V> {
    /// A value with a name, unique in its operator, under which checkpoints keep it.
    #[must_use]
    pub const fn named(name: &'static str) -> Value<V> {
        Value { name, of: PhantomData }
    }
}

impl<V: crate::state::Value> State for Value<V> {
    type Open<K: Key> = HeapValue<K, V>;
    type At<'a, K: Key> = ValueRef<'a, K, V>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        vec![StatePlan {
            name: self.name.to_owned(),
            kind: "value".to_owned(),
            key: Shape::of_type::<K>().to_string(),
            value: Shape::of_type::<V>().to_string(),
        }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<HeapValue<K, V>> {
        builder.value(operator, self.name)
    }

    fn at<'a, K: Key>(open: &'a mut HeapValue<K, V>, hash: u64, key: &'a K) -> ValueRef<'a, K, V> {
        ValueRef { state: open, hash, key, seen: OnceCell::new() }
    }

    fn look_ahead<K: Key>(open: &HeapValue<K, V>, hashes: impl Iterator<Item = u64> + Clone) {
        open.look_ahead(hashes);
    }
}

/// The value of one key. Reading changes nothing; the first write marks the entry for the next checkpoint.
pub struct ValueRef<'a, K, V> {
    state: &'a mut HeapValue<K, V>,
    hash: u64,
    key: &'a K,
    /// A copy, made by the first `get` since the last write.
    seen: OnceCell<Option<V>>,
}

impl<K: Key, V: crate::state::Value> ValueRef<'_, K, V> {
    /// The value, if there is one. The first call since the last write clones it; see [`ValueRef::read`].
    #[must_use]
    pub fn get(&self) -> Option<&V> {
        self.seen.get_or_init(|| self.read(|value| value.cloned())).as_ref()
    }

    /// Looks at the value without a copy. `look` must not use this state otherwise.
    pub fn read<R>(&self, look: impl FnOnce(Option<&V>) -> R) -> R {
        self.state.read(self.hash, self.key, look).expect("heap state does not fail")
    }

    /// Sets the value.
    pub fn set(&mut self, value: V) {
        self.seen.take();
        self.state.put(self.hash, self.key.clone(), value).expect("heap state does not fail");
    }

    /// Changes the value in place, made by `init` if there is none.
    pub fn update<R>(&mut self, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        self.seen.take();
        self.state.fold(self.hash, self.key.clone(), init, change)
    }

    /// Removes the value.
    pub fn clear(&mut self) {
        self.seen.take();
        self.state.remove(self.hash, self.key).expect("heap state does not fail");
    }
}

macro_rules! tuple {
    ($($state:ident $place:tt),+) => {
        impl<$($state: State),+> State for ($($state,)+) {
            type Open<K: Key> = ($($state::Open<K>,)+);
            type At<'a, K: Key> = ($($state::At<'a, K>,)+);

            fn declare<K: Key>(&self) -> Vec<StatePlan> {
                let mut all = Vec::new();
                $(all.extend(self.$place.declare::<K>());)+
                all
            }

            fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<Self::Open<K>> {
                Ok(($(self.$place.open::<K>(operator, builder)?,)+))
            }

            fn at<'a, K: Key>(open: &'a mut Self::Open<K>, hash: u64, key: &'a K) -> Self::At<'a, K> {
                ($($state::at(&mut open.$place, hash, key),)+)
            }

            fn look_ahead<K: Key>(open: &Self::Open<K>, hashes: impl Iterator<Item = u64> + Clone) {
                $($state::look_ahead(&open.$place, hashes.clone());)+
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

/// Where user code puts its output, and what it may know about the record.
pub struct Out<'a, K, U> {
    /// The record's key.
    pub key: &'a K,
    /// The record's event time, if it has one; what is emitted carries it too.
    pub at: Option<Timestamp>,
    emitted: &'a mut Vec<U>,
}

impl<K, U> Out<'_, K, U> {
    /// Gives out a record, after the function has returned.
    pub fn emit(&mut self, record: U) {
        self.emitted.push(record);
    }
}

/// Calls user code with every record, its key and its state.
pub struct Process<K: Key, U, S: State, F> {
    operator: String,
    f: Arc<F>,
    state: S::Open<K>,
    mark: Mark,
    emitted: Vec<U>,
    next: Next<U>,
}

impl<K: Key, U, S: State, F> Process<K, U, S, F> {
    /// User code before the rest of the chain.
    pub fn new(operator: &str, f: Arc<F>, state: S::Open<K>, mark: Mark, next: Next<U>) -> Process<K, U, S, F> {
        Process { operator: operator.to_owned(), f, state, mark, emitted: Vec::new(), next }
    }
}

impl<K, T, U, S, F> Operator<Keyed<K, T>> for Process<K, U, S, F>
where
    K: Key,
    S: State,
    F: for<'a> Fn(S::At<'a, K>, T, &mut Out<'_, K, U>) -> Result<(), BoxError>,
{
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        cx.enter(self.mark);
        let state = S::at(&mut self.state, hash, &key);
        let mut out = Out { key: &key, at, emitted: &mut self.emitted };
        (self.f)(state, value, &mut out)
            .map_err(|error| Error::failed(error.to_string()).at_operator(&self.operator))?;
        for record in self.emitted.drain(..) {
            self.next.on_record(record, at, cx)?;
        }
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        S::look_ahead(&self.state, upcoming.iter().map(|record| record.hash));
    }
}
