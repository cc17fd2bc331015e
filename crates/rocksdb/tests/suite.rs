//! State in RocksDB passes the conformance suite of state.

use flott_checkpoint::{AttemptId, SubtaskId};
use flott_rocksdb::{RocksOptions, RocksStores};
use flott_runtime::key::KeySpace;
use flott_runtime::state::StoredBackend;
use flott_runtime::state::store::Stores;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

static STORES: LazyLock<(tempfile::TempDir, RocksStores)> = LazyLock::new(|| {
    // Thousands of databases are made and removed here: in memory, where there is such a place.
    let in_memory = tempfile::tempdir_in("/dev/shm");
    let directory = in_memory.or_else(|_| tempfile::tempdir()).expect("a directory");
    let stores = RocksStores::new(directory.path(), RocksOptions { memory: 16 << 20, ..RocksOptions::default() });
    (directory, stores)
});
static NEXT: AtomicU16 = AtomicU16::new(0);

fn make(space: KeySpace) -> StoredBackend {
    let subtask = SubtaskId { vertex: 0, index: NEXT.fetch_add(1, Ordering::Relaxed) };
    StoredBackend::new(STORES.1.open(AttemptId(1), subtask).expect("a database"), space)
}

flott_runtime::state_suite!(rocksdb, super::make);
