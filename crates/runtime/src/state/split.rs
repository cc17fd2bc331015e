//! Split lists: one list a worker, which other workers divide anew. Underneath they are lists, each under a key that its worker
//! owns; here is what a restore by another number of workers makes of them.
//!
//! The elements of each writer are dealt out in turn ([`Share::takes`]), so everybody's share is the same for every backend and in
//! every restore, no element is lost or doubled, and what two elements of one writer were to each other they stay wherever both go.

use super::entries::EntryReader;
use super::{Share, StateError, Value};
use crate::segment::BlockKind;
use std::collections::BTreeMap;

/// One worker's share of the lists of all writers, while blocks come in.
pub(super) struct Foreign<K, V> {
    hash: u64,
    key: K,
    writers: BTreeMap<u32, Dealt<V>>,
}

/// What came of the list of one writer.
struct Dealt<V> {
    /// How long it is so far.
    length: usize,
    /// Of that, this worker's.
    items: Vec<V>,
}

impl<K, V: Value> Foreign<K, V> {
    /// Nothing yet; it will go under this key.
    pub(super) fn under(hash: u64, key: K) -> Self {
        Self { hash, key, writers: BTreeMap::new() }
    }

    /// As a list's own entries: they come in order, or again, and a delete is the whole list.
    pub(super) fn apply(
        &mut self,
        kind: BlockKind,
        writer: u32,
        share: &Share,
        reader: &mut EntryReader<'_>,
    ) -> Result<(), StateError> {
        if kind == BlockKind::Deletes {
            self.writers.remove(&writer);
            return Ok(());
        }
        let (position, item): (usize, V) = (reader.value()?, reader.value()?);
        let dealt = self.writers.entry(writer).or_insert_with(|| Dealt { length: 0, items: Vec::new() });
        if position > dealt.length {
            return Err(reader.damaged(&format!("element {position} of a list of {}", dealt.length)));
        }
        if position == dealt.length {
            dealt.length += 1;
            dealt.items.extend(Some(item).filter(|_| share.takes(writer, position)));
        }
        Ok(())
    }

    /// Where the share goes, and its elements: those of the first writer first.
    pub(super) fn into_items(self) -> (u64, K, Vec<V>) {
        (self.hash, self.key, self.writers.into_values().flat_map(|dealt| dealt.items).collect())
    }
}

/// What follows the key of an element of a list, whatever keeps it.
pub(super) fn skim_element<V: Value>(kind: BlockKind, reader: &mut EntryReader<'_>) -> Result<(), StateError> {
    if kind == BlockKind::Deletes {
        return Ok(());
    }
    reader.value::<usize>()?;
    reader.value::<V>().map(drop)
}
