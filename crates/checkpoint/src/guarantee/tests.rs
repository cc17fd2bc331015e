//! Tests of the sibling file `guarantee.rs`.
