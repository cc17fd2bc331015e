//! The deterministic host: runs the workers of one attempt in one thread, in an order that a seed decides.
//!
//! Each turn is one choice: deliver the oldest packet of some link, or step some worker that has a reason to run. Time is
//! virtual and moves only when its owner moves it. What a worker asks of storage and of blocking calls is handed to the
//! caller, who answers when it likes, or never.

use super::Random;
use crate::attempt::Attempt;
use crate::control::Report;
use crate::error::Result;
use crate::io::{BlockingCall, StorageRequest, Ticket};
use crate::outbox::Outbox;
use crate::packet::{ChannelId, Packet, Payload};
use crate::time::{Clock, Time};
use crate::worker::{Mail, Next, Worker};
use flott_checkpoint::CheckpointId;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A clock that stands still unless it is moved.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Rc<Cell<Time>>);

impl VirtualClock {
    /// Moves it to a later moment; an earlier one is ignored.
    pub fn move_to(&self, moment: Time) {
        self.0.set(self.0.get().max(moment));
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get().after(by));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        self.0.get()
    }
}

/// What came of one turn, besides packets between the workers.
#[derive(Debug, Default)]
pub struct Turn {
    /// The worker that was stepped; none if a packet was delivered.
    pub worker: Option<u16>,
    /// The barrier that was delivered, if it was one.
    pub barrier: Option<(ChannelId, CheckpointId)>,
    /// Its reports.
    pub reports: Vec<Report>,
    /// What it asks of the storage.
    pub storage: Vec<(Ticket, StorageRequest)>,
    /// The calls it wants made.
    pub calls: Vec<(Ticket, BlockingCall)>,
}

/// See the head of this file.
pub struct DeterministicHost {
    clock: VirtualClock,
    slots: Vec<Slot>,
    links: BTreeMap<(u16, u16), VecDeque<Packet>>,
}

struct Slot {
    worker: Worker,
    next: Next,
    /// Something arrived since its last step.
    touched: bool,
    woken: Arc<AtomicBool>,
}

impl DeterministicHost {
    /// Builds the workers of an attempt.
    ///
    /// # Errors
    /// If a chain cannot be built.
    pub fn start(attempt: &Arc<Attempt>, clock: VirtualClock) -> Result<DeterministicHost> {
        let slot = |index| {
            let woken = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&woken);
            let worker =
                Worker::new(Arc::clone(attempt), index, Arc::new(move || flag.store(true, Ordering::Relaxed)))?;
            Ok(Slot { worker, next: Next::Now, touched: true, woken })
        };
        let slots = (0..attempt.workers).map(slot).collect::<Result<_>>()?;
        Ok(DeterministicHost { clock, slots, links: BTreeMap::new() })
    }

    /// Mail for a worker.
    pub fn mail(&mut self, worker: u16, mail: Mail) {
        if let Some(slot) = self.slots.get_mut(usize::from(worker)) {
            slot.worker.mail(mail);
            slot.touched = true;
        }
    }

    /// One choice; `None` if no worker has a reason to run and nothing is on its way.
    pub fn turn(&mut self, random: &mut Random) -> Option<Turn> {
        let now = self.clock.now();
        let ready = |slot: &Slot| slot.is_ready(now);
        let workers = self.slots.iter().filter(|slot| ready(slot)).count();
        let links = self.links.values().filter(|link| !link.is_empty()).count();
        let choices = workers + links;
        if choices == 0 {
            return None;
        }
        let choice = usize::try_from(random.below(choices as u64)).expect("a small number");
        if choice < workers {
            let (index, slot) =
                self.slots.iter_mut().enumerate().filter(|(_, slot)| ready(slot)).nth(choice).expect("counted");
            let index = u16::try_from(index).expect("workers are counted in u16");
            return Some(step(index, slot, &self.clock, &mut self.links));
        }
        let link = self.links.iter_mut().filter(|(_, link)| !link.is_empty()).nth(choice - workers).expect("counted");
        let ((_, to), packets) = link;
        let packet = packets.pop_front().expect("not empty");
        let slot = self.slots.get_mut(usize::from(*to)).expect("a packet names a worker");
        let barrier = match &packet.payload {
            Payload::Barrier(barrier) => Some((packet.channel, barrier.id)),
            _ => None,
        };
        slot.worker.deliver(packet);
        slot.touched = true;
        Some(Turn { barrier, ..Turn::default() })
    }

    /// The next moment at which a worker wants to run, if nothing arrives before.
    #[must_use]
    pub fn next_moment(&self) -> Option<Time> {
        let moments =
            self.slots.iter().filter_map(|slot| if let Next::At(moment) = slot.next { Some(moment) } else { None });
        moments.min()
    }

    /// Whether all workers obeyed `Close`.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| slot.next == Next::Done)
    }

    /// Whether some link carries a packet with records: in a stopped world none may.
    #[must_use]
    pub fn carries_records(&self) -> bool {
        let carries = |packet: &Packet| matches!(packet.payload, Payload::Data { batch: Some(_), .. });
        self.links.values().flatten().any(carries) || self.slots.iter().any(|slot| slot.worker.holds_records())
    }
}

impl Slot {
    fn is_ready(&self, now: Time) -> bool {
        match self.next {
            Next::Done => false,
            Next::Now => true,
            Next::At(moment) if moment <= now => true,
            Next::At(_) | Next::Idle => self.touched || self.woken.load(Ordering::Relaxed),
        }
    }
}

fn step(index: u16, slot: &mut Slot, clock: &VirtualClock, links: &mut BTreeMap<(u16, u16), VecDeque<Packet>>) -> Turn {
    slot.touched = false;
    slot.woken.store(false, Ordering::Relaxed);
    let mut outbox = Outbox::default();
    slot.next = slot.worker.step(clock, &mut outbox);
    let Outbox { packets, reports, storage, calls } = outbox;
    for packet in packets {
        links.entry((index, packet.worker())).or_default().push_back(packet);
    }
    Turn { worker: Some(index), barrier: None, reports, storage, calls }
}
