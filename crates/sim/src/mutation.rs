//! Rules that are broken on purpose, to show that the simulator would notice.
//!
//! Most are broken outside production code, by tampering with mail, requests and answers; the rest are switches that floor 1
//! has only with its feature `mutations`.

use flott_runtime::mutation as inner;
use std::fmt;

macro_rules! mutations {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// A broken rule.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Mutation {
            $($(#[doc = $doc])* $name,)*
        }

        impl Mutation {
            /// All of them.
            pub const ALL: &'static [Mutation] = &[$(Mutation::$name,)*];

            /// Its name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Mutation::$name => $text,)* }
            }
        }
    };
}

mutations! {
    /// A channel is read on behind its barrier.
    UnblockedChannel = "unblocked-channel",
    /// A subtask that has finished does not ack any more.
    FinishedIsSilent = "finished-is-silent",
    /// That a checkpoint is over reaches only the first worker.
    ResolvedLostDownstream = "resolved-lost-downstream",
    /// After a restore a channel has ended if its receiver had seen the end, whatever its sender says.
    RestoreTrustsReceiversEnd = "restore-trusts-receivers-end",
    /// A blob is said to be durable before it is.
    AckBeforeUpload = "ack-before-upload",
    /// Sinks commit before the checkpoint is in the log.
    CommitBeforeLog = "commit-before-log",
    /// An old barrier is taken for a new one.
    StaleBarrier = "stale-barrier",
    /// A write to an entry that a scan still needs does not save the old value.
    SkipPreimage = "skip-preimage",
    /// The store lets a log slot be replaced.
    NoFence = "no-fence",
    /// An aborted checkpoint throws its output away.
    AbortDiscards = "abort-discards",
    /// A Start that fills a hole of the log is not found out.
    HoleStart = "hole-start",
    /// A full snapshot leaves out what was restored.
    FullSkipsRestored = "full-skips-restored",
    /// What lies in a queue at an unaligned cut is not captured.
    CaptureForgotten = "capture-forgotten",
    /// The collector leaves what dead attempts and aborted checkpoints wrote.
    OrphansStay = "orphans-stay",
    /// Restored tokens of one writer are committed by several subtasks, each in its own time.
    TokensScattered = "tokens-scattered",
    /// What a worker folded before the shuffle stays with it when a barrier passes.
    PartsOutliveBarrier = "parts-outlive-barrier",
    /// Restored timers do not fire.
    TimersAsleep = "timers-asleep",
    /// With another number of workers each takes the key groups that its index had before.
    GroupsLeftBehind = "groups-left-behind",
}

impl Mutation {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutation> {
        Mutation::ALL.iter().copied().find(|mutation| mutation.name() == name)
    }

    /// The switch of floor 1, if it takes one.
    #[must_use]
    pub fn inner(self) -> Option<inner::Mutation> {
        match self {
            Mutation::UnblockedChannel => Some(inner::Mutation::UnblockedChannel),
            Mutation::RestoreTrustsReceiversEnd => Some(inner::Mutation::RestoreTrustsReceiversEnd),
            Mutation::StaleBarrier => Some(inner::Mutation::StaleBarrier),
            Mutation::SkipPreimage => Some(inner::Mutation::SkipPreimage),
            Mutation::AbortDiscards => Some(inner::Mutation::AbortDiscards),
            Mutation::FullSkipsRestored => Some(inner::Mutation::FullSkipsRestored),
            Mutation::CaptureForgotten => Some(inner::Mutation::CaptureForgotten),
            Mutation::OrphansStay => Some(inner::Mutation::OrphansStay),
            Mutation::TokensScattered => Some(inner::Mutation::TokensScattered),
            Mutation::PartsOutliveBarrier => Some(inner::Mutation::PartsOutliveBarrier),
            Mutation::TimersAsleep => Some(inner::Mutation::TimersAsleep),
            Mutation::GroupsLeftBehind => Some(inner::Mutation::GroupsLeftBehind),
            _ => None,
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
