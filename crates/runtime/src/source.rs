//! Where records come from. A [`Source`] is a plan that every subtask holds; a [`SplitReader`] reads one split of it.
//!
//! Splits have stable names; each subtask keeps those that hash to it, and positions are stored by split name, so a job can be
//! resumed with another number of workers. The engine never asks a source to seek back while it runs: a restore opens anew.

use crate::error::Result;
use crate::io::Files;
use crate::record::Record;
use crate::time::{Time, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Wakes the worker that polls a source; cheap, callable from any thread, never blocks.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A source of records.
///
/// # Guarantees
/// If [`Source::is_replayable`], a reader opened at a position must give out exactly the records that the reader which
/// stored it would have given out next. That is what exactly-once rests on (the engine cannot check it).
pub trait Source: Send + Sync + 'static {
    /// What it gives out.
    type Item: Record;
    /// Where a split stands. Kept in the manifest as JSON.
    type Position: Serialize + DeserializeOwned + Clone + Send + 'static;

    /// The names of all splits, the same in every subtask. Called once at the first start; afterwards the list of the first
    /// checkpoint holds.
    ///
    /// # Errors
    /// If the source cannot be reached; ends the attempt.
    fn splits(&self, cx: &SourceContext) -> Result<Vec<String>>;

    /// Opens one split, from its beginning or from a stored position. Must not block for long.
    ///
    /// # Errors
    /// If the split is gone or is not what it was when the position was stored.
    fn open(
        &self,
        split: &str,
        from: Option<Self::Position>,
        cx: &SourceContext,
    ) -> Result<BoxedReader<Self::Item, Self::Position>>;

    /// Whether a reader can be opened at a stored position. A socket cannot.
    fn is_replayable(&self) -> bool {
        true
    }

    /// Whether every split ends by itself. Only for messages and the check of D12; the engine copes with both.
    fn is_bounded(&self) -> bool;
}

/// A reader of one split, boxed.
pub type BoxedReader<T, P> = Box<dyn SplitReader<Item = T, Position = P>>;

/// Reads one split. Lives on a worker's thread; `next` must not block.
pub trait SplitReader {
    /// What it gives out.
    type Item;
    /// Where it stands.
    type Position;

    /// The next record, or why there is none now.
    ///
    /// # Errors
    /// If the split cannot be read on; ends the attempt, and the message names the place.
    fn next(&mut self, now: Time) -> Result<Next<Self::Item>>;

    /// The position of the next unread record. Called in the cut: must not block.
    fn position(&self) -> Self::Position;

    /// Where the record last given out came from, for messages: "flights.csv, line 12".
    fn describe(&self) -> String;
}

/// An answer of [`SplitReader::next`].
#[derive(Debug, PartialEq)]
pub enum Next<T> {
    /// A record, with its event time if it has one.
    Record(T, Option<Timestamp>),
    /// Nothing now; the reader calls the waker of its [`SourceContext`] when there is more.
    Pending,
    /// Nothing before this moment.
    At(Time),
    /// The end of the split.
    End,
}

/// What a source may use.
#[derive(Clone)]
pub struct SourceContext {
    /// The operator's name.
    pub operator: String,
    /// This subtask's index.
    pub subtask: u16,
    /// How many subtasks the source has.
    pub parallelism: u16,
    /// The file system.
    pub files: Arc<dyn Files>,
    /// Starts a thread of its own for a reader that can only block (a socket). It should end when the reader is dropped.
    pub threads: Arc<dyn Threads>,
    /// Wakes this subtask's worker.
    pub waker: Waker,
}

/// The only way for a connector to get a thread.
pub trait Threads: Send + Sync {
    /// Runs `body` on a thread of that name.
    ///
    /// # Errors
    /// If the system has no thread to give.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<()>;
}
