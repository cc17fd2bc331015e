//! What a file source does with records that cannot be read: one policy and one counter for all formats that parse.
//!
//! It decides about single records only; what makes a whole file unreadable is no business of this.

use crate::error::{Error, Result};
use crate::operator::try_map::OnError;
use crate::source::{self, Next};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The policy of one source. A clone is for another source and counts for itself; see [`Unreadable::share`].
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) on_error: OnError,
    /// Overrules `on_error`: the record is handed over.
    pub(super) dead_letters: bool,
    /// Records left out in this process, over all readers of the source.
    skipped: Arc<AtomicU64>,
}

impl Default for Unreadable {
    fn default() -> Self {
        Unreadable { on_error: OnError::Fail, dead_letters: false, skipped: Arc::default() }
    }
}

impl Clone for Unreadable {
    fn clone(&self) -> Self {
        Unreadable { skipped: Arc::default(), ..self.share() }
    }
}

impl Unreadable {
    /// The same with the same counter, for a reader of the source.
    pub(super) fn share(&self) -> Self {
        Unreadable { skipped: Arc::clone(&self.skipped), ..*self }
    }

    /// The counter of what is left out, if anything may be.
    pub(super) fn counter(&self) -> Option<Arc<AtomicU64>> {
        (self.on_error != OnError::Fail && !self.dead_letters).then(|| Arc::clone(&self.skipped))
    }

    /// What becomes of a record that cannot be read; `record` is its bytes, needed only for dead letters.
    #[cold]
    pub(super) fn met<T>(&self, error: Error, record: &[u8]) -> Result<Next<T>> {
        if self.dead_letters {
            return Ok(Next::Unreadable(Box::new(source::Unreadable {
                record: String::from_utf8_lossy(record).into_owned(),
                position: error.position().unwrap_or_default().to_owned(),
                error: error.message().to_owned(),
            })));
        }
        match self.on_error {
            OnError::Fail => Err(error),
            OnError::Skip => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                tracing::info!(target: "flott", "left out: {error}");
                Ok(Next::Skipped)
            }
        }
    }
}
