//! The algorithms, side by side, one file each. They answer the same questions: what happens to a channel after its
//! barrier, when the cut is taken, what becomes of records in flight, and when the round is over.
//!
//! Each is one function without state of its own; it never sees a record, an abort, or a barrier of another checkpoint.

mod aligned;
mod aligned_then_unaligned;
mod at_least_once;
mod stop_the_world;
mod unaligned;

use crate::arrivals::{Actions, Event};
use crate::barrier::Mode;
use crate::round::Round;

/// Looked up anew for each event: the mode of a round may rise.
pub(crate) fn rules(mode: Mode) -> fn(&mut Round, Event) -> Actions {
    match mode {
        Mode::StopTheWorld => stop_the_world::on,
        Mode::Aligned => aligned::on,
        Mode::AtLeastOnce => at_least_once::on,
        Mode::AlignedThenUnaligned => aligned_then_unaligned::on,
        Mode::Unaligned => unaligned::on,
    }
}
