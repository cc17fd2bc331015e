//! Aligned, until that takes too long: then unaligned. Flink's aligned checkpoint timeout (FLINK-19681), counted from
//! the trigger (FLINK-23041); both halves are the other two files.
//!
//! The timeout is armed when the first barrier *enters* a queue: behind a long queue, the wait for the head is the wait
//! that matters. A subtask that turned sends an unaligned barrier, and every subtask behind it turns at the sight.

use super::{aligned, unaligned};
use crate::arrivals::{Action, Actions, Event};
use crate::round::Round;

pub(super) fn on(round: &mut Round, event: Event) -> Actions {
    match event {
        Event::Arrived { .. } if round.is_first_arrival() => vec![Action::ArmTimeout { id: round.id() }],
        Event::Timeout { .. } => {
            round.turn_unaligned();
            unaligned::cut_and_capture(round)
        }
        _ => aligned::on(round, event),
    }
}
