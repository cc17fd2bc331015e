//! Stop the world: everything before the barrier is pushed through, then nothing moves until the checkpoint is resolved.
//! Blocking coordinated checkpointing: Tamir and Séquin, *Error Recovery in Multicomputers Using Global Checkpoints*,
//! ICPP 1984; "coordinated checkpointing" in the survey of Elnozahy et al., ACM Computing Surveys 34(3), 2002.
//!
//! The two phases of the textbook (drain, then copy) fall into one pass: the barrier is the drain mark, and a paused
//! subtask cannot change between its own cut and the moment all queues are empty, so copying early equals copying late.

use crate::arrivals::{Actions, Event};
use crate::round::Round;

pub(super) fn on(round: &mut Round, event: Event) -> Actions {
    let Event::AtHead { from, .. } = event else { return Actions::new() };
    let mut actions = vec![round.block(from)];
    if round.all_at_head() {
        actions.extend(round.cut());
        actions.push(round.pause());
        // No `end`: the subtask is paused now, and only `Resolved` ends this round, and with it the pause.
    }
    actions
}
