//! Tests of the sibling file `options.rs`.
