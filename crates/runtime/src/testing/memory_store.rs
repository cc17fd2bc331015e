//! A [`Store`] in memory: a plain ordered map, which can be told to fail.

use crate::state::StateName;
use crate::state::store::{Change, Space, Store, StoreError, Stores};
use flott_checkpoint::{AttemptId, SubtaskId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// An ordered map of bytes. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    spaces: Rc<RefCell<Vec<Map>>>,
    fuse: Fuse,
    asked: Rc<Asked>,
    memory: usize,
}

/// What a store was asked for so far.
#[derive(Debug, Default)]
pub struct Asked {
    /// Values of keys.
    pub gets: Cell<usize>,
    /// Writes.
    pub writes: Cell<usize>,
    /// Changes, of all writes.
    pub changes: Cell<usize>,
}

/// Lets a store fail after so many more calls.
#[derive(Clone, Debug)]
pub struct Fuse(Arc<AtomicI64>);

impl Default for Fuse {
    fn default() -> Self {
        Fuse(Arc::new(AtomicI64::new(i64::MAX)))
    }
}

impl Fuse {
    /// So many calls succeed from now on, and all others fail.
    pub fn set(&self, calls: i64) {
        self.0.store(calls, Ordering::Relaxed);
    }

    fn burn(&self) -> Result<(), StoreError> {
        if self.0.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        self.0.store(0, Ordering::Relaxed);
        Err(StoreError("the store is out of order".to_owned()))
    }
}

impl MemoryStore {
    /// An empty one, above which so many bytes may be used.
    #[must_use]
    pub fn below(memory: usize) -> Self {
        Self { memory, ..Self::default() }
    }

    /// What it was asked for.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// What makes it fail.
    #[must_use]
    pub fn fuse(&self) -> Fuse {
        self.fuse.clone()
    }

    /// Keys in all spaces, whatever they are for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spaces.borrow().iter().map(BTreeMap::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store for MemoryStore {
    fn memory(&self) -> usize {
        self.memory
    }

    fn create(&self, _: &StateName) -> Result<Space, StoreError> {
        self.fuse.burn()?;
        let mut spaces = self.spaces.borrow_mut();
        spaces.push(BTreeMap::new());
        Ok(Space(spaces.len() as u16 - 1))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.fuse.burn()?;
        self.asked.gets.update(|gets| gets + 1);
        Ok(self.spaces.borrow().get(usize::from(space.0)).and_then(|space| space.get(key).cloned()))
    }

    fn write(&self, space: Space, changes: Vec<Change>) -> Result<(), StoreError> {
        self.fuse.burn()?;
        self.asked.writes.update(|writes| writes + 1);
        self.asked.changes.update(|all| all + changes.len());
        let mut spaces = self.spaces.borrow_mut();
        let space = spaces.get_mut(usize::from(space.0)).expect("a space that was created");
        for change in changes {
            match change {
                Change::Put(key, value) => drop(space.insert(key, value)),
                Change::Delete(key) => drop(space.remove(&key)),
            }
        }
        Ok(())
    }

    fn remove_range(&self, space: Space, from: &[u8], until: &[u8]) -> Result<(), StoreError> {
        self.fuse.burn()?;
        let mut spaces = self.spaces.borrow_mut();
        let space = spaces.get_mut(usize::from(space.0)).expect("a space that was created");
        space.retain(|key, _| key.as_slice() < from || key.as_slice() >= until);
        Ok(())
    }

    fn visit(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.fuse.burn()?;
        let spaces = self.spaces.borrow();
        let space = spaces.get(usize::from(space.0)).expect("a space that was created");
        if from < until {
            space.range(from.to_vec()..until.to_vec()).all(|(key, value)| look(key, value));
        }
        Ok(())
    }
}

/// A fresh [`MemoryStore`] for each subtask, with so many bytes above it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryStores(pub usize);

impl Stores for MemoryStores {
    fn open(&self, _: AttemptId, _: SubtaskId) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(MemoryStore::below(self.0)))
    }
}
