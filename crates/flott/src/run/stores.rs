//! Where keyed state lies, as the settings say.

use crate::settings::{Settings, StateBackend};
use flott_runtime::state::store::Stores;
use flott_runtime::{Error, Result};
use std::sync::Arc;

/// The stores of a job; `None` if its state is on the heap.
pub(super) fn of(settings: &Settings, job: &str) -> Result<Option<Arc<dyn Stores>>> {
    match settings.state_backend.unwrap_or_default() {
        StateBackend::Heap => Ok(None),
        StateBackend::RocksDb => rocksdb(settings, job).map(Some),
    }
}

#[cfg(feature = "rocksdb")]
fn rocksdb(settings: &Settings, job: &str) -> Result<Arc<dyn Stores>> {
    use flott_rocksdb::{RocksOptions, RocksStores};
    let memory = settings.state_memory.unwrap_or(RocksOptions::default().memory);
    let base = settings.work_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Two jobs of one name with different checkpoints are two jobs.
    let hash = flott_runtime::key::hash_key(0, &settings.checkpoint_dir.clone().unwrap_or_default());
    let hash = hash.map_err(|error| Error::refused(error.to_string()))?;
    let options = RocksOptions { memory, ..RocksOptions::default() };
    Ok(Arc::new(RocksStores::new(base.join(format!("flott-{job}-{hash:016x}")), options)))
}

#[cfg(not(feature = "rocksdb"))]
fn rocksdb(_: &Settings, _: &str) -> Result<Arc<dyn Stores>> {
    Err(Error::refused("this program is built without RocksDB: build it with the feature `rocksdb` of flott"))
}
