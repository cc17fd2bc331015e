//! Records: read, sent, taken, within the credit of their channels.

use super::World;
use crate::counts::Record;
use crate::job::Job;
use crate::mutant::Mutant;
use crate::properties::{self, Violation};
use crate::subtask::Item;

/// How many records a channel may hold.
const WINDOW: usize = 2;

impl World {
    fn has_credit(&self, job: &Job, subtask: usize, record: Record) -> bool {
        job.targets(subtask, record).iter().all(|&(to, channel)| self.subtasks[to].inputs[channel].records() < WINDOW)
    }

    pub(super) fn can_read(&self, job: &Job, source: usize) -> bool {
        let subtask = &self.subtasks[source];
        // The outside world is a channel: a trigger in its queue comes before the next record.
        if !subtask.can_take(0) || !subtask.inputs[0].queue.is_empty() || subtask.state.is_finished {
            return false;
        }
        let position = subtask.state.position;
        position == job.sources[source] || self.has_credit(job, source, job.record(source, position))
    }

    pub(super) fn can_take(&self, job: &Job, index: usize, channel: usize) -> bool {
        let subtask = &self.subtasks[index];
        let can_move = match subtask.inputs[channel].queue.first() {
            None => false,
            Some(Item::Barrier(_)) => true,
            Some(&Item::Record(record)) => self.has_credit(job, index, record),
            // Timers are drained before the end of data.
            Some(Item::EndOfData) => job.timer_record(index).is_none() || subtask.state.timer_fired,
        };
        can_move && subtask.can_take(channel)
    }

    pub(super) fn can_fire(&self, job: &Job, index: usize) -> bool {
        let subtask = &self.subtasks[index];
        let is_frozen = subtask.is_paused && !job.is(Mutant::TimersFireInPause);
        let due = job.timer_record(index).filter(|_| !is_frozen && !subtask.state.timer_fired);
        due.is_some_and(|record| self.has_credit(job, index, record))
    }

    pub(super) fn read(&mut self, job: &Job, source: usize) -> Result<(), Violation> {
        properties::check_stillness(job, self, source)?;
        let state = &mut self.subtask(source).state;
        if state.position == job.sources[source] {
            state.is_finished = true;
            return self.send_on_all(job, source, Item::EndOfData);
        }
        let record = job.record(source, state.position);
        state.position += 1;
        self.emit(job, source, record)
    }

    pub(super) fn take(&mut self, job: &Job, index: usize, channel: usize) -> Result<(), Violation> {
        match self.subtask(index).inputs[channel].queue.remove(0) {
            Item::Barrier(barrier) => self.reach_head(job, index, channel, barrier),
            Item::Record(record) => {
                self.check_may_move(job, index, channel)?;
                let state = &mut self.subtask(index).state;
                state.seen.count(record);
                if index == job.sink() {
                    state.open_epoch.count(record);
                    return Ok(());
                }
                self.emit(job, index, record)
            }
            Item::EndOfData => {
                self.check_may_move(job, index, channel)?;
                let state = &mut self.subtask(index).state;
                state.ended[channel] = true;
                if state.ended.iter().all(|&ended| ended) {
                    state.is_finished = true;
                    return self.send_on_all(job, index, Item::EndOfData);
                }
                Ok(())
            }
        }
    }

    pub(super) fn fire(&mut self, job: &Job, index: usize) -> Result<(), Violation> {
        properties::check_stillness(job, self, index)?;
        self.subtask(index).state.timer_fired = true;
        job.timer_record(index).map_or(Ok(()), |record| self.emit(job, index, record))
    }

    fn check_may_move(&self, job: &Job, index: usize, channel: usize) -> Result<(), Violation> {
        properties::check_stillness(job, self, index)?;
        if self.subtasks[index].state.ended[channel] {
            return Err(format!("subtask {index}: something came on channel {channel} after its end of data"));
        }
        Ok(())
    }

    fn emit(&mut self, job: &Job, from: usize, record: Record) -> Result<(), Violation> {
        let mut targets = job.targets(from, record).iter();
        targets.try_for_each(|&(to, channel)| self.send(job, to, channel, Item::Record(record)))
    }
}
