//! For tests of the engine, its adapters and its users' jobs. Only with the feature `testing`; production builds have none of it.

pub mod host_suite;
