//! Values that expire: each carries the time of its last write, so that what has expired is the same after a restore.
//!
//! An expired value is never seen again. It is removed when it is looked at or written, and by a sweep that goes on with
//! every record and every barrier. A removal is a write like any other. A value without a time to live pays for none of it.

use super::State;
use crate::error::Result;
use crate::key::{Key, Shape};
use crate::plan::StatePlan;
use crate::state::{AnyValue, SweepCursor};
use crate::subtask::SubtaskBuilder;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::time::Duration;

/// Buckets that the sweep visits with each record, and with each barrier.
const BUCKETS_PER_RECORD: usize = 8;
const BUCKETS_PER_BARRIER: usize = 1_024;

/// Declares one value per key that expires: see [`super::Value::ttl`].
///
/// Time is the clock of the host, to the millisecond. A value expires so long after its last write; reading does not
/// prolong it. A state that had no time to live cannot be restored into one that has, nor the other way round; the time to
/// live itself may change.
pub struct ExpiringValue<V> {
    name: &'static str,
    ttl: Duration,
    of: PhantomData<fn() -> V>,
}

impl<V> ExpiringValue<V> {
    pub(super) const fn new(name: &'static str, ttl: Duration) -> ExpiringValue<V> {
        ExpiringValue { name, ttl, of: PhantomData }
    }
}

/// A value as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expiring<V> {
    /// What user code wrote.
    value: V,
    /// When, in milliseconds.
    written: i64,
}

/// The state in one subtask.
pub struct OpenExpiring<K, V> {
    state: AnyValue<K, Expiring<V>>,
    ttl: i64,
    sweep: SweepCursor,
}

/// When a value must have been written to be alive now: after this.
fn horizon(now: Time, ttl: i64) -> i64 {
    millis(now).saturating_sub(ttl)
}

fn millis(now: Time) -> i64 {
    i64::try_from(now.millis()).unwrap_or(i64::MAX)
}

impl<V: crate::state::Value> State for ExpiringValue<V> {
    type Open<K: Key> = OpenExpiring<K, V>;
    type At<'a, K: Key> = ExpiringRef<'a, K, V>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        let (key, value) = (Shape::of_type::<K>().to_string(), Shape::of_type::<V>().to_string());
        vec![StatePlan { name: self.name.to_owned(), kind: "value-ttl".to_owned(), key, value }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<OpenExpiring<K, V>> {
        let ttl = i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX).max(1);
        Ok(OpenExpiring { state: builder.value(operator, self.name)?, ttl, sweep: SweepCursor::default() })
    }

    fn at<'a, K: Key>(open: &'a mut OpenExpiring<K, V>, hash: u64, key: &'a K, now: Time) -> ExpiringRef<'a, K, V> {
        sweep(open, now, BUCKETS_PER_RECORD);
        ExpiringRef { state: &mut open.state, ttl: open.ttl, now, hash, key, seen: OnceCell::new() }
    }

    fn tend<K: Key>(open: &mut OpenExpiring<K, V>, now: Time) {
        sweep(open, now, BUCKETS_PER_BARRIER);
    }
}

fn sweep<K: Key, V: crate::state::Value>(open: &mut OpenExpiring<K, V>, now: Time, buckets: usize) {
    let horizon = horizon(now, open.ttl);
    open.state.sweep(&mut open.sweep, buckets, |kept| kept.written <= horizon);
}

/// The value of one key, if it has not expired.
pub struct ExpiringRef<'a, K, V> {
    state: &'a mut AnyValue<K, Expiring<V>>,
    ttl: i64,
    now: Time,
    hash: u64,
    key: &'a K,
    /// A copy, made by the first `get` since the last write.
    seen: OnceCell<Option<V>>,
}

impl<K: Key, V: crate::state::Value> ExpiringRef<'_, K, V> {
    /// The value, if there is one. The first call since the last write clones it; see [`ExpiringRef::read`].
    #[must_use]
    pub fn get(&self) -> Option<&V> {
        self.seen.get_or_init(|| self.read(|value| value.cloned())).as_ref()
    }

    /// Looks at the value without a copy. `look` must not use this state otherwise.
    pub fn read<R>(&self, look: impl FnOnce(Option<&V>) -> R) -> R {
        let horizon = horizon(self.now, self.ttl);
        let expired = Cell::new(false);
        let seen = self.state.peek(self.hash, self.key, |kept| {
            let alive = kept.filter(|kept| kept.written > horizon);
            expired.set(kept.is_some() && alive.is_none());
            look(alive.map(|kept| &kept.value))
        });
        if expired.get() {
            self.state.clone().clear(self.hash, self.key);
        }
        seen
    }

    /// Sets the value, which lives from now on.
    pub fn set(&mut self, value: V) {
        self.seen.take();
        let kept = Expiring { value, written: millis(self.now) };
        self.state.set(self.hash, self.key, kept);
    }

    /// Changes the value in place, made by `init` if there is none or it has expired. It lives from now on.
    pub fn update<R>(&mut self, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        self.seen.take();
        let (written, horizon) = (millis(self.now), horizon(self.now, self.ttl));
        // Either there is no entry, or there is one that may have expired: never both.
        let init = Cell::new(Some(init));
        let make = || init.take().expect("a value is made once")();
        self.state.fold(
            self.hash,
            self.key,
            || Expiring { value: make(), written },
            |kept| {
                if kept.written <= horizon {
                    kept.value = make();
                }
                kept.written = written;
                change(&mut kept.value)
            },
        )
    }

    /// Removes the value.
    pub fn clear(&mut self) {
        self.seen.take();
        self.state.clear(self.hash, self.key);
    }
}
