//! Tests of the sibling file `log.rs`.
