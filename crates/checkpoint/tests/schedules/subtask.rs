//! A subtask: channels, state, and what the step loop keeps in order to obey the actions.

use crate::counts::{Counts, Record};
use crate::job::Job;
use flott_checkpoint::{Arrivals, Barrier, Channel, CheckpointId, Event, Mode};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Item {
    Record(Record),
    EndOfData,
    Barrier(Barrier),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mail {
    Trigger(Barrier),
    Resolved { id: CheckpointId, is_completed: bool },
}

#[derive(Clone, Hash, Default)]
pub struct Input {
    /// Sent, not yet here. Only barriers, and what follows them, are ever seen on the way.
    pub wire: Vec<Item>,
    pub queue: Vec<Item>,
    pub is_blocked: bool,
}

/// All that a snapshot takes: what was counted, a source's position, what has ended, a sink's epochs.
#[derive(Clone, Hash, Default)]
pub struct State {
    pub seen: Counts,
    pub position: u8,
    pub timer_fired: bool,
    /// One flag per channel.
    pub ended: Vec<bool>,
    pub is_finished: bool,
    pub open_epoch: Counts,
    pub sealed_epochs: Vec<(CheckpointId, Counts)>,
}

/// What a checkpoint keeps of one channel.
#[derive(Clone, Hash, Default)]
pub struct Capture {
    pub is_open: bool,
    pub items: Vec<Item>,
}

/// One subtask's part of one checkpoint.
#[derive(Clone, Hash)]
pub struct Part {
    pub id: CheckpointId,
    pub state: State,
    /// One per channel.
    pub captures: Vec<Capture>,
}

#[derive(Clone, Hash)]
pub struct Subtask {
    pub inputs: Vec<Input>,
    pub is_paused: bool,
    pub arrivals: Arrivals,
    pub mail: Vec<Mail>,
    pub timeouts: Vec<CheckpointId>,
    pub state: State,
    /// Taken, not yet acked.
    pub parts: Vec<Part>,
    /// For the properties only.
    pub last_cut: CheckpointId,
    /// For a mutant only.
    pub last_mode: Option<Mode>,
}

impl Item {
    pub fn is_barrier(&self) -> bool {
        matches!(self, Item::Barrier(_))
    }

    fn record(&self) -> Option<Record> {
        if let Item::Record(record) = self { Some(*record) } else { None }
    }
}

impl Input {
    pub fn records(&self) -> usize {
        self.wire.iter().chain(&self.queue).filter_map(Item::record).count()
    }

    pub fn is_empty(&self) -> bool {
        self.wire.is_empty() && self.queue.is_empty()
    }
}

impl Part {
    pub fn captured_records(&self) -> Counts {
        self.captures.iter().flat_map(|capture| &capture.items).filter_map(Item::record).collect()
    }

    pub fn is_whole(&self) -> bool {
        self.captures.iter().all(|capture| !capture.is_open)
    }
}

impl Subtask {
    pub fn new(job: &Job, index: usize, floor: CheckpointId) -> Subtask {
        let channels = job.channels[index];
        Subtask {
            inputs: vec![Input::default(); channels],
            is_paused: false,
            arrivals: Arrivals::restored(channels as u16, floor),
            mail: vec![],
            timeouts: vec![],
            state: State { ended: vec![false; channels], ..State::default() },
            parts: vec![],
            last_cut: CheckpointId(0),
            last_mode: None,
        }
    }

    pub fn can_take(&self, channel: usize) -> bool {
        !self.is_paused && !self.inputs[channel].is_blocked
    }

    pub fn is_held(&self) -> bool {
        self.is_paused || self.inputs.iter().any(|input| input.is_blocked)
    }

    pub fn has_nothing_to_do(&self) -> bool {
        let is_idle = self.mail.is_empty() && self.parts.is_empty() && self.timeouts.is_empty();
        is_idle && self.inputs.iter().all(Input::is_empty)
    }

    /// A `Resolved` of this id would tell nothing new.
    pub fn is_done_with(&self, id: CheckpointId) -> bool {
        let keeps_epoch = self.state.sealed_epochs.iter().any(|epoch| epoch.0 <= id);
        self.arrivals.is_past(id) && !keeps_epoch && self.parts.iter().all(|part| part.id > id)
    }

    /// A barrier or a timeout of a checkpoint that is over here is ignored whenever it comes, and to ignore it commutes
    /// with everything: to do it at once leaves out no behaviour, only states.
    pub fn drop_what_is_ignored(&mut self) {
        let arrivals = &mut self.arrivals;
        self.timeouts.retain(|&id| {
            let is_live = !arrivals.is_past(id);
            assert!(is_live || arrivals.on(Event::Timeout { id }).is_empty());
            is_live
        });
        for (from, input) in (0..).map(Channel).zip(&mut self.inputs) {
            let mut is_live = |item: &Item| match *item {
                Item::Barrier(barrier) if arrivals.is_past(barrier.id) => {
                    let before = arrivals.clone();
                    assert!(arrivals.on(Event::Arrived { from, barrier }).is_empty());
                    assert!(arrivals.on(Event::AtHead { from, barrier }).is_empty());
                    assert!(*arrivals == before, "a stale barrier left a trace");
                    false
                }
                _ => true,
            };
            input.wire.retain(&mut is_live);
            input.queue.retain(&mut is_live);
        }
    }

    /// `Snapshot`: the sink seals its epoch in the same step.
    pub fn snapshot(&mut self, id: CheckpointId) {
        let open = std::mem::take(&mut self.state.open_epoch);
        if !open.is_empty() {
            self.state.sealed_epochs.push((id, open));
        }
        let captures = vec![Capture::default(); self.inputs.len()];
        self.parts.push(Part { id, state: self.state.clone(), captures });
        self.last_cut = id;
    }

    /// What the channel holds before this id's barrier, barriers left out.
    pub fn queued_before(&self, id: CheckpointId, channel: usize) -> Vec<Item> {
        let is_before = |item: &&Item| !matches!(item, Item::Barrier(barrier) if barrier.id == id);
        self.inputs[channel].queue.iter().take_while(is_before).filter(|item| !item.is_barrier()).copied().collect()
    }

    pub fn capture_of(&mut self, id: CheckpointId, channel: usize) -> Option<&mut Capture> {
        let part = self.parts.iter_mut().find(|part| part.id == id)?;
        part.captures.get_mut(channel)
    }

    /// An item entered the queue.
    pub fn enqueue(&mut self, channel: usize, item: Item) {
        self.inputs[channel].queue.push(item);
        if !item.is_barrier() {
            let captures = self.parts.iter_mut().map(|part| &mut part.captures[channel]);
            captures.filter(|capture| capture.is_open).for_each(|capture| capture.items.push(item));
        }
    }

    pub fn take_whole_part(&mut self) -> Option<Part> {
        let position = self.parts.iter().position(Part::is_whole)?;
        Some(self.parts.remove(position))
    }
}
