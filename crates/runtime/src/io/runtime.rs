//! A small I/O runtime for tools that do one thing at a time. A running job brings its own.

use crate::error::{Error, Result};
use std::future::Future;

/// Runs a future that uses the storage to its end, on this thread.
///
/// # Errors
/// If the system has no threads or descriptors to give. Must not be called inside another tokio runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::failed(format!("cannot start the I/O runtime: {error}")))?;
    Ok(runtime.block_on(future))
}
