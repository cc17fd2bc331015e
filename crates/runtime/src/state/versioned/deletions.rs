//! Which keys were removed in which epoch, as far back as a base may still ask.

use super::{Epoch, RESTORED};
use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

/// The removals of one epoch: key group and key. A handle shares it, so neither trimming nor dropping hurts a scan.
pub(super) type Log<K> = Arc<Vec<(u16, K)>>;

pub(super) struct Deletions<K> {
    open: Vec<(u16, K)>,
    sealed: VecDeque<(Epoch, Log<K>)>,
    /// Removals in all logs here.
    len: usize,
    /// Every removal of a later epoch is here: the oldest base that can be served.
    oldest_base: Epoch,
}

impl<K: Clone> Deletions<K> {
    pub(super) fn new(oldest_base: Epoch) -> Self {
        Self { open: Vec::new(), sealed: VecDeque::new(), len: 0, oldest_base }
    }

    /// Once the log is larger than the table, a full snapshot is cheaper: nothing is kept until the next cut. Removals
    /// of a restore are not logged at all: they happened before the restored checkpoint.
    pub(super) fn record(&mut self, group: u16, key: &K, epoch: Epoch, table_len: usize) {
        if epoch == RESTORED || epoch == self.oldest_base {
            return;
        }
        self.open.push((group, key.clone()));
        self.len += 1;
        if self.len > table_len {
            *self = Self::new(epoch);
        }
    }

    pub(super) fn seal(&mut self, epoch: Epoch) {
        if !self.open.is_empty() {
            self.sealed.push_back((epoch, Arc::new(take(&mut self.open))));
        }
    }

    /// The removals after `base`; None if they are no longer known.
    pub(super) fn since(&self, base: Epoch) -> Option<Vec<Log<K>>> {
        let later = self.sealed.iter().filter(|(epoch, _)| *epoch > base);
        (base >= self.oldest_base).then(|| later.map(|(_, log)| Arc::clone(log)).collect())
    }

    pub(super) fn oldest_base(&self) -> Epoch {
        self.oldest_base
    }

    pub(super) fn forget_until(&mut self, base: Epoch) {
        while self.sealed.front().is_some_and(|(epoch, _)| *epoch <= base) {
            self.len -= self.sealed.pop_front().map_or(0, |(_, log)| log.len());
        }
        self.oldest_base = self.oldest_base.max(base);
    }

    pub(super) fn memory(&self) -> usize {
        self.len * size_of::<(u16, K)>()
    }
}
