//! What a worker would restore, read as a restore reads it and kept nowhere: does every entry fit the types of this job?
//!
//! The chains are built as for a run, for they know the types; no source and no sink is opened, nothing is written, and a few
//! blocks are in memory at a time, however large the state is; and what was in flight for the worker.

use super::restore::Restoring;
use crate::attempt::Attempt;
use crate::error::Result;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::outbox::Outbox;
use crate::subtask::Subtask;
use flott_checkpoint::SubtaskId;
use std::sync::Arc;

/// See the head of this file.
pub struct Look {
    subtasks: Vec<Subtask>,
    restoring: Restoring,
}

impl Look {
    /// For one worker of an attempt that [looks only](crate::attempt::Restore::looks_only).
    ///
    /// # Errors
    /// If a chain cannot be built.
    ///
    /// # Panics
    /// If the attempt does more than look.
    pub fn new(attempt: &Arc<Attempt>, index: u16) -> Result<Look> {
        assert!(attempt.looks_only(), "an attempt that runs restores into its state");
        let build = |vertex| Subtask::build(attempt, SubtaskId { vertex, index }, Arc::new(|| {}));
        let vertices = u16::try_from(attempt.plan.vertices.len()).expect("a plan has fewer vertices than u16 holds");
        let subtasks = (0..vertices).map(build).collect::<Result<_>>()?;
        Ok(Look { subtasks, restoring: Restoring::new(attempt, index) })
    }

    /// What is to be read next; `None` if everything was read and fits.
    ///
    /// # Errors
    /// What does not fit.
    pub fn advance(&mut self) -> Result<Option<Vec<(Ticket, StorageRequest)>>> {
        let mut outbox = Outbox::default();
        let done = self.restoring.advance(&mut self.subtasks, &mut outbox)?;
        Ok((!done).then_some(outbox.storage))
    }

    /// An answer of the storage.
    ///
    /// # Errors
    /// What is damaged or does not fit.
    pub fn on_reply(&mut self, ticket: Ticket, reply: StorageReply) -> Result<()> {
        self.restoring.on_reply(ticket, reply)
    }
}
