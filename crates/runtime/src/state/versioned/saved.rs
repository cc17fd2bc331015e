//! Old values that writes saved for a scan: copied at once, encoded later.
//!
//! Right after a cut nearly every write is the first of its key, and encoding what it overwrites costs more than the write. So
//! a record only has it copied, and the scan encodes it in its own time. Each key group has chunks of its own, so that what
//! has waited together is encoded together, as what the scan finds itself. Only plain data is kept here, whose copy is cheap and
//! whose size is known; and never more than a bound, beyond which the write encodes it itself: nothing is ever dropped.

use std::mem::needs_drop;

#[cfg(test)]
mod tests;

/// So many bytes wait at most, for one cut of one table.
pub(super) const ROOM: usize = 4 << 20;
/// Bytes of entries in a chunk: some hundred of a group, and little enough for the allocator to use again.
const CHUNK: usize = 4 << 10;
/// Entries that a chunk has room for at first.
const FIRST: usize = 8;
/// No entry may be larger than this part of a chunk: a copy of it is not cheap.
const PART: usize = 4;

/// See the head of this file. What came last leaves first, while it is still in the cache.
pub(super) struct Saved<K, V> {
    /// None is empty.
    chunks: Vec<Chunk<K, V>>,
    /// For each group of the table its newest chunk, counted from 1, or 0 if it has none; made with the first entry.
    open: Vec<u32>,
    groups: usize,
    room: usize,
    held: usize,
}

struct Chunk<K, V> {
    position: Position,
    entries: Vec<(K, V)>,
}

impl<K, V> Chunk<K, V> {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<(K, V)>()
    }
}

/// A group's index in its table, and its number in the job.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) index: usize,
    pub(super) group: u16,
}

impl<K: Clone, V: Clone> Saved<K, V> {
    const SIZE: usize = size_of::<(K, V)>();
    /// Whether entries own no memory elsewhere and are small.
    const IS_PLAIN: bool = !needs_drop::<(K, V)>() && Self::SIZE > 0 && Self::SIZE * PART <= CHUNK;
    /// Entries of a full chunk.
    const EACH: usize = if Self::IS_PLAIN { CHUNK / Self::SIZE } else { 0 };

    /// For so many bytes, of a table with so many groups. Allocates nothing: it is made in the cut.
    pub(super) fn new(room: usize, groups: usize) -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), groups, room, held: 0 }
    }

    /// Copies an entry; false if it has to be written at once.
    #[inline]
    pub(super) fn push(&mut self, position: Position, key: &K, value: &V) -> bool {
        if !Self::IS_PLAIN {
            return false;
        }
        match self.open_chunk(position.index) {
            Some(open) if open.entries.len() < open.entries.capacity() => {
                open.entries.push((key.clone(), value.clone()));
                true
            }
            _ => self.push_into_more(position, key, value),
        }
    }

    #[inline]
    fn open_chunk(&mut self, index: usize) -> Option<&mut Chunk<K, V>> {
        let open = self.open.get(index)?.checked_sub(1)?;
        self.chunks.get_mut(open as usize)
    }

    /// The chunk of the group is full, or there is none.
    #[cold]
    fn push_into_more(&mut self, position: Position, key: &K, value: &V) -> bool {
        let (held, room) = (self.held, self.room);
        let Some(open) = self.open_chunk(position.index).filter(|open| open.entries.len() < Self::EACH) else {
            return self.begin(position, key, value);
        };
        let length = open.entries.len();
        let more = length.min(Self::EACH - length);
        if held + more * Self::SIZE > room {
            return false;
        }
        open.entries.reserve_exact(more);
        open.entries.push((key.clone(), value.clone()));
        self.held += more * Self::SIZE;
        true
    }

    fn begin(&mut self, position: Position, key: &K, value: &V) -> bool {
        let groups = if self.open.is_empty() { self.groups * size_of::<u32>() } else { 0 };
        let first = FIRST.min(Self::EACH);
        if self.held + groups + size_of::<Chunk<K, V>>() + first * Self::SIZE > self.room {
            return false;
        }
        self.open.resize(self.groups, 0);
        let mut entries = Vec::with_capacity(first);
        entries.push((key.clone(), value.clone()));
        let chunk = Chunk { position, entries };
        self.held += groups + chunk.memory();
        self.chunks.push(chunk);
        *self.open_of(position.index) = u32::try_from(self.chunks.len()).expect("each takes some bytes of the room");
        true
    }

    fn open_of(&mut self, index: usize) -> &mut u32 {
        self.open.get_mut(index).expect("the queue was made for all groups of the table")
    }

    /// The last one, with its group's number in the job.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u16, K, V)> {
        let last = self.chunks.last_mut()?;
        let Position { index, group } = last.position;
        let (key, value) = last.entries.pop()?;
        if last.entries.is_empty() {
            self.held -= last.memory();
            self.chunks.pop();
            let left = self.chunks.len();
            let open = self.open_of(index);
            // Only the last chunk ever goes, so the others keep their places.
            if *open as usize > left {
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
        self.held
    }
}
