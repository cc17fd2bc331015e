//! The history: one object for each checkpoint tried, whatever became of it (D14). It hinders nothing: an object that cannot be
//! written is a warning.

use super::desk::Cx;
use super::running::Note;
use crate::history::{HistoryEntry, Phases};
use crate::io::{StorageReply, StorageRequest, Ticket};
use flott_checkpoint::Outcome;
use std::collections::BTreeMap;

/// What is being written.
#[derive(Default)]
pub(super) struct Chronicle {
    writing: BTreeMap<Ticket, String>,
}

impl Chronicle {
    pub(super) fn write(&mut self, note: &Note, workers: u16, cx: &mut Cx<'_>) {
        let record = match &note.tried.outcome {
            Outcome::Completed { acked_at, .. } => note.tried.ended_at.saturating_sub(*acked_at).saturating_mul(1_000),
            Outcome::Aborted(_) | Outcome::Unknown { .. } => 0,
        };
        let parts = note.completed.iter().flat_map(|completed| completed.parts.iter().map(|part| &part.part));
        self.put(&HistoryEntry { tried: note.tried.clone(), workers, phases: Phases::of(parts, record) }, cx);
    }

    fn put(&mut self, entry: &HistoryEntry, cx: &mut Cx<'_>) {
        let path = entry.path();
        let ticket = cx.ask(StorageRequest::Create { path: path.clone(), bytes: entry.encode() });
        self.writing.insert(ticket, path);
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.writing.contains_key(&ticket)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.writing.is_empty()
    }

    pub(super) fn on_storage(&mut self, ticket: Ticket, reply: &StorageReply, cx: &mut Cx<'_>) {
        let Some(path) = self.writing.remove(&ticket) else { return };
        if let StorageReply::Failed(why) | StorageReply::Unknown(why) = reply {
            cx.warn(format!("the history lacks {path}: {why}"));
        }
    }
}
