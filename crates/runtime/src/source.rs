//! Where records come from. A [`Source`] is a plan that every subtask holds; a [`SplitReader`] reads one split of it.
//!
//! Splits have stable names; each subtask keeps those that hash to it, and positions are stored by split name, so a job can be
//! resumed with another number of workers. The engine never asks a source to seek back while it runs: a restore opens anew.
//!
//! # A source of your own
//! It says which splits there are and where it stands in each; the engine does the rest. This one counts; the suite in
//! `testing::source_suite` (feature `testing`) checks that it resumes anywhere.
//! ```
//! use flott_runtime::Result;
//! use flott_runtime::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
//! use flott_runtime::time::Time;
//!
//! /// Gives out the numbers below a bound.
//! struct Numbers {
//!     below: u64,
//! }
//!
//! impl Source for Numbers {
//!     type Item = u64;
//!     /// The next number.
//!     type Position = u64;
//!
//!     fn splits(&self, _cx: &SourceContext) -> Result<Vec<String>> {
//!         Ok(vec!["numbers".to_owned()])
//!     }
//!
//!     fn open(&self, _split: &str, from: Option<u64>, _cx: &SourceContext) -> Result<BoxedReader<u64, u64>> {
//!         Ok(Box::new(Counter { next: from.unwrap_or(0), below: self.below }))
//!     }
//!
//!     fn is_bounded(&self) -> bool {
//!         true
//!     }
//! }
//!
//! struct Counter {
//!     next: u64,
//!     below: u64,
//! }
//!
//! impl SplitReader for Counter {
//!     type Item = u64;
//!     type Position = u64;
//!
//!     fn next(&mut self, _now: Time) -> Result<Next<u64>> {
//!         if self.next == self.below {
//!             return Ok(Next::End);
//!         }
//!         self.next += 1;
//!         Ok(Next::Record(self.next - 1, None))
//!     }
//!
//!     // Of the next unread record: what a checkpoint keeps, and what `open` gets back after a restore.
//!     fn position(&self) -> u64 {
//!         self.next
//!     }
//!
//!     fn describe(&self) -> String {
//!         format!("number {}", self.next - 1)
//!     }
//! }
//! # #[cfg(feature = "testing")]
//! # {
//! use flott_runtime::testing::{connector_contexts::source_context, memory_files::MemoryFiles, source_suite::check_source};
//!
//! let cx = source_context(std::sync::Arc::new(MemoryFiles::new()));
//! let read = check_source(&Numbers { below: 3 }, &cx);
//! assert_eq!(read, [("numbers".to_owned(), vec![0, 1, 2])]);
//! # }
//! ```

use crate::error::Result;
use crate::io::Files;
use crate::record::Record;
use crate::time::{Time, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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

    /// The counter of the records that its readers leave out because they cannot be read ([`Next::Skipped`]), if they may. It
    /// counts what this process has met, also again after a restart, and goes into no checkpoint.
    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        None
    }

    /// Whether every split ends by itself. If so a split is opened when those before it have nothing to give, else all splits
    /// are read in turns.
    fn is_bounded(&self) -> bool;
}

/// A source that can hand over what it cannot read, for a stream of dead letters.
pub trait DeadLetters: Source {
    /// The same source, whose readers give out [`Next::Unreadable`] where they would fail or leave a record out.
    #[must_use]
    fn with_dead_letters(self) -> Self;
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
    /// If the split cannot be read on; ends the attempt, and the message names the place. What a restart would meet again is
    /// an [`Error::invalid`](crate::Error::invalid), and ends the job.
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
    /// Nothing before this moment, or before the reader calls the waker of its [`SourceContext`]: it is not asked until then.
    At(Time),
    /// A record was left out, and the position is behind it: there may be more at once.
    Skipped,
    /// A record that cannot be read, and the position is behind it. Only of a source [`DeadLetters::with_dead_letters`].
    Unreadable(Box<Unreadable>),
    /// The end of the split.
    End,
}

/// A record that a source cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its bytes as text, without its line end; U+FFFD stands for what is not UTF-8.
    pub record: String,
    /// Where it is: "sales.csv, line 12, column `amount`".
    pub position: String,
    /// Why it cannot be read.
    pub error: String,
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
    /// Wakes this subtask's worker, and has the source's readers asked again, also those that said [`Next::At`].
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
