//! State that moves from the heap into a store and back, restore by restore, passes the suite that each passes alone.
#![cfg(feature = "stored")]

use flott_runtime::key::KeySpace;
use flott_runtime::state::{AnyBackend, HeapBackend, StoredBackend};
use flott_runtime::testing::memory_store::MemoryStore;
use std::cell::Cell;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// One on the heap, two in stores, one on the heap, …: every pair of neighbours occurs, whatever the number of workers. Above
/// the stores is no memory, or too little, or enough.
fn make(space: KeySpace) -> AnyBackend {
    let made = MADE.get();
    MADE.set(made + 1);
    let memory = match made % 4 {
        0 => 0,
        1 => 2 << 10,
        2 => 6 << 10,
        _ => 1 << 20,
    };
    match made % 3 {
        0 => AnyBackend::Heap(HeapBackend::new(space)),
        _ => AnyBackend::Stored(StoredBackend::new(Box::new(MemoryStore::below(memory)), space)),
    }
}

flott_runtime::state_suite!(mixed mixed, super::make);
