//! Tells the listener of a run what happens, on a thread of its own: the listener may write to a terminal or a pipe, and
//! nobody who reads it slowly may hold up the driver.
//!
//! Only numbers that newer ones replace are left out when the listener falls behind.

use super::driver::Listener;
use super::status::{Report, Status};
use flott_runtime::error::Result;
use flott_runtime::io::threads::OsThreads;
use flott_runtime::job_manager::JobEvent;
use flott_runtime::source::Threads;
use flott_runtime::time::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// With so many words in the queue, progress is no longer told.
const MANY: usize = 64;

enum Word {
    Event(Time, JobEvent, Box<Status>),
    End(Result<Report>),
    /// No end comes: the driver is gone.
    Nothing,
}

/// See the head of this file.
pub(super) struct Teller {
    queue: Arc<Queue>,
    told: Option<oneshot::Receiver<()>>,
}

#[derive(Default)]
struct Queue {
    words: Mutex<VecDeque<Word>>,
    filled: Condvar,
}

impl Teller {
    /// Starts the thread that the listener lives on.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(super) fn start(listener: Listener) -> Result<Teller> {
        let queue = Arc::new(Queue::default());
        let (done, told) = oneshot::channel();
        let theirs = Arc::clone(&queue);
        OsThreads.spawn(
            "flott-console",
            Box::new(move || {
                theirs.tell_all(listener);
                // Whoever does not wait does not care.
                let _ = done.send(());
            }),
        )?;
        Ok(Teller { queue, told: Some(told) })
    }

    /// Something happened; `status` holds it already.
    pub(super) fn tell(&self, now: Time, event: JobEvent, status: Status) {
        let mut words = self.queue.lock();
        if words.len() >= MANY && matches!(event, JobEvent::Progress { .. }) {
            return;
        }
        words.push_back(Word::Event(now, event, Box::new(status)));
        drop(words);
        self.queue.filled.notify_all();
    }

    /// It is over. What comes back is done when everything is told.
    pub(super) fn end(mut self, result: Result<Report>) -> impl Future<Output = ()> + Send + use<> {
        self.queue.push(Word::End(result));
        let told = self.told.take();
        async move {
            if let Some(told) = told {
                // An error is a listener that panicked: it says nothing more.
                let _ = told.await;
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.queue.push(Word::Nothing);
    }
}

impl Queue {
    fn push(&self, word: Word) {
        self.lock().push_back(word);
        self.filled.notify_all();
    }

    fn tell_all(&self, mut listener: Listener) {
        loop {
            match self.next() {
                Some(Word::Event(now, event, status)) => listener.on_event(now, &event, &status),
                Some(Word::End(result)) => return listener.on_end(&result),
                Some(Word::Nothing) => return,
                None => {}
            }
        }
    }

    fn next(&self) -> Option<Word> {
        let waiting = self.filled.wait_while(self.lock(), |words| words.is_empty());
        waiting.unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Word>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
