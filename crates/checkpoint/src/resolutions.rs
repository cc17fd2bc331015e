//! Who still has to hear how a checkpoint ended, and whose output is committed (C2, C3).
//!
//! A resolution ends every round up to its id, and a completed one commits every token up to its id (S2). So of all that
//! a subtask has not acknowledged, at most two resolutions matter: the newest completed one, and the newest aborted one
//! if it is newer still. That bounds what a silent subtask can cost.

use crate::ids::{CheckpointId, SubtaskId};
use crate::lite::lite_map;
use litemap::LiteMap;

/// What one subtask has still to hear.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Owed {
    completed: Option<CheckpointId>,
    aborted: Option<CheckpointId>,
    /// The newest checkpoint whose output it has committed.
    committed: Option<CheckpointId>,
}

/// The resolutions that are on their way, for all subtasks.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Resolutions {
    owed: LiteMap<SubtaskId, Owed>,
    /// The final checkpoint: its resolution is repeated until the commits are done, not only until it is heard.
    last: Option<CheckpointId>,
}

impl Resolutions {
    pub(crate) fn new(subtasks: impl Iterator<Item = SubtaskId>) -> Resolutions {
        Resolutions { owed: lite_map(subtasks.map(|subtask| (subtask, Owed::default()))), last: None }
    }

    /// A checkpoint ended: everybody has to hear it.
    pub(crate) fn resolve(&mut self, id: CheckpointId, completed: bool) {
        for (_, owed) in &mut self.owed {
            owed.aborted = (!completed).then_some(id);
            if completed {
                owed.completed = Some(id);
            }
        }
    }

    /// The final checkpoint is recorded.
    pub(crate) fn resolve_last(&mut self, id: CheckpointId) {
        self.resolve(id, true);
        self.last = Some(id);
    }

    /// A subtask has heard of the end of `id`, hence of all before it; whether that was news. Having heard of an
    /// aborted one says nothing about an earlier completed one, which carries a commit.
    pub(crate) fn heard(&mut self, subtask: SubtaskId, id: CheckpointId) -> bool {
        let last = self.last;
        let Some(owed) = self.owed.get_mut(&subtask) else { return false };
        let aborted = owed.aborted.take_if(|aborted| *aborted <= id);
        let completed = owed.completed.take_if(|completed| *completed == id && last != Some(id));
        aborted.or(completed).is_some()
    }

    /// A subtask has committed everything up to `id`; whether that was news.
    pub(crate) fn committed(&mut self, subtask: SubtaskId, id: CheckpointId) -> bool {
        let Some(owed) = self.owed.get_mut(&subtask) else { return false };
        if owed.committed >= Some(id) {
            return false;
        }
        owed.committed = Some(id);
        owed.completed.take_if(|completed| *completed <= id);
        owed.aborted.take_if(|aborted| *aborted <= id);
        true
    }

    /// What must be sent (again): subtask, checkpoint, completed.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (SubtaskId, CheckpointId, bool)> + '_ {
        self.owed.iter().flat_map(|(&subtask, owed)| {
            let completed = owed.completed.map(|id| (subtask, id, true));
            let aborted = owed.aborted.map(|id| (subtask, id, false));
            completed.into_iter().chain(aborted)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outstanding().next().is_none()
    }

    /// Whether the output of the final checkpoint is committed everywhere.
    pub(crate) fn all_committed(&self) -> bool {
        self.last.is_some() && self.owed.values().all(|owed| owed.committed >= self.last)
    }
}
