//! What can go wrong with state. Each error names the state; the subtask adds itself, the checkpoint and the file.

use crate::key::KeyError;
use crate::segment::{SegmentError, StateKind, StateName};
use flott_checkpoint::KeyGroup;
use std::fmt;

/// An entry of a checkpoint that is not of the declared types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The state.
    pub name: StateName,
    /// Where the entry lay.
    pub group: KeyGroup,
    /// The key of the entry, as JSON.
    pub key: String,
    /// The shape of the values in the checkpoint.
    pub stored: String,
    /// The shape of the values of this job.
    pub declared: String,
    /// What the type said when it was decoded.
    pub cause: String,
}

/// An error of keyed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// Two states of one subtask have the same name.
    Duplicate(StateName),
    /// A key cannot be hashed.
    Key(StateName, KeyError),
    /// A key or value could not be serialized, so the checkpoint lacks it and must be declined.
    Encode(StateName, String),
    /// A stored key or value makes no sense.
    Decode(StateName, KeyGroup, String),
    /// Stored entries do not follow from each other, whatever their types.
    Damaged(StateName, KeyGroup, String),
    /// A stored key or value does not fit the type that the job declares.
    Misfit(Box<Misfit>),
    /// The key type differs from the one in the checkpoint.
    KeyShape {
        /// The state.
        name: StateName,
        /// The shape in the checkpoint.
        stored: String,
        /// The shape in this job.
        declared: String,
    },
    /// The checkpoint holds another kind of state under this name.
    OtherKind {
        /// The state.
        name: StateName,
        /// The kind in the checkpoint.
        stored: StateKind,
        /// The kind in this job.
        declared: StateKind,
    },
    /// A stored key hashes to another key group than the one it is in.
    WrongGroup {
        /// The state.
        name: StateName,
        /// Where it lay.
        stored: KeyGroup,
        /// Where it belongs.
        hashed: KeyGroup,
    },
    /// A block makes no sense.
    Segment(StateName, SegmentError),
    /// A backend failed; the text names the cause.
    Backend(StateName, String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "state {name} is declared twice; give each state of an operator a name"),
            Self::Key(name, error) => write!(f, "state {name}: {error}"),
            Self::Encode(name, error) => write!(f, "state {name}: an entry cannot be serialized: {error}"),
            Self::Decode(name, group, error) => {
                write!(f, "state {name}, key group {group}: a stored entry cannot be decoded: {error}")
            }
            Self::Damaged(name, group, error) => {
                write!(f, "state {name}, key group {group}: the stored entries are damaged: {error}")
            }
            Self::Misfit(misfit) => {
                let Misfit { name, group, key, stored, declared, cause } = &**misfit;
                write!(
                    f,
                    "state {name}: the entry of key {key} (key group {group}) does not fit: the checkpoint has values of shape \
                     {stored}, this job {declared}: {cause}; new fields need #[serde(default)], renamed ones #[serde(alias)]"
                )
            }
            Self::KeyShape { name, stored, declared } => write!(
                f,
                "state {name}: the checkpoint has keys of shape {stored}, this job {declared}; key types cannot change, \
                 give the state a new name to start it empty"
            ),
            Self::OtherKind { name, stored, declared } => {
                write!(f, "state {name}: the checkpoint holds {stored:?}, this job declares {declared:?}")
            }
            Self::WrongGroup { name, stored, hashed } => write!(
                f,
                "state {name}: a key in key group {stored} belongs to {hashed}; its type or its Serialize has changed"
            ),
            Self::Segment(name, error) => write!(f, "state {name}: {error}"),
            Self::Backend(name, error) => write!(f, "state {name}: {error}"),
        }
    }
}

impl std::error::Error for StateError {}
