#![expect(clippy::disallowed_methods, reason = "a socket's peer needs a thread of its own")]

use super::*;
use crate::source::Threads;
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::MemoryFiles;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

struct RealThreads(mpsc::Sender<()>);

impl Threads for RealThreads {
    fn spawn(&self, _name: &str, body: Box<dyn FnOnce() + Send>) -> Result<()> {
        let ended = self.0.clone();
        thread::spawn(move || {
            body();
            let _ = ended.send(());
        });
        Ok(())
    }
}

/// A reader, what says that its waker was called, and what says that its thread ended.
struct Fixture {
    reader: BoxedReader<String, ()>,
    woken: mpsc::Receiver<()>,
    ended: mpsc::Receiver<()>,
}

fn open(address: &str) -> Fixture {
    let (ends, ended) = mpsc::channel();
    let (wakes, woken) = mpsc::channel();
    let cx = SourceContext {
        threads: Arc::new(RealThreads(ends)),
        waker: Arc::new(move || {
            let _ = wakes.send(());
        }),
        ..source_context(Arc::new(MemoryFiles::new()))
    };
    let source = SocketSource::connect(address);
    let splits = source.splits(&cx).unwrap();
    Fixture { reader: source.open(&splits[0], None, &cx).unwrap(), woken, ended }
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Fixture {
    /// The next answer that is not `Pending`, waiting only for the waker.
    fn next(&mut self) -> Result<Next<String>> {
        loop {
            match self.reader.next(Time(0)) {
                Ok(Next::Pending) => self.woken.recv_timeout(PATIENCE).expect("the waker is called"),
                other => return other,
            }
        }
    }
}

fn serve(peer: impl FnOnce(TcpStream) + Send + 'static) -> Fixture {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || peer(listener.accept().unwrap().0));
    open(&address)
}

#[test]
fn lines_arrive_and_the_end_of_the_connection_is_the_end() {
    let mut fixture = serve(|mut peer| peer.write_all(b"one\r\ntwo\n\nlast").unwrap());
    for line in ["one", "two", "", "last"] {
        assert_eq!(fixture.next().unwrap(), Next::Record(line.to_owned(), None));
    }
    assert!(fixture.reader.describe().ends_with(", line 4"));
    assert_eq!(fixture.next().unwrap(), Next::End);
    assert_eq!(fixture.next().unwrap(), Next::End);
}

#[test]
fn a_refused_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = open(&address).next().unwrap_err();
    assert!(error.to_string().contains(&format!("cannot connect to {address}")), "{error}");
}

#[test]
fn a_line_that_is_not_utf8_is_named() {
    let mut fixture = serve(|mut peer| peer.write_all(b"one\n\xFF\n").unwrap());
    assert!(fixture.next().is_ok());
    let error = fixture.next().unwrap_err();
    assert!(error.to_string().contains("not UTF-8") && error.to_string().contains(", line 2"), "{error}");
}

#[test]
fn a_slow_reader_loses_nothing_and_bounds_the_queue() {
    let count = 200_000;
    let mut fixture = serve(move |mut peer| {
        for n in 0..count {
            writeln!(peer, "{n}").unwrap();
        }
    });
    for n in 0..count {
        assert_eq!(fixture.next().unwrap(), Next::Record(n.to_string(), None));
    }
    assert_eq!(fixture.next().unwrap(), Next::End);
}

#[test]
fn a_dropped_reader_ends_its_thread() {
    // The peer says nothing, and keeps the connection open until our side closes it.
    let fixture = serve(|mut peer| drop(peer.read(&mut [0])));
    let Fixture { reader, ended, .. } = fixture;
    drop(reader);
    ended.recv_timeout(PATIENCE).expect("the thread ends");
    // And one whose queue is full.
    let mut fixture = serve(|mut peer| while peer.write_all(b"more and more\n").is_ok() {});
    assert!(matches!(fixture.next(), Ok(Next::Record(..))));
    let Fixture { reader, ended, .. } = fixture;
    drop(reader);
    ended.recv_timeout(PATIENCE).expect("the thread ends");
}
