//! Writing one checkpoint into the log, in the order of C1: the blobs are durable when all parts are acked; then the
//! manifest, then the slot. Whoever is notified is notified by the coordinator, after that.

use super::contesting::lost;
use super::desk::{Cx, earliest};
use super::lineage::Lineage;
use super::log_calls::{LogAnswer, LogCalls};
use crate::attempt::Attempt;
use crate::control::SubtaskPart;
use crate::error::Error;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout;
use crate::manifest::Manifest;
use crate::time::Time;
use bytes::Bytes;
use flott_checkpoint::{
    Append, AppendAction, AppendEvent, AppendOutcome, AttemptId, CheckpointEntry, Completed, ContestError, LogEntry,
    Slot,
};
use std::sync::Arc;
use std::time::Duration;

/// The pause before a manifest of unknown fate is written again.
const PAUSE: Duration = Duration::from_millis(100);

/// One checkpoint on its way into the log.
pub(super) struct Recorder {
    completed: Arc<Completed<SubtaskPart>>,
    path: String,
    bytes: Bytes,
    checksum: u64,
    step: Step,
    /// What follows the manifest.
    append: Append,
    calls: LogCalls,
}

enum Step {
    /// The manifest is being created.
    Manifest { ticket: Ticket, tries_left: u32 },
    /// It exists: is it ours?
    Comparing { ticket: Ticket, tries_left: u32 },
    /// Nobody knows: ask again at this time.
    Pausing { until: Time, tries_left: u32 },
    /// The slot is being appended.
    Slot,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Recorded {
    /// It is under way.
    Going,
    /// It is in the log, in this slot.
    InLog(Slot),
    /// The manifest could not be written, and the log was not touched.
    NotWritten(String),
    /// Nobody knows whether the slot is written.
    Unsettled,
    /// A newer attempt owns the log.
    Fenced(Option<AttemptId>),
    /// The log is damaged, or was taken away: nothing can be recorded.
    Lost(Error),
}

impl Recorder {
    pub(super) fn begin(
        completed: Arc<Completed<SubtaskPart>>,
        lineage: &Lineage,
        attempt: &Attempt,
        cx: &mut Cx<'_>,
    ) -> Recorder {
        let (id, owner) = (completed.barrier.id, completed.barrier.attempt);
        let manifest = super::record::manifest(&completed, lineage, attempt);
        let bytes = manifest.encode();
        let path = manifest.path();
        let checksum = Manifest::checksum(&bytes);
        let entry = LogEntry::Checkpoint(CheckpointEntry {
            slot: lineage.next_slot,
            id,
            attempt: owner,
            nonce: cx.desk.random(),
            parent: completed.parent,
            manifest: path.clone(),
            checksum,
        });
        let tries = cx.desk.settings.settle_tries;
        let append = Append::new(lineage.next_slot, entry, tries);
        let ticket = cx.ask(StorageRequest::Create { path: path.clone(), bytes: bytes.clone() });
        let step = Step::Manifest { ticket, tries_left: tries };
        Recorder { completed, path, bytes, checksum, step, append, calls: LogCalls::default() }
    }

    /// The checkpoint.
    pub(super) fn completed(&self) -> &Arc<Completed<SubtaskPart>> {
        &self.completed
    }

    /// The xxh3 of its manifest.
    pub(super) fn checksum(&self) -> u64 {
        self.checksum
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        match &self.step {
            Step::Manifest { ticket: mine, .. } | Step::Comparing { ticket: mine, .. } => *mine == ticket,
            Step::Pausing { .. } => false,
            Step::Slot => self.calls.waits_for(ticket),
        }
    }

    /// Its slot is in doubt.
    pub(super) fn is_unsettled(&self) -> bool {
        self.calls.is_unsettled()
    }

    pub(super) fn due(&self) -> Option<Time> {
        let own = match &self.step {
            Step::Pausing { until, .. } => Some(*until),
            _ => None,
        };
        earliest(own, self.calls.due())
    }

    pub(super) fn on_time(&mut self, cx: &mut Cx<'_>) {
        self.calls.on_time(cx);
        if let Step::Pausing { until, tries_left } = self.step
            && until <= cx.now
        {
            let ticket = cx.ask(StorageRequest::Create { path: self.path.clone(), bytes: self.bytes.clone() });
            self.step = Step::Manifest { ticket, tries_left };
        }
    }

    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Recorded {
        match (&self.step, reply) {
            (Step::Slot, reply) => self.on_slot(reply, cx),
            (Step::Manifest { .. }, StorageReply::Created) => self.append(cx),
            (&Step::Manifest { tries_left, .. }, StorageReply::Exists) => {
                let ticket = cx.ask(StorageRequest::Read { path: self.path.clone(), range: None });
                self.step = Step::Comparing { ticket, tries_left };
                Recorded::Going
            }
            (Step::Comparing { .. }, StorageReply::Read(found)) if found == self.bytes => self.append(cx),
            (Step::Comparing { .. }, StorageReply::Read(_)) => {
                Recorded::NotWritten(format!("{} is there already, with other content", self.path))
            }
            (&Step::Manifest { tries_left, .. }, StorageReply::Unknown(why)) => self.again(tries_left, why, cx),
            (&Step::Comparing { tries_left, .. }, StorageReply::NotFound) => {
                self.again(tries_left, format!("{} is said to exist, and not to be there", self.path), cx)
            }
            (_, StorageReply::Failed(why) | StorageReply::Obstructed(why)) => Recorded::NotWritten(why),
            (_, reply) => Recorded::NotWritten(format!("the storage answered {reply:?} about {}", self.path)),
        }
    }

    /// The fate of the manifest is unknown. It alone decides nothing, so it may be given up.
    fn again(&mut self, tries_left: u32, why: String, cx: &mut Cx<'_>) -> Recorded {
        match tries_left.checked_sub(1) {
            Some(tries_left) if tries_left > 0 => {
                self.step = Step::Pausing { until: cx.now.after(PAUSE), tries_left };
                Recorded::Going
            }
            _ => Recorded::NotWritten(why),
        }
    }

    /// The manifest is durable: now the slot, which decides.
    fn append(&mut self, cx: &mut Cx<'_>) -> Recorded {
        self.step = Step::Slot;
        let action = self.append.begin();
        self.obey(action, cx)
    }

    fn on_slot(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Recorded {
        let Some(answer) = self.calls.on_reply(reply, cx) else { return Recorded::Going };
        let event = match answer {
            LogAnswer::Created(outcome) => AppendEvent::Created(outcome),
            LogAnswer::Listed(slots) => AppendEvent::Listed(slots),
            LogAnswer::Read(slot, entry) => AppendEvent::Read { slot, entry },
            LogAnswer::Failed(_) => AppendEvent::Failed,
        };
        let action = self.append.on(event);
        self.obey(action, cx)
    }

    fn obey(&mut self, action: AppendAction, cx: &mut Cx<'_>) -> Recorded {
        match action {
            AppendAction::Create { slot, entry } => self.calls.create(slot, &entry, cx),
            AppendAction::List => self.calls.list(cx),
            AppendAction::Read(slot) => self.calls.read(slot, cx),
            AppendAction::Done(AppendOutcome::Recorded(slot)) => return Recorded::InLog(slot),
            AppendAction::Done(AppendOutcome::Fenced { by, .. }) => return Recorded::Fenced(by),
            AppendAction::Done(AppendOutcome::Unsettled(_)) => return Recorded::Unsettled,
            AppendAction::Done(AppendOutcome::Damaged { slot, error }) => {
                return Recorded::Lost(lost(&ContestError::Damaged { slot, error }));
            }
            AppendAction::Done(AppendOutcome::Gone(start)) => {
                let what = format!(
                    "the checkpoint directory was deleted or replaced while the job ran: {}, with which this attempt began, is gone",
                    layout::slot(start)
                );
                let hint = "nothing can be recorded any more, and what was recorded is lost: put the directory back, or move \
                            away what is left of it and start over with `--restore none --overwrite`";
                return Recorded::Lost(Error::unusable(what).hint(hint));
            }
        }
        Recorded::Going
    }
}
