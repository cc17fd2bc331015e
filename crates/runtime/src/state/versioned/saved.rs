//! Old values that writes saved for a scan: copied at once, encoded later.
//!
//! Right after a cut nearly every write is the first of its key, and encoding what it overwrites costs more than the write. So
//! a record only has it copied, and the scan encodes it in its own time. Only plain data is kept here, whose copy is cheap and
//! whose size is known; and never more than a bound, beyond which the write encodes it itself: nothing is ever dropped.

use std::mem::needs_drop;

#[cfg(test)]
mod tests;

/// So many bytes wait at most, for one cut of one table.
pub(super) const ROOM: usize = 4 << 20;
/// Bytes taken at a time: little enough for the allocator to use again what was given back.
const CHUNK: usize = 64 << 10;

/// See the head of this file. What came last leaves first, while it is still in the cache.
pub(super) struct Saved<K, V> {
    /// The last one is being filled; no other is empty.
    chunks: Vec<Vec<(u16, K, V)>>,
    len: usize,
    most: usize,
}

impl<K: Clone, V: Clone> Saved<K, V> {
    const SIZE: usize = size_of::<(u16, K, V)>();
    /// Entries of a chunk: none if they may own memory elsewhere, or are so large that a copy is not cheap.
    const EACH: usize = if needs_drop::<(K, V)>() || Self::SIZE * 64 > CHUNK { 0 } else { CHUNK / Self::SIZE };

    /// For so many bytes. Allocates nothing: it is made in the cut.
    pub(super) fn new(room: usize) -> Self {
        let most = if Self::EACH == 0 { 0 } else { room / Self::SIZE };
        Self { chunks: Vec::new(), len: 0, most }
    }

    /// Copies an entry; false if it has to be written at once.
    #[inline]
    pub(super) fn push(&mut self, group: u16, key: &K, value: &V) -> bool {
        if self.len == self.most {
            return false;
        }
        self.len += 1;
        match self.chunks.last_mut() {
            Some(open) if open.len() < Self::EACH => open.push((group, key.clone(), value.clone())),
            _ => self.begin((group, key.clone(), value.clone())),
        }
        true
    }

    #[cold]
    fn begin(&mut self, first: (u16, K, V)) {
        let mut chunk = Vec::with_capacity(Self::EACH);
        chunk.push(first);
        self.chunks.push(chunk);
    }

    /// The last one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u16, K, V)> {
        let open = self.chunks.last_mut()?;
        let last = open.pop()?;
        self.len -= 1;
        if open.is_empty() {
            self.chunks.pop();
        }
        Some(last)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.chunks.len() * Self::EACH * Self::SIZE
    }
}
