//! Barriers: the production rules decide, the step loop of the model obeys.

use super::World;
use crate::job::Job;
use crate::mutant::{self, Mutant};
use crate::properties::{self, Violation};
use crate::subtask::Item;
use flott_checkpoint::{Action, Barrier, Channel, Event};

impl World {
    pub(super) fn arrive(&mut self, job: &Job, to: usize, channel: usize, item: Item) -> Result<(), Violation> {
        self.subtask(to).enqueue(channel, item);
        let Item::Barrier(barrier) = item else { return Ok(()) };
        self.tell(job, to, Event::Arrived { from: Channel(channel as u16), barrier })
    }

    pub(super) fn reach_head(
        &mut self,
        job: &Job,
        to: usize,
        channel: usize,
        barrier: Barrier,
    ) -> Result<(), Violation> {
        self.tell(job, to, Event::AtHead { from: Channel(channel as u16), barrier })
    }

    pub(super) fn tell(&mut self, job: &Job, index: usize, event: Event) -> Result<(), Violation> {
        let actions = mutant::on(job.mutant, self.subtask(index), event);
        for action in actions {
            self.obey(job, index, action)?;
        }
        if job.mutant.is_none() {
            properties::check_nothing_held_without_a_round(self, index)?;
            self.subtask(index).drop_what_is_ignored();
            for channel in 0..job.channels[index] {
                self.arrive_up_to_barrier(job, index, channel)?;
            }
        }
        while self.subtasks[index].parts.iter().any(|part| part.is_whole()) {
            let part = self.subtask(index).take_whole_part();
            part.into_iter().for_each(|part| self.coordinator().ack(index, part));
        }
        Ok(())
    }

    fn obey(&mut self, job: &Job, index: usize, action: Action) -> Result<(), Violation> {
        if job.mutant.is_none() {
            properties::check_action(self, index, action)?;
        }
        let subtask = self.subtask(index);
        match action {
            Action::Block(channel) => subtask.inputs[usize::from(channel.0)].is_blocked = true,
            Action::Unblock(channel) => subtask.inputs[usize::from(channel.0)].is_blocked = false,
            Action::Pause => subtask.is_paused = true,
            Action::Resume => subtask.is_paused = false,
            Action::Forward(barrier) => return self.send_on_all(job, index, Item::Barrier(barrier)),
            Action::Snapshot { id } => subtask.snapshot(id),
            Action::CaptureStart { id, channel } => {
                let channel = usize::from(channel.0);
                let mut queued = subtask.queued_before(id, channel);
                queued.retain(|item| !job.is(Mutant::CaptureSkipsTheEnd) || *item != Item::EndOfData);
                if let Some(capture) = subtask.capture_of(id, channel) {
                    capture.is_open = true;
                    capture.items = if job.is(Mutant::CaptureSkipsTheQueue) { vec![] } else { queued };
                }
            }
            Action::CaptureEnd { id, channel } => {
                let capture = subtask.capture_of(id, usize::from(channel.0));
                capture.into_iter().for_each(|capture| capture.is_open = false);
            }
            Action::ArmTimeout { id } => subtask.timeouts.push(id),
            Action::Decline { id } => {
                subtask.parts.retain(|part| part.id != id);
                self.abort(id);
            }
        }
        Ok(())
    }
}
