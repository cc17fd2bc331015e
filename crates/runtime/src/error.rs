//! What can go wrong, sorted by what the caller does next. A bug is not an error: it asserts.

use flott_checkpoint::{CheckpointId, SubtaskId};
use std::fmt;

/// A result with the engine's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller of a failed job does next; each kind has its exit code (`contracts`: 1 to 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something failed while the job ran; the job restarts from its last checkpoint, or ends with code 1.
    Failed,
    /// What the job reads, or its own types, do not fit: a restart would meet the same again, so there is none. Code 1.
    Invalid,
    /// The job cannot start as it was asked to: correct the command and start again. Code 2.
    Refused,
    /// A newer attempt owns the job: do not restart this one. Code 3.
    Fenced,
    /// The checkpoint cannot be used for this job: damaged, of another shape, or of a newer version. Code 4.
    Unusable,
    /// Output cannot be made whole: look at the files that are named. Code 5.
    OutputDamaged,
}

impl ErrorKind {
    /// The exit code of a process that ends with such an error.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Failed | ErrorKind::Invalid => 1,
            ErrorKind::Refused => 2,
            ErrorKind::Fenced => 3,
            ErrorKind::Unusable => 4,
            ErrorKind::OutputDamaged => 5,
        }
    }
}

/// An error: what happened, where, and what to do about it. One pointer wide: it rides in every result of the hot path.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    operator: Option<String>,
    subtask: Option<SubtaskId>,
    checkpoint: Option<CheckpointId>,
    position: Option<String>,
    hint: Option<String>,
    /// Nothing is damaged.
    misfit: bool,
}

impl Error {
    /// An error of a kind, with a message that says what happened.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            operator: None,
            subtask: None,
            checkpoint: None,
            position: None,
            hint: None,
            misfit: false,
        }))
    }

    /// Something failed while the job ran.
    pub fn failed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Failed, message)
    }

    /// A record, or a type of the job, that a restart would meet again as it is: a line that cannot be read, a key that
    /// cannot be encoded. Ends the job at once. Not for what depends on the world outside.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// The job cannot start as it was asked to.
    pub fn refused(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, message)
    }

    /// A newer attempt owns the job.
    pub fn fenced(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Fenced, message)
    }

    /// The checkpoint cannot be used for this job.
    pub fn unusable(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unusable, message)
    }

    /// The checkpoint is whole, and its types are not those of this job: an older one is no better, so nothing falls back to it.
    pub fn misfit(message: impl Into<String>) -> Error {
        let mut error = Error::unusable(message);
        error.0.misfit = true;
        error
    }

    /// Output cannot be made whole.
    pub fn output_damaged(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::OutputDamaged, message)
    }

    /// Names the operator, unless one nearer to the cause is named already.
    #[must_use]
    pub fn at_operator(mut self, name: &str) -> Error {
        self.0.operator.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Names the subtask, unless one nearer to the cause is named already.
    #[must_use]
    pub fn at_subtask(mut self, subtask: SubtaskId) -> Error {
        self.0.subtask.get_or_insert(subtask);
        self
    }

    /// Names the checkpoint.
    #[must_use]
    pub fn at_checkpoint(mut self, id: CheckpointId) -> Error {
        self.0.checkpoint.get_or_insert(id);
        self
    }

    /// Names the record: a file and line, a split and offset, or an input and count.
    #[must_use]
    pub fn at_position(mut self, position: impl Into<String>) -> Error {
        self.0.position.get_or_insert_with(|| position.into());
        self
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// What the caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the checkpoint is whole and of other types.
    pub(crate) fn is_misfit(&self) -> bool {
        self.0.misfit
    }

    /// What happened, without the place and without what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where the record is that it is about, if it is about one.
    #[must_use]
    pub fn position(&self) -> Option<&str> {
        self.0.position.as_deref()
    }

    /// The operator in which it happened, if it was in one.
    #[must_use]
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }
}

/// As `Display`: it is what a program shows that returns the error from `main`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { message, operator, subtask, checkpoint, position, hint, .. } = &*self.0;
        if let Some(operator) = operator {
            write!(f, "operator `{operator}`")?;
            if let Some(subtask) = subtask {
                write!(f, " on worker {}", subtask.index)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(message)?;
        if let Some(position) = position {
            write!(f, " at {position}")?;
        }
        if let Some(id) = checkpoint {
            write!(f, " [checkpoint {id}]")?;
        }
        if let Some(hint) = hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
