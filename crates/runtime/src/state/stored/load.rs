//! Entries of a full part on their way into the store: they have no older selves to be read, saved or logged, so they are
//! gathered, sorted and handed over many at a time.

use super::cache::Cache;
use crate::state::store::{Space, StoreError};
use std::ops::Range;

/// Bytes that are gathered: enough that few hand-overs overlap, and no more than a worker has to spare.
const BATCH: usize = 4 << 20;

/// Keys and values, one behind the other, and where they are.
#[derive(Default)]
pub(super) struct Load {
    bytes: Vec<u8>,
    pairs: Vec<(Range<usize>, Range<usize>)>,
}

impl Load {
    /// Adds a key of which the parts are given one after the other, and its value alike.
    pub(super) fn add(&mut self, key: [&[u8]; 2], value: [&[u8]; 2]) {
        let mut place = |parts: [&[u8]; 2]| {
            let start = self.bytes.len();
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
            start..self.bytes.len()
        };
        let pair = (place(key), place(value));
        self.pairs.push(pair);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Hands everything over, and says how many keys that were. A part that the heap wrote may have an entry twice, for its
    /// scan of a group that grew starts over; both are the same.
    pub(super) fn flush(&mut self, store: &Cache, space: Space) -> Result<usize, StoreError> {
        if self.is_empty() {
            return Ok(0);
        }
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).expect("a place that was filled");
        // What a scan over a store wrote is sorted already, which this notices.
        self.pairs.sort_by(|(one, _), (other, _)| bytes(one).cmp(bytes(other)));
        self.pairs.dedup_by(|(one, _), (other, _)| bytes(one) == bytes(other));
        let loaded = store.load(space, &mut self.pairs.iter().map(|(key, value)| (bytes(key), bytes(value))));
        let count = self.pairs.len();
        self.bytes.clear();
        self.pairs.clear();
        loaded.map(|()| count)
    }
}
