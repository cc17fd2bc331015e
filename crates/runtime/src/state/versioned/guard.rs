//! Access to one entry that is there. Reading is free; the first write of an epoch saves what a scan still needs.

use super::dirty::DirtyMap;
use super::handle::Handle;
use super::saved::Position;
use super::{Entry, EntrySink, Epoch, TableKey};
use hashbrown::hash_table::OccupiedEntry;
use std::ops::{Deref, DerefMut};

/// One entry, found.
pub(crate) struct Guard<'a, K, V, S> {
    pub(super) found: OccupiedEntry<'a, Entry<K, V>>,
    pub(super) position: Position,
    pub(super) dirty: &'a mut DirtyMap,
    pub(super) handles: &'a mut [Handle<K, V, S>],
    pub(super) epoch: Epoch,
}

impl<'a, K: TableKey, V: Clone, S: EntrySink<K, V>> Guard<'a, K, V, S> {
    #[inline]
    pub(super) fn into_mut(mut self) -> &'a mut V {
        self.mark();
        &mut self.found.into_mut().value
    }

    #[inline]
    fn mark(&mut self) {
        // Every handle was cut before this epoch: an entry of this epoch is needed by none.
        if self.found.get().epoch != self.epoch {
            self.first_write();
        }
    }

    #[cold]
    fn first_write(&mut self) {
        self.save_old();
        self.found.get_mut().epoch = self.epoch;
        self.dirty.mark(self.found.bucket_index(), self.epoch);
    }

    /// Must run before an entry changes or goes away.
    pub(super) fn save_old(&mut self) {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::SkipPreimage) {
            return;
        }
        let position = self.position;
        let bucket = self.found.bucket_index();
        let Entry { key, value, epoch } = self.found.get();
        for handle in self.handles.iter_mut() {
            if handle.still_needs(position.index, bucket, *epoch, value) {
                handle.save(position, key, value);
            }
        }
    }
}

impl<K, V, S> Deref for Guard<'_, K, V, S> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.found.get().value
    }
}

impl<K: TableKey, V: Clone, S: EntrySink<K, V>> DerefMut for Guard<'_, K, V, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut V {
        self.mark();
        &mut self.found.get_mut().value
    }
}
