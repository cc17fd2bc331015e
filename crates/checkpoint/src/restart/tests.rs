//! Tests of the sibling file `restart.rs`.
