//! State that moves from the heap into a store and back, restore by restore, passes the suite that each passes alone.
#![cfg(feature = "stored")]

use flott_runtime::key::KeySpace;
use flott_runtime::state::{AnyBackend, HeapBackend, StoredBackend};
use flott_runtime::testing::memory_store::MemoryStore;
use std::cell::Cell;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// One on the heap, two in stores, one on the heap, …: every pair of neighbours occurs, whatever the number of workers.
fn make(space: KeySpace) -> AnyBackend {
    let made = MADE.get();
    MADE.set(made + 1);
    match made % 3 {
        0 => AnyBackend::Heap(HeapBackend::new(space)),
        _ => AnyBackend::Stored(StoredBackend::new(Box::new(MemoryStore::default()), space)),
    }
}

flott_runtime::state_suite!(mixed mixed, super::make);
