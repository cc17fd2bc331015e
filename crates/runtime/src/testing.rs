//! What tests of this crate and of its backends share. Behind the feature `testing`; never in a production build.

pub mod state_suite;
