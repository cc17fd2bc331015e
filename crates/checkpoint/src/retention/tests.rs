//! Tests of the sibling file `retention.rs`.
