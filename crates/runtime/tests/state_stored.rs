//! State in a store passes the conformance suite of state, over a plain ordered map.

use flott_runtime::key::KeySpace;
use flott_runtime::state::StoredBackend;
use flott_runtime::testing::memory_store::MemoryStore;

fn make(space: KeySpace) -> StoredBackend {
    StoredBackend::new(Box::new(MemoryStore::default()), space)
}

flott_runtime::state_suite!(stored, super::make);
