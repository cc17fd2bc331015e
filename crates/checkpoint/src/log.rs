//! The entries of a job's log, the one thing that decides what is recorded and who may record (rules L1-L8).
//!
//! An entry is one JSON object that never changes once its slot holds it. Its last field is the xxh3 of all bytes before
//! that field, so that a flipped bit is seen in a `Start` as well as in a `Checkpoint`. All versions of the format keep
//! the fields `format` (first) and `xxh3` (last), so that an older program can tell "newer" from "damaged".
//!
//! This file never talks to storage; it knows bytes only.

use crate::ids::{AttemptId, CheckpointId, Slot};
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// The version of the log format that this program writes, and the newest one that it reads.
pub const LOG_FORMAT: u32 = 1;

/// No entry is longer than this, in bytes; a longer one is refused unread.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024;

const TAIL: &[u8] = b",\"xxh3\":\"";
const END: &[u8] = b"\"}\n";
const HASH_DIGITS: usize = 16;

/// The life of a job's state from one beginning on. State and output of two incarnations have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incarnation {
    /// A random number that names it, also in the file names of sinks.
    #[serde(with = "hex")]
    pub id: u64,
    /// The secret seed of the hash that spreads keys over key groups (D9).
    #[serde(with = "hex")]
    pub key_seed: u64,
    /// Into how many key groups keyed state is divided, for ever.
    pub key_groups: u16,
}

impl fmt::Debug for Incarnation {
    /// Leaves the seed out: whoever knows it can flood one key group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({:016x}, {} key groups)", self.id, self.key_groups)
    }
}

/// The entry by which an attempt takes possession of the log; all older attempts are fenced by it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartEntry {
    /// The attempt, which is the slot of this entry.
    pub attempt: AttemptId,
    /// Fresh for each entry: tells an attempt whether the entry it finds is its own.
    #[serde(with = "hex")]
    pub nonce: u64,
    /// The incarnation that this attempt goes on with, or begins.
    #[serde(with = "hex")]
    pub incarnation: u64,
    /// The checkpoint that this attempt restores; `None`: it begins with empty state.
    pub restored_from: Option<CheckpointId>,
    /// Exceeds every id recorded below (L6); the attempt's first checkpoint takes it.
    pub next_id: CheckpointId,
    /// Present in the Start that begins an incarnation.
    pub began: Option<Incarnation>,
    /// This attempt restores a checkpoint that lies outside of this log. Then `restored_from` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<Savepoint>,
}

/// A checkpoint that lies in another directory: a savepoint, or what another job has retained. It is never deleted from here.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Savepoint {
    /// Where: an absolute path or a URL of the directory that holds `manifests` and `data`.
    pub location: String,
    /// The checkpoint, by the ids of the log it was taken for.
    pub id: CheckpointId,
    /// The attempt that took it, in that log.
    pub attempt: AttemptId,
    /// The xxh3 of its manifest.
    #[serde(with = "hex")]
    pub checksum: u64,
    /// Output of its incarnation that is pending may be committed, and output that is committed is gone on with (`--claim`).
    pub claim: bool,
}

/// The entry that makes a checkpoint a completed one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointEntry {
    /// The slot that it was written for: a copy elsewhere in the log is found.
    pub slot: Slot,
    /// The checkpoint. Recorded ids never repeat (L6).
    pub id: CheckpointId,
    /// The attempt that took and recorded it.
    pub attempt: AttemptId,
    /// Fresh for each entry.
    #[serde(with = "hex")]
    pub nonce: u64,
    /// The checkpoint recorded before it in this line; a fallback goes there (R2).
    pub parent: Option<CheckpointId>,
    /// The name of its manifest, relative to the job's directory.
    pub manifest: String,
    /// The xxh3 of the manifest's bytes.
    #[serde(with = "hex")]
    pub checksum: u64,
}

/// What a slot of the log holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogEntry {
    /// An attempt began.
    Start(StartEntry),
    /// A checkpoint was completed.
    Checkpoint(CheckpointEntry),
}

impl LogEntry {
    /// The attempt that wrote it.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        match self {
            LogEntry::Start(start) => start.attempt,
            LogEntry::Checkpoint(checkpoint) => checkpoint.attempt,
        }
    }

    /// The bytes of this entry, checksum last.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let envelope = EnvelopeRef { format: LOG_FORMAT, entry: self };
        let mut bytes = serde_json::to_vec(&envelope).expect("plain structs with string keys always serialise");
        bytes.pop();
        let hash = xxh3_64(&bytes);
        bytes.extend_from_slice(TAIL);
        bytes.extend_from_slice(format!("{hash:016x}").as_bytes());
        bytes.extend_from_slice(END);
        bytes
    }

    /// Reads the entry of a slot. Never panics; every flipped bit is an error, and so is an entry of another slot.
    ///
    /// # Errors
    /// When the bytes are no whole entry, were changed, were written by a newer version, or were written to another slot.
    pub fn read(slot: Slot, bytes: &[u8]) -> Result<LogEntry, EntryError> {
        let entry = LogEntry::decode(bytes)?;
        entry.check_slot(slot).map(|()| entry)
    }

    /// Reads an entry back, wherever it was written. See [`LogEntry::read`].
    ///
    /// # Errors
    /// When the bytes are no whole entry, were changed, or were written by a newer version.
    pub fn decode(bytes: &[u8]) -> Result<LogEntry, EntryError> {
        let body = checked_body(bytes)?;
        let mut json = body.to_vec();
        json.push(b'}');
        let version: Version = serde_json::from_slice(&json).map_err(|e| EntryError::Malformed(e.to_string()))?;
        if version.format > LOG_FORMAT {
            return Err(EntryError::Newer { found: version.format });
        }
        let envelope: Envelope = serde_json::from_slice(&json).map_err(|e| EntryError::Malformed(e.to_string()))?;
        Ok(envelope.entry)
    }

    /// Whether this entry can be what was written to `slot` (L1: both name their own slot, and a checkpoint lies above its Start).
    ///
    /// # Errors
    /// When it belongs to another slot: somebody copied or renamed files.
    pub fn check_slot(&self, slot: Slot) -> Result<(), EntryError> {
        let fits = match self {
            LogEntry::Start(start) => start.attempt.0 == slot.0,
            LogEntry::Checkpoint(checkpoint) => checkpoint.slot == slot && checkpoint.attempt.0 < slot.0,
        };
        if fits { Ok(()) } else { Err(EntryError::Misplaced { slot, attempt: self.attempt() }) }
    }
}

/// Why bytes are no entry of the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum EntryError {
    /// The checksum field is not where it must be, or the entry is longer than [`MAX_ENTRY_BYTES`].
    Incomplete {
        /// How many bytes there were.
        length: usize,
    },
    /// The bytes are not those that were written.
    Checksum,
    /// A newer version of the program wrote it.
    Newer {
        /// Its format.
        found: u32,
    },
    /// The checksum is right, but the content is not an entry.
    Malformed(String),
    /// Something that cannot be read stands in the place of the slot; the text says what.
    Obstructed(String),
    /// The entry belongs to another slot.
    Misplaced {
        /// Where it was found.
        slot: Slot,
        /// The attempt that it names.
        attempt: AttemptId,
    },
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::Incomplete { length } => {
                write!(f, "{length} bytes that do not end with the checksum of a log entry: truncated, or not an entry")
            }
            EntryError::Checksum => {
                f.write_str("the checksum does not match: the entry was changed after it was written")
            }
            EntryError::Newer { found } => write!(
                f,
                "written in log format {found}, but this program reads formats up to {LOG_FORMAT}: use a newer version"
            ),
            EntryError::Malformed(why) => write!(f, "not a log entry: {why}"),
            EntryError::Obstructed(what) => f.write_str(what),
            EntryError::Misplaced { slot, attempt } => {
                write!(
                    f,
                    "an entry of attempt {attempt} that was not written for slot {slot}: was it copied or renamed?"
                )
            }
        }
    }
}

impl std::error::Error for EntryError {}

#[derive(Serialize)]
struct EnvelopeRef<'a> {
    format: u32,
    entry: &'a LogEntry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "format")]
    _format: u32,
    entry: LogEntry,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Everything before the checksum field, if the checksum is right.
fn checked_body(bytes: &[u8]) -> Result<&[u8], EntryError> {
    let incomplete = EntryError::Incomplete { length: bytes.len() };
    if bytes.len() > MAX_ENTRY_BYTES {
        return Err(incomplete);
    }
    let parts = bytes.strip_suffix(END).and_then(|rest| rest.split_last_chunk::<HASH_DIGITS>());
    let Some((rest, digits)) = parts else { return Err(incomplete) };
    let Some(body) = rest.strip_suffix(TAIL) else { return Err(incomplete) };
    if format!("{:016x}", xxh3_64(body)).as_bytes() == digits { Ok(body) } else { Err(EntryError::Checksum) }
}

/// Numbers that do not survive a reader with 53-bit integers, as 16 hexadecimal digits.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let plain = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !plain {
            return Err(de::Error::custom("expected 16 lower-case hexadecimal digits"));
        }
        u64::from_str_radix(&text, 16).map_err(de::Error::custom)
    }
}
