//! The seam to a store of bytes that lies outside the heap: what the state in it needs, and nothing else.
//!
//! A store is an ordered map of bytes, one for each subtask, with a space for each declared state. It need not survive
//! anything: what must is in the checkpoints. It takes no snapshots either; those are taken above it (`stored/rows.rs`), so
//! a cut asks nothing of it.

use super::StateName;
use flott_checkpoint::{AttemptId, SubtaskId};

/// Why a store failed, in words for whoever runs the job: what happened, where, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(pub String);

/// One declared state in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space(pub u16);

/// One change of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This key has this value.
    Put(Vec<u8>, Vec<u8>),
    /// This key is gone.
    Delete(Vec<u8>),
}

/// The bytes of one subtask's state. Keys are ordered as bytes are.
pub trait Store {
    /// Bytes of memory that may be used above this store, for entries that are used again and for logs of changed keys. It may
    /// change from call to call; with none at the beginning there is never any.
    fn memory(&self) -> usize {
        0
    }

    /// A new, empty space for a state. Spaces are counted from 0.
    ///
    /// # Errors
    /// If the store cannot make it.
    fn create(&self, name: &StateName) -> Result<Space, StoreError>;

    /// The value of a key.
    ///
    /// # Errors
    /// If the store cannot read.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Applies changes, in their order.
    ///
    /// # Errors
    /// If the store cannot write; what it holds of these changes is unknown then.
    fn write(&self, space: Space, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Takes many keys that it does not have yet, in their order and each once: what a restore brings. A store may have a shorter
    /// way for them than [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    fn load<'a>(&self, space: Space, sorted: &mut dyn Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), StoreError> {
        self.write(space, sorted.map(|(key, value)| Change::Put(key.to_vec(), value.to_vec())).collect())
    }

    /// Removes all keys from `from` up to and without `until`.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn remove_range(&self, space: Space, from: &[u8], until: &[u8]) -> Result<(), StoreError>;

    /// Shows keys and values from `from` up to and without `until`, in order, until `look` says no. `look` must not use
    /// this store.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn visit(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError>;

    /// As [`Store::visit`], for a snapshot: it comes to everything once, and should drive nothing out of a cache.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn scan(
        &self,
        space: Space,
        from: &[u8],
        until: &[u8],
        look: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.visit(space, from, until, look)
    }
}

/// Makes the stores of a job's subtasks, and owns what they share: a directory, a budget of memory.
pub trait Stores: Send + Sync {
    /// An empty store for a subtask of an attempt.
    ///
    /// # Errors
    /// If there can be none.
    fn open(&self, attempt: AttemptId, subtask: SubtaskId) -> Result<Box<dyn Store>, StoreError>;
}
