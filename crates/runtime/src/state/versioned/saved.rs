//! Old values that writes saved for a scan: copied at once, encoded later.
//!
//! Right after a cut nearly every write is the first of its key, and encoding what it overwrites costs more than the write. So
//! a record only has it copied, and the scan encodes it in its own time. Each key group has chunks of its own, so that what
//! is encoded together has one group, as what the scan finds itself. Only plain data is kept here, whose copy is cheap and
//! whose size is known; and never more than a bound, beyond which the write encodes it itself: nothing is ever dropped.

use std::mem::needs_drop;

#[cfg(test)]
mod tests;

/// So many bytes wait at most, for one cut of one table.
pub(super) const ROOM: usize = 4 << 20;
/// Bytes taken at a time: some hundred entries of a group, and little enough for the allocator to use again.
const CHUNK: usize = 4 << 10;
/// No entry may be larger than this part of a chunk: a copy of it is not cheap.
const PART: usize = 4;

/// See the head of this file. What came last leaves first, while it is still in the cache.
pub(super) struct Saved<K, V> {
    /// None is empty.
    chunks: Vec<Chunk<K, V>>,
    /// For each group of the table the chunk that is being filled, counted from 1; made with the first entry.
    open: Vec<u32>,
    groups: usize,
    /// Entries of a chunk, and the most chunks.
    each: usize,
    most: usize,
}

struct Chunk<K, V> {
    /// Its index in the table, and its number in the job.
    group: (usize, u16),
    entries: Vec<(K, V)>,
}

impl<K: Clone, V: Clone> Saved<K, V> {
    const SIZE: usize = size_of::<(K, V)>();
    /// Whether entries own no memory elsewhere and are small.
    const IS_PLAIN: bool = !needs_drop::<(K, V)>() && Self::SIZE * PART <= CHUNK;

    /// For so many bytes, of a table with so many groups. Allocates nothing: it is made in the cut.
    pub(super) fn new(room: usize, groups: usize) -> Self {
        let size = Self::SIZE.max(1);
        // Half of the room is enough for one chunk of each group.
        let each = (room / size / groups.max(1) / 2).clamp(1, (CHUNK / size).max(1));
        let most = if Self::IS_PLAIN { room / (each * size) } else { 0 };
        Self { chunks: Vec::new(), open: Vec::new(), groups, each, most }
    }

    /// Copies an entry; false if it has to be written at once.
    #[inline]
    pub(super) fn push(&mut self, group: (usize, u16), key: &K, value: &V) -> bool {
        if !Self::IS_PLAIN {
            return false;
        }
        let open = self.open.get(group.0).and_then(|open| self.chunks.get_mut((*open as usize).wrapping_sub(1)));
        match open {
            Some(open) if open.entries.len() < self.each => open.entries.push((key.clone(), value.clone())),
            _ => return self.begin(group, key, value),
        }
        true
    }

    #[cold]
    fn begin(&mut self, group: (usize, u16), key: &K, value: &V) -> bool {
        if self.chunks.len() == self.most {
            return false;
        }
        if self.open.is_empty() {
            self.open.resize(self.groups, 0);
        }
        let mut entries = Vec::with_capacity(self.each);
        entries.push((key.clone(), value.clone()));
        self.chunks.push(Chunk { group, entries });
        let open = self.open.get_mut(group.0).expect("the queue was made for all groups of the table");
        *open = u32::try_from(self.chunks.len()).expect("chunks of few bytes are fewer than their room");
        true
    }

    /// The last one, with its group's number in the job.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u16, K, V)> {
        let last = self.chunks.last_mut()?;
        let (index, group) = last.group;
        let (key, value) = last.entries.pop()?;
        if last.entries.is_empty() {
            self.chunks.pop();
            let open = self.open.get_mut(index).expect("the queue was made for all groups of the table");
            // Only the last chunk ever goes, so the others keep their places.
            if *open as usize > self.chunks.len() {
                *open = 0;
            }
        }
        Some((group, key, value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.chunks.len() * self.each * Self::SIZE
    }
}
