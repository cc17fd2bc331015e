//! Exactly-once output into any store with transactions (rule S5): the records of an epoch wait in the checkpoint itself, and
//! a commit writes them and the mark of the epoch in one transaction of the store, or nothing if the mark is there.
//!
//! Nothing is staged in the store, so no transaction of it has to outlive anything, and nothing has to be cleaned up. A sink
//! for a store is one small trait, [`StagedStore`]; everything else is here.
//!
//! Records wait encoded and compressed, in memory and in the segment; how much may wait is bounded
//! ([`StagedSink::max_staged_bytes`]). They are unpacked a chunk at a time. See `docs/decisions/018`.

mod epoch;
#[cfg(test)]
mod tests;

pub use epoch::Rows;

use crate::error::{Error, Result};
use crate::record::Record;
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Token};
use crate::time::Time;
use epoch::EpochBuffer;
use flott_checkpoint::CheckpointId;
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So much may wait in one subtask, if nothing else is said.
const MAX_STAGED: u64 = 256 << 20;

/// A life of one sink: what a store's content belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SinkLife {
    /// The job's name.
    pub job: String,
    /// The sink operator's name.
    pub sink: String,
    /// The incarnation of the job: a job that starts over has another.
    pub incarnation: String,
}

/// Stands in the store for an epoch whose records are there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EpochMark {
    /// Whose epoch.
    pub life: SinkLife,
    /// The subtask that wrote it.
    pub writer: u16,
    /// The checkpoint that it was sealed for. Those of one writer grow, and are committed in that order: a store need keep no
    /// more than the greatest of each writer.
    pub epoch: CheckpointId,
}

impl fmt::Display for EpochMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SinkLife { job, sink, incarnation } = &self.life;
        write!(f, "{job}/{sink}/{incarnation}/{}/{}", self.writer, self.epoch)
    }
}

/// A store with transactions, for records of type `T`. All calls may block, and may come from several threads.
pub trait StagedStore<T>: Send + Sync + 'static {
    /// A new life of the job begins: makes ready what commits need, and refuses a store that holds marks of another life of
    /// this job and sink. With `overwrite` it removes that life's records and keeps its commits from coming late. Called again
    /// if the attempt fails before its first checkpoint.
    ///
    /// # Errors
    /// `Refused`, naming what is in the way or does not fit.
    fn claim(&self, life: &SinkLife, overwrite: bool) -> Result<()>;

    /// Writes the records of an epoch and its mark in one transaction; nothing if the writer's mark is there with this epoch or
    /// a later one. It is repeated after a failure whose outcome is unknown, after every restore, and perhaps by a process that was
    /// stopped for long while a newer one has done its work.
    ///
    /// # Errors
    /// `Failed` is tried again with growing pauses; any other kind ends the job.
    fn commit(&self, mark: &EpochMark, rows: Rows<'_, T>) -> Result<()>;

    /// Where it is, for messages: a database and table. Without secrets.
    fn place(&self) -> Option<String> {
        None
    }
}

/// A sink that writes into a [`StagedStore`]. Transactional.
pub struct StagedSink<T, S> {
    store: Arc<S>,
    max_staged: u64,
    of: PhantomData<fn(T)>,
}

impl<T, S> Clone for StagedSink<T, S> {
    fn clone(&self) -> Self {
        StagedSink { store: Arc::clone(&self.store), max_staged: self.max_staged, of: PhantomData }
    }
}

impl<T: Record, S: StagedStore<T>> StagedSink<T, S> {
    /// A sink into a store.
    #[must_use]
    pub fn new(store: S) -> StagedSink<T, S> {
        StagedSink { store: Arc::new(store), max_staged: MAX_STAGED, of: PhantomData }
    }

    /// How many bytes may wait in one subtask for their commit, encoded and compressed; 256 MiB if not set. When there are more
    /// the attempt ends and the job restarts from its last checkpoint: nothing is lost, but checkpoints have to be taken more
    /// often. A sink cannot make its input wait instead: the barrier that would free it waits behind the records.
    #[must_use]
    pub fn max_staged_bytes(mut self, bytes: u64) -> Self {
        self.max_staged = bytes.max(1);
        self
    }
}

fn life(cx: &SinkContext) -> SinkLife {
    SinkLife { job: cx.job.clone(), sink: cx.operator.clone(), incarnation: cx.incarnation.clone() }
}

impl<T: Record, S: StagedStore<T>> Sink<T> for StagedSink<T, S> {
    type Writer = StagedWriter<T>;

    fn open(&self, cx: &SinkContext) -> Result<StagedWriter<T>> {
        Ok(StagedWriter {
            life: life(cx),
            writer: cx.subtask,
            buffer: EpochBuffer::default(),
            waiting: Arc::default(),
            max_staged: self.max_staged,
            of: PhantomData,
        })
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        let (store, waiting) = (Arc::clone(&self.store), Mutex::default());
        Some(Arc::new(StagedCommitter { store, life: life(cx), waiting, of: PhantomData }))
    }

    fn is_transactional(&self) -> bool {
        true
    }

    fn place(&self) -> Option<String> {
        self.store.place()
    }
}

/// Collects the epochs of one subtask.
pub struct StagedWriter<T> {
    life: SinkLife,
    writer: u16,
    buffer: EpochBuffer,
    /// Bytes of sealed epochs that are not committed.
    waiting: Arc<AtomicU64>,
    max_staged: u64,
    of: PhantomData<fn(T)>,
}

/// A sealed epoch on its way to the committer.
struct SealedEpoch {
    mark: EpochMark,
    buffer: EpochBuffer,
    waiting: Arc<AtomicU64>,
}

impl<T: Record> SinkWriter<T> for StagedWriter<T> {
    fn write(&mut self, record: T, _now: Time) -> Result<()> {
        self.buffer.push(&record)?;
        let staged = self.buffer.bytes() + self.waiting.load(Ordering::Relaxed);
        if staged > self.max_staged {
            return Err(Error::failed(format!(
                "{staged} bytes of output wait for their checkpoint, more than the {} that may",
                self.max_staged
            ))
            .hint("take checkpoints more often, find out why they do not complete, or raise `max_staged_bytes`"));
        }
        Ok(())
    }

    fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.rows() == 0 {
            return None;
        }
        self.waiting.fetch_add(buffer.bytes(), Ordering::Relaxed);
        let mark = EpochMark { life: self.life.clone(), writer: self.writer, epoch: id };
        Some(Box::new(SealedEpoch { mark, buffer, waiting: Arc::clone(&self.waiting) }))
    }
}

struct StagedCommitter<T, S> {
    store: Arc<S>,
    life: SinkLife,
    /// What this attempt prepared and did not commit: the bytes of each epoch, and the account that they are on.
    waiting: Mutex<LiteMap<CheckpointId, (u64, Arc<AtomicU64>)>>,
    of: PhantomData<fn(T)>,
}

impl<T: Record, S: StagedStore<T>> Committer for StagedCommitter<T, S> {
    fn claim(&self, overwrite: bool) -> Result<()> {
        self.store.claim(&self.life, overwrite)
    }

    /// Was done when the store was claimed: a table cannot tell the rows of two lives apart afterwards.
    fn overwrite_foreign(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
        let sealed = sealed.downcast_ref::<SealedEpoch>().expect("a staged sink gets back what its writer sealed");
        let payload = sealed.buffer.encode(&sealed.mark)?;
        let account = (sealed.buffer.bytes(), Arc::clone(&sealed.waiting));
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(sealed.mark.epoch, account);
        Ok(vec![Token { name: sealed.mark.to_string(), payload }])
    }

    fn commit(&self, token: &Token) -> Result<()> {
        let (mark, rows) = epoch::decode::<T>(token)?;
        self.store.commit(&mark, rows)?;
        // What was restored is on no account.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if mark.life == self.life
            && let Some((bytes, account)) = waiting.remove(&mark.epoch)
        {
            account.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn cleans(&self) -> bool {
        false
    }

    fn clean(&self, _restored: &[Token]) -> Result<()> {
        Ok(())
    }
}
