//! What can go wrong with a call of the storage and with a message, and how often it did.
//!
//! Each run draws its faults from its seed at a low rate, and one pair of kind and fault at a high one (swarm testing,
//! Groce et al., ISSTA 2012), so that over the seeds every pair is hit often. A pair that is never hit fails the campaign.

use flott_runtime::control::{Order, Report};
use flott_runtime::io::StorageRequest;
use flott_runtime::testing::Random;
use std::collections::BTreeMap;

/// What is asked of the storage, as far as faults go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each is the request of that name")]
pub enum Call {
    CreateSlot,
    CreateManifest,
    CreateHistory,
    Read,
    List,
    Delete,
    Append,
    Finish,
    Discard,
}

impl Call {
    /// What kind of call a request is.
    #[must_use]
    pub fn of(request: &StorageRequest) -> Call {
        match request {
            StorageRequest::Create { path, .. } if path.starts_with("log/") => Call::CreateSlot,
            StorageRequest::Create { path, .. } if path.starts_with("manifests/") => Call::CreateManifest,
            StorageRequest::Create { .. } => Call::CreateHistory,
            StorageRequest::Read { .. } => Call::Read,
            StorageRequest::List { .. } => Call::List,
            StorageRequest::Delete { .. } => Call::Delete,
            StorageRequest::Append { .. } => Call::Append,
            StorageRequest::Finish { .. } => Call::Finish,
            StorageRequest::Discard { .. } => Call::Discard,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Call::CreateSlot => "create-slot",
            Call::CreateManifest => "create-manifest",
            Call::CreateHistory => "create-history",
            Call::Read => "read",
            Call::List => "list",
            Call::Delete => "delete",
            Call::Append => "append",
            Call::Finish => "finish",
            Call::Discard => "discard",
        }
    }

    fn faults(self) -> &'static [CallFault] {
        use CallFault::{AnswerLost, Fails, Late, NotDone, Slow, Torn};
        match self {
            Call::CreateSlot | Call::CreateManifest | Call::CreateHistory => &[Fails, Slow, AnswerLost, NotDone, Late],
            Call::Read | Call::List => &[Fails, Slow],
            Call::Delete | Call::Discard => &[Fails, Slow, AnswerLost],
            Call::Append | Call::Finish => &[Fails, Slow, AnswerLost, Torn],
        }
    }

    const ALL: [Call; 9] = [
        Call::CreateSlot,
        Call::CreateManifest,
        Call::CreateHistory,
        Call::Read,
        Call::List,
        Call::Delete,
        Call::Append,
        Call::Finish,
        Call::Discard,
    ];
}

/// What becomes of a call of the storage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallFault {
    /// Nothing is done, and the answer says so.
    Fails,
    /// It takes very long.
    Slow,
    /// It is done, and nobody hears of it.
    AnswerLost,
    /// Nothing is done, and nobody knows.
    NotDone,
    /// Nobody knows; it is done long after the answer.
    Late,
    /// Half of it is done, and the answer is an error.
    Torn,
}

impl CallFault {
    fn name(self) -> &'static str {
        match self {
            CallFault::Fails => "fails",
            CallFault::Slow => "slow",
            CallFault::AnswerLost => "answer-lost",
            CallFault::NotDone => "not-done",
            CallFault::Late => "late",
            CallFault::Torn => "torn",
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageFault {
    /// It never arrives.
    Lost,
    /// It arrives twice.
    Doubled,
    /// It arrives after others that were sent later.
    Delayed,
}

impl MessageFault {
    const ALL: [MessageFault; 3] = [MessageFault::Lost, MessageFault::Doubled, MessageFault::Delayed];

    fn name(self) -> &'static str {
        match self {
            MessageFault::Lost => "lost",
            MessageFault::Doubled => "doubled",
            MessageFault::Delayed => "delayed",
        }
    }
}

const MESSAGES: [&str; 14] = [
    "order-open",
    "order-trigger",
    "order-resolved",
    "order-close",
    "restored",
    "triggered",
    "acked",
    "declined",
    "resolved",
    "committed",
    "finished",
    "failed",
    "progress",
    "closed",
];

/// The name of an order.
#[must_use]
pub fn order_name(order: &Order) -> &'static str {
    match order {
        Order::Open => "order-open",
        Order::Trigger(_) => "order-trigger",
        Order::Resolved { .. } => "order-resolved",
        Order::Drain => "order-drain",
        Order::Locate(_) => "order-locate",
        Order::Close => "order-close",
    }
}

/// The name of a report.
#[must_use]
pub fn report_name(report: &Report) -> &'static str {
    match report {
        Report::Restored => "restored",
        Report::Triggered { .. } => "triggered",
        Report::Acked { .. } => "acked",
        Report::Declined { .. } => "declined",
        Report::Resolved { .. } => "resolved",
        Report::Committed { .. } => "committed",
        Report::Hindered { .. } => "hindered",
        Report::Finished { .. } => "finished",
        Report::Failed(_) => "failed",
        Report::Located { .. } => "located",
        Report::Progress(_) => "progress",
        Report::Closed => "closed",
    }
}

/// A kind of call or message, and a fault.
pub type Pair = (&'static str, &'static str);

/// Every pair that must be hit.
#[must_use]
pub fn all_pairs() -> Vec<Pair> {
    let calls =
        Call::ALL.into_iter().flat_map(|call| call.faults().iter().map(move |fault| (call.name(), fault.name())));
    let messages = MESSAGES.into_iter().flat_map(|name| MessageFault::ALL.map(|fault| (name, fault.name())));
    calls.chain(messages).collect()
}

/// How often each pair was hit.
pub type Coverage = BTreeMap<Pair, u64>;

/// Decides what goes wrong in one run.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Off in the heal phase.
    pub active: bool,
    random: Random,
    /// Out of a thousand calls.
    call_rate: u64,
    /// Out of a thousand messages.
    message_rate: u64,
    favourite: Pair,
    /// What was hit so far.
    pub hit: Coverage,
}

/// Out of a thousand: how often the favourite pair of a run is drawn.
const FAVOURITE_RATE: u64 = 200;
/// The same for what a run sees a few times at most.
const RARE_RATE: u64 = 600;
const RARE: [&str; 10] = [
    "create-slot",
    "create-manifest",
    "discard",
    "order-open",
    "order-close",
    "restored",
    "declined",
    "finished",
    "failed",
    "closed",
];

fn favourite_rate(name: &str) -> u64 {
    if RARE.contains(&name) { RARE_RATE } else { FAVOURITE_RATE }
}

impl Faults {
    /// The faults of a seed.
    #[must_use]
    pub fn new(seed: u64, random: &mut Random) -> Faults {
        let pairs = all_pairs();
        let place = usize::try_from(seed % pairs.len() as u64).expect("a small number");
        let favourite = pairs.get(place).copied().expect("in range");
        // Workers say that they failed only if something fails.
        let call_rate = if favourite.0 == "failed" { 120 } else { random.below(40) };
        Faults {
            active: true,
            random: random.fork(),
            call_rate,
            message_rate: random.below(60),
            favourite,
            hit: Coverage::new(),
        }
    }

    /// The pair that this run hits most.
    #[must_use]
    pub fn favourite(&self) -> Pair {
        self.favourite
    }

    fn happens(&mut self, per_thousand: u64) -> bool {
        self.random.below(1_000) < per_thousand
    }

    /// What becomes of a call.
    pub fn of_call(&mut self, call: Call) -> Option<CallFault> {
        if !self.active {
            return None;
        }
        let faults = call.faults();
        let favourite = faults.iter().copied().find(|fault| (call.name(), fault.name()) == self.favourite);
        let mut fault = favourite.filter(|_| self.happens(favourite_rate(call.name())));
        if fault.is_none() && self.happens(self.call_rate) {
            let place = usize::try_from(self.random.below(faults.len() as u64)).expect("a small number");
            fault = faults.get(place).copied();
        }
        if let Some(fault) = fault {
            *self.hit.entry((call.name(), fault.name())).or_default() += 1;
        }
        fault
    }

    /// What becomes of a message.
    pub fn of_message(&mut self, name: &'static str) -> Option<MessageFault> {
        if !self.active {
            return None;
        }
        let favourite = MessageFault::ALL.into_iter().find(|fault| (name, fault.name()) == self.favourite);
        let mut fault = favourite.filter(|_| self.happens(favourite_rate(name)));
        if fault.is_none() && self.happens(self.message_rate) {
            let place = usize::try_from(self.random.below(3)).expect("a small number");
            fault = MessageFault::ALL.get(place).copied();
        }
        if let Some(fault) = fault {
            *self.hit.entry((name, fault.name())).or_default() += 1;
        }
        fault
    }
}
