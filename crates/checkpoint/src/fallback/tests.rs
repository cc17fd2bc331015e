//! Tests of the sibling file `fallback.rs`.
