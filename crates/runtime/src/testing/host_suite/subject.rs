//! A host under test, as the suite drives it.

use super::ledger::{Book, Ledger};
use crate::attempt::Attempt;
use crate::host::{Host, HostPorts, Mailbox, RunningAttempt};
use std::sync::Arc;
use std::time::Duration;

/// Something that runs attempts.
pub trait Subject {
    /// Starts one; `ports` get everything that leaves the workers.
    fn start(&mut self, attempt: Arc<Attempt>, ports: HostPorts) -> Box<dyn Run>;
}

/// A started attempt.
pub trait Run {
    /// Where mail for a worker goes.
    fn mailbox(&self, worker: u16) -> Mailbox;

    /// Stops the attempt.
    fn stop(&mut self);

    /// Runs the attempt, or waits while it runs, until the condition holds; false if it comes to nothing. The condition is
    /// asked at the start and after everything that reaches the ports.
    fn until(&mut self, ledger: &Ledger, condition: &mut dyn FnMut(&mut Book) -> bool) -> bool;

    /// Lets the attempt, which was closed or stopped or has failed, come to its end; panics if it does not.
    fn finish(self: Box<Self>, ledger: &Ledger);
}

/// A host whose workers run by themselves.
pub struct Threaded<H>(pub H);

/// Long enough for a loaded machine; only a broken promise waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

impl<H: Host> Subject for Threaded<H> {
    fn start(&mut self, attempt: Arc<Attempt>, ports: HostPorts) -> Box<dyn Run> {
        Box::new(self.0.start(attempt, ports))
    }
}

impl Run for RunningAttempt {
    fn mailbox(&self, worker: u16) -> Mailbox {
        RunningAttempt::mailbox(self, worker).expect("a mailbox for each worker").clone()
    }

    fn stop(&mut self) {
        RunningAttempt::stop(self);
    }

    fn until(&mut self, ledger: &Ledger, condition: &mut dyn FnMut(&mut Book) -> bool) -> bool {
        ledger.wait(PATIENCE, condition)
    }

    fn finish(self: Box<Self>, ledger: &Ledger) {
        assert!(
            ledger.wait(PATIENCE, &mut |book| !book.ended.is_empty()),
            "the host never tells the end of the attempt"
        );
        self.join();
    }
}
