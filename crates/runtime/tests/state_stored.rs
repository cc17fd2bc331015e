//! State in a store passes the conformance suite of state, over a plain ordered map: with no memory above it, with so little that
//! entries are driven out all the time, and with enough.

use flott_runtime::key::KeySpace;
use flott_runtime::state::StoredBackend;
use flott_runtime::testing::memory_store::MemoryStore;

fn below(memory: usize) -> impl Fn(KeySpace) -> StoredBackend {
    move |space| StoredBackend::new(Box::new(MemoryStore::below(memory)), space)
}

fn alone(space: KeySpace) -> StoredBackend {
    below(0)(space)
}

fn crowded(space: KeySpace) -> StoredBackend {
    below(3 << 10)(space)
}

fn roomy(space: KeySpace) -> StoredBackend {
    below(1 << 20)(space)
}

flott_runtime::state_suite!(stored, super::alone);
flott_runtime::state_suite!(cached, super::crowded);
flott_runtime::state_suite!(kept, super::roomy);
