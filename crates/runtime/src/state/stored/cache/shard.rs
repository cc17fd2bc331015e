//! The entries of one key group that are in memory: a table of bytes, in which some are newer than in the store.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What the allocator takes for an entry besides its bytes.
const BESIDE: usize = 16;
/// So many hashes of new entries are remembered, and one for each eight entries; with more, the table is looked through.
const FEW: usize = 64;
/// There is a value; else the key is known to have none.
const SOME: u8 = 1;
/// The store does not know it yet.
const NEW: u8 = 2;
/// Looked up since the hand came by.
const USED: u8 = 4;
/// Flags, and the length of the key.
const HEAD: usize = 5;

/// One entry: the head, the key, the value. Tables hold many of these and half of their places are empty, so it is a pointer.
struct Slot(Box<[u8]>);

impl Slot {
    fn new(flags: u8, key: &[u8], value: Option<&[u8]>) -> Self {
        let length = (key.len() as u32).to_le_bytes();
        Self([&[flags], &length[..], key, value.unwrap_or_default()].concat().into_boxed_slice())
    }

    fn has(&self, flag: u8) -> bool {
        self.0.first().is_some_and(|flags| flags & flag != 0)
    }

    fn set(&mut self, flag: u8, on: bool) {
        let flags = self.0.first_mut().expect("a slot has a head");
        *flags = if on { *flags | flag } else { *flags & !flag };
    }

    fn key(&self) -> usize {
        let length = self.0.get(1..).and_then(|rest| rest.first_chunk()).expect("a slot has a head");
        u32::from_le_bytes(*length) as usize
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let (_, rest) = self.0.split_at_checked(HEAD).expect("a slot has a head");
        rest.split_at_checked(self.key()).expect("a slot holds its key")
    }

    fn is(&self, key: &[u8]) -> bool {
        self.parts().0 == key
    }

    /// Sets the value, in place if it is as long as the old one.
    fn put(&mut self, value: Option<&[u8]>) {
        let key = self.key();
        match (self.0.get_mut(HEAD + key..), value) {
            (Some(place), Some(value)) if place.len() == value.len() => place.copy_from_slice(value),
            _ => {
                let flags = self.0.first().copied().unwrap_or_default();
                *self = Slot::new(flags, self.parts().0, value);
            }
        }
        self.set(SOME, value.is_some());
    }

    fn size(&self) -> usize {
        self.0.len() + BESIDE
    }
}

/// A key, and its value unless it is gone.
pub(super) type Pair = (Vec<u8>, Option<Vec<u8>>);

#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<Slot>,
    /// Hashes of the entries that are new, and of some that are no longer; if there are too many, none.
    new: Vec<u64>,
    many_new: bool,
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
                slot.set(USED, true);
                Some(slot.has(SOME).then(|| slot.parts().1))
            }
            None if self.stored => None,
            None => Some(None),
        }
    }

    /// Sets what a key has; `new` unless the store has told it.
    pub(super) fn set(&mut self, seed: u64, (key, value): (&[u8], Option<&[u8]>), new: bool) {
        let hash = xxh3_64_with_seed(key, seed);
        let drop_it = value.is_none() && !self.stored;
        let was_new = match self.table.find_entry(hash, |slot| slot.is(key)) {
            Ok(held) if drop_it => {
                self.bytes -= held.remove().0.size();
                return;
            }
            Ok(held) => {
                let slot = held.into_mut();
                let (was, was_new) = (slot.size(), slot.has(NEW));
                slot.put(value);
                slot.set(NEW, new);
                self.bytes = self.bytes + slot.size() - was;
                was_new
            }
            Err(_) if drop_it => return,
            Err(absent) => {
                let flags = if value.is_some() { SOME } else { 0 } | if new { NEW } else { 0 };
                let slot = Slot::new(flags, key, value);
                self.bytes += slot.size();
                absent.into_table().insert_unique(hash, slot, |slot| xxh3_64_with_seed(slot.parts().0, seed));
                false
            }
        };
        if new && !was_new && !self.many_new {
            self.new.push(hash);
            if self.new.len() > self.table.len() / 8 + FEW {
                (self.new, self.many_new) = (Vec::new(), true);
            }
        }
    }

    pub(super) fn has_new(&self) -> bool {
        self.many_new || !self.new.is_empty()
    }

    /// What the store does not know yet, in order.
    pub(super) fn new_pairs(&mut self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        self.each_new(|slot| pairs.push(pair(slot)));
        pairs.sort_unstable();
        pairs
    }

    /// The store knows all of them now.
    pub(super) fn all_stored(&mut self) {
        self.stored |= self.has_new();
        self.each_new(|slot| slot.set(NEW, false));
        (self.new, self.many_new) = (Vec::new(), false);
    }

    fn each_new(&mut self, mut act: impl FnMut(&mut Slot)) {
        let mut act = |slot: &mut Slot| {
            if slot.has(NEW) {
                act(slot);
            }
        };
        if self.many_new {
            self.table.iter_mut().for_each(act);
        } else {
            self.new.iter().for_each(|hash| self.table.iter_hash_mut(*hash).for_each(&mut act));
        }
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
            if held.get().has(USED) {
                held.get_mut().set(USED, false);
                continue;
            }
            let (slot, _) = held.remove();
            free += slot.size();
            self.bytes -= slot.size();
            if slot.has(NEW) {
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

    pub(super) fn news(&self) -> usize {
        self.new.len()
    }
}

fn pair(slot: &Slot) -> Pair {
    let (key, value) = slot.parts();
    (key.to_vec(), slot.has(SOME).then(|| value.to_vec()))
}
