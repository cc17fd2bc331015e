//! Where entries were written lately, so that a scan of few changes does not visit every bucket.

use super::Epoch;

/// Buckets per range. With 1 % random changes 7 % of the ranges are dirty; with ranges of 64 it would be 27 %.
pub(super) const RANGE: usize = 16;

/// The epoch of the last insert or update, per range and for the whole group. Removals are in the deletion log.
pub(super) struct DirtyMap {
    latest: Epoch,
    ranges: Vec<Epoch>,
}

impl DirtyMap {
    pub(super) fn new() -> Self {
        Self { latest: 0, ranges: Vec::new() }
    }

    #[inline]
    pub(super) fn mark(&mut self, bucket: usize, epoch: Epoch) {
        self.latest = epoch;
        *self.ranges.get_mut(bucket / RANGE).expect("each growth makes a range for each bucket") = epoch;
    }

    /// After a move nobody knows which range holds what: all count as written now.
    pub(super) fn mark_all(&mut self, buckets: usize, epoch: Epoch) {
        self.latest = epoch;
        self.ranges.clear();
        self.ranges.resize(buckets.div_ceil(RANGE), epoch);
    }

    pub(super) fn is_clean(&self, base: Option<Epoch>) -> bool {
        base.is_some_and(|base| self.latest <= base)
    }

    /// A range nobody marked is not skipped.
    pub(super) fn is_range_clean(&self, bucket: usize, base: Option<Epoch>) -> bool {
        base.is_some_and(|base| self.ranges.get(bucket / RANGE).is_some_and(|latest| *latest <= base))
    }

    pub(super) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Epoch>()
    }
}
