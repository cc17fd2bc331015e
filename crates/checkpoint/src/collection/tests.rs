//! Tests of the sibling file `collection.rs`.
