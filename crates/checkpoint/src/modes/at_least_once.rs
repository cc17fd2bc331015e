//! Barriers without alignment: nobody ever waits, and a restore may count twice. Algorithm 1 of Carbone et al., arXiv
//! 1506.08603, without its blocking; Flink's at-least-once mode.
//!
//! Channels stay open after their barrier, so the cut also holds what the early ones delivered behind it. The sources
//! send those records again after a restore: never too few, sometimes too many.

use crate::arrivals::{Actions, Event};
use crate::round::Round;

pub(super) fn on(round: &mut Round, event: Event) -> Actions {
    let Event::AtHead { .. } = event else { return Actions::new() };
    if !round.all_at_head() {
        return Actions::new();
    }
    round.end();
    round.cut().into()
}
