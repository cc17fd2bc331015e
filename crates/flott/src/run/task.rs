//! What runs beside the job on its I/O threads, with its type forgotten: tokio's task is compiled anew for each type of
//! future, once for every kind of runtime, and that is most of what a small task costs. It never runs anything itself.

use std::pin::Pin;
use tokio::task::JoinHandle;

/// Something that tokio may run.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One type for all of them.
pub(crate) fn task(future: impl Future<Output = ()> + Send + 'static) -> Task {
    Box::pin(future)
}

/// The same for what blocks.
pub(crate) fn blocking(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let work: Box<dyn FnOnce() + Send> = Box::new(work);
    tokio::task::spawn_blocking(work)
}
