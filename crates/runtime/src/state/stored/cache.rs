//! Entries above a store, in memory: what is used again is neither read from the store nor written to it each time.
//!
//! Writes stay here until their memory is wanted for others, or until somebody visits a range of the store: then what is
//! new in the key groups of the range is written out first, so a visit always sees everything. Snapshots are taken above this
//! (`rows.rs`) and know nothing of it. Only entries are kept, not what is only ever visited. Evicted is by the clock
//! (Corbató 1968): entries that were looked up again since the hand passed are spared.

mod shard;
#[cfg(test)]
mod tests;

use super::change_log::ENTRY;
use crate::segment::StateName;
use crate::state::store::{Change, Space, Store, StoreError};
use shard::{Pair, Shard};
use std::cell::{Cell, OnceCell, RefCell};

/// Bytes that are made free at once: enough that the store gets many writes together.
const AT_ONCE: usize = 32 << 10;
/// Of the memory above a store, the part that the logs of changed keys may take.
const LOG_PART: usize = 8;

/// A key group of a state, and a bucket of it.
#[derive(Clone, Copy, Default)]
struct Hand {
    space: usize,
    group: usize,
    bucket: usize,
}

#[derive(Default)]
struct Kept {
    /// By space, then by key group.
    spaces: Vec<Vec<Shard>>,
    /// Bytes.
    size: usize,
    hand: Hand,
}

/// A store of bytes with what was used lately in memory.
pub(super) struct Cache {
    store: Box<dyn Store>,
    kept: RefCell<Kept>,
    /// Bytes that the logs of changed keys take.
    logged: Cell<usize>,
    /// Of the hashes, so that nobody can choose keys that collide.
    seed: u64,
    /// There was memory at the beginning; else the store is asked each time.
    is_used: bool,
    /// Entries could not be written when they were driven out.
    lost: OnceCell<StoreError>,
}

/// The key group of an entry; none if the key is of another area.
fn group(key: &[u8]) -> Option<usize> {
    match key {
        [ENTRY, high, low, ..] => Some(usize::from(u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}

/// The first key of a key group's entries; of the one behind the last, the end of the area.
fn start(group: usize) -> Vec<u8> {
    u16::try_from(group).map_or(vec![ENTRY + 1], |group| [&[ENTRY], &group.to_be_bytes()[..]].concat())
}

impl Kept {
    fn shard(&mut self, space: Space, group: usize) -> &mut Shard {
        let shards = self.spaces.get_mut(usize::from(space.0)).expect("a space that was created");
        if group >= shards.len() {
            shards.resize_with(group + 1, Shard::default);
        }
        shards.get_mut(group).expect("made above")
    }

    /// Whatever may take or free memory.
    fn change<R>(&mut self, space: Space, group: usize, change: impl FnOnce(&mut Shard) -> R) -> R {
        let shard = self.shard(space, group);
        let was = shard.size();
        let changed = change(shard);
        let is = shard.size();
        self.size = self.size + is - was;
        changed
    }

    fn set(&mut self, space: Space, seed: u64, (key, value): (&[u8], Option<&[u8]>), new: bool) {
        let Some(group) = group(key) else { return };
        self.change(space, group, |shard| shard.set(seed, (key, value), new));
    }

    /// The next key group from `group` on in which something is new.
    fn next_new(&self, space: Space, group: usize) -> Option<usize> {
        let shards = self.spaces.get(usize::from(space.0))?.get(group..)?;
        shards.iter().position(Shard::has_new).map(|found| group + found)
    }

    /// Evicts what the hand comes to until so many bytes are free. What the store must be told is of one space.
    fn evict(&mut self, seed: u64, wanted: usize) -> (Space, Vec<Pair>) {
        let mut new = Vec::new();
        let Hand { space: of, group, bucket } = self.hand;
        let space = Space(of as u16);
        self.hand = match self.spaces.get(of).map(Vec::len) {
            Some(groups) if group < groups => {
                let next = self.change(space, group, |shard| shard.evict(seed, bucket, wanted, &mut new));
                next.map_or(Hand { space: of, group: group + 1, bucket: 0 }, |bucket| Hand { bucket, ..self.hand })
            }
            Some(_) => Hand { space: of + 1, ..Hand::default() },
            None => Hand::default(),
        };
        (space, new)
    }
}

fn changes(pairs: Vec<Pair>) -> Vec<Change> {
    let change = |(key, value): Pair| match value {
        Some(value) => Change::Put(key, value),
        None => Change::Delete(key),
    };
    pairs.into_iter().map(change).collect()
}

impl Cache {
    pub(super) fn new(store: Box<dyn Store>, seed: u64) -> Self {
        let is_used = store.memory() > 0;
        Self { store, kept: RefCell::default(), logged: Cell::new(0), seed, is_used, lost: OnceCell::new() }
    }

    /// Takes memory for the log of a state; false if there is none left.
    pub(super) fn claim_log(&self, bytes: usize) -> bool {
        let logged = self.logged.get() + bytes;
        let is_room = logged <= self.store.memory() / LOG_PART;
        if is_room {
            self.logged.set(logged);
        }
        is_room
    }

    pub(super) fn release_log(&self, bytes: usize) {
        self.logged.set(self.logged.get().saturating_sub(bytes));
    }

    /// Bytes that entries may take.
    fn room(&self) -> usize {
        let memory = self.store.memory();
        memory - memory / LOG_PART
    }

    /// What was driven out and could not be written is nowhere: nothing can be relied upon after that.
    fn check(&self) -> Result<(), StoreError> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn make_room(&self) -> Result<(), StoreError> {
        self.check()?;
        let room = self.room();
        while self.kept.borrow().size > room {
            let over = self.kept.borrow().size - room;
            let (space, mut new) = self.kept.borrow_mut().evict(self.seed, over.max(AT_ONCE.min(room / 4)));
            if !new.is_empty() {
                new.sort_unstable();
                let written = self.store.write(space, changes(new));
                written.inspect_err(|error| drop(self.lost.set(error.clone())))?;
            }
        }
        Ok(())
    }

    pub(super) fn create(&self, name: &StateName) -> Result<Space, StoreError> {
        let space = self.store.create(name)?;
        self.kept.borrow_mut().spaces.resize_with(usize::from(space.0) + 1, Vec::new);
        Ok(space)
    }

    /// Shows the value of a key, or none. What is wanted `once` only drives nothing out.
    pub(super) fn get<R>(
        &self,
        space: Space,
        key: &[u8],
        once: bool,
        look: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, StoreError> {
        self.check()?;
        let Some(group) = group(key).filter(|_| self.is_used) else {
            return self.store.get(space, key).map(|value| look(value.as_deref()));
        };
        if let Some(known) = self.kept.borrow_mut().shard(space, group).get(self.seed, key) {
            return Ok(look(known));
        }
        let value = self.store.get(space, key)?;
        if value.is_some() && !once {
            self.kept.borrow_mut().set(space, self.seed, (key, value.as_deref()), false);
            self.make_room()?;
        }
        Ok(look(value.as_deref()))
    }

    /// As [`Cache::write`] of one put, which it need not own.
    pub(super) fn put(&self, space: Space, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if group(key).is_none() || !self.is_used {
            return self.store.write(space, vec![Change::Put(key.to_vec(), value.to_vec())]);
        }
        self.kept.borrow_mut().set(space, self.seed, (key, Some(value)), true);
        self.make_room()
    }

    /// As [`Store::write`].
    pub(super) fn write(&self, space: Space, changes: Vec<Change>) -> Result<(), StoreError> {
        if !self.is_used {
            return self.store.write(space, changes);
        }
        let mut passed = Vec::new();
        let mut kept = self.kept.borrow_mut();
        for change in changes {
            match &change {
                Change::Put(key, value) if group(key).is_some() => kept.set(space, self.seed, (key, Some(value)), true),
                Change::Delete(key) if group(key).is_some() => kept.set(space, self.seed, (key, None), true),
                _ => passed.push(change),
            }
        }
        drop(kept);
        if !passed.is_empty() {
            self.store.write(space, passed)?;
        }
        self.make_room()
    }

    /// As [`Store::load`].
    pub(super) fn load<'a>(
        &self,
        space: Space,
        sorted: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StoreError> {
        let mut kept = self.kept.borrow_mut();
        let mut last = None;
        self.store.load(
            space,
            &mut sorted.inspect(|(key, _)| {
                let group = group(key);
                if group != last {
                    group.into_iter().for_each(|group| kept.shard(space, group).stored = true);
                    last = group;
                }
            }),
        )
    }

    /// As [`Store::remove_range`], of what is not an entry.
    pub(super) fn remove_range(&self, space: Space, from: &[u8], until: &[u8]) -> Result<(), StoreError> {
        debug_assert!(group(from).is_none(), "entries are removed one by one");
        self.store.remove_range(space, from, until)
    }

    /// As [`Store::visit`], or as [`Store::scan`] if it is `once` only.
    pub(super) fn visit(
        &self,
        space: Space,
        (from, until): (&[u8], &[u8]),
        once: bool,
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.check()?;
        let more = Cell::new(true);
        let mut look = |key: &[u8], value: &[u8]| {
            more.set(look(key, value));
            more.get()
        };
        let mut visit = |from: &[u8], until: &[u8]| match once {
            _ if from >= until => Ok(()),
            true => self.store.scan(space, from, until, &mut look),
            false => self.store.visit(space, from, until, &mut look),
        };
        let mut from = from.to_vec();
        let mut next = (from.first() <= Some(&ENTRY)).then(|| group(&from).unwrap_or(0));
        while let Some(group) = next.and_then(|group| self.kept.borrow().next_new(space, group)) {
            let begin = start(group).max(from.clone());
            if begin.as_slice() >= until {
                break;
            }
            visit(&from, &begin)?;
            if !more.get() {
                return Ok(());
            }
            // If that fails, nothing is lost: the entries are as new as before.
            let new = self.kept.borrow_mut().shard(space, group).new_pairs();
            if !new.is_empty() {
                self.store.write(space, changes(new))?;
            }
            self.kept.borrow_mut().change(space, group, Shard::all_stored);
            (from, next) = (begin, Some(group + 1));
        }
        visit(&from, until)
    }
}
