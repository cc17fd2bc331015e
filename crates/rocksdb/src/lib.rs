//! Keyed state in RocksDB, for state that is larger than memory.
//!
//! A floor-2 crate: the one that knows RocksDB. Here is a store of bytes; what makes state of it, and takes its snapshots, is
//! `flott_runtime::state::stored`. A database lives as long as its attempt and is never recovered: what must survive is in
//! the checkpoints, so nothing is logged ahead and nothing is synced.
//!
//! ```no_run
//! use flott_rocksdb::{RocksOptions, RocksStores};
//!
//! let stores = RocksStores::new("/var/tmp/flott", RocksOptions { memory: 256 << 20, ..RocksOptions::default() });
//! ```

#![forbid(unsafe_code)]

mod directory;
mod options;
mod store;

pub use options::RocksOptions;
pub use store::RocksStores;
