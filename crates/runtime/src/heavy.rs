//! The heaviest keys of a stream, in a fixed number of counters: Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient
//! computation of frequent and top-k elements in data streams", ICDT 2005).
//!
//! Pure: it counts what it is given and decides nothing.

#[cfg(test)]
mod tests;

/// Counts keys with at most `COUNTERS` counters.
///
/// With `n` keys added so far: a key that was added more than `n / COUNTERS` times has a counter, and the true count of a key
/// with a counter lies between `count - error` and `count`, of which `error` is at most `n / COUNTERS`.
#[derive(Clone, Debug)]
pub struct Heavy<K> {
    counters: Vec<Counter<K>>,
    added: u64,
}

/// Counters of a [`Heavy`].
pub const COUNTERS: usize = 16;

/// What is known of one key.
#[derive(Clone, Debug)]
pub struct Counter<K> {
    /// Its hash: equal for equal keys.
    hash: u64,
    /// The key.
    pub key: K,
    /// It was added at most so often.
    pub count: u64,
    /// By so much at most the count is too high.
    pub error: u64,
}

impl<K> Default for Heavy<K> {
    fn default() -> Heavy<K> {
        Heavy { counters: Vec::with_capacity(COUNTERS), added: 0 }
    }
}

impl<K: Eq + Clone> Heavy<K> {
    /// Counts a key. `hash` must be equal for equal keys.
    pub fn add(&mut self, hash: u64, key: &K) {
        self.added += 1;
        if let Some(counter) = self.counters.iter_mut().find(|known| known.hash == hash && known.key == *key) {
            counter.count += 1;
            return;
        }
        let fresh = |error: u64| Counter { hash, key: key.clone(), count: error + 1, error };
        if self.counters.len() < COUNTERS {
            self.counters.push(fresh(0));
        } else if let Some(least) = self.counters.iter_mut().min_by_key(|known| known.count) {
            *least = fresh(least.count);
        }
    }

    /// How many keys were added.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// What is known, in no order.
    #[must_use]
    pub fn counters(&self) -> &[Counter<K>] {
        &self.counters
    }
}
