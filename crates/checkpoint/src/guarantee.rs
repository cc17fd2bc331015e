//! What a job can promise, computed from what it is made of instead of claimed (D13).
//!
//! Two chains of minima: over all paths from a source to a sink, and along restores, because a checkpoint taken without
//! alignment already counts records twice and no later aligned one can take them out again.

use crate::barrier::Mode;
use serde::{Deserialize, Serialize};
use std::fmt;

#[cfg(test)]
mod tests;

/// How often the effect of one input record is in the result after a failure. Ordered: a greater one promises more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Nothing is promised.
    None,
    /// Records may be lost, none is counted twice by a restore.
    AtMostOnce,
    /// None is lost, some may be counted twice.
    AtLeastOnce,
    /// As if nothing had failed.
    ExactlyOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Guarantee::None => "none",
            Guarantee::AtMostOnce => "at-most-once",
            Guarantee::AtLeastOnce => "at-least-once",
            Guarantee::ExactlyOnce => "exactly-once",
        })
    }
}

impl Mode {
    /// What the state restored from one checkpoint of this mode is worth, if nothing was inherited.
    #[must_use]
    pub fn guarantee(self) -> Guarantee {
        if self.is_exact() { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce }
    }
}

/// The guarantee of a checkpoint: the lesser of its mode's and that of the checkpoint its attempt was restored from.
#[must_use]
pub fn of_checkpoint(mode: Mode, inherited: Guarantee) -> Guarantee {
    mode.guarantee().min(inherited)
}

/// One path through a job, as far as guarantees go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Path {
    /// The name of its source.
    pub source: String,
    /// Whether the source can be read again from a stored position.
    pub replayable: bool,
    /// The name of its sink.
    pub sink: String,
    /// Whether the sink publishes what a checkpoint covers once and only once (two-phase or idempotent).
    pub transactional: bool,
}

/// What one path promises, and what keeps it from more.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PathGuarantee {
    /// The path.
    pub path: Path,
    /// From source to sink.
    pub end_to_end: Guarantee,
    /// Of the operators' state alone.
    pub state: Guarantee,
    /// What limits it; `None` for exactly once.
    pub limit: Option<Limit>,
}

/// What keeps a path from a better guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// There is no checkpoint directory.
    CheckpointsOff,
    /// The source cannot be read again.
    Source,
    /// The cuts hold records from behind the barriers.
    Mode,
    /// The state was restored from a checkpoint with a lesser guarantee.
    Inherited,
    /// The sink publishes at once and cannot take back.
    Sink,
}

impl PathGuarantee {
    /// What it promises and why not more, without the path.
    fn promise(&self) -> String {
        let because = match self.limit {
            None => return self.end_to_end.to_string(),
            Some(Limit::CheckpointsOff) => "checkpoints are off".to_owned(),
            Some(Limit::Source) => format!("source {} cannot be read again", self.path.source),
            Some(Limit::Mode) => "the checkpoint mode is at-least-once".to_owned(),
            Some(Limit::Inherited) => "the restored checkpoint has no more".to_owned(),
            Some(Limit::Sink) => {
                format!("sink {} cannot take back what it has written (state: {})", self.path.sink, self.state)
            }
        };
        format!("{}, because {because}", self.end_to_end)
    }
}

impl fmt::Display for PathGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}: {}", self.path.source, self.path.sink, self.promise())
    }
}

/// So many paths are named for one reason; the others are counted.
const NAMED: usize = 3;

/// A line for each reason, with the paths that have it, in their order.
#[must_use]
pub fn by_reason<'a>(paths: impl IntoIterator<Item = &'a PathGuarantee>) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for path in paths {
        let (promise, name) = (path.promise(), format!("{} -> {}", path.path.source, path.path.sink));
        match reasons.iter_mut().find(|(known, _)| *known == promise) {
            Some((_, names)) => names.push(name),
            None => reasons.push((promise, vec![name])),
        }
    }
    let line = |(promise, names): &(String, Vec<String>)| {
        let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}: {promise}", shown.join(", "))
    };
    reasons.iter().map(line).collect()
}

/// What a path promises under a mode (`None`: checkpoints are off), restored from a checkpoint of guarantee `inherited`
/// ([`Guarantee::ExactlyOnce`] if nothing was restored).
#[must_use]
pub fn of_path(path: Path, mode: Option<Mode>, inherited: Guarantee) -> PathGuarantee {
    let Some(mode) = mode else {
        return PathGuarantee {
            path,
            end_to_end: Guarantee::None,
            state: Guarantee::None,
            limit: Some(Limit::CheckpointsOff),
        };
    };
    let source = if path.replayable { Guarantee::ExactlyOnce } else { Guarantee::AtMostOnce };
    let sink = if path.transactional { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce };
    let state = source.min(of_checkpoint(mode, inherited));
    let end_to_end = state.min(sink);
    let limits =
        [(source, Limit::Source), (mode.guarantee(), Limit::Mode), (inherited, Limit::Inherited), (sink, Limit::Sink)];
    let limit = limits
        .into_iter()
        .find(|&(guarantee, _)| guarantee == end_to_end && guarantee < Guarantee::ExactlyOnce)
        .map(|(_, limit)| limit);
    PathGuarantee { path, end_to_end, state, limit }
}

/// What a whole job promises: the minimum over its paths. Without a path nothing can go wrong.
#[must_use]
pub fn of_job(paths: &[PathGuarantee]) -> Guarantee {
    paths.iter().map(|path| path.end_to_end).min().unwrap_or(Guarantee::ExactlyOnce)
}

/// The paths that promise less than `--require` asks for. Empty: the job may start.
#[must_use]
pub fn below(paths: &[PathGuarantee], required: Guarantee) -> Vec<&PathGuarantee> {
    paths.iter().filter(|path| path.end_to_end < required).collect()
}
