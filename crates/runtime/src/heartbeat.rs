//! Where a worker is: which operator's user code runs, on which record, and whether a step is under way.
//!
//! Written by the worker with relaxed stores, read by whoever has to explain a panic or a call that never returns. It
//! never decides anything.

use crate::error::Error;
use crate::meter::{Hot, Meters, Reading};
use litemap::LiteMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// Names an operator in a [`Heartbeat`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u32);

/// The pulse of one worker.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// Odd while a step is under way.
    steps: AtomicU64,
    /// The mark of the operator whose code ran last.
    operator: AtomicU32,
    /// How many records the chain that runs has taken.
    record: AtomicU64,
    names: Mutex<Vec<String>>,
    /// What the worker's subtasks have done.
    meters: Meters,
    /// A step ended by a panic.
    panicked: AtomicBool,
    /// The place of the record that a panic was about, if it has one.
    place: Mutex<Option<String>>,
}

/// What a heartbeat shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pulse {
    /// Changes with every step.
    pub steps: u64,
    /// A step is under way.
    pub stepping: bool,
    /// The operator whose code ran last, if any has.
    pub operator: Option<String>,
    /// How many records its chain had taken, this one included.
    pub record: u64,
}

impl Heartbeat {
    /// The mark of an operator; the same name gives the same mark.
    pub fn mark(&self, name: &str) -> Mark {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        // 0 stands for none.
        Mark(u32::try_from(place + 1).unwrap_or(0))
    }

    /// The meters of the worker's subtasks.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// An operator's user code is about to run.
    #[inline]
    pub fn enter(&self, mark: Mark) {
        self.operator.store(mark.0, Ordering::Relaxed);
    }

    /// A chain took its `count`-th record.
    #[inline]
    pub fn took(&self, count: u64) {
        self.record.store(count, Ordering::Relaxed);
    }

    /// A step begins; it ends when what this gives back is dropped, also by a panic.
    pub fn step(&self) -> Step<'_> {
        self.operator.store(0, Ordering::Relaxed);
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.steps.fetch_or(1, Ordering::Release);
        Step(self)
    }

    /// Runs `body`; if it panics, `place` says which record it was about. Costs nothing otherwise.
    #[inline]
    pub fn naming<R>(&self, place: impl Fn() -> String, body: impl FnOnce() -> R) -> R {
        let namer = Namer { heartbeat: self, place };
        let result = body();
        std::mem::forget(namer);
        result
    }

    /// What it shows now.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        let steps = self.steps.load(Ordering::Acquire);
        let mark = self.operator.load(Ordering::Relaxed) as usize;
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Pulse {
            steps,
            stepping: steps % 2 == 1,
            operator: mark.checked_sub(1).and_then(|place| names.get(place)).cloned(),
            record: self.record.load(Ordering::Relaxed),
        }
    }

    /// Puts operator and record into an error that was found outside of the chain: a panic.
    #[must_use]
    pub fn blame(&self, error: Error) -> Error {
        let pulse = self.pulse();
        match pulse.operator {
            Some(name) => {
                let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
                let place = place.unwrap_or_else(|| format!("record {} of its chain", pulse.record));
                error.at_operator(&name).at_position(place)
            }
            None => error,
        }
    }
}

/// A step under way.
#[derive(Debug)]
pub struct Step<'a>(&'a Heartbeat);

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Ordering::Relaxed);
        }
        let steps = self.0.steps.load(Ordering::Relaxed);
        self.0.steps.store((steps | 1).wrapping_add(1), Ordering::Release);
    }
}

/// Dropped only when its body panics: else it is forgotten.
struct Namer<'a, P: Fn() -> String> {
    heartbeat: &'a Heartbeat,
    place: P,
}

impl<P: Fn() -> String> Drop for Namer<'_, P> {
    fn drop(&mut self) {
        let place = (self.place)();
        *self.heartbeat.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }
}

/// The heartbeats of all workers of a process, shared by its attempts.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats(Arc<Mutex<Vec<Arc<Heartbeat>>>>);

impl Heartbeats {
    /// The heartbeat of a worker.
    #[must_use]
    pub fn of(&self, worker: u16) -> Arc<Heartbeat> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while all.len() <= usize::from(worker) {
            all.push(Arc::default());
        }
        all.get(usize::from(worker)).map_or_else(Arc::default, Arc::clone)
    }

    /// Lets the heartbeat blame that was disturbed by a panic; for hosts that run all workers in one thread.
    #[must_use]
    pub fn blame(&self, error: Error) -> Error {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().find(|heartbeat| heartbeat.panicked.swap(false, Ordering::Relaxed)) {
            Some(heartbeat) => heartbeat.blame(error),
            None => error,
        }
    }

    /// The heaviest keys of all workers, in the order of the workers, by vertex.
    #[must_use]
    pub fn hot(&self) -> Vec<LiteMap<u16, Hot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|worker| worker.meters.hot()).collect()
    }

    /// What the meters of all workers show, in the order of the workers, by vertex.
    #[must_use]
    pub fn meters(&self) -> Vec<LiteMap<u16, Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|worker| worker.meters.read()).collect()
    }

    /// What all of them show, in the order of the workers.
    #[must_use]
    pub fn pulses(&self) -> Vec<Pulse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|heartbeat| heartbeat.pulse()).collect()
    }
}
