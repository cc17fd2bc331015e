//! Collects once, for a tool, in a directory whose job may be running: only what attempts below the current one left.
//!
//! What goes is decided as in the job: what a retained checkpoint, its bases, a pin or the current attempt needs, stays. How
//! many are retained is not written anywhere, so whoever asks says it. A dry run asks the same questions and deletes nothing.

use super::{Collected, Collector};
use crate::error::{Error, Result};
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout::{self, Name};
use crate::pin::Pin;
use crate::savepoint::{log_entry, slots, why};
use crate::time::Time;
use flott_checkpoint::{AttemptId, CheckpointId, InUse, LiteSet, LogEntry, Slot};
use litemap::LiteMap;
use std::collections::VecDeque;

/// What a collection did, or would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// The attempt that owns the log; nothing of it was touched.
    pub attempt: AttemptId,
    /// What was deleted, in this order, with its length in bytes.
    pub deleted: Vec<(String, u64)>,
    /// Why more is there than is needed, or what could not be done.
    pub incomplete: Option<String>,
    /// Readers that hold checkpoints: the pin's path, which checkpoint, and who it is.
    pub pins: Vec<(String, CheckpointId, String)>,
}

/// Deletes what nobody needs and attempts below the current one have left. `retained` checkpoints of the current line are kept.
///
/// # Errors
/// `Refused` for a savepoint and where there is no log; `Failed` if the log is damaged, or if another attempt began meanwhile.
pub async fn collect_beside(storage: &StorageServer, retained: u32, now: Time, dry_run: bool) -> Result<Sweep> {
    let lengths = list(storage, "").await?;
    if lengths.contains_key(layout::SAVEPOINT) {
        return Err(
            Error::refused("this is a savepoint: all of it is needed").hint("delete the directory if nobody wants it")
        );
    }
    let in_use = in_use(storage, retained).await?;
    let attempt = in_use.attempt;
    let mut collector = Collector::beside(attempt, 0);
    let (mut asked, mut deleted) = (Vec::new(), Vec::new());
    collector.collect(in_use, now, &mut asked);
    let mut queue: VecDeque<(Ticket, StorageRequest)> = asked.drain(..).collect();
    let ended = loop {
        let Some((ticket, request)) = queue.pop_front() else {
            return Err(Error::failed("the collection came to no end"));
        };
        let reply = match &request {
            StorageRequest::Delete { .. } if dry_run => StorageReply::Done,
            _ => storage.serve(request.clone()).await,
        };
        if let (StorageRequest::Delete { path }, StorageReply::Done) = (request, &reply) {
            let length = lengths.get(&path).copied().unwrap_or(0);
            deleted.push((path, length));
        }
        if let Some(ended) = collector.on(ticket, reply, &mut asked) {
            break ended;
        }
        queue.extend(asked.drain(..));
    };
    let incomplete = match ended {
        Collected::Done { .. } => None,
        Collected::Incomplete { reason, .. } => Some(reason),
        Collected::Fenced => {
            return Err(Error::failed("another attempt of the job began meanwhile: nothing more was deleted")
                .hint("ask again, if it is still wanted"));
        }
    };
    Ok(Sweep { attempt, deleted, incomplete, pins: pins(storage, &lengths).await })
}

/// What the log says is in use.
async fn in_use(storage: &StorageServer, retained: u32) -> Result<InUse> {
    let damaged = |slot: Slot, what: String| {
        Error::failed(format!("nothing is collected: {} is unusable: {what}", layout::slot(slot)))
    };
    let Some(head) = slots(storage).await?.last().copied() else {
        return Err(Error::refused("there is no log: nobody knows what is needed"));
    };
    let entry = match log_entry(storage, head).await? {
        Some(Ok(entry)) => entry,
        Some(Err(what)) => return Err(damaged(head, what)),
        None => return Err(Error::failed("the log changed while it was looked at").hint("ask again")),
    };
    let attempt = entry.attempt();
    let start = match log_entry(storage, Slot(attempt.0)).await? {
        Some(Ok(LogEntry::Start(start))) => start,
        Some(Err(what)) => return Err(damaged(Slot(attempt.0), what)),
        _ => return Err(damaged(Slot(attempt.0), "it is not the Start of the current attempt".to_owned())),
    };
    let newest = match entry {
        LogEntry::Checkpoint(entry) => Some(entry.id),
        LogEntry::Start(_) => start.restored_from,
    };
    let restored_from = start.restored_from;
    Ok(InUse { attempt, newest, restored_from, pending: None, pins: LiteSet::default(), retained })
}

async fn pins(storage: &StorageServer, lengths: &LiteMap<String, u64>) -> Vec<(String, CheckpointId, String)> {
    let mut pins = Vec::new();
    for path in lengths.keys().filter(|path| matches!(layout::parse(path), Some(Name::Pin(_)))) {
        let request = StorageRequest::Read { path: path.clone(), range: None };
        if let StorageReply::Read(bytes) = storage.serve(request).await
            && let Ok(pin) = Pin::decode(path, &bytes)
        {
            pins.push((path.clone(), pin.checkpoint, pin.holder));
        }
    }
    pins
}

async fn list(storage: &StorageServer, prefix: &str) -> Result<LiteMap<String, u64>> {
    match storage.serve(StorageRequest::List { prefix: prefix.to_owned() }).await {
        StorageReply::Listed(objects) => Ok(objects.into_iter().collect()),
        other => Err(Error::failed(why(other))),
    }
}
