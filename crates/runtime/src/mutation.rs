//! Rules of this crate that can be broken on purpose, one at a time and per thread, to show that the simulator notices.
//!
//! Compiled only with the feature `mutations`, which no production build has. All of it is off the hot path.

use std::cell::Cell;

/// A rule that is broken while it is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A gate does not block a channel.
    UnblockedChannel,
    /// A restore believes what a receiver says of the end of a channel.
    RestoreTrustsReceiversEnd,
    /// A subtask forgets which checkpoints are over.
    StaleBarrier,
    /// No old value is saved for a scan.
    SkipPreimage,
    /// The output of an aborted checkpoint is thrown away.
    AbortDiscards,
    /// A full snapshot is taken on top of what was restored.
    FullSkipsRestored,
    /// What lies in a queue at an unaligned cut is not captured.
    CaptureForgotten,
    /// The collector takes nothing that no entry of the log names.
    OrphansStay,
    /// Restored tokens are owned one by one, by their own names.
    TokensScattered,
    /// Parts folded before a shuffle stay where they are when a barrier passes.
    PartsOutliveBarrier,
    /// The order of the timers is not made again after a restore.
    TimersAsleep,
    /// With another number of workers each takes the key groups that its index had before.
    GroupsLeftBehind,
}

thread_local! {
    static BROKEN: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Breaks a rule on this thread, or mends it.
pub fn set(mutation: Option<Mutation>) {
    BROKEN.set(mutation);
}

/// Whether a rule is broken.
pub(crate) fn is(mutation: Mutation) -> bool {
    BROKEN.get() == Some(mutation)
}
