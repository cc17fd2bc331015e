//! What becomes of the state, the channels and the ends of a subtask when the checkpoint was taken with another number of
//! workers: which segments hold its state; and no channel is what it was, so each gets what is true of all old ones of its edge
//! (`docs/decisions/028`).
//!
//! Nothing was in flight: the job manager has seen to that. Positions and tokens are found elsewhere, by owner.

use crate::attempt::Attempt;
use crate::control::{ChannelPart, SubtaskPart};
use crate::key::group_range;
use crate::packet::ChannelId;
use crate::segment::StateKind;
use crate::state::Share;
use crate::subtask::{RestoredChannel, Subtask};
use crate::time::Watermark;
use flott_checkpoint::{LiteSet, SubtaskId};
use litemap::LiteMap;
use std::ops::Range;

/// Whose segments hold what a worker needs of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writers {
    /// Those that held its key groups.
    Owners,
    /// That of the first worker.
    First,
    /// All of them.
    All,
}

/// What to read of a state.
pub(super) struct Wanted {
    pub(super) by: Writers,
    pub(super) groups: Range<u16>,
    /// If it is not divided by keys and others wrote it: this worker's part in it.
    pub(super) share: Option<Share>,
}

impl Wanted {
    pub(super) fn of(kind: StateKind, attempt: &Attempt, worker: u16) -> Wanted {
        let (workers, key_groups) = (attempt.workers, attempt.key_groups);
        let share = attempt.rescaled_from().map(|before| Share { before, workers, worker });
        match (kind, share) {
            (StateKind::Broadcast, Some(Share { before, .. })) => {
                Wanted { by: Writers::First, groups: group_range(key_groups, before.into(), 0), share }
            }
            (StateKind::SplitList, Some(_)) => Wanted { by: Writers::All, groups: 0..key_groups, share },
            _ => {
                let groups = group_range(key_groups, workers.into(), worker.into());
                Wanted { by: Writers::Owners, groups, share: None }
            }
        }
    }
}

/// What a subtask gets back.
pub(super) struct Merged {
    pub(super) channels: Vec<RestoredChannel>,
    pub(super) finished: bool,
}

/// What all old subtasks of a vertex and all old channels into it say together. `None` if the vertex was not there.
///
/// A vertex has finished if all its old subtasks have: else each new one goes on, and those that have nothing left to do come
/// to their end again. So a channel has ended exactly if its sender's vertex has finished.
pub(super) fn merged(
    parts: &LiteMap<SubtaskId, SubtaskPart>,
    subtask: &Subtask,
    finished: &LiteSet<SubtaskId>,
) -> Option<Merged> {
    let vertex_finished = |vertex: u16| {
        let mut subtasks = parts.keys().filter(|id| id.vertex == vertex).peekable();
        subtasks.peek().is_some() && subtasks.all(|id| finished.contains(id))
    };
    let vertex = subtask.id().vertex;
    parts.keys().find(|id| id.vertex == vertex)?;
    let channel = |id: ChannelId| {
        let sender = subtask.sender_of(id.edge);
        let old = parts.values().flat_map(|part| &part.channels).filter(|channel| channel.edge == id.edge);
        let has_ended = |channel: &ChannelPart| {
            let id = |vertex| SubtaskId { vertex, index: channel.from };
            sender.is_some_and(|vertex| finished.contains(&id(vertex)))
        };
        let watermark = watermark(old.map(|channel| (channel.watermark, has_ended(channel))));
        RestoredChannel { id, watermark, ended: sender.is_some_and(vertex_finished), captured: Vec::new() }
    };
    Some(Merged { channels: subtask.channels().map(channel).collect(), finished: vertex_finished(vertex) })
}

/// What channels promise together, each with whether it has ended: the oldest watermark of those that take part. If none does, the
/// newest one, which stands; it is idle then.
fn watermark(channels: impl Iterator<Item = (Watermark, bool)> + Clone) -> Watermark {
    let mut active = channels.clone().filter(|(watermark, ended)| !ended && !watermark.idle).peekable();
    if active.peek().is_some() {
        return Watermark { at: active.map(|(watermark, _)| watermark.at).min().flatten(), idle: false };
    }
    let idle = channels.clone().any(|(watermark, _)| watermark.idle);
    Watermark { at: channels.filter_map(|(watermark, _)| watermark.at).max(), idle }
}

#[cfg(test)]
mod tests;
