//! How packets look to timely: a container that holds one packet, and the pact that takes it to its worker.
//!
//! Inside a process the typed packet moves. Towards other processes the shell encodes it beforehand, where a failure can be
//! told, and decodes what arrives, where the plan is known; here bytes are only carried.

use flott_runtime::packet::Packet;
use std::io::Write;
use std::rc::Rc;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::communication::{Pull, Push};
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::dataflow::channels::{ContainerBytes, Message};
use timely::logging::TimelyLogger;
use timely::worker::Worker;

/// A packet on its way, and the worker it goes to.
#[derive(Default)]
pub(crate) struct Envelope {
    pub(crate) to: usize,
    pub(crate) content: Content,
}

/// What an envelope holds.
#[derive(Default)]
pub(crate) enum Content {
    /// Nothing: what timely leaves behind when it takes a container.
    #[default]
    Nothing,
    /// A packet that stays in the process.
    Packet(Packet),
    /// A packet that leaves it, in the form of `packet::codec`.
    Encoded(Vec<u8>),
    /// A packet from another process, in the same form.
    Received(Bytes),
}

impl Accountable for Envelope {
    /// One, whatever the packet carries: timely drops containers that count for nothing.
    fn record_count(&self) -> i64 {
        i64::from(!matches!(self.content, Content::Nothing))
    }
}

/// Only the shell's bytes; the receiver is known from the channel that timely sends them on.
impl ContainerBytes for Envelope {
    fn from_bytes(bytes: Bytes) -> Self {
        Envelope { to: 0, content: Content::Received(bytes) }
    }

    fn length_in_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        writer.write_all(self.bytes()).expect("timely writes into memory that it has measured");
    }
}

impl Envelope {
    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Encoded(bytes) => bytes,
            Content::Received(bytes) => bytes,
            Content::Nothing | Content::Packet(_) => {
                panic!("a packet was not encoded before it left the process: a bug in flott")
            }
        }
    }
}

/// Takes each envelope to the worker that it names.
pub(crate) struct Route;

impl ParallelizationContract<(), Envelope> for Route {
    type Pusher = RoutePusher;
    type Puller = RoutePuller;

    fn connect(
        self,
        worker: &Worker,
        identifier: usize,
        address: Rc<[usize]>,
        _logging: Option<TimelyLogger>,
    ) -> (RoutePusher, RoutePuller) {
        let (pushers, pull) = worker.allocate::<Message<(), Envelope>>(identifier, address);
        let ways = pushers.into_iter().map(|push| Way { push, sent: 0 }).collect();
        (RoutePusher { from: worker.index(), ways }, RoutePuller { pull, received: vec![0; worker.peers()] })
    }
}

/// The sending end of [`Route`].
pub(crate) struct RoutePusher {
    from: usize,
    ways: Vec<Way>,
}

struct Way {
    push: Box<dyn Push<Message<(), Envelope>>>,
    sent: usize,
}

impl Push<Message<(), Envelope>> for RoutePusher {
    fn push(&mut self, element: &mut Option<Message<(), Envelope>>) {
        let Some(message) = element else {
            for way in &mut self.ways {
                way.push.done();
            }
            return;
        };
        let way = self.ways.get_mut(message.data.to).expect("the plan's channels end at workers of the attempt");
        message.from = self.from;
        message.seq = way.sent;
        way.sent += 1;
        way.push.push(element);
    }
}

/// The receiving end of [`Route`]: asserts what the engine rests on, that nothing is lost or overtakes between two workers.
pub(crate) struct RoutePuller {
    pull: Box<dyn Pull<Message<(), Envelope>>>,
    received: Vec<usize>,
}

impl Pull<Message<(), Envelope>> for RoutePuller {
    fn pull(&mut self) -> &mut Option<Message<(), Envelope>> {
        let element = self.pull.pull();
        if let Some(message) = element {
            let expected = self.received.get_mut(message.from).expect("senders are workers of the attempt");
            assert_eq!(message.seq, *expected, "timely delivered a packet of worker {} out of order", message.from);
            *expected += 1;
        }
        element
    }
}
