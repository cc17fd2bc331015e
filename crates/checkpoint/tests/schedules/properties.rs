//! What must hold. Everything is said of multisets of records, so a loss, a duplicate and a leak all show.

use crate::coordinator::Pending;
use crate::counts::Counts;
use crate::job::Job;
use crate::subtask::{Item, Part, State};
use crate::world::{Observed, World};
use flott_checkpoint::{Action, Mode};
use std::rc::Rc;

pub type Violation = String;

fn check(holds: bool, violation: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation()) }
}

/// What a subtask in this state has sent to one receiver since the beginning of the job.
fn sent(job: &Job, from: usize, state: &State, to: usize) -> Counts {
    let read = (0..state.position).map(|position| job.record(from, position));
    let fired = job.timer_record(from).filter(|_| state.timer_fired);
    let all = state.seen.records().chain(read).chain(fired);
    all.filter(|&record| job.targets(from, record).iter().any(|target| target.0 == to)).collect()
}

/// The cut: what a receiver counted or captured is what its senders had sent. By induction from the positions of the
/// sources, every part then holds exactly the records before the barriers. At least once: never fewer.
pub fn check_cut(job: &Job, world: &World, pending: &Pending, observed: &mut Observed) -> Result<(), Violation> {
    let id = pending.barrier.id;
    let parts: Vec<&Rc<Part>> = pending.parts.iter().flatten().collect();
    observed.captured |= parts.iter().any(|part| !part.captured_records().is_empty());
    let is_exact = pending.barrier.mode.is_exact() && !world.coordinator.may_over_count;
    for to in job.sources.len()..parts.len() {
        let before: Counts = (0..to).map(|from| sent(job, from, &parts[from].state, to)).sum();
        let held = parts[to].state.seen + parts[to].captured_records();
        check(held.covers(before), || format!("checkpoint {id}: subtask {to} holds {held:?}, less than {before:?}"))?;
        observed.above_the_cut |= held != before;
        if !is_exact {
            continue;
        }
        check(held == before, || format!("checkpoint {id}: subtask {to} holds {held:?}, not {before:?}"))?;
        for (from, outputs) in job.outputs.iter().enumerate() {
            for &(_, channel) in outputs.iter().filter(|target| target.0 == to) {
                let captured = parts[to].captures[channel].items.contains(&Item::EndOfData);
                let has_ended = parts[to].state.ended[channel] || captured;
                let holds = has_ended == parts[from].state.is_finished;
                check(holds, || format!("checkpoint {id}: the end of data is on the wrong side of the cut"))?;
            }
        }
    }
    Ok(())
}

/// Stop the world: when the last part is there, no record is on any channel.
pub fn check_drained(world: &World, pending: &Pending) -> Result<(), Violation> {
    let mut inputs = world.subtasks.iter().flat_map(|subtask| &subtask.inputs);
    let is_drained = inputs.all(|input| input.wire.iter().chain(&input.queue).all(Item::is_barrier));
    let holds = pending.barrier.mode != Mode::StopTheWorld || is_drained;
    check(holds, || format!("checkpoint {}: records in flight in a stopped world", pending.barrier.id))
}

/// Stop the world: no record and no timer in a subtask between its own cut and the resolution.
pub fn check_stillness(job: &Job, world: &World, subtask: usize) -> Result<(), Violation> {
    let is_stopped = world.coordinator.pending.iter().any(|pending| {
        pending.barrier.mode == Mode::StopTheWorld && world.subtasks[subtask].last_cut == pending.barrier.id
    });
    // With overlapping checkpoints the newer one lets go of the older one's world.
    check(!is_stopped || job.max_pending > 1, || format!("subtask {subtask} moved in a stopped world"))
}

/// Output is committed, sealed or in the open epoch; an abort changes nothing about that.
pub fn check_epochs(job: &Job, world: &World) -> Result<(), Violation> {
    let state = &world.subtasks[job.sink()].state;
    let kept = world.committed + state.open_epoch + state.sealed_epochs.iter().map(|epoch| epoch.1).sum();
    check(kept == state.seen, || format!("the sink saw {:?} but keeps {kept:?}", state.seen))
}

/// The seam: whatever ended the round, nothing is held after it.
pub fn check_nothing_held_without_a_round(world: &World, index: usize) -> Result<(), Violation> {
    let subtask = &world.subtasks[index];
    let holds = subtask.arrivals.round_id().is_some() || !subtask.is_held();
    check(holds, || format!("subtask {index} is held though it has no round"))
}

/// The seam: no action repeats or undoes what was not done.
pub fn check_action(world: &World, index: usize, action: Action) -> Result<(), Violation> {
    let subtask = &world.subtasks[index];
    let is_blocked = |channel: usize| subtask.inputs[channel].is_blocked;
    let is_capturing = |id, channel: usize| {
        let part = subtask.parts.iter().find(|part| part.id == id);
        part.map(|part| part.captures[channel].is_open)
    };
    let fits = match action {
        Action::Block(channel) => !is_blocked(channel.0.into()),
        Action::Unblock(channel) => is_blocked(channel.0.into()),
        Action::Pause => !subtask.is_paused,
        Action::Resume => subtask.is_paused,
        Action::Forward(barrier) => barrier.id > subtask.last_cut && barrier.attempt == world.coordinator.attempt,
        Action::Snapshot { id } => id > subtask.last_cut,
        Action::CaptureStart { id, channel } => is_capturing(id, channel.0.into()) == Some(false),
        Action::CaptureEnd { id, channel } => is_capturing(id, channel.0.into()) == Some(true),
        Action::ArmTimeout { id } => !subtask.timeouts.contains(&id),
        Action::Decline { id } => subtask.arrivals.is_past(id),
    };
    check(fits, || format!("subtask {index}: {action:?} does not fit"))
}

/// All records processed and nothing on its way: nobody may still hold anything.
pub fn check_free(world: &World) -> Result<(), Violation> {
    let is_free =
        |index: usize| !world.subtasks[index].is_held() && world.subtasks[index].arrivals.round_id().is_none();
    let held = (0..world.subtasks.len()).find(|&index| !is_free(index));
    held.map_or(Ok(()), |index| Err(format!("subtask {index} is still held after everything was resolved")))
}

/// The job is over and all output is committed, each record once.
pub fn check_end(job: &Job, world: &World, observed: &mut Observed) -> Result<(), Violation> {
    check(world.coordinator.job_is_over, || "stuck: the job cannot end".into())?;
    let (committed, expected) = (world.committed, job.expected_output());
    observed.doubled |= committed != expected;
    let is_right = if world.coordinator.may_over_count { committed.covers(expected) } else { committed == expected };
    check(is_right, || format!("committed {committed:?}, not {expected:?}"))
}
