//! Where the print sink prints: a bounded queue, and a thread that writes it to the standard output.
//!
//! A reader that does not read (`job | less`) stops the printing, never a worker; one that went away (`job | head`) wants no
//! more, and everything is dropped. Any other failure to write loses output, and ends the job (code 5).

use flott_runtime::error::{Error, Result};
use flott_runtime::io::threads::OsThreads;
use flott_runtime::sink::Stdout;
use flott_runtime::source::{Threads, Waker};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// With so much in the queue, in bytes, no more is asked for. As much again may be on its way out.
const ENOUGH: usize = 256 << 10;

/// So long a checkpoint waits for its output to be read.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// See the head of this file.
pub(super) struct Printer {
    queue: Mutex<Queue>,
    /// Something was queued, or nothing more will be.
    filled: Condvar,
    /// Something was written, or is not going to be.
    written: Condvar,
    /// Events stand beside the lines.
    json: bool,
}

#[derive(Default)]
struct Queue {
    lines: Vec<u8>,
    /// Bytes that were ever queued, and of those the ones that are out.
    taken_in: u64,
    out: u64,
    wakers: Vec<Waker>,
    is_closed: bool,
    /// Nobody reads any more.
    is_gone: bool,
    /// Lines were lost: why.
    broken: Option<String>,
}

/// A printer in the hands of the driver: it ends with it.
pub(super) struct Printing {
    printer: Arc<Printer>,
    written: Option<Written>,
}

impl Printing {
    /// Starts to print to the standard output.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(super) fn start(json: bool) -> Result<(Arc<Printer>, Printing)> {
        let (printer, written) = Printer::start(std::io::stdout(), json)?;
        Ok((Arc::clone(&printer), Printing { printer, written: Some(written) }))
    }

    /// Nothing more comes. What comes back is done when everything is out.
    pub(super) fn end(mut self) -> impl Future<Output = ()> + Send + use<> {
        let written = self.written.take();
        async move {
            if let Some(written) = written {
                // An error is a thread that panicked: it prints nothing more.
                let _ = written.await;
            }
        }
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        self.printer.close();
    }
}

/// Comes when everything is written.
pub(super) type Written = oneshot::Receiver<()>;

impl Printer {
    /// Starts the thread that writes to `to`.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(super) fn start(to: impl Write + Send + 'static, json: bool) -> Result<(Arc<Printer>, Written)> {
        let printer =
            Arc::new(Printer { queue: Mutex::default(), filled: Condvar::new(), written: Condvar::new(), json });
        let (done, written) = oneshot::channel();
        let theirs = Arc::clone(&printer);
        OsThreads.spawn(
            "flott-print",
            Box::new(move || {
                theirs.write_all(to);
                // Whoever does not wait does not care.
                let _ = done.send(());
            }),
        )?;
        Ok((printer, written))
    }

    /// Nothing more comes: the thread ends when it has written the rest.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    fn write_all(&self, mut to: impl Write) {
        while let Some(lines) = self.next() {
            let result = to.write_all(&lines).and_then(|()| to.flush());
            let mut queue = self.lock();
            queue.out += u64::try_from(lines.len()).unwrap_or(u64::MAX);
            queue.is_gone = result.is_err();
            queue.broken = result
                .err()
                .filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)
                .map(|error| error.to_string());
            let is_gone = queue.is_gone;
            drop(queue);
            self.written.notify_all();
            if is_gone {
                return self.wake_all();
            }
        }
    }

    /// Waits for what is to be written next; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let queue = self.lock();
        let waiting = self.filled.wait_while(queue, |queue| queue.lines.is_empty() && !queue.is_closed);
        let lines = std::mem::take(&mut waiting.unwrap_or_else(PoisonError::into_inner).lines);
        // There is room again.
        self.wake_all();
        (!lines.is_empty()).then_some(lines)
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        wakers.iter().for_each(|waker| waker());
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush_within(&self, patience: Duration) -> Result<()> {
        let queue = self.lock();
        let until = queue.taken_in;
        let waiting = |queue: &mut Queue| queue.out < until && !queue.is_gone;
        let (queue, _) =
            self.written.wait_timeout_while(queue, patience, waiting).unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &queue.broken {
            return Err(Error::output_damaged(format!("cannot write to the standard output: {reason}")));
        }
        if queue.out < until && !queue.is_gone {
            let patience = humantime::format_duration(patience);
            return Err(Error::failed(format!("nobody has read the standard output for {patience}"))
                .hint("the job goes on when its output is read; a file or a faster reader does not hold it up"));
        }
        Ok(())
    }
}

impl Stdout for Printer {
    fn ready(&self, waker: &Waker) -> bool {
        let mut queue = self.lock();
        let is_ready = queue.lines.len() < ENOUGH || queue.is_gone;
        if !is_ready && !queue.wakers.iter().any(|known| Arc::ptr_eq(known, waker)) {
            queue.wakers.push(Arc::clone(waker));
        }
        is_ready
    }

    fn write(&self, text: &str) {
        let mut queue = self.lock();
        if queue.is_gone || queue.is_closed {
            return;
        }
        queue.lines.extend_from_slice(text.as_bytes());
        queue.taken_in += u64::try_from(text.len()).unwrap_or(u64::MAX);
        drop(queue);
        self.filled.notify_all();
    }

    fn wants_objects(&self) -> bool {
        self.json
    }

    fn flush(&self) -> Result<()> {
        self.flush_within(FLUSH_PATIENCE)
    }
}
