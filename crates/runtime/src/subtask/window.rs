//! How much may be under way on a channel: at most the credit window, and less if it is worked off slowly.
//!
//! What waits in front of a barrier is worked off before an aligned checkpoint gets past it, so under back-pressure the
//! queues decide how long a checkpoint takes. A window in bytes alone is too much for a slow receiver or too little for a fast one;
//! this one is steered by how long a batch waited, as active queue management does, and as Flink's buffer debloating does
//! with the throughput it measures (FLIP-183). It only counts: who sends and who waits is the gate's and the output's affair.

use std::time::Duration;

/// A batch should not wait longer than this, from its arrival until it is used up.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Never less than this may be under way, unless the credit window itself is smaller.
const LEAST: usize = 16 << 10;

/// The receiver's account of one channel, in bytes. What the sender may still send, what is under way and what is consumed here
/// are `allowed` together.
pub(super) struct Window {
    most: usize,
    allowed: usize,
    /// Consumed, not yet given back.
    consumed: usize,
}

impl Window {
    /// The sender begins with all of it.
    pub(super) fn new(most: usize) -> Window {
        Window { most, allowed: most, consumed: 0 }
    }

    /// A batch is used up, so long after it arrived: how much to give back, in portions of a quarter of what is allowed.
    pub(super) fn consumed(&mut self, bytes: usize, waited: Duration) -> Option<usize> {
        self.consumed += bytes;
        if self.consumed < (self.allowed / 4).max(1) {
            return None;
        }
        let consumed = std::mem::take(&mut self.consumed);
        let wanted = self.wanted(waited);
        // Growing gives back more than was consumed; shrinking keeps some, at most all of it.
        let returned = (consumed + wanted).saturating_sub(self.allowed);
        self.allowed = self.allowed + returned - consumed;
        (returned > 0).then_some(returned)
    }

    /// Proportional to the wait, but at most half or double of before: one slow batch is no slow receiver.
    fn wanted(&self, waited: Duration) -> usize {
        let wanted = if waited > LONGEST_WAIT {
            let share = LONGEST_WAIT.as_secs_f64() / waited.as_secs_f64();
            (self.allowed as f64 * share.max(0.5)) as usize
        } else if waited < LONGEST_WAIT / 2 {
            self.allowed.saturating_mul(2)
        } else {
            self.allowed
        };
        wanted.clamp(LEAST.min(self.most), self.most)
    }
}

#[cfg(test)]
mod tests;
