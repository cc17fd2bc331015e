//! Unaligned barriers: the cut is taken at first sight, and what is in flight is part of it. Chandy and Lamport,
//! *Distributed Snapshots*, ACM TOCS 3(1), 1985; for streams with back-pressure, Flink's FLIP-76.
//!
//! The barrier need not jump any queue: it is obeyed when it *enters* one, and so overtakes what lies there. State plus
//! captured records are exactly the records before the barriers. Nothing is blocked; the price is bytes, not time.

use crate::arrivals::{Action, Actions, Event};
use crate::round::Round;

pub(super) fn on(round: &mut Round, event: Event) -> Actions {
    let Event::Arrived { from, .. } = event else { return Actions::new() };
    if !round.has_cut() {
        return cut_and_capture(round);
    }
    if round.all_arrived() {
        round.end();
    }
    vec![Action::CaptureEnd { id: round.id(), channel: from }]
}

/// Also the way out of an alignment that takes too long: a channel whose barrier was at the head owes nothing more, so
/// it is opened without being captured.
pub(super) fn cut_and_capture(round: &mut Round) -> Actions {
    let id = round.id();
    let mut actions = round.unblock_all();
    actions.extend(round.cut());
    for channel in round.before_their_barrier() {
        actions.push(Action::CaptureStart { id, channel });
        if round.has_arrived(channel) {
            actions.push(Action::CaptureEnd { id, channel });
        }
    }
    if round.all_arrived() {
        round.end();
    }
    actions
}
