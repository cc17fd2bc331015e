//! The entries of one key group that are in memory: a table of bytes, in which some are newer than in the store.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What the allocator takes for an entry besides its bytes.
const BESIDE: usize = 16;
/// The list of new entries may be so much longer than twice the table before what is stale in it goes.
const STALE: usize = 1024;

/// One entry.
struct Slot {
    /// The key, then the value.
    bytes: Box<[u8]>,
    key: u32,
    /// There is a value; else the key is known to have none.
    some: bool,
    /// The store does not know it yet.
    new: bool,
    /// Looked up since the hand came by.
    used: bool,
}

impl Slot {
    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at_checked(self.key as usize).expect("a slot holds its key")
    }

    fn is(&self, key: &[u8]) -> bool {
        self.parts().0 == key
    }

    fn size(&self) -> usize {
        self.bytes.len() + BESIDE
    }
}

/// A key, and its value unless it is gone.
pub(super) type Pair = (Vec<u8>, Option<Vec<u8>>);

#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    /// Hashes of the entries that are new; and of some that are no longer.
    new: Vec<u64>,
    /// Of its entries, without the table.
    bytes: usize,
    /// The store may hold something of this key group.
    pub(super) stored: bool,
}

impl Shard {
    /// Memory that it takes.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.table.allocation_size() + self.new.capacity() * size_of::<u64>()
    }

    /// The value of a key, or that it has none, if that is known here.
    pub(super) fn get(&mut self, seed: u64, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.table.find_mut(xxh3_64_with_seed(key, seed), |slot| slot.is(key)) {
            Some(slot) => {
                slot.used = true;
                Some(slot.some.then(|| slot.parts().1))
            }
            None if self.stored => None,
            None => Some(None),
        }
    }

    /// Sets what a key has; `new` unless the store has told it.
    pub(super) fn set(&mut self, seed: u64, (key, value): (&[u8], Option<&[u8]>), new: bool) {
        let hash = xxh3_64_with_seed(key, seed);
        let held = match self.table.find_entry(hash, |slot| slot.is(key)) {
            Ok(held) if value.is_none() && !self.stored => {
                self.bytes -= held.remove().0.size();
                return;
            }
            Ok(held) => held.into_mut(),
            Err(_) if value.is_none() && !self.stored => return,
            Err(absent) => {
                let slot =
                    Slot { bytes: bytes(key, value), key: key.len() as u32, some: value.is_some(), new, used: false };
                self.bytes += slot.size();
                let again = |slot: &Slot| xxh3_64_with_seed(slot.parts().0, seed);
                absent.into_table().insert_unique(hash, slot, again);
                self.remember(seed, hash, new);
                return;
            }
        };
        let (was, is_first) = (held.size(), new && !held.new);
        match (held.bytes.get_mut(key.len()..), value) {
            (Some(place), Some(value)) if place.len() == value.len() => place.copy_from_slice(value),
            _ => held.bytes = bytes(key, value),
        }
        (held.some, held.new) = (value.is_some(), new);
        self.bytes = self.bytes + held.size() - was;
        self.remember(seed, hash, is_first);
    }

    fn remember(&mut self, seed: u64, hash: u64, new: bool) {
        if new {
            self.new.push(hash);
        }
        if self.new.len() > 2 * self.table.len() + STALE {
            let still = self.table.iter().filter(|slot| slot.new);
            self.new = still.map(|slot| xxh3_64_with_seed(slot.parts().0, seed)).collect();
        }
    }

    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// What the store does not know yet, in order; from now on it does.
    pub(super) fn take_new(&mut self) -> Vec<Pair> {
        let mut taken = Vec::with_capacity(self.new.len());
        for hash in std::mem::take(&mut self.new) {
            for slot in self.table.iter_hash_mut(hash).filter(|slot| slot.new) {
                slot.new = false;
                taken.push(pair(slot));
            }
        }
        self.stored |= !taken.is_empty();
        taken.sort_unstable();
        taken
    }

    /// Drops entries from bucket `hand` on until so many bytes are free, but spares those that were used since it was there last.
    /// What of them the store does not know goes to `new`. Returns where the hand is, if not at the end.
    pub(super) fn evict(&mut self, seed: u64, hand: usize, wanted: usize, new: &mut Vec<Pair>) -> Option<usize> {
        let mut free = 0;
        for bucket in hand..self.table.num_buckets() {
            if free >= wanted {
                return Some(bucket);
            }
            let Ok(mut held) = self.table.get_bucket_entry(bucket) else { continue };
            if std::mem::take(&mut held.get_mut().used) {
                continue;
            }
            let (slot, _) = held.remove();
            free += slot.size();
            self.bytes -= slot.size();
            if slot.new {
                self.stored = true;
                new.push(pair(&slot));
            }
        }
        // Others need the room that a large table would keep for nothing.
        if self.table.is_empty() {
            *self = Shard { stored: self.stored, ..Shard::default() };
        } else if self.table.len() < self.table.capacity() / 4 {
            self.table.shrink_to_fit(|slot| xxh3_64_with_seed(slot.parts().0, seed));
        }
        None
    }
}

#[cfg(test)]
impl Shard {
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.table.iter().map(Slot::size).sum())
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn news(&self) -> usize {
        self.new.len()
    }
}

fn pair(slot: &Slot) -> Pair {
    let (key, value) = slot.parts();
    (key.to_vec(), slot.some.then(|| value.to_vec()))
}

fn bytes(key: &[u8], value: Option<&[u8]>) -> Box<[u8]> {
    [key, value.unwrap_or_default()].concat().into_boxed_slice()
}
