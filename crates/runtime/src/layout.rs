//! The names of all objects in a job's directory, both ways. Relocatable: every name is relative to that directory.
//!
//! Names are strict: a number has no leading zero and no sign, so two names never mean the same object, and whoever collects
//! garbage knows of each object whose it is. What does not parse is not ours and is never touched.

use crate::error::{Error, Result};
use flott_checkpoint::{AttemptId, CheckpointId, Slot};

#[cfg(test)]
mod tests;

/// Where log slots are.
pub const LOG: &str = "log";
/// Where manifests are.
pub const MANIFESTS: &str = "manifests";
/// Where segments are.
pub const DATA: &str = "data";
/// Where the history is.
pub const HISTORY: &str = "history";
/// Where readers hold checkpoints against collection.
pub const PINS: &str = "pins";
/// The object that shows whether the store keeps its word (L8).
pub const PROBE: &str = "probe";

/// In a savepoint's directory: the object that makes it one, an entry of the log. It is written last.
pub const SAVEPOINT: &str = "savepoint.json";
/// In a savepoint's directory: it is being written, or was left unfinished.
pub const UNFINISHED: &str = "unfinished";

/// The longest name of a job or a pin, in bytes.
pub const LONGEST_NAME: usize = 100;

/// What an object is, by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Name {
    /// An entry of the log.
    Slot(Slot),
    /// A manifest.
    Manifest(CheckpointId, AttemptId),
    /// What one worker wrote for one checkpoint.
    Segment {
        /// The attempt that wrote it.
        attempt: AttemptId,
        /// The checkpoint.
        id: CheckpointId,
        /// The worker.
        worker: u16,
    },
    /// What became of a checkpoint that was tried.
    History(CheckpointId, AttemptId),
    /// A reader's hold on a checkpoint; the object says on which.
    Pin(String),
}

impl Name {
    /// The attempt that wrote it, as far as the name says: the entry of a slot says more than its name.
    #[must_use]
    pub fn attempt(&self) -> Option<AttemptId> {
        match *self {
            Name::Manifest(_, attempt) | Name::Segment { attempt, .. } | Name::History(_, attempt) => Some(attempt),
            Name::Slot(_) | Name::Pin(_) => None,
        }
    }

    /// The checkpoint it belongs to, as far as the name says.
    #[must_use]
    pub fn checkpoint(&self) -> Option<CheckpointId> {
        match *self {
            Name::Manifest(id, _) | Name::Segment { id, .. } | Name::History(id, _) => Some(id),
            Name::Slot(_) | Name::Pin(_) => None,
        }
    }

    /// The path, relative to the job's directory.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Name::Slot(slot) => format!("{LOG}/{slot}.json"),
            Name::Manifest(id, attempt) => format!("{MANIFESTS}/{id}-{attempt}.json"),
            Name::Segment { attempt, id, worker } => format!("{DATA}/{attempt}/{id}-{worker}.seg"),
            Name::History(id, attempt) => format!("{HISTORY}/{id}-{attempt}.json"),
            Name::Pin(name) => format!("{PINS}/{name}"),
        }
    }
}

/// The path of a slot.
#[must_use]
pub fn slot(slot: Slot) -> String {
    Name::Slot(slot).path()
}

/// The path of a manifest.
#[must_use]
pub fn manifest(id: CheckpointId, attempt: AttemptId) -> String {
    Name::Manifest(id, attempt).path()
}

/// The path of a segment.
#[must_use]
pub fn segment(attempt: AttemptId, id: CheckpointId, worker: u16) -> String {
    Name::Segment { attempt, id, worker }.path()
}

/// What the paths of all segments of an attempt begin with.
#[must_use]
pub fn segments_of(attempt: AttemptId) -> String {
    format!("{DATA}/{attempt}/")
}

/// The path of a history entry.
#[must_use]
pub fn history(id: CheckpointId, attempt: AttemptId) -> String {
    Name::History(id, attempt).path()
}

/// What a path names; `None` if it is none of ours.
#[must_use]
pub fn parse(path: &str) -> Option<Name> {
    let (directory, rest) = path.split_once('/')?;
    match directory {
        LOG => Some(Name::Slot(Slot(number(rest.strip_suffix(".json")?)?))),
        MANIFESTS => pair(rest).map(|(id, attempt)| Name::Manifest(id, attempt)),
        HISTORY => pair(rest).map(|(id, attempt)| Name::History(id, attempt)),
        DATA => {
            let (attempt, file) = rest.split_once('/')?;
            let (id, worker) = file.strip_suffix(".seg")?.split_once('-')?;
            let attempt = AttemptId(number(attempt)?);
            Some(Name::Segment { attempt, id: CheckpointId(number(id)?), worker: number(worker)?.try_into().ok()? })
        }
        PINS => is_name(rest).then(|| Name::Pin(rest.to_owned())),
        _ => None,
    }
}

/// The slots among listed objects, in the order of the listing.
pub fn slots<'a>(listed: impl IntoIterator<Item = &'a (String, u64)>) -> Vec<Slot> {
    let names = listed.into_iter().filter_map(|(path, _)| parse(path));
    names.filter_map(|name| if let Name::Slot(slot) = name { Some(slot) } else { None }).collect()
}

/// Whether a job may have this name, which becomes a directory.
///
/// # Errors
/// `Refused`, saying which names are allowed.
pub fn check_job_name(job: &str) -> Result<()> {
    if is_name(job) {
        return Ok(());
    }
    Err(Error::refused(format!("`{job}` cannot be the name of a job"))
        .hint(format!("use 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`, and begin with a letter or a digit")))
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.len() <= LONGEST_NAME
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().all(plain)
}

fn pair(file: &str) -> Option<(CheckpointId, AttemptId)> {
    let (id, attempt) = file.strip_suffix(".json")?.split_once('-')?;
    Some((CheckpointId(number(id)?), AttemptId(number(attempt)?)))
}

fn number(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}
