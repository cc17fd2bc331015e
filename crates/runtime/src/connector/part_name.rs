//! The names of a file sink's parts (rule S4), and how they are read back.
//!
//! ```text
//! part-<sink>-<incarnation>-<checkpoint %010>-<subtask %05>-<n %05>.<ext>       committed
//! .part-<sink>-<incarnation>-<attempt %010>-<subtask %05>-<n %05>.<ext>         pending
//! ```
//! They are read from the right, and an incarnation holds no `-`, so any sink name is unambiguous.

use flott_checkpoint::{AttemptId, CheckpointId};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// Longer names are cut and get a hash: a file name has 255 bytes.
const LONGEST: usize = 96;

/// Whose parts: the sink and the incarnation, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) sink: String,
    pub(super) incarnation: String,
}

/// A name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartName {
    pub(super) pending: bool,
    pub(super) owner: Owner,
    /// The checkpoint of a committed part, the attempt of a pending one.
    pub(super) number: u64,
    pub(super) subtask: u64,
    pub(super) n: u64,
}

/// Keeps letters, digits, `_` and `also`; everything else becomes `%` and two hex digits.
fn escape(text: &str, also: &[u8]) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || also.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    if escaped.len() > LONGEST {
        escaped.truncate(LONGEST - 17);
        escaped.push_str(&format!("~{:016x}", xxh3_64(text.as_bytes())));
    }
    escaped
}

impl Owner {
    pub(super) fn new(sink: &str, incarnation: &str) -> Owner {
        Owner { sink: escape(sink, b"-."), incarnation: escape(incarnation, b"") }
    }

    pub(super) fn committed(&self, checkpoint: CheckpointId, subtask: u16, n: u64, extension: &str) -> String {
        let Owner { sink, incarnation } = self;
        format!("part-{sink}-{incarnation}-{:010}-{subtask:05}-{n:05}.{extension}", checkpoint.0)
    }

    pub(super) fn pending(&self, attempt: AttemptId, subtask: u16, n: u64, extension: &str) -> String {
        let Owner { sink, incarnation } = self;
        format!(".part-{sink}-{incarnation}-{:010}-{subtask:05}-{n:05}.{extension}", attempt.0)
    }
}

/// A number of at least so many digits, without a sign.
fn number(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

impl PartName {
    /// Reads a name; `None` if it is no part's.
    pub(super) fn parse(name: &str) -> Option<PartName> {
        let visible = name.strip_prefix('.');
        let mut fields = visible.unwrap_or(name).strip_prefix("part-")?.rsplitn(5, '-');
        let (n, _extension) = fields.next()?.split_once('.')?;
        let n = number(n, 5)?;
        let subtask = number(fields.next()?, 5)?;
        let number = number(fields.next()?, 10)?;
        let incarnation = fields.next()?.to_owned();
        let sink = fields.next()?.to_owned();
        Some(PartName { pending: visible.is_some(), owner: Owner { sink, incarnation }, number, subtask, n })
    }

    /// Whether it belongs to this sink, but to another life of the job.
    pub(super) fn is_foreign_to(&self, owner: &Owner) -> bool {
        self.owner.sink == owner.sink && self.owner.incarnation != owner.incarnation
    }
}
