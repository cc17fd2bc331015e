//! I4: the state of an unaligned checkpoint and what was in flight are together the rows before its barriers; no other mode has
//! anything in flight.

use super::{Checked, broken};
use crate::checkpoints::Chain;
use crate::jobs::Job;
use crate::oracle::{State, settle};
use crate::storage::Storage;

pub(super) const TAG: &str = "I4 in flight";

/// Only an unaligned checkpoint captures anything.
pub(super) fn check(chain: &Chain) -> Checked {
    let (top, captured) = (chain.top(), chain.top().captured());
    if top.mode.acts_on_arrival() || captured.is_nothing() {
        return Ok(());
    }
    broken(TAG, format!("checkpoint {} ({}) has {} rows in flight", top.id, top.mode, captured.records))
}

/// The state with all that was in flight taken, and how many rows that were; then with what waits in state before it.
pub(super) fn settled(job: &Job, chain: &Chain, storage: &Storage) -> Result<(State, usize), String> {
    let in_flight = chain.in_flight(storage)?;
    let state = settle(job, chain.state(storage, job)?, &in_flight);
    Ok((settle(job, state, &chain.waiting(storage, job)?), in_flight.len()))
}
