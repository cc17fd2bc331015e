//! The named moments in the life of a process at which tests kill or stop it: the one list for real processes
//! (`FLOTT_CRASH_AT`) and for the simulator.
//!
//! Only names. Nothing here finds out that a moment has come; whoever looks at what passes by does.

macro_rules! crash_points {
    ($($(#[$doc:meta])* $point:ident = $label:literal,)*) => {
        /// A moment at which a process can be killed or stopped.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum CrashPoint {
            $($(#[$doc])* $point,)*
        }

        impl CrashPoint {
            /// All of them.
            pub const ALL: &[CrashPoint] = &[$(CrashPoint::$point,)*];

            /// As `FLOTT_CRASH_AT` takes it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(CrashPoint::$point => stringify!($point),)*
                }
            }

            /// As reports of the simulator show it.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self {
                    $(CrashPoint::$point => $label,)*
                }
            }
        }
    };
}

crash_points! {
    /// Before the slot of a Start is created.
    BeforeStart = "at-before-start",
    /// The slot of a Start is created.
    AfterStart = "at-after-start",
    /// Before a subtask's part is acked.
    BeforeAck = "at-before-ack",
    /// All parts are acked; before the manifest is written.
    AfterLastAck = "at-after-last-ack",
    /// The manifest is written; before its slot is.
    AfterManifest = "at-after-manifest",
    /// The slot of a checkpoint is created; before anything is committed.
    AfterLogSlot = "at-after-log-slot",
    /// One part of the output is published, others are not.
    BetweenCommits = "at-between-commits",
    /// A part has its name and still its pending one.
    BetweenLinkAndUnlink = "at-between-link-and-unlink",
    /// The slot of the final checkpoint is created.
    AfterFinalSlot = "at-after-final-slot",
    /// Before a segment is read back.
    DuringRestore = "at-during-restore",
    /// Before an old object is deleted.
    DuringCollection = "at-during-collection",
}
