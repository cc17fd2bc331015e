//! The suite that all hosts pass, on the deterministic host, in many orders of events.

use flott_runtime::attempt::Attempt;
use flott_runtime::control::ToManager;
use flott_runtime::host::{HostPorts, Inbox, Mailbox};
use flott_runtime::testing::host_suite::{self, Book, Ledger, Run, Subject};
use flott_runtime::testing::{DeterministicHost, Random, Turn, VirtualClock};
use flott_runtime::time::Time;
use std::sync::Arc;

/// Starts every attempt with another seed, counted on from the first.
struct Deterministic {
    seed: u64,
}

struct Stepped {
    seed: u64,
    attempt: Arc<Attempt>,
    ports: HostPorts,
    /// `None` once the attempt has ended.
    host: Option<DeterministicHost>,
    clock: VirtualClock,
    random: Random,
    mail: Vec<(Mailbox, Inbox)>,
}

impl Subject for Deterministic {
    fn start(&mut self, attempt: Arc<Attempt>, ports: HostPorts) -> Box<dyn Run> {
        self.seed += 1;
        let clock = VirtualClock::default();
        clock.move_to(Time(1_000_000));
        let host = DeterministicHost::start(&attempt, clock.clone()).expect("the chains can be built");
        let mail = (0..attempt.workers).map(|_| Mailbox::new(Arc::new(|| ()))).collect();
        let (seed, random) = (self.seed, Random::new(self.seed));
        Box::new(Stepped { seed, attempt, ports, host: Some(host), clock, random, mail })
    }
}

impl Stepped {
    /// Does one thing; false if there is nothing to do.
    fn go_on(&mut self) -> bool {
        let Some(host) = &mut self.host else { return false };
        for ((_, inbox), worker) in self.mail.iter().zip(0..) {
            inbox.take().into_iter().for_each(|mail| host.mail(worker, mail));
        }
        let Some(Turn { worker, reports, storage, calls, .. }) = host.turn(&mut self.random) else {
            let moment = host.next_moment();
            moment.into_iter().for_each(|moment| self.clock.move_to(moment));
            return moment.is_some();
        };
        let Some(worker) = worker else { return true };
        let mailbox = self.mailbox(worker);
        for report in reports {
            self.ports.report(ToManager { attempt: self.attempt.id, worker, report });
        }
        for (ticket, request) in storage {
            self.ports.storage(mailbox.clone(), ticket, request);
        }
        for (ticket, call) in calls {
            self.ports.call(mailbox.clone(), ticket, call);
        }
        true
    }

    fn end(&mut self) {
        if self.host.take().is_some() {
            self.ports.ended(self.attempt.id, None);
        }
    }
}

impl Run for Stepped {
    fn mailbox(&self, worker: u16) -> Mailbox {
        self.mail.get(usize::from(worker)).expect("a mailbox for each worker").0.clone()
    }

    fn stop(&mut self) {
        self.end();
    }

    fn until(&mut self, ledger: &Ledger, condition: &mut dyn FnMut(&mut Book) -> bool) -> bool {
        // The seed is shown only if the test fails.
        println!("seed {}", self.seed);
        while !ledger.note(|book| condition(book)) {
            if !self.go_on() {
                return false;
            }
        }
        true
    }

    fn finish(mut self: Box<Self>, _: &Ledger) {
        while self.host.as_ref().is_some_and(|host| !host.is_done()) {
            assert!(self.go_on(), "closed, the workers are done; seed {}", self.seed);
        }
        self.end();
    }
}

#[test]
fn it_is_a_host_in_any_order_of_events() {
    for seed in 0..10 {
        host_suite::every_host(&mut Deterministic { seed: seed * 1_000 });
    }
}
