//! Puts key and hash beside a record, on the sender's side: the receiver never computes them again (design D9).

use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::{Key, encode_key, hash_key};
use crate::record::{Keyed, Record};
use crate::time::Timestamp;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// How a record finds its key.
pub type KeyOf<K, T> = Arc<dyn Fn(&T) -> K + Send + Sync>;

/// Evaluates the key of every record. It may own what comes behind it as it is, so that both are compiled together.
pub struct KeyBy<K, T, N = Next<Keyed<K, T>>> {
    key: KeyOf<K, T>,
    seed: u64,
    label: String,
    mark: Mark,
    next: N,
    check: EqualityCheck<K>,
}

impl<K: Key, T, N: Operator<Keyed<K, T>>> KeyBy<K, T, N> {
    /// A key before the edge that spreads by it; `label` names it in errors.
    pub fn new(key: KeyOf<K, T>, seed: u64, label: &str, mark: Mark, next: N) -> KeyBy<K, T, N> {
        KeyBy { key, seed, label: label.to_owned(), mark, next, check: EqualityCheck::default() }
    }
}

impl<K: Key, T: Record, N: Operator<Keyed<K, T>>> Operator<T> for KeyBy<K, T, N> {
    #[inline]
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        let key = (self.key)(&record);
        let hash =
            hash_key(self.seed, &key).map_err(|error| Error::invalid(error.to_string()).at_operator(&self.label))?;
        if cfg!(debug_assertions) {
            self.check.look(&key, &self.label);
        }
        self.next.on_record(Keyed { hash, key, value: record }, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

/// How many keys a debug build compares with how many others.
const KEYS_KEPT: usize = 8;
const KEYS_LOOKED_AT: usize = 1_024;

/// Debug builds only: of the first keys, equal ones must have equal encodings and different ones different.
struct EqualityCheck<K> {
    kept: Vec<(K, Vec<u8>)>,
    left: usize,
}

impl<K> Default for EqualityCheck<K> {
    fn default() -> Self {
        EqualityCheck { kept: Vec::new(), left: KEYS_LOOKED_AT }
    }
}

impl<K: Key> EqualityCheck<K> {
    fn look(&mut self, key: &K, label: &str) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let Ok(encoded) = encode_key(key) else { return };
        for (other, other_encoded) in &self.kept {
            assert!(
                (key == other) == (encoded.as_slice() == other_encoded.as_slice()),
                "{label}: `Eq` and `Serialize` of {} disagree about two keys: state would be lost or mixed",
                std::any::type_name::<K>()
            );
        }
        if self.kept.len() < KEYS_KEPT {
            self.kept.push((key.clone(), encoded.to_vec()));
        }
    }
}
