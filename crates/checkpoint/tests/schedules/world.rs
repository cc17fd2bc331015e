//! The whole job at one moment, and what one atomic step makes of it.

mod barriers;
mod control;
mod records;

use crate::coordinator::Coordinator;
use crate::counts::Counts;
use crate::job::Job;
use crate::properties::{self, Violation};
use crate::shared::Shared;
use crate::subtask::{Item, Subtask};
use flott_checkpoint::{CheckpointId, Event};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Trigger,
    /// The source reads its next record, or finds the end of its data.
    Read(usize),
    /// The front of the wire enters the queue: (subtask, channel).
    Arrive(usize, usize),
    /// The head of the queue is processed: (subtask, channel).
    Take(usize, usize),
    Timer(usize),
    Timeout(usize),
    /// A control message is delivered: (subtask, position).
    Mail(usize, usize),
    /// The last upload is done. The other acks commute with everything, so they are given at once.
    Complete(CheckpointId),
    Abort(CheckpointId),
    /// A control message is delivered, and will be once more.
    Repeat(usize, usize),
    Crash,
}

/// What some run did; without such a witness a property would be empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Observed {
    pub restored: bool,
    pub captured: bool,
    pub turned_unaligned: bool,
    pub above_the_cut: bool,
    pub doubled: bool,
}

#[derive(Clone, Hash)]
pub struct World {
    pub subtasks: Vec<Shared<Subtask>>,
    pub coordinator: Shared<Coordinator>,
    /// Outside of the job: survives a crash.
    pub committed: Counts,
    committed_tokens: u32,
    aborts: u8,
    crashes: u8,
    repeats: u8,
}

impl World {
    pub fn new(job: &Job) -> World {
        World {
            subtasks: (0..job.subtasks()).map(|index| Shared::new(Subtask::new(job, index, CheckpointId(0)))).collect(),
            coordinator: Shared::new(Coordinator::new()),
            committed: Counts::default(),
            committed_tokens: 0,
            aborts: job.aborts,
            crashes: job.crashes,
            repeats: job.repeats,
        }
    }

    /// The steps that bring the job on. Where there is none, the job must be over.
    pub fn steps(&self, job: &Job) -> Vec<Step> {
        let mut steps = vec![];
        if self.can_trigger(job) {
            steps.push(Step::Trigger);
        }
        for (index, subtask) in self.subtasks.iter().enumerate() {
            if job.is_source(index) && self.can_read(job, index) {
                steps.push(Step::Read(index));
            }
            for (channel, input) in subtask.inputs.iter().enumerate() {
                if !input.wire.is_empty() {
                    steps.push(Step::Arrive(index, channel));
                }
                if self.can_take(job, index, channel) {
                    steps.push(Step::Take(index, channel));
                }
            }
            if self.can_fire(job, index) {
                steps.push(Step::Timer(index));
            }
            if !subtask.timeouts.is_empty() {
                steps.push(Step::Timeout(index));
            }
            let in_any_order = if job.repeats > 0 { subtask.mail.len() } else { subtask.mail.len().min(1) };
            steps.extend((0..in_any_order).map(|mail| Step::Mail(index, mail)));
        }
        steps.extend(self.coordinator.fully_acked().map(Step::Complete));
        steps
    }

    /// What may go wrong now.
    pub fn faults(&self) -> Vec<Step> {
        let mut faults = vec![];
        if self.coordinator.job_is_over {
            return faults;
        }
        if self.aborts > 0 {
            faults.extend(self.coordinator.pending.iter().map(|pending| Step::Abort(pending.barrier.id)));
        }
        if self.crashes > 0 {
            faults.push(Step::Crash);
        }
        if self.repeats > 0 {
            let mails = self
                .subtasks
                .iter()
                .enumerate()
                .flat_map(|(index, subtask)| (0..subtask.mail.len()).map(move |mail| Step::Repeat(index, mail)));
            faults.extend(mails);
        }
        faults
    }

    pub fn after(&self, job: &Job, step: Step, observed: &mut Observed) -> Result<World, Violation> {
        let mut world = self.clone();
        match step {
            Step::Trigger => world.trigger(job)?,
            Step::Read(source) => world.read(job, source)?,
            Step::Arrive(to, channel) => {
                let item = world.subtask(to).inputs[channel].wire.remove(0);
                world.arrive(job, to, channel, item)?;
                world.arrive_up_to_barrier(job, to, channel)?;
            }
            Step::Take(subtask, channel) => world.take(job, subtask, channel)?,
            Step::Timer(subtask) => world.fire(job, subtask)?,
            Step::Timeout(subtask) => {
                let id = world.subtask(subtask).timeouts.remove(0);
                observed.turned_unaligned = true;
                world.tell(job, subtask, Event::Timeout { id })?;
            }
            Step::Mail(subtask, mail) => {
                let mail = world.subtask(subtask).mail.remove(mail);
                world.deliver(job, subtask, mail)?;
            }
            Step::Complete(id) => world.complete(job, id, observed)?,
            Step::Abort(id) => {
                world.aborts -= 1;
                world.abort(id);
            }
            Step::Repeat(subtask, mail) => {
                world.repeats -= 1;
                let mail = world.subtasks[subtask].mail[mail];
                world.deliver(job, subtask, mail)?;
            }
            Step::Crash => {
                world.crashes -= 1;
                world.restore(job, observed);
            }
        }
        properties::check_epochs(job, &world)?;
        Ok(world)
    }

    fn subtask(&mut self, index: usize) -> &mut Subtask {
        self.subtasks[index].to_mut()
    }

    fn coordinator(&mut self) -> &mut Coordinator {
        self.coordinator.to_mut()
    }

    fn send_on_all(&mut self, job: &Job, from: usize, item: Item) -> Result<(), Violation> {
        job.outputs[from].iter().try_for_each(|&(to, channel)| self.send(job, to, channel, item))
    }

    fn send(&mut self, job: &Job, to: usize, channel: usize, item: Item) -> Result<(), Violation> {
        let is_late = matches!(item, Item::Barrier(barrier) if self.subtasks[to].arrivals.is_past(barrier.id));
        if is_late && job.mutant.is_none() {
            return Ok(());
        }
        self.subtask(to).inputs[channel].wire.push(item);
        self.arrive_up_to_barrier(job, to, channel)
    }

    /// What is in front of the next travelling barrier enters the queue at once: to be late there is to be taken late.
    fn arrive_up_to_barrier(&mut self, job: &Job, to: usize, channel: usize) -> Result<(), Violation> {
        while let Some(&item) = self.subtasks[to].inputs[channel].wire.first() {
            if item.is_barrier() && job.barriers_travel() {
                break;
            }
            self.subtask(to).inputs[channel].wire.remove(0);
            self.arrive(job, to, channel, item)?;
        }
        Ok(())
    }
}
