//! Keys: what may be one, how it is hashed, and which key group and worker it belongs to (design D9).
//!
//! `std::hash::Hash` is not stable between builds, so keys are hashed over an encoding of our own. This module never
//! looks at a table: the same functions serve the sender of a record, the state backend and the tools.

mod encoding;
mod shape;
#[cfg(test)]
mod tests;

pub use encoding::{KeyBytes, KeyError, encode_key};
pub use shape::Shape;

use flott_checkpoint::KeyGroup;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The largest number of key groups of a job.
pub const MAX_KEY_GROUPS: u16 = 1 << 15;

/// The key group is taken from the hash bits from here up: the low bits choose the bucket inside a group's table, the
/// top seven its tag, and groups that shared bits with either would fill their tables badly.
const GROUP_SHIFT: u32 = 24;

/// What can be a key: equal keys must have equal encodings, and different keys different ones.
///
/// Floats and maps are refused when the first such key is hashed; see [`encode_key`].
pub trait Key: Serialize + DeserializeOwned + Clone + Eq + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Eq + Send + 'static> Key for T {}

/// Hashes a key: xxh3-64 with the job's secret seed, over the canonical encoding.
///
/// The sender of a keyed record calls this once and ships the hash with the record.
///
/// # Errors
/// [`KeyError`] if the key holds something that has no canonical encoding.
#[inline]
pub fn hash_key<K: Key>(seed: u64, key: &K) -> Result<u64, KeyError> {
    // The type is known when this is compiled, so all but one of these branches vanish.
    let any: &dyn Any = key;
    if let Some(number) = any.downcast_ref::<u64>() {
        return Ok(xxh3_64_with_seed(&number.to_le_bytes(), seed));
    }
    if let Some(number) = any.downcast_ref::<i64>() {
        return Ok(xxh3_64_with_seed(&number.to_le_bytes(), seed));
    }
    if let Some(number) = any.downcast_ref::<u32>() {
        return Ok(xxh3_64_with_seed(&number.to_le_bytes(), seed));
    }
    if let Some(text) = any.downcast_ref::<String>() {
        return Ok(xxh3_64_with_seed(text.as_bytes(), seed));
    }
    Ok(xxh3_64_with_seed(&encode_key(key)?, seed))
}

/// The key group of a hash, out of `groups`, which need not be a power of two: the 32 bits from bit 24 up, read as a
/// fraction of one, times the number of groups (a multiplication instead of a division).
#[inline]
#[must_use]
pub fn key_group(hash: u64, groups: u16) -> KeyGroup {
    let fraction = u64::from((hash >> GROUP_SHIFT) as u32);
    KeyGroup(((fraction * u64::from(groups)) >> 32) as u16)
}

/// The key groups of the worker `index` out of `workers`: contiguous, disjoint, together all of them, and their sizes
/// differ by at most one. Empty for an index out of range, or if there are more workers than groups.
#[must_use]
pub fn group_range(groups: u16, workers: u32, index: u32) -> Range<u16> {
    let first = |index: u32| (u64::from(index.min(workers)) * u64::from(groups)).div_ceil(u64::from(workers.max(1)));
    // Both are at most `groups`.
    first(index) as u16..first(index.saturating_add(1)) as u16
}

/// The worker that owns a key group: the one whose [`group_range`] contains it.
#[inline]
#[must_use]
pub fn owner(group: KeyGroup, groups: u16, workers: u32) -> u32 {
    // Below `workers` for every group below `groups`.
    (u64::from(group.0) * u64::from(workers) / u64::from(groups.max(1))) as u32
}

/// The workers out of `workers` that own a key group of a range: those whose [`group_range`] has one in common with it.
#[must_use]
pub fn owners(range: &Range<u16>, groups: u16, workers: u16) -> Range<u16> {
    let owner = |group: u16| owner(KeyGroup(group), groups, workers.into()) as u16;
    if range.is_empty() { 0..0 } else { owner(range.start)..owner(range.end - 1) + 1 }
}

/// The worker that owns a split, or the tokens of a sink's [writer](writer_name): the xxh3-64 of its name, modulo the
/// workers. Stored positions are found by it, so it must never change.
#[must_use]
pub fn owner_of_name(name: &str, workers: u16) -> u16 {
    // Below `workers`, which is never 0.
    (xxh3_64(name.as_bytes()) % u64::from(workers.max(1))) as u16
}

/// Names the writer of a sink's tokens: the sink as the checkpoint calls it, and the subtask that wrote them. Whoever owns that
/// name commits all of them after a restore, in the order of their epochs (rule S3, `docs/decisions/017`).
#[must_use]
pub fn writer_name(sink: &str, subtask: u16) -> String {
    format!("{sink}/{subtask}")
}

/// Everything that places a key in one worker's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    /// The secret of the incarnation, from its `Start` entry in the log.
    pub seed: u64,
    /// The number of key groups of the job, 1 to [`MAX_KEY_GROUPS`].
    pub groups: u16,
    /// The key groups of this worker.
    pub owned: Range<u16>,
}

impl KeySpace {
    /// The key space of a worker of an attempt.
    #[must_use]
    pub fn of_attempt(attempt: &crate::attempt::Attempt, worker: u16) -> Self {
        Self::of_worker(attempt.key_seed, attempt.key_groups, attempt.workers.into(), worker.into())
    }

    /// The key space of the worker `index` out of `workers`.
    #[must_use]
    pub fn of_worker(seed: u64, groups: u16, workers: u32, index: u32) -> Self {
        Self { seed, groups, owned: group_range(groups, workers, index) }
    }

    /// A key that lies in a key group of this worker, and its hash: the smallest number of which this is true. `None` if this
    /// worker owns no key group.
    #[must_use]
    pub fn own_key(&self) -> Option<(u64, u64)> {
        if self.owned.is_empty() {
            return None;
        }
        let hashed = (0..u64::MAX).map(|key| (hash_key(self.seed, &key).expect("a number can be hashed"), key));
        hashed.into_iter().find(|(hash, _)| self.owns(self.group(*hash)))
    }

    /// The key group of a hash.
    #[inline]
    #[must_use]
    pub fn group(&self, hash: u64) -> KeyGroup {
        key_group(hash, self.groups)
    }

    /// Whether this worker holds the state of a key group.
    #[must_use]
    pub fn owns(&self, group: KeyGroup) -> bool {
        self.owned.contains(&group.0)
    }
}
