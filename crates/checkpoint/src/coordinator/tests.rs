//! Tests of the sibling file `coordinator.rs`.
