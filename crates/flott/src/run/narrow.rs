//! How many of the job manager's reads and deletions are under way at a time.
//!
//! A collection or a restart wants many at once, and each holds a thread of the pool for blocking calls. Such a pool keeps the
//! threads of its greatest rush, and each thread an arena of the allocator: a job that restarts often would grow with every
//! greater rush. What a checkpoint waits for never waits here.

use flott_runtime::io::StorageRequest;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[cfg(test)]
mod tests;

/// So many at a time.
const AT_ONCE: usize = 8;

/// See the head of this file.
pub(super) struct Narrow(Arc<Semaphore>);

impl Narrow {
    pub(super) fn new() -> Narrow {
        Narrow(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// The reply to a request, asked for when there is room.
    pub(super) fn pass<R, F: Future<Output = R>>(
        &self,
        request: &StorageRequest,
        reply: F,
    ) -> impl Future<Output = R> + use<R, F> {
        let waits = matches!(request, StorageRequest::Read { .. } | StorageRequest::Delete { .. });
        let room = waits.then(|| Arc::clone(&self.0));
        async move {
            let _room = match room {
                Some(room) => room.acquire_owned().await.ok(),
                None => None,
            };
            reply.await
        }
    }
}
