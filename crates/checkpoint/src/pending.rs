//! The one pending checkpoint (D17): who has taken the trigger, whose part is durable, what is still missing.
//!
//! It only keeps book. Time-outs, repeats and what follows from a complete set of parts are the coordinator's.

use crate::barrier::{Barrier, Kind};
use crate::guarantee::Guarantee;
use crate::ids::{CheckpointId, SubtaskId};
use crate::lite::LiteSet;
use crate::message::{Ack, Completed, Part, RequestId};
use litemap::LiteMap;

/// What is known of a checkpoint once all its parts are durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Written {
    pub(crate) full: bool,
    pub(crate) finished: bool,
    pub(crate) bytes: u64,
    pub(crate) acked_at: u64,
}

/// What an ack meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Its part is new; others are missing.
    Part,
    /// Its part was the last one.
    Last,
    /// The part was there already.
    Repeated,
    /// It builds on a checkpoint that the barrier did not name.
    WrongBase,
}

/// A checkpoint that was triggered and is not resolved.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pending<P> {
    pub(crate) barrier: Barrier,
    pub(crate) request: Option<RequestId>,
    /// `None`: parts are missing, and it can be aborted. Else manifest and slot are being written: it may be in the log
    /// already, so nothing may abort it (L5).
    pub(crate) written: Option<Written>,
    untaken: LiteSet<SubtaskId>,
    missing: LiteSet<SubtaskId>,
    parts: LiteMap<SubtaskId, Part<P>>,
}

impl<P> Pending<P> {
    pub(crate) fn new(
        barrier: Barrier,
        request: Option<RequestId>,
        sources: LiteSet<SubtaskId>,
        subtasks: LiteSet<SubtaskId>,
    ) -> Pending<P> {
        let parts = LiteMap::new_vec();
        Pending { barrier, request, written: None, untaken: sources, missing: subtasks, parts }
    }

    pub(crate) fn id(&self) -> CheckpointId {
        self.barrier.id
    }

    /// A source took the trigger; whether that was news. A part or a decline says so too.
    pub(crate) fn trigger_taken(&mut self, source: SubtaskId) -> bool {
        self.untaken.remove(&source)
    }

    /// Sources to which the trigger must be repeated.
    pub(crate) fn untaken(&self) -> impl Iterator<Item = SubtaskId> + '_ {
        self.untaken.iter().copied()
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = SubtaskId> + '_ {
        self.missing.iter().copied()
    }

    pub(crate) fn take(&mut self, ack: Ack<P>, now: u64) -> Taken {
        if !self.missing.contains(&ack.subtask) {
            return Taken::Repeated;
        }
        if ack.base.is_some() && ack.base != self.barrier.base {
            return Taken::WrongBase;
        }
        self.untaken.remove(&ack.subtask);
        self.missing.remove(&ack.subtask);
        let Ack { subtask, base, finished, bytes, part, .. } = ack;
        self.parts.insert(subtask, Part { subtask, base, finished, bytes, acked_at: now, part });
        if self.missing.is_empty() { Taken::Last } else { Taken::Part }
    }

    /// Hands out what the manifest needs; from now on it is being recorded.
    pub(crate) fn complete(&mut self, parent: Option<CheckpointId>, guarantee: Guarantee, now: u64) -> Completed<P> {
        let parts: Vec<Part<P>> = std::mem::take(&mut self.parts).into_iter().map(|(_, part)| part).collect();
        let completed = Completed {
            barrier: self.barrier,
            parent,
            guarantee,
            full: parts.iter().all(|part| part.base.is_none()),
            finished: self.barrier.kind == Kind::Final && parts.iter().all(|part| part.finished),
            acked_at: now,
            parts,
        };
        let Completed { full, finished, acked_at, .. } = completed;
        self.written = Some(Written { full, finished, bytes: completed.bytes(), acked_at });
        completed
    }
}
