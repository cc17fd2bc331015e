//! Placeholder head, replaced as the crate grows.

#![forbid(unsafe_code)]

pub mod key;
pub mod segment;
pub mod state;
#[cfg(feature = "testing")]
pub mod testing;
