//! The one operator of each worker: hosts a floor-1 worker, gives it what arrives, runs it step by step, and sends on what it
//! puts into its outbox.
//!
//! Its output is also its input, over [`Route`], without a path inside: to timely there is no cycle. Packets for the own worker
//! never go through timely; a channel always takes the same way, so its order holds.

use crate::envelope::{Content, Envelope, Route};
use crate::fate::Fate;
use crate::panics;
use crate::wake::Wake;
use flott_runtime::attempt::Attempt;
use flott_runtime::control::ToManager;
use flott_runtime::host::{HostPorts, Inbox, Mailbox};
use flott_runtime::outbox::Outbox;
use flott_runtime::packet::{Packet, codec};
use flott_runtime::time::{Clock, Time};
use flott_runtime::worker::{Mail, Next, Worker};
use flott_runtime::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::scheduling::Activator;

#[cfg(test)]
mod tests;

/// What the shell hosts: [`Worker`], or a stand-in for tests of the fabric alone.
pub(crate) trait Work {
    /// See [`Worker::deliver`].
    fn deliver(&mut self, packet: Packet);
    /// See [`Worker::mail`].
    fn mail(&mut self, mail: Mail);
    /// See [`Worker::step`].
    fn step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Next;
}

impl Work for Worker {
    fn deliver(&mut self, packet: Packet) {
        Worker::deliver(self, packet);
    }

    fn mail(&mut self, mail: Mail) {
        Worker::mail(self, mail);
    }

    fn step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Next {
        Worker::step(self, clock, outbox)
    }
}

/// Makes what a shell hosts, on the worker's thread.
pub(crate) type MakeWork = Arc<dyn Fn(u16) -> Result<Box<dyn Work>> + Send + Sync>;

/// Everything that one worker's thread is given.
pub(crate) struct Seat {
    pub(crate) index: u16,
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) ports: HostPorts,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) fate: Arc<Fate>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) mailbox: Mailbox,
    pub(crate) inbox: Inbox,
    pub(crate) make: MakeWork,
    /// Packets for other workers travel as bytes.
    pub(crate) is_encoding: bool,
}

/// How long a worker sleeps at most; it then only finds that its moment has not come.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// One worker's shell.
pub(crate) struct Shell {
    seat: Seat,
    work: Option<Box<dyn Work>>,
    /// Packets that other workers sent, in the order of their channels.
    arrived: Vec<Envelope>,
    /// Packets from this worker to itself.
    local: Vec<Packet>,
    /// Packets for other workers.
    leaving: Vec<Envelope>,
    outbox: Outbox,
    alarms: Alarms,
    is_done: bool,
}

/// The moments that timely was asked to run the shell at. It forgets none and merges none, so it is asked only for one that
/// is earlier than all it has.
#[derive(Default)]
struct Alarms(BTreeSet<Time>);

impl Alarms {
    /// How long to ask timely to wait so that the shell runs at `moment` at the latest; `None` if it does anyway.
    fn set(&mut self, now: Time, moment: Time) -> Option<Duration> {
        while self.0.first().is_some_and(|alarm| *alarm <= now) {
            self.0.pop_first();
        }
        if self.0.first().is_some_and(|alarm| *alarm <= moment) {
            return None;
        }
        let delay = moment.since(now).min(LONGEST_SLEEP);
        self.0.insert(now.after(delay));
        Some(delay)
    }
}

/// When timely has to run the shell again, besides after a wake or a packet.
enum Again {
    Now,
    After(Duration),
    IfWoken,
    Never,
}

impl Shell {
    /// A shell that has made nothing yet; its first turn makes the worker.
    pub(crate) fn new(seat: Seat) -> Shell {
        Shell {
            seat,
            work: None,
            arrived: Vec::new(),
            local: Vec::new(),
            leaving: Vec::new(),
            outbox: Outbox::default(),
            alarms: Alarms::default(),
            is_done: false,
        }
    }

    /// Puts a shell into a dataflow.
    pub(crate) fn build(shell: &Rc<RefCell<Shell>>, scope: Scope<'_, ()>) {
        let mut builder = OperatorBuilder::new("flott worker".to_owned(), scope);
        let address = builder.operator_info().address;
        let activator = Activator::new(address.clone(), scope.activations());
        shell.borrow().seat.wake.connect(scope.worker().sync_activator_for(address.to_vec()));
        // No path from the input to the output, so their order does not matter and the loop is none to timely.
        let (output, stream) = builder.new_output_connection::<Envelope, _>(Vec::new());
        let mut output = OutputBuilder::<(), NoopBuilder<Envelope>>::from(output);
        let mut input = builder.new_input_connection(stream, Route, Vec::new());
        let shell = shell.clone();
        builder.build(move |mut capabilities| {
            // What keeps the dataflow alive: as long as one worker may send, all stay.
            let mut may_send = capabilities.pop();
            move |_frontiers| {
                let mut shell = shell.borrow_mut();
                input.for_each(|_, envelope| shell.arrived.push(std::mem::take(envelope)));
                let again = shell.turn();
                if let Some(capability) = &may_send {
                    let mut output = output.activate();
                    let mut session = output.session_with_builder(capability);
                    shell.leaving.drain(..).for_each(|mut envelope| session.give_container(&mut envelope));
                }
                match again {
                    Again::Now => activator.activate(),
                    Again::After(delay) => activator.activate_after(delay),
                    Again::IfWoken => {}
                    Again::Never => may_send = None,
                }
            }
        });
    }

    /// Drops the worker and all that it holds.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.seat.wake.disconnect();
        let index = self.seat.index;
        let dropped =
            (self.work.take(), std::mem::take(&mut self.outbox), std::mem::take(&mut self.local), self.inbox_rest());
        let leaving = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.leaving));
        panics::guard(index, || drop((dropped, leaving)))
    }

    fn inbox_rest(&self) -> impl Drop + use<> {
        self.seat.inbox.take()
    }

    /// One step of the worker with all that belongs to it.
    fn turn(&mut self) -> Again {
        self.seat.wake.noticed();
        if self.is_done {
            self.arrived.clear();
            return Again::Never;
        }
        if self.seat.fate.is_stopped() {
            return Again::IfWoken;
        }
        match panics::guard(self.seat.index, || self.step()) {
            Ok(Ok(next)) => {
                let has_more = !self.local.is_empty() && next != Next::Done;
                self.again(if has_more { Next::Now } else { next })
            }
            // What is left half done must not be used again; `close` drops it.
            Ok(Err(error)) => self.fail(error),
            Err(panic) => self.fail(self.seat.attempt.world.heartbeats.of(self.seat.index).blame(panic)),
        }
    }

    fn fail(&self, error: Error) -> Again {
        self.seat.fate.fail(error);
        Again::IfWoken
    }

    /// Everything that may panic: building, delivering, stepping, and the codecs of user types.
    fn step(&mut self) -> Result<Next> {
        let work = match &mut self.work {
            Some(work) => work,
            empty => empty.insert((self.seat.make)(self.seat.index)?),
        };
        for envelope in self.arrived.drain(..) {
            if let Some(packet) = open(envelope, &self.seat)? {
                work.deliver(packet);
            }
        }
        self.local.drain(..).for_each(|packet| work.deliver(packet));
        self.seat.inbox.take().into_iter().for_each(|mail| work.mail(mail));
        let next = work.step(&*self.seat.clock, &mut self.outbox);
        self.serve()?;
        Ok(next)
    }

    fn serve(&mut self) -> Result<()> {
        let Shell { seat, outbox, local, leaving, .. } = self;
        for packet in outbox.packets.drain(..) {
            let to = packet.worker();
            if to == seat.index {
                local.push(packet);
                continue;
            }
            let content = if seat.is_encoding {
                let mut bytes = Vec::new();
                codec::encode(&packet, &mut bytes)?;
                Content::Encoded(bytes)
            } else {
                Content::Packet(packet)
            };
            leaving.push(Envelope { to: usize::from(to), content });
        }
        for report in outbox.reports.drain(..) {
            seat.ports.report(ToManager { attempt: seat.attempt.id, worker: seat.index, report });
        }
        for (ticket, request) in outbox.storage.drain(..) {
            seat.ports.storage(seat.mailbox.clone(), ticket, request);
        }
        for (ticket, call) in outbox.calls.drain(..) {
            seat.ports.call(seat.mailbox.clone(), ticket, call);
        }
        Ok(())
    }

    fn again(&mut self, next: Next) -> Again {
        match next {
            Next::Now => Again::Now,
            Next::Idle => Again::IfWoken,
            Next::Done => {
                self.is_done = true;
                Again::Never
            }
            Next::At(moment) => {
                let now = self.seat.clock.now();
                if moment <= now {
                    return Again::Now;
                }
                self.alarms.set(now, moment).map_or(Again::IfWoken, Again::After)
            }
        }
    }
}

/// The packet in an envelope.
fn open(envelope: Envelope, seat: &Seat) -> Result<Option<Packet>> {
    match envelope.content {
        Content::Nothing => Ok(None),
        Content::Packet(packet) => Ok(Some(packet)),
        Content::Encoded(bytes) => codec::decode(&bytes, &seat.attempt.plan, seat.attempt.workers).map(Some),
        Content::Received(bytes) => codec::decode(&bytes, &seat.attempt.plan, seat.attempt.workers).map(Some),
    }
}
