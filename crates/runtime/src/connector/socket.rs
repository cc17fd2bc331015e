//! Reads lines from a TCP connection.
//!
//! Not replayable: what was read and not yet in a completed checkpoint is lost with a crash (at most once). The end of the
//! connection is the end of the split; it never connects again by itself. A thread of its own reads, for a worker must not
//! block; it stops when the queue is full, so the peer feels back-pressure.

use super::file_bytes::MAX_RECORD_BYTES;
use crate::error::{Error, Result};
use crate::io::net::Connection;
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader, Waker};
use crate::time::Time;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// So many bytes of lines may wait for the worker.
const QUEUE_BYTES: usize = 256 << 10;

/// A source of the lines that come over one TCP connection. UTF-8; `\n` or `\r\n` ends a line.
#[derive(Clone, Debug)]
pub struct SocketSource {
    address: String,
}

impl SocketSource {
    /// Connects to `host:port` when the job starts; a refused connection is an error.
    pub fn connect(address: impl Into<String>) -> SocketSource {
        SocketSource { address: address.into() }
    }
}

impl Source for SocketSource {
    type Item = String;
    type Position = ();

    fn splits(&self, _cx: &SourceContext) -> Result<Vec<String>> {
        Ok(vec![self.address.clone()])
    }

    fn open(&self, split: &str, _from: Option<()>, cx: &SourceContext) -> Result<BoxedReader<String, ()>> {
        let shared =
            Arc::new(Shared { queue: Mutex::new(Queue::default()), room: Condvar::new(), waker: cx.waker.clone() });
        let (address, ours) = (self.address.clone(), shared.clone());
        cx.threads.spawn(&format!("flott-socket-{}", cx.operator), Box::new(move || receive(&address, &ours)))?;
        Ok(Box::new(SocketReader { address: split.to_owned(), shared, lines: 0 }))
    }

    fn is_replayable(&self) -> bool {
        false
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is room in the queue, or nobody wants more.
    room: Condvar,
    waker: Waker,
}

/// What the thread hands to the reader.
#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    /// After the lines: how the connection ended.
    end: Option<Result<()>>,
    /// The reader is gone.
    closed: bool,
    /// The reader found the queue empty and waits.
    waiting: bool,
    /// To wake a thread that waits for the peer.
    connection: Option<Connection>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on a line when there is room; false if the reader is gone.
    fn push(&self, line: String) -> bool {
        let mut queue = self.lock();
        while queue.bytes >= QUEUE_BYTES && !queue.closed {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes += line.len() + size_of::<String>();
        queue.lines.push_back(line);
        let (wakes, wanted) = (std::mem::take(&mut queue.waiting), !queue.closed);
        drop(queue);
        if wakes {
            (self.waker)();
        }
        wanted
    }

    fn end(&self, end: Result<()>) {
        self.lock().end = Some(end);
        (self.waker)();
    }
}

/// The body of the thread.
fn receive(address: &str, shared: &Shared) {
    let connected = Connection::open(address).map_err(|error| {
        Error::failed(format!("cannot connect to {address}: {error}")).hint("is the other side listening?")
    });
    shared.end(connected.and_then(|connection| receive_lines(address, connection, shared)));
}

fn receive_lines(address: &str, connection: Connection, shared: &Shared) -> Result<()> {
    let lost = |error: std::io::Error| Error::failed(format!("the connection to {address} broke: {error}"));
    {
        let mut queue = shared.lock();
        if queue.closed {
            return Ok(());
        }
        queue.connection = Some(connection.another().map_err(lost)?);
    }
    let mut input = BufReader::with_capacity(64 << 10, connection);
    for line in 1u64.. {
        let place = || format!("{address}, line {line}");
        let mut bytes = Vec::new();
        let most = MAX_RECORD_BYTES as u64 + 2;
        if input.by_ref().take(most).read_until(b'\n', &mut bytes).map_err(lost)? == 0 {
            break;
        }
        if bytes.pop_if(|last| *last == b'\n').is_some() {
            bytes.pop_if(|last| *last == b'\r');
        }
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(Error::failed("the line is longer than 16 MiB").at_position(place()));
        }
        let line = String::from_utf8(bytes).map_err(|_| Error::failed("the line is not UTF-8").at_position(place()))?;
        if !shared.push(line) {
            break;
        }
    }
    Ok(())
}

struct SocketReader {
    address: String,
    shared: Arc<Shared>,
    lines: u64,
}

impl SplitReader for SocketReader {
    type Item = String;
    type Position = ();

    fn next(&mut self, _now: Time) -> Result<Next<String>> {
        let mut queue = self.shared.lock();
        if let Some(line) = queue.lines.pop_front() {
            queue.bytes -= line.len() + size_of::<String>();
            // Half empty: so the thread does not wake for each line.
            if queue.bytes <= QUEUE_BYTES / 2 {
                self.shared.room.notify_one();
            }
            self.lines += 1;
            return Ok(Next::Record(line, None));
        }
        match &queue.end {
            Some(end) => end.clone().map(|()| Next::End),
            None => {
                queue.waiting = true;
                Ok(Next::Pending)
            }
        }
    }

    fn position(&self) {}

    fn describe(&self) -> String {
        format!("{}, line {}", self.address, self.lines)
    }
}

impl Drop for SocketReader {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        if let Some(connection) = queue.connection.take() {
            connection.close();
        }
        self.shared.room.notify_one();
    }
}
