//! What the workers of one attempt share about its end: the failure flag and the first error.

use crate::wake::Wake;
use flott_runtime::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all workers of an attempt and whoever may stop it.
pub(crate) struct Fate {
    stopped: AtomicBool,
    error: Mutex<Option<Error>>,
    wakes: Vec<Arc<Wake>>,
}

impl Fate {
    /// The fate of workers that these wake.
    pub(crate) fn new(wakes: Vec<Arc<Wake>>) -> Fate {
        Fate { stopped: AtomicBool::new(false), error: Mutex::new(None), wakes }
    }

    /// Every worker drops its dataflow when its present step is over.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for wake in &self.wakes {
            wake.force();
        }
    }

    /// As `stop`, and says why; the first error counts, and none counts after a stop that was asked for.
    pub(crate) fn fail(&self, error: Error) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_stopped() {
            *first = Some(error);
        }
        // Under the lock, so that of two failing workers one is the first.
        self.stop();
    }

    /// Whether the workers have to go.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// The first error, if there was one.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
