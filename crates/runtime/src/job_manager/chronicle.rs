//! The history: one object for each checkpoint tried, whatever became of it (D14). It hinders nothing: an object that cannot be
//! written is a warning.

use super::desk::Cx;
use super::running::Note;
use crate::control::{Captured, SubtaskPart};
use crate::history::{HistoryEntry, Phases};
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout;
use crate::time::Time;
use flott_checkpoint::{AbortReason, AttemptId, Barrier, CheckpointId, Claim, Kind, LiteSet, Outcome, Tried};
use litemap::LiteMap;

/// What is being written.
#[derive(Default)]
pub(super) struct Chronicle {
    writing: LiteMap<Ticket, String>,
    /// Listings that may show what a dead attempt left unfinished.
    looking: LiteMap<Ticket, Dead>,
}

/// The attempt before this one.
#[derive(Clone, Copy)]
struct Dead {
    attempt: AttemptId,
    /// Above all recorded checkpoints: what it has of this id or a later one, it did not record.
    unrecorded: CheckpointId,
    workers: u16,
}

impl Note {
    /// Where the time went, as far as parts arrived.
    pub(super) fn phases(&self) -> Phases {
        let record = match &self.tried.outcome {
            Outcome::Completed { acked_at, .. } => {
                let record = Time::of_millis(self.tried.ended_at).since(Time::of_millis(*acked_at));
                u64::try_from(record.as_micros()).unwrap_or(u64::MAX)
            }
            Outcome::Aborted(_) | Outcome::Unknown { .. } => 0,
        };
        Phases::of(self.parts(), record)
    }

    fn parts(&self) -> impl Iterator<Item = &SubtaskPart> + Clone {
        self.completed.iter().flat_map(|completed| completed.parts.iter().map(|part| &part.part))
    }
}

impl Chronicle {
    pub(super) fn write(&mut self, note: &Note, workers: u16, cx: &mut Cx<'_>) {
        let captured = Captured::of(note.parts());
        self.put(&HistoryEntry { tried: note.tried.clone(), workers, phases: note.phases(), captured }, cx);
    }

    /// Looks for checkpoints that the attempt before this one began and whose end it did not live to write down.
    pub(super) fn look_back(&mut self, claim: &Claim, cx: &mut Cx<'_>) {
        let Some((attempt, _)) = claim.previous else { return };
        let dead = Dead { attempt, unrecorded: claim.next_id(), workers: cx.desk.settings.default_workers };
        for prefix in [format!("{}/{attempt}", layout::DATA), layout::MANIFESTS.to_owned()] {
            let ticket = cx.ask(StorageRequest::List { prefix });
            self.looking.insert(ticket, dead);
        }
    }

    fn looked(&mut self, dead: Dead, objects: &[(String, u64)], cx: &mut Cx<'_>) {
        let names = objects.iter().filter_map(|(path, _)| layout::parse(path));
        let left = names.filter(|name| name.attempt() == Some(dead.attempt)).filter_map(|name| name.checkpoint());
        let left: LiteSet<CheckpointId> = left.filter(|id| *id >= dead.unrecorded).collect();
        for id in left {
            let barrier = Barrier {
                id,
                attempt: dead.attempt,
                mode: cx.desk.settings.coordinator.mode,
                kind: Kind::Checkpoint,
                base: None,
                triggered_at: 0,
            };
            let reason = "the process ended before it was recorded; only what it had written shows that it was tried, so \
                          its mode and the time of its trigger are not known";
            let outcome = Outcome::Aborted(AbortReason::AttemptEnded { reason: reason.to_owned() });
            let tried = Tried { barrier, ended_at: cx.now.millis(), outcome };
            // If the attempt did write its history, that stands: objects are created only if absent.
            let (workers, captured) = (dead.workers, Captured::default());
            self.put(&HistoryEntry { tried, workers, phases: Phases::default(), captured }, cx);
        }
    }

    fn put(&mut self, entry: &HistoryEntry, cx: &mut Cx<'_>) {
        let path = entry.path();
        let ticket = cx.ask(StorageRequest::Create { path: path.clone(), bytes: entry.encode() });
        self.writing.insert(ticket, path);
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.writing.contains_key(&ticket) || self.looking.contains_key(&ticket)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.writing.is_empty() && self.looking.is_empty()
    }

    pub(super) fn on_storage(&mut self, ticket: Ticket, reply: &StorageReply, cx: &mut Cx<'_>) {
        if let Some(dead) = self.looking.remove(&ticket) {
            match reply {
                StorageReply::Listed(objects) => self.looked(dead, objects, cx),
                reply => cx.warn(format!("what attempt {} left unfinished is not known: {reply:?}", dead.attempt)),
            }
            return;
        }
        let Some(path) = self.writing.remove(&ticket) else { return };
        if let StorageReply::Failed(why) | StorageReply::Unknown(why) | StorageReply::Obstructed(why) = reply {
            cx.warn(format!("the history lacks {path}: {why}"));
        }
    }
}
