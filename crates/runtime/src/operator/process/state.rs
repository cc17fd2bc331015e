//! Declared state: what user code says it keeps for each key, and how it gets at it.
//!
//! States are declared when the job is built, so that a restore can be checked before anything runs. User code gets a
//! reference per state, bound to the key of the record; it never sees a table, a hash or an epoch.

use super::ExpiringValue;
use crate::error::Result;
use crate::key::{Key, Shape};
use crate::plan::StatePlan;
use crate::state::{AnyValue, ValueState};
use crate::subtask::SubtaskBuilder;
use crate::time::Time;
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::time::Duration;

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

    /// The state of one key; `now` is the host's clock, for what expires.
    fn at<'a, K: Key>(open: &'a mut Self::Open<K>, hash: u64, key: &'a K, now: Time) -> Self::At<'a, K>;

    /// A bounded piece of upkeep, asked for now and then even if no record comes.
    fn tend<K: Key>(open: &mut Self::Open<K>, now: Time) {
        let _ = (open, now);
    }

    /// Keys with these hashes come next; see [`ValueState::look_ahead`].
    fn look_ahead<K: Key>(open: &Self::Open<K>, hashes: impl Iterator<Item = u64> + Clone) {
        let _ = (open, hashes);
    }
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

    /// Lets the value of a key expire so long after its last write; see [`ExpiringValue`]. At least a millisecond.
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> ExpiringValue<V> {
        ExpiringValue::new(self.name, ttl)
    }
}

impl<V: crate::state::Value> State for Value<V> {
    type Open<K: Key> = AnyValue<K, V>;
    type At<'a, K: Key> = ValueRef<'a, K, V>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        vec![StatePlan {
            name: self.name.to_owned(),
            kind: "value".to_owned(),
            key: Shape::of_type::<K>().to_string(),
            value: Shape::of_type::<V>().to_string(),
        }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<AnyValue<K, V>> {
        builder.value(operator, self.name)
    }

    fn at<'a, K: Key>(open: &'a mut AnyValue<K, V>, hash: u64, key: &'a K, _: Time) -> ValueRef<'a, K, V> {
        ValueRef { state: open, hash, key, seen: OnceCell::new() }
    }

    fn look_ahead<K: Key>(open: &AnyValue<K, V>, hashes: impl Iterator<Item = u64> + Clone) {
        open.look_ahead(hashes);
    }
}

/// The value of one key. Reading changes nothing; the first write marks the entry for the next checkpoint.
pub struct ValueRef<'a, K, V> {
    state: &'a mut AnyValue<K, V>,
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
        self.state.peek(self.hash, self.key, look)
    }

    /// Sets the value.
    pub fn set(&mut self, value: V) {
        self.seen.take();
        self.state.set(self.hash, self.key, value);
    }

    /// Changes the value in place, made by `init` if there is none.
    pub fn update<R>(&mut self, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        self.seen.take();
        self.state.fold(self.hash, self.key, init, change)
    }

    /// Removes the value.
    pub fn clear(&mut self) {
        self.seen.take();
        self.state.clear(self.hash, self.key);
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

            fn at<'a, K: Key>(open: &'a mut Self::Open<K>, hash: u64, key: &'a K, now: Time) -> Self::At<'a, K> {
                ($($state::at(&mut open.$place, hash, key, now),)+)
            }

            fn tend<K: Key>(open: &mut Self::Open<K>, now: Time) {
                $($state::tend::<K>(&mut open.$place, now);)+
            }

            fn look_ahead<K: Key>(open: &Self::Open<K>, hashes: impl Iterator<Item = u64> + Clone) {
                $($state::look_ahead::<K>(&open.$place, hashes.clone());)+
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
