//! Wakes a worker from any thread. Cheap while a wake is under way, and silent before and after the worker's life.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use timely::scheduling::SyncActivator;

/// The wake of one worker.
#[derive(Default)]
pub(crate) struct Wake {
    /// A wake was called that the worker has not noticed yet.
    pending: AtomicBool,
    /// Behind a lock, not a `OnceLock`: whoever stops the attempt must either find the activator or be seen by the worker.
    activator: Mutex<Option<SyncActivator>>,
}

impl Wake {
    /// The worker can be woken from now on.
    pub(crate) fn connect(&self, activator: SyncActivator) {
        *self.activator.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }

    /// The worker is gone.
    pub(crate) fn disconnect(&self) {
        *self.activator.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Lets the worker run soon.
    pub(crate) fn call(&self) {
        if self.pending.swap(true, Ordering::SeqCst) {
            return;
        }
        self.force();
    }

    /// Like [`Wake::call`], but relies on no wake that somebody else has only begun.
    pub(crate) fn force(&self) {
        if let Some(activator) = &*self.activator.lock().unwrap_or_else(PoisonError::into_inner) {
            // An error says that the worker is gone, which is what it should do then.
            let _ = activator.activate();
        }
    }

    /// For the worker, before it looks for what it was woken for.
    pub(crate) fn noticed(&self) {
        self.pending.swap(false, Ordering::SeqCst);
    }
}
