//! What tests need and production does not: a file system in memory, conformance suites.
//!
//! Behind the feature `testing`, so that it can be used by the simulator and by authors of connectors.

pub mod connector_contexts;
pub mod memory_files;
pub mod sink_suite;
pub mod source_suite;
