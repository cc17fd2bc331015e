//! What happens to printed lines while their reader reads, rests, and is gone.

use super::*;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// A pipe with room for nothing: each write waits for a permit, and its bytes are kept.
struct Pipe {
    permits: mpsc::Receiver<()>,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.permits.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.kept.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Rig {
    printer: Arc<Printer>,
    written: Written,
    permits: mpsc::Sender<()>,
    kept: Arc<Mutex<Vec<u8>>>,
}

fn rig() -> Rig {
    let (permits, receiver) = mpsc::channel();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (printer, written) = Printer::start(Pipe { permits: receiver, kept: kept.clone() }, false).unwrap();
    Rig { printer, written, permits, kept }
}

fn counting() -> (Waker, mpsc::Receiver<()>, Arc<AtomicUsize>) {
    let (sender, woken) = mpsc::channel();
    let count = Arc::new(AtomicUsize::new(0));
    let ours = count.clone();
    let waker: Waker = Arc::new(move || {
        ours.fetch_add(1, Ordering::SeqCst);
        let _ = sender.send(());
    });
    (waker, woken, count)
}

/// Writes until no more is asked for; the reader reads nothing.
fn fill(printer: &Printer, waker: &Waker) -> usize {
    let line = "x".repeat(999) + "\n";
    let mut lines = 0;
    while printer.ready(waker) {
        printer.write(&line);
        lines += 1;
        assert!(lines < 10_000, "it must come to an end");
    }
    lines
}

#[test]
fn a_reader_that_rests_holds_the_writer_back_and_blocks_nobody_and_gets_everything_in_the_end() {
    let Rig { printer, written, permits, kept } = rig();
    let (waker, woken, count) = counting();
    let mut lines = fill(&printer, &waker);
    assert!(!printer.ready(&waker), "asked twice");
    for _ in 0..3 {
        permits.send(()).unwrap();
    }
    // What was on its way is read, so the queue is taken out, and there is room.
    if !printer.ready(&waker) {
        woken.recv_timeout(Duration::from_secs(30)).expect("woken when there is room");
    }
    assert!(count.load(Ordering::SeqCst) <= 2, "once for each time it was not ready");
    lines += 1;
    printer.write(&("y".repeat(999) + "\n"));
    printer.close();
    for _ in 0..3 {
        let _ = permits.send(());
    }
    written.blocking_recv().unwrap();
    assert_eq!(kept.lock().unwrap().len(), lines * 1000);
    assert!(kept.lock().unwrap().ends_with(b"y\n"));
}

#[test]
fn a_flush_waits_for_what_was_written_before_it_and_says_if_nobody_reads() {
    let Rig { printer, permits, kept, .. } = rig();
    printer.flush().expect("nothing to wait for");
    printer.write("a\n");
    let error = printer.flush_within(Duration::ZERO).expect_err("nobody reads").to_string();
    assert!(error.contains("nobody has read the standard output"), "{error}");
    permits.send(()).unwrap();
    printer.flush_within(Duration::from_secs(30)).expect("it is read");
    assert_eq!(*kept.lock().unwrap(), b"a\n");
    printer.close();
}

#[test]
fn a_reader_that_went_away_is_no_reason_to_fail() {
    let Rig { printer, written, permits, .. } = rig();
    let (waker, ..) = counting();
    fill(&printer, &waker);
    drop(permits);
    written.blocking_recv().expect("the thread ends");
    assert!(printer.ready(&waker));
    printer.write("into the void\n");
    printer.flush().expect("nobody to wait for");
}

/// A device without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_cannot_be_written_are_an_error_of_the_output_and_no_checkpoint_covers_them() {
    let (printer, _written) = Printer::start(Full, false).unwrap();
    printer.write("lost\n");
    let error = printer.flush().unwrap_err();
    assert_eq!(error.kind(), flott_runtime::ErrorKind::OutputDamaged, "{error}");
}
