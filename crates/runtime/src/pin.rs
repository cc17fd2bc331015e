//! A pin: a reader's hold on a checkpoint, `pins/<name>`. While it is there, nothing of that checkpoint is collected (G1).
//!
//! Whoever pins creates the object first and then looks whether the checkpoint's log slot is still there; the collector
//! deletes the slot first and then looks for new pins. One of the two always sees the other.

use crate::envelope::Envelope;
use crate::error::Result;
use crate::layout::Name;
use bytes::Bytes;
use flott_checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// The version of the format that this program writes, and the newest one that it reads.
pub const PIN_FORMAT: u32 = 1;

const ENVELOPE: Envelope = Envelope { kind: "pin", format: PIN_FORMAT };

/// What a pin says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pin {
    /// The checkpoint that is held; what it builds on is held with it.
    pub checkpoint: CheckpointId,
    /// Who holds it and what for, for people.
    pub holder: String,
}

impl Pin {
    /// The path of the pin with this name, which follows the rules of a job's name.
    #[must_use]
    pub fn path(name: &str) -> String {
        Name::Pin(name.to_owned()).path()
    }

    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        ENVELOPE.seal(self)
    }

    /// Reads a pin back. Never panics; every flipped bit is found.
    ///
    /// # Errors
    /// `Unusable`: damaged, or of a newer format.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Pin> {
        ENVELOPE.open(bytes).map_err(|error| error.at_position(path))
    }
}
