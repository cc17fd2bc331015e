//! Tests of the sibling file `append.rs`.
