//! Tests of the sibling file `contest.rs`.
