//! Aligned barriers: asynchronous barrier snapshotting for acyclic graphs, algorithm 1 of Carbone, Fóra, Ewen, Haridi
//! and Tzoumas, *Lightweight Asynchronous Snapshots for Distributed Dataflows*, arXiv 1506.08603, 2015.
//!
//! A channel is blocked from its barrier on, so when the last barrier is at the head, the state has seen exactly the
//! records before the barriers. The wait is the spread of the arrivals, whatever the size of the state.

use crate::arrivals::{Actions, Event};
use crate::round::Round;

pub(super) fn on(round: &mut Round, event: Event) -> Actions {
    let Event::AtHead { from, .. } = event else { return Actions::new() };
    let mut actions = vec![round.block(from)];
    if round.all_at_head() {
        actions.extend(round.cut());
        round.end();
    }
    actions
}
