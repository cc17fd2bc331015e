//! Records of one key folded to one before they cross a channel, for folds whose parts can be combined.
//!
//! The table is emptied before a barrier, a watermark and the end of data, when it is full, and a few milliseconds after its
//! first record: so it is in no snapshot, holds nothing for long, and is bounded. A hot key costs one record per flush.

use super::{Context, Next, Operator, Signal};
use crate::error::Result;
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::record::Keyed;
use crate::time::Timestamp;
use hashbrown::HashTable;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Different keys that are held at most.
pub const MOST_KEYS: usize = 1_024;

/// Records that the parts may stand for together: a value that grows with its records does not grow without bound.
pub const MOST_RECORDS: usize = 1 << 16;

/// How long a record is held at most, in milliseconds; a worker that is busy may be late.
pub const LONGEST_HOLD: i64 = 5;

/// When a chain wants [`Signal::Time`], in milliseconds.
pub type Alarm = Rc<Cell<Option<i64>>>;

/// Folds the records of each key and hands on the parts, in the order of their first records.
pub struct PreAggregate<K, A, N, F> {
    /// What the first record of a part makes.
    begin: Arc<N>,
    /// What a further one does to it.
    fold: Arc<F>,
    parts: Vec<(Keyed<K, A>, Option<Timestamp>)>,
    /// Records in them.
    records: usize,
    /// By hash: the place of a part.
    places: HashTable<usize>,
    alarm: Alarm,
    mark: Mark,
    next: Next<Keyed<K, A>>,
}

impl<K, A, N, F> PreAggregate<K, A, N, F> {
    /// A table before the rest of the chain; `alarm` wakes the chain.
    pub fn new(begin: Arc<N>, fold: Arc<F>, alarm: Alarm, mark: Mark, next: Next<Keyed<K, A>>) -> Self {
        PreAggregate { begin, fold, parts: Vec::new(), records: 0, places: HashTable::new(), alarm, mark, next }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Result<()> {
        self.places.clear();
        self.records = 0;
        self.alarm.set(None);
        self.parts.drain(..).try_for_each(|(part, at)| self.next.on_record(part, at, cx))
    }
}

impl<K, T, A, N, F> Operator<Keyed<K, T>> for PreAggregate<K, A, N, F>
where
    K: Key,
    N: Fn(T) -> A,
    F: Fn(&mut A, T),
{
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        if self.records >= MOST_RECORDS {
            self.flush(cx)?;
        }
        self.records += 1;
        cx.enter(self.mark);
        let parts = &self.parts;
        let same = |place: &usize| parts.get(*place).is_some_and(|(part, _)| part.hash == hash && part.key == key);
        if let Some(place) = self.places.find(hash, same) {
            let (part, latest) = self.parts.get_mut(*place).expect("a place is that of a part");
            (self.fold)(&mut part.value, value);
            *latest = at.max(*latest);
            return Ok(());
        }
        if self.parts.len() >= MOST_KEYS {
            self.flush(cx)?;
            self.records = 1;
        }
        if self.parts.is_empty() {
            self.alarm.set(i64::try_from(cx.now.millis()).ok().map(|now| now.saturating_add(LONGEST_HOLD)));
        }
        let part = Keyed { hash, key, value: (self.begin)(value) };
        self.parts.push((part, at));
        let parts = &self.parts;
        let rehash = |place: &usize| parts.get(*place).expect("a place is that of a part").0.hash;
        self.places.insert_unique(hash, parts.len() - 1, rehash);
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        let due = self.alarm.get().is_some_and(|due| i64::try_from(cx.now.millis()).is_ok_and(|now| due <= now));
        // No record may come behind a watermark that promises there is none.
        let flushes = due || !matches!(signal, Signal::Time | Signal::Ending);
        #[cfg(feature = "mutations")]
        let flushes = flushes
            && (signal != Signal::Flush || !crate::mutation::is(crate::mutation::Mutation::PartsOutliveBarrier));
        if flushes {
            self.flush(cx)?;
        }
        self.next.on_signal(signal, cx)
    }
}
