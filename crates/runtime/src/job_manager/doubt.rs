//! Before output or a checkpoint is called damaged: does this attempt still own the job?
//!
//! A process that was stopped for a while may miss what a newer attempt has collected, committed or overwritten since. Then
//! nothing is damaged, it is fenced, and what a user would do about damage would hurt the newer one. So the head of the log is
//! looked at first. It changes nothing, and if it gets no answer, the damage stands.

use super::desk::Cx;
use super::log_calls::{LogAnswer, LogCalls};
use crate::io::{StorageReply, Ticket};
use flott_checkpoint::AttemptId;

/// A look at the head of the log.
pub(super) struct Doubt {
    own: AttemptId,
    calls: LogCalls,
}

/// Who owns the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// This attempt, as far as anybody knows.
    Ourselves,
    /// A newer one.
    Newer(AttemptId),
}

impl Doubt {
    pub(super) fn begin(own: AttemptId, cx: &mut Cx<'_>) -> Doubt {
        let mut calls = LogCalls::default();
        calls.list(cx);
        Doubt { own, calls }
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.calls.waits_for(ticket)
    }

    /// Takes an answer; `None` while it still looks.
    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Option<Owner> {
        match self.calls.on_reply(reply, cx)? {
            LogAnswer::Listed(slots) => match slots.into_iter().max() {
                Some(head) => {
                    self.calls.read(head, cx);
                    None
                }
                None => Some(Owner::Ourselves),
            },
            // Every entry at the head is of the attempt that won the last Start.
            LogAnswer::Read(_, Some(Ok(entry))) if entry.attempt() > self.own => Some(Owner::Newer(entry.attempt())),
            LogAnswer::Read(..) | LogAnswer::Created(_) | LogAnswer::Failed(_) => Some(Owner::Ourselves),
        }
    }
}
