//! Starts and ends attempts on threads of this process: one per worker, and one that awaits them.
//!
//! The only place of this crate that starts threads and that reads the system's clock, on behalf of timely.

use crate::fate::Fate;
use crate::panics;
use crate::shell::{MakeWork, Seat, Shell, Work};
use crate::wake::Wake;
use flott_runtime::attempt::Attempt;
use flott_runtime::host::{Host, HostPorts, Mailbox, RunningAttempt};
use flott_runtime::source::Waker;
use flott_runtime::time::Clock;
use flott_runtime::worker::Worker;
use flott_runtime::{Error, Result};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use timely::WorkerConfig;
use timely::communication::{Allocator, Config, initialize_from};

/// The host on timely dataflow. Needs `panic = "unwind"`; see [`crate::PANICS_END_ONLY_THE_ATTEMPT`].
#[derive(Clone)]
pub struct TimelyHost {
    clock: Arc<dyn Clock + Send + Sync>,
    is_encoding: bool,
}

impl TimelyHost {
    /// A host whose workers look at this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock + Send + Sync>) -> TimelyHost {
        TimelyHost { clock, is_encoding: false }
    }

    /// Lets packets between workers travel as bytes, as they do between processes: slower, and shows that every record
    /// survives it.
    #[must_use]
    pub fn with_encoded_packets(mut self) -> TimelyHost {
        self.is_encoding = true;
        self
    }

    /// As [`Host::start`], for anything that can be hosted.
    pub(crate) fn start_work(&self, attempt: Arc<Attempt>, ports: HostPorts, make: MakeWorks) -> RunningAttempt {
        let wakes: Vec<Arc<Wake>> = (0..attempt.workers).map(|_| Arc::default()).collect();
        let fate = Arc::new(Fate::new(wakes.clone()));
        let make: MakeWork = {
            let wakers: Vec<Waker> = wakes.iter().map(waker).collect();
            Arc::new(move |index| {
                let waker = wakers.get(usize::from(index)).expect("there is a waker for each worker");
                make(index, waker.clone())
            })
        };
        let mut mailboxes = Vec::new();
        let mut seats = Vec::new();
        for (index, wake) in (0..attempt.workers).zip(wakes) {
            let (mailbox, inbox) = Mailbox::new(waker(&wake));
            mailboxes.push(mailbox.clone());
            seats.push(Seat {
                index,
                attempt: attempt.clone(),
                ports: ports.clone(),
                clock: self.clock.clone(),
                fate: fate.clone(),
                wake,
                mailbox,
                inbox,
                make: make.clone(),
                is_encoding: self.is_encoding,
            });
        }
        let join = self.supervise(seats, &attempt, &ports, &fate);
        let stop = Arc::new(move || fate.stop());
        RunningAttempt::new(attempt.id, mailboxes, stop, join)
    }

    /// Starts the thread that starts and awaits the workers and then tells that the attempt has ended.
    fn supervise(
        &self,
        seats: Vec<Seat>,
        attempt: &Arc<Attempt>,
        ports: &HostPorts,
        fate: &Arc<Fate>,
    ) -> Box<dyn FnOnce() + Send> {
        let id = attempt.id;
        let is_encoding = self.is_encoding;
        let (told, fate) = (ports.clone(), fate.clone());
        let supervisor = spawn(format!("flott-{id}"), move || {
            panics::be_quiet();
            run_all(seats, is_encoding, &fate);
            told.ended(id, fate.take_error());
        });
        match supervisor {
            Ok(thread) => Box::new(move || {
                // It cannot panic but in `ended`, and that is reported where `ended` belongs.
                let _ = thread.join();
            }),
            Err(error) => {
                ports.ended(id, Some(no_thread(&error)));
                Box::new(|| ())
            }
        }
    }
}

/// Makes what a worker hosts, given its index and its waker.
pub(crate) type MakeWorks = Box<dyn Fn(u16, Waker) -> Result<Box<dyn Work>> + Send + Sync>;

impl Host for TimelyHost {
    fn start(&self, attempt: Arc<Attempt>, ports: HostPorts) -> RunningAttempt {
        let plan = attempt.clone();
        let make: MakeWorks = Box::new(move |index, waker| Ok(Box::new(Worker::new(plan.clone(), index, waker)?)));
        self.start_work(attempt, ports, make)
    }
}

fn waker(wake: &Arc<Wake>) -> Waker {
    let wake = wake.clone();
    Arc::new(move || wake.call())
}

/// Runs all workers and returns when their threads are gone.
fn run_all(seats: Vec<Seat>, is_encoding: bool, fate: &Arc<Fate>) {
    let threads = seats.len();
    let config = if is_encoding { Config::ProcessBinary(threads) } else { Config::Process(threads) };
    let (allocators, others) = match config.try_build() {
        Ok(built) => built,
        Err(error) => return fate.fail(Error::failed(format!("cannot connect the workers: {error}"))),
    };
    let seats = Mutex::new(seats.into_iter().map(Some).collect::<Vec<_>>());
    let (alive, all_gone) = mpsc::channel::<()>();
    let workers = initialize_from(allocators, others, move |allocator| {
        let _alive = &alive;
        let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = seats.get_mut(allocator.index()).and_then(Option::take);
        drop(seats);
        run_worker(seat.expect("each worker sits down once"), allocator);
    });
    match workers {
        Ok(workers) => {
            for died in workers.join().into_iter().filter_map(Result::err) {
                fate.fail(Error::failed(format!("the thread of a worker died: {died}")));
            }
        }
        // Workers that run already miss their peers, and end.
        Err(error) => fate.fail(no_thread(&error)),
    }
    // Every thread holds the closure, and with it the sender, until its end.
    let _ = all_gone.recv();
}

/// The whole life of a worker's thread.
fn run_worker(seat: Seat, allocator: Allocator) {
    panics::be_quiet();
    let (index, fate) = (seat.index, seat.fate.clone());
    // At the level of errors, so that whatever is logged from here names its place.
    let (job, attempt) = (seat.attempt.plan.job.as_str(), seat.attempt.id.0);
    let _in = tracing::error_span!(target: "flott", "worker", job, attempt, worker = index).entered();
    if let Err(error) = panics::guard(index, || run_dataflow(seat, allocator)) {
        // Nobody may wait for a worker that is gone.
        fate.fail(error);
    }
}

#[allow(clippy::disallowed_methods, reason = "timely's timers run on the system's clock")]
fn run_dataflow(seat: Seat, allocator: Allocator) {
    let fate = seat.fate.clone();
    let started = std::time::Instant::now();
    let mut timely = timely::worker::Worker::new(WorkerConfig::default(), allocator, Some(started));
    let shell = Rc::new(RefCell::new(Shell::new(seat)));
    timely.dataflow::<(), _, _>(|scope| Shell::build(&shell, scope));
    while timely.has_dataflows() && !fate.is_stopped() {
        timely.step_or_park(None);
    }
    if let Err(error) = shell.borrow_mut().close() {
        fate.fail(error);
    }
    for dataflow in timely.installed_dataflows() {
        timely.drop_dataflow(dataflow);
    }
}

#[allow(clippy::disallowed_methods, reason = "the host owns the workers' threads")]
fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(body)
}

fn no_thread(error: &dyn fmt::Display) -> Error {
    Error::failed(format!("cannot start a thread: {error}")).hint("run fewer workers, or raise the limit of threads")
}
