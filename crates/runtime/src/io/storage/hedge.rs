//! When a second try of a slow put begins, and what two answers mean together. Pure: time and answers are arguments.
//!
//! Object stores answer most puts soon and a few very late; a second try of such a put is mostly answered at once (Dean and
//! Barroso, "The Tail at Scale", 2013). The delay follows what earlier puts took, as the retransmission timer of TCP does
//! (RFC 6298): the smoothed time and four times its deviation. So that a store which is slow as a whole does not get double
//! load, second tries are paid from an allowance that grows by a tenth with each put.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// No put is called slow earlier.
const SHORTEST: Duration = Duration::from_millis(300);
/// So many puts of a size have to be known.
const ENOUGH: u32 = 8;
/// What one second try costs, in the allowance's units; a put that is answered brings one.
const COST: u32 = 10;
/// The allowance at most, and at the beginning.
const MOST: u32 = 5 * COST;
const FIRST: u32 = 2 * COST;

/// What is known of the time that puts take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    /// Small objects; what is between; parts of segments.
    sizes: [Times; 3],
    allowance: u32,
    /// No put is waited for any longer.
    timeout: Duration,
}

/// Of puts of about one size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Times {
    known: u32,
    smoothed: Duration,
    deviation: Duration,
}

impl Pace {
    pub(super) fn new(timeout: Duration) -> Pace {
        Pace { sizes: [Times::default(); 3], allowance: FIRST, timeout }
    }

    /// How long a put of so many bytes is waited for before its second try begins; `None`: there is none.
    pub(super) fn delay(&self, bytes: usize) -> Option<Duration> {
        if self.allowance < COST {
            return None;
        }
        let times = self.sizes.get(class(bytes)).copied().unwrap_or_default();
        // Before anything is known, what is left of the time must do for the second try.
        let unknown = self.timeout / 4;
        let slow = if times.known < ENOUGH { unknown } else { 2 * (times.smoothed + 4 * times.deviation) };
        Some(slow.clamp(SHORTEST.min(self.timeout / 2), self.timeout / 2))
    }

    /// A put was answered after so long.
    pub(super) fn took(&mut self, bytes: usize, time: Duration) {
        self.allowance = (self.allowance + 1).min(MOST);
        let Some(times) = self.sizes.get_mut(class(bytes)) else { return };
        if times.known == 0 {
            (times.smoothed, times.deviation) = (time, time / 2);
        } else {
            times.deviation = (3 * times.deviation + times.smoothed.abs_diff(time)) / 4;
            times.smoothed = (7 * times.smoothed + time) / 8;
        }
        times.known = times.known.saturating_add(1);
    }

    /// A second try has begun.
    pub(super) fn hedged(&mut self) {
        self.allowance = self.allowance.saturating_sub(COST);
    }
}

fn class(bytes: usize) -> usize {
    match bytes {
        0..=65_536 => 0,
        65_537..=1_048_576 => 1,
        _ => 2,
    }
}

/// What one of two identical creates has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// It created the object.
    Created,
    /// There is an object.
    Exists,
    /// The store has refused it, and it had no effect.
    Refused,
    /// An error that may hide a success.
    Open,
}

/// What two identical creates mean together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The object is ours, and was from the first moment that it was there.
    Created,
    /// The object is somebody else's.
    Exists,
    /// Neither had an effect.
    Refused,
    /// Whoever asked must settle it (L5).
    Unknown,
    /// The other answer decides.
    Wait,
}

/// Judges two identical creates of one object that were both sent. `None`: no answer yet.
///
/// An "exists" says nothing while the other try may have created the object itself (its answer is on its way, or lost). And a
/// "created" beside an open end may be a second creation: the first was done, and its object taken away by somebody who owned
/// the log meanwhile (L5). Two that both say "created" contradict each other, so they are no answer.
pub(super) fn judge(one: Option<Said>, other: Option<Said>) -> Verdict {
    use Said::{Created, Exists, Open, Refused};
    match (one, other) {
        (Some(Created), Some(Exists | Refused)) | (Some(Exists | Refused), Some(Created)) => Verdict::Created,
        (Some(Exists), Some(Exists | Refused)) | (Some(Refused), Some(Exists)) => Verdict::Exists,
        (Some(Refused), Some(Refused)) => Verdict::Refused,
        // A quick answer that has to be settled is better than a late one that has not.
        (Some(Created), None) | (None, Some(Created)) => Verdict::Unknown,
        (Some(Open), Some(_)) | (Some(_), Some(Open)) | (Some(Created), Some(Created)) => Verdict::Unknown,
        (None, _) | (_, None) => Verdict::Wait,
    }
}
