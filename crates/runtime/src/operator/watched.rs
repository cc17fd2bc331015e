//! Looks which keys are heavy, in front of a keyed operator that gets every record as if nothing were there.
//!
//! It looks at one record of some 256, and only when the operator may look ahead anyway: nothing is done for a record. Which
//! ones is drawn at random, so that a period of the stream does not matter. Nothing is decided by what it finds.

use super::{Context, Flow, Operator, Signal};
use crate::error::Result;
use crate::heavy::Heavy;
use crate::key::Key;
use crate::meter::{Hot, HotKeys};
use crate::record::Keyed;
use crate::time::Timestamp;
use serde_json::Value;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// Strides between two samples are drawn from 1 to this: 256 on average.
const LONGEST_STRIDE_BITS: u32 = 9;
/// After so many samples the counts begin anew, so that what was hot once is not shown for ever: a million records or so.
const WINDOW: u64 = 4_096;
/// Fewer samples say nothing.
const FEWEST: u64 = 64;
/// A key with less than this share of the records is not hot.
const LEAST_SHARE: f64 = 0.01;
/// Longer keys are cut, in characters.
const LONGEST_KEY: usize = 100;

/// See the head of this file.
pub struct Watched<K, O> {
    keys: Arc<Sampled<K>>,
    flow: Rc<Flow>,
    /// The next sample is due when so many records were taken.
    due: u64,
    random: u64,
    operator: O,
}

impl<K: Key, O> Watched<K, O> {
    /// In front of an operator whose head counts its records in this flow.
    pub(crate) fn new(keys: Arc<Sampled<K>>, flow: Rc<Flow>, seed: Option<u64>, operator: O) -> Watched<K, O> {
        // Without a seed no sample is ever due.
        let due = if seed.is_some() { 0 } else { u64::MAX };
        Watched { keys, flow, due, random: seed.unwrap_or(0), operator }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[inline(never)]
    fn sample<T>(&mut self, upcoming: &[Keyed<K, T>], taken: u64) {
        let drawn = self.draw();
        let place = usize::try_from(drawn % (upcoming.len() as u64).max(1)).unwrap_or(0);
        self.due = taken + 1 + (drawn >> (64 - LONGEST_STRIDE_BITS));
        if let Some(record) = upcoming.get(place) {
            self.keys.add(record.hash, &record.key);
        }
    }
}

impl<K: Key, T, O: Operator<Keyed<K, T>>> Operator<Keyed<K, T>> for Watched<K, O> {
    #[inline]
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.operator.on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.operator.on_signal(signal, cx)
    }

    #[inline]
    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        // Records that are seen again, because they could not be taken, bring no sample nearer.
        let taken = self.flow.taken.get();
        if taken >= self.due {
            self.sample(upcoming, taken);
        }
        self.operator.look_ahead(upcoming);
    }
}

/// The samples of one operator in one subtask, shared with whoever asks for them.
pub(crate) struct Sampled<K> {
    operator: String,
    windows: Mutex<Windows<K>>,
}

struct Windows<K> {
    /// The one that is being filled, and the full one before it.
    now: Heavy<K>,
    before: Option<Heavy<K>>,
}

impl<K: Key> Sampled<K> {
    pub(crate) fn new(operator: &str) -> Sampled<K> {
        Sampled { operator: operator.to_owned(), windows: Mutex::new(Windows { now: Heavy::default(), before: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, Windows<K>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, hash: u64, key: &K) {
        let mut windows = self.lock();
        windows.now.add(hash, key);
        if windows.now.added() >= WINDOW {
            windows.before = Some(std::mem::take(&mut windows.now));
        }
    }
}

impl<K: Key> HotKeys for Sampled<K> {
    fn read(&self) -> Hot {
        let windows = self.lock();
        let heavy = windows.before.as_ref().unwrap_or(&windows.now);
        let mut hot = Hot { operator: self.operator.clone(), samples: heavy.added(), keys: Vec::new() };
        if heavy.added() >= FEWEST {
            #[expect(clippy::cast_precision_loss, reason = "a share of some thousands")]
            let share = |count: u64| count as f64 / heavy.added() as f64;
            let sure = heavy.counters().iter().map(|known| (share(known.count - known.error), &known.key));
            hot.keys.extend(sure.filter(|(share, _)| *share >= LEAST_SHARE).map(|(share, key)| (text(key), share)));
            heaviest_first(&mut hot.keys);
        }
        hot
    }
}

fn heaviest_first(keys: &mut [(String, f64)]) {
    keys.sort_by(|(_, one), (_, other)| other.total_cmp(one));
}

/// A key for people: as it is if it is text, else as JSON.
fn text<K: Key>(key: &K) -> String {
    let text = match serde_json::to_value(key) {
        Ok(Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(_) => "(a key that cannot be shown)".to_owned(),
    };
    if text.chars().count() > LONGEST_KEY { text.chars().take(LONGEST_KEY).chain(['…']).collect() } else { text }
}
