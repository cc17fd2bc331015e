//! The fabric alone, with stand-ins for the worker.

use crate::TimelyHost;
use crate::shell::Work;
use flott_checkpoint::{AttemptId, CheckpointId};
use flott_runtime::attempt::Attempt;
use flott_runtime::control::{Order, Report, ToWorker};
use flott_runtime::host::{Mailbox, RunningAttempt};
use flott_runtime::outbox::Outbox;
use flott_runtime::packet::{ChannelId, Packet, Payload};
use flott_runtime::record::{AnyBatch, Batch};
use flott_runtime::source::Waker;
use flott_runtime::testing::host_suite::{Job, Ledger};
use flott_runtime::time::{Clock, Time};
use flott_runtime::worker::{Mail, Next};
use flott_runtime::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// The time since the test began.
struct Ticking(std::time::Instant);

impl Clock for Ticking {
    fn now(&self) -> Time {
        Time(0).after(self.0.elapsed())
    }
}

#[allow(clippy::disallowed_methods, reason = "the host's clock is a real one")]
fn host() -> TimelyHost {
    TimelyHost::new(Arc::new(Ticking(std::time::Instant::now())))
}

/// A stand-in: what it does in a step is a closure over its state.
struct Stub<S, F> {
    state: S,
    packets: VecDeque<Packet>,
    mail: VecDeque<Mail>,
    step: F,
}

/// What a stub sees in one step.
struct Seen<'a> {
    packets: VecDeque<Packet>,
    mail: VecDeque<Mail>,
    now: Time,
    outbox: &'a mut Outbox,
}

impl<S, F: FnMut(&mut S, Seen<'_>) -> Next> Work for Stub<S, F> {
    fn deliver(&mut self, packet: Packet) {
        self.packets.push_back(packet);
    }

    fn mail(&mut self, mail: Mail) {
        self.mail.push_back(mail);
    }

    fn step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Next {
        let (packets, mail) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.mail));
        (self.step)(&mut self.state, Seen { packets, mail, now: clock.now(), outbox })
    }
}

fn stub<S, F>(state: S, step: F) -> Result<Box<dyn Work>>
where
    S: 'static,
    F: FnMut(&mut S, Seen<'_>) -> Next + 'static,
{
    Ok(Box::new(Stub { state, packets: VecDeque::new(), mail: VecDeque::new(), step }))
}

struct Started {
    ledger: Arc<Ledger>,
    running: RunningAttempt,
}

impl Started {
    fn new(
        host: &TimelyHost,
        workers: u16,
        make: impl Fn(u16, Waker) -> Result<Box<dyn Work>> + Send + Sync + 'static,
    ) -> Started {
        let ledger = Arc::new(Ledger::default());
        let attempt: Arc<Attempt> = Job { workers, ..Job::default() }.attempt(&ledger);
        let running = host.start_work(attempt, ledger.clone(), Box::new(make));
        Started { ledger, running }
    }

    fn mailbox(&self, worker: u16) -> Mailbox {
        self.running.mailbox(worker).expect("a mailbox for each worker").clone()
    }

    /// Waits for the end by itself.
    fn end(self) -> Option<Error> {
        assert!(self.ledger.wait(PATIENCE, &mut |book| !book.ended.is_empty()), "the attempt does not end");
        self.running.join();
        let mut book = self.ledger.take();
        assert_eq!(book.ended.len(), 1);
        book.ended.pop().and_then(|(_, error)| error)
    }
}

fn close() -> Mail {
    Mail::Order(ToWorker { attempt: AttemptId(1), order: Order::Close })
}

fn packet(from: u16, to: u16, payload: Payload) -> Packet {
    Packet { channel: ChannelId { edge: 0, from, to }, attempt: AttemptId(1), epoch: CheckpointId(0), payload }
}

fn counts(workers: usize) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..workers).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn no_wake_is_lost_between_sleeping_and_waking() {
    const ROUNDS: u64 = 2_000;
    const SENDERS: usize = 3;
    // Each sender waits for the echo of its own mail, so the worker falls asleep all the time.
    let (senders, echoes): (Vec<Sender<()>>, Vec<_>) = (0..SENDERS).map(|_| channel()).unzip();
    let started = Started::new(&host(), 2, move |index, _| {
        let senders = senders.clone();
        stub((), move |(), seen| {
            for mail in seen.mail {
                match mail {
                    Mail::Call(ticket, _) if index == 1 => {
                        let _ = senders[usize::try_from(ticket.0).expect("small")].send(());
                    }
                    _ => return Next::Done,
                }
            }
            Next::Idle
        })
    });
    std::thread::scope(|scope| {
        for (sender, echo) in echoes.into_iter().enumerate() {
            let mailbox = started.mailbox(1);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    mailbox.push(Mail::Call(flott_runtime::io::Ticket(sender as u64), Box::new(())));
                    echo.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no echo in round {round}"));
                }
            });
        }
    });
    (0..2).for_each(|worker| started.mailbox(worker).push(close()));
    assert!(started.end().is_none());
}

#[test]
fn the_waker_wakes_before_and_after_the_worker_sleeps() {
    let steps = counts(1);
    let counted = steps.clone();
    let started = Started::new(&host(), 1, move |_, waker| {
        // Before it has taken its first step.
        waker();
        let (counted, waker) = (counted.clone(), waker);
        stub((), move |(), _| {
            let step = counted[0].fetch_add(1, Ordering::SeqCst);
            // In the middle of a step: the next one must follow.
            waker();
            if step == 1_000 { Next::Done } else { Next::Idle }
        })
    });
    assert!(started.end().is_none());
    assert_eq!(steps[0].load(Ordering::SeqCst), 1_001);
}

#[test]
fn a_worker_is_stepped_when_its_moment_comes_and_hardly_before() {
    const MOMENTS: u64 = 20;
    let steps = counts(1);
    let counted = steps.clone();
    let started = Started::new(&host(), 1, move |_, waker| {
        let counted = counted.clone();
        stub((0, Time(0)), move |(passed, moment), seen| {
            counted[0].fetch_add(1, Ordering::SeqCst);
            if seen.now < *moment {
                return Next::At(*moment);
            }
            *passed += 1;
            *moment = seen.now.after(Duration::from_millis(3));
            // Wakes in between leave one alarm, not two.
            waker();
            if *passed == MOMENTS { Next::Done } else { Next::At(*moment) }
        })
    });
    assert!(started.end().is_none());
    let steps = steps[0].load(Ordering::SeqCst);
    assert!(steps <= MOMENTS * 4, "{steps} steps for {MOMENTS} moments and as many wakes");
}

#[test]
fn an_idle_worker_is_not_stepped_while_another_works() {
    const BUSY: u64 = 20_000;
    let steps = counts(2);
    let counted = steps.clone();
    let started = Started::new(&host(), 2, move |index, _| {
        let counted = counted.clone();
        stub((), move |(), seen| {
            let step = counted[usize::from(index)].fetch_add(1, Ordering::SeqCst);
            if index == 1 {
                return if seen.packets.is_empty() { Next::Idle } else { Next::Done };
            }
            if step < BUSY {
                return Next::Now;
            }
            seen.outbox.packets.push(packet(0, 1, Payload::End));
            Next::Done
        })
    });
    assert!(started.end().is_none());
    let steps = steps[1].load(Ordering::SeqCst);
    assert!(steps <= 4, "the idle worker was stepped {steps} times");
}

#[test]
fn packets_that_a_worker_sends_with_its_last_step_arrive() {
    let started = Started::new(&host().with_encoded_packets(), 3, move |index, _| {
        stub(0, move |received, seen| {
            *received += seen.packets.len();
            if index == 0 {
                for to in [1, 2] {
                    seen.outbox.packets.extend((0..10).map(|_| packet(0, to, Payload::Credit { bytes: 1 })));
                    seen.outbox.packets.extend((0..10).map(|_| packet(0, to, Payload::End)));
                }
                return Next::Done;
            }
            if *received == 10 { Next::Done } else { Next::Idle }
        })
    });
    // Credits go to the sender of the channel, which is done; they are dropped.
    assert!(started.end().is_none());
}

#[derive(Clone, serde::Deserialize)]
struct Stubborn;

impl serde::Serialize for Stubborn {
    fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("this record stays here"))
    }
}

#[test]
fn a_record_that_cannot_be_encoded_ends_the_attempt() {
    let started = Started::new(&host().with_encoded_packets(), 2, |index, _| {
        stub((), move |(), seen| {
            let batch: Box<dyn AnyBatch> = Box::new(Batch::new(vec![Stubborn], None));
            let data = Payload::Data { batch: Some(batch), bytes: 1, watermark: None };
            seen.outbox.packets.push(packet(index, 1 - index, data));
            Next::Idle
        })
    });
    let error = started.end().expect("the host knows why").to_string();
    assert!(error.contains("this record stays here"), "{error}");
}

#[test]
fn a_packet_of_the_wrong_type_ends_the_attempt() {
    let started = Started::new(&host().with_encoded_packets(), 2, |index, _| {
        stub((), move |(), seen| {
            let batch: Box<dyn AnyBatch> = Box::new(Batch::new(vec![1_u8], None));
            let data = Payload::Data { batch: Some(batch), bytes: 1, watermark: None };
            seen.outbox.packets.push(packet(index, 1 - index, data));
            Next::Idle
        })
    });
    let error = started.end().expect("the host knows why").to_string();
    assert!(error.contains("cannot decode"), "{error}");
}

#[test]
fn reports_carry_worker_and_attempt() {
    let started = Started::new(&host(), 3, |_, _| {
        stub((), |(), seen| {
            seen.outbox.reports.push(Report::Restored);
            Next::Done
        })
    });
    let ledger = started.ledger.clone();
    assert!(ledger.wait(PATIENCE, &mut |book| book.reports.len() == 3));
    let mut workers: Vec<_> =
        ledger.note(|book| book.reports.drain(..).map(|report| (report.attempt, report.worker)).collect());
    workers.sort_unstable();
    assert_eq!(workers, [(AttemptId(1), 0), (AttemptId(1), 1), (AttemptId(1), 2)]);
    assert!(started.end().is_none());
}

#[test]
fn of_several_errors_the_first_is_told() {
    let started = Started::new(&host(), 4, |index, _| {
        if index == 0 {
            return stub((), |(), _| Next::Idle);
        }
        Err(Error::refused(format!("worker {index} cannot be built")))
    });
    let error = started.end().expect("the host knows why").to_string();
    assert!(error.contains("cannot be built"), "{error}");
}

#[test]
fn mail_for_an_attempt_that_has_ended_is_dropped() {
    let started = Started::new(&host(), 1, |_, _| stub((), |(), _| Next::Done));
    let mailbox = started.mailbox(0);
    assert!(started.end().is_none());
    let held = Arc::new(());
    mailbox.push(Mail::Call(flott_runtime::io::Ticket(1), Box::new(held.clone())));
    assert_eq!(Arc::strong_count(&held), 1);
}
