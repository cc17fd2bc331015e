//! For tests, here and in other crates: conformance suites and deterministic hosts. Never part of a production build.

pub mod sample_job;
pub mod storage_suite;
