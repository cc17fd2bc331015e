//! The heap backend keeps every promise of a state backend.

flott_runtime::state_suite!(heap, flott_runtime::state::HeapBackend::new);
