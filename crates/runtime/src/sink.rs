//! Where records go. A [`Sink`] is a plan; a [`SinkWriter`] takes the records of one subtask on the worker's thread; a
//! [`Committer`] does what may block, elsewhere (rules S1-S6 of the recovery rules; Flink's two-phase commit sink).
//!
//! The engine keeps the tokens: every snapshot carries those of all epochs that are not known to be committed. A sink never
//! learns that a checkpoint was aborted, because nothing may be thrown away then: sources do not rewind.
//!
//! # A sink of your own
//! For a store with transactions there is [`crate::connector::staged`]: one trait of two methods. From scratch, the simplest exact
//! sink keeps an epoch's records in its token and writes them in one transaction of the target, together
//! with the token's name; a commit that finds the name there does nothing. Here the target is a map; the suite in
//! `testing::sink_suite` (feature `testing`) shows that nothing is lost or doubled, whatever fails.
//! ```
//! use flott_checkpoint::CheckpointId;
//! use flott_runtime::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Token};
//! use flott_runtime::time::Time;
//! use flott_runtime::{Error, Result};
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! /// Stands for a database: by token name, what was committed under it.
//! type Table = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;
//!
//! struct TableSink(Table);
//!
//! impl Sink<u64> for TableSink {
//!     type Writer = TableWriter;
//!
//!     fn open(&self, cx: &SinkContext) -> Result<TableWriter> {
//!         // Unique: an id that was recorded is never used again in an incarnation.
//!         Ok(TableWriter { prefix: format!("{}/{}/{}", cx.incarnation, cx.operator, cx.subtask), records: Vec::new() })
//!     }
//!
//!     fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
//!         Some(Arc::new(TableCommitter { table: self.0.clone(), ours: format!("{}/", cx.incarnation) }))
//!     }
//!
//!     fn is_transactional(&self) -> bool {
//!         true
//!     }
//! }
//!
//! struct TableWriter {
//!     prefix: String,
//!     records: Vec<u64>,
//! }
//!
//! impl SinkWriter<u64> for TableWriter {
//!     fn write(&mut self, record: u64, _: Time) -> Result<()> {
//!         self.records.push(record);
//!         Ok(())
//!     }
//!
//!     // In the cut: only moves what was collected.
//!     fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
//!         let epoch = Token { name: format!("{}/{id}", self.prefix), payload: Vec::new() };
//!         let records = std::mem::take(&mut self.records);
//!         if records.is_empty() { None } else { Some(Box::new((epoch, records))) }
//!     }
//! }
//!
//! struct TableCommitter {
//!     table: Table,
//!     ours: String,
//! }
//!
//! impl Committer for TableCommitter {
//!     fn claim(&self, overwrite: bool) -> Result<()> {
//!         match self.table.lock().unwrap().keys().find(|name| !name.starts_with(&self.ours)) {
//!             Some(name) if !overwrite => {
//!                 Err(Error::refused(format!("the table holds {name}")).hint("`--overwrite` replaces it"))
//!             }
//!             _ => Ok(()),
//!         }
//!     }
//!
//!     fn overwrite_foreign(&self) -> Result<()> {
//!         self.table.lock().unwrap().retain(|name, _| name.starts_with(&self.ours));
//!         Ok(())
//!     }
//!
//!     // Off the worker's thread, before the checkpoint is acknowledged. May be repeated.
//!     fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
//!         let (epoch, records) = sealed.downcast_ref::<(Token, Vec<u64>)>().expect("what our writer sealed");
//!         let payload = records.iter().flat_map(|record| record.to_le_bytes()).collect();
//!         Ok(vec![Token { payload, ..epoch.clone() }])
//!     }
//!
//!     // After the checkpoint is recorded, and again after every restore.
//!     fn commit(&self, token: &Token) -> Result<()> {
//!         let records = token.payload.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
//!         self.table.lock().unwrap().entry(token.name.clone()).or_insert(records);
//!         Ok(())
//!     }
//!
//!     // Nothing is staged outside of the tokens.
//!     fn clean(&self, _restored: &[Token]) -> Result<()> {
//!         Ok(())
//!     }
//! }
//! # #[cfg(feature = "testing")]
//! # {
//! # use flott_runtime::testing::{memory_files::MemoryFiles, sink_suite::{SinkCase, Visible, check_sink}};
//! # struct Case(Table);
//! # impl SinkCase for Case {
//! #     type Record = u64;
//! #     type Sink = TableSink;
//! #     fn new() -> Self { Case(Table::default()) }
//! #     fn sink(&self) -> TableSink { TableSink(self.0.clone()) }
//! #     fn record(&self, subtask: u16, n: u64) -> u64 { u64::from(subtask) << 32 | n }
//! #     fn visible(&self, _files: &MemoryFiles) -> Visible {
//! #         let mut epochs: Vec<(u64, Vec<u64>)> = self.0.lock().unwrap().iter()
//! #             .map(|(name, records)| (name.rsplit('/').next().unwrap().parse().unwrap(), records.clone())).collect();
//! #         epochs.sort();
//! #         let mut visible = Visible::new();
//! #         for record in epochs.into_iter().flat_map(|(_, records)| records) {
//! #             visible.entry((record >> 32) as u16).or_default().push(record & 0xFFFF_FFFF);
//! #         }
//! #         visible
//! #     }
//! # }
//! check_sink::<Case>();
//! # }
//! ```

use crate::error::{Error, Result};
use crate::io::Files;
use crate::manifest::AdoptedLife;
use crate::source::Waker;
use crate::time::Time;
use flott_checkpoint::{AttemptId, CheckpointId};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// A sink for records of type `T`.
pub trait Sink<T>: Send + Sync + 'static {
    /// Its writer.
    type Writer: SinkWriter<T>;

    /// Makes the writer of one subtask. Must not block; nothing may be visible outside before the first write.
    ///
    /// # Errors
    /// If the sink cannot be written to; ends the attempt.
    fn open(&self, cx: &SinkContext) -> Result<Self::Writer>;

    /// Makes the committer of one subtask; `None` for a sink that shows its output at once and has
    /// nothing to wait for.
    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>>;

    /// Whether output becomes visible only by a commit, exactly once. Decides the guarantee (contract 3).
    fn is_transactional(&self) -> bool;

    /// Where its output is, for messages: a directory, a table. `None` if there is no better word than its name.
    fn place(&self) -> Option<String> {
        None
    }
}

/// What a subtask's writer does, all on the worker's thread and without blocking.
pub trait SinkWriter<T> {
    /// Whether the next record can be taken; if not, the writer wakes its worker when it can.
    fn ready(&mut self) -> bool {
        true
    }

    /// Takes a record into the current epoch. `now` is the moment of the host's clock at which the step began, the only
    /// time that a writer may go by; it never goes back.
    ///
    /// # Errors
    /// If it cannot be written; ends the attempt.
    fn write(&mut self, record: T, now: Time) -> Result<()>;

    /// Ends the epoch, in the cut: O(1), no flush, no fsync. What is written later belongs to the next epoch. `None` if the
    /// epoch is empty. What is sealed is handed to [`Committer::prepare`].
    fn seal(&mut self, id: CheckpointId) -> Option<Sealed>;
}

/// What a writer sealed: its own business and its committer's.
pub type Sealed = Box<dyn Any + Send>;

/// The blocking half of a sink. Called off the worker's thread, one call at a time per subtask.
pub trait Committer: Send + Sync {
    /// Once per new incarnation of the job and before anything is written (R4): refuses a target that holds output of
    /// another incarnation. Called for subtask 0 alone. With `overwrite` it accepts it, and removes it in
    /// [`Committer::overwrite_foreign`] after the first commit.
    ///
    /// # Errors
    /// `Refused`, naming what is in the way.
    fn claim(&self, overwrite: bool) -> Result<()>;

    /// In place of [`Committer::claim`], when the job begins from a savepoint whose output it goes on with (`--claim`): accepts
    /// what these lives committed up to where they are gone on from, and refuses everything else of other incarnations. May be
    /// called again after their pending output was committed. A sink that cannot tell refuses, which is the default.
    ///
    /// # Errors
    /// `Refused`, naming what is in the way.
    fn adopt(&self, lives: &[AdoptedLife]) -> Result<()> {
        let _ = lives;
        Err(Error::refused("this kind of sink cannot go on with the output of another incarnation")
            .hint("leave out --claim, and write to a target of its own"))
    }

    /// Whether [`Committer::claim`] and [`Committer::adopt`] only look and change nothing outside: then a dry run asks them.
    fn claims_by_looking(&self) -> bool {
        false
    }

    /// Removes output of other incarnations; after the first commit, subtask 0 alone, only with `--overwrite`.
    ///
    /// # Errors
    /// If something cannot be removed; repeated with the next checkpoint.
    fn overwrite_foreign(&self) -> Result<()>;

    /// Makes a sealed epoch durable and names it. Before the ack; a failure is repeated with the next checkpoint, so
    /// `sealed` stays usable.
    ///
    /// # Errors
    /// Declines the checkpoint with this reason.
    fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>>;

    /// Makes output visible. Idempotent; repeated after every restore (S3). The tokens of one writer come in the order of its
    /// epochs, and none while an older one fails: here by the committer of the subtask that wrote them, after a restore by
    /// that of one subtask, perhaps another.
    ///
    /// # Errors
    /// Retried; `OutputDamaged` ends the job with code 5.
    fn commit(&self, token: &Token) -> Result<()>;

    /// Whether [`Committer::clean`] is to be called. False for a sink whose tokens hold all that is staged: then no worker reads
    /// the tokens of others at a restore.
    fn cleans(&self) -> bool {
        true
    }

    /// Removes staged output of older attempts of this incarnation that is in none of `restored`, after all of those are
    /// committed. Subtask 0 alone (S4).
    ///
    /// # Errors
    /// Ends the attempt.
    fn clean(&self, restored: &[Token]) -> Result<()>;
}

/// One prepared epoch, or a part of one; kept in the snapshot until it is known to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Unique for the sink.
    pub name: String,
    /// The sink's own content.
    #[serde(with = "bytes_as_bin")]
    pub payload: Vec<u8>,
}

/// What a sink may use.
#[derive(Clone)]
pub struct SinkContext {
    /// The job's name.
    pub job: String,
    /// The operator's name.
    pub operator: String,
    /// This subtask's index.
    pub subtask: u16,
    /// How many subtasks the sink has.
    pub parallelism: u16,
    /// The incarnation of the job: names output so that a new life of the job never collides with an old one.
    pub incarnation: String,
    /// The attempt: names staged output so that a zombie's never collides with ours.
    pub attempt: AttemptId,
    /// The checkpoint that the first epoch will belong to at the earliest.
    pub first_checkpoint: CheckpointId,
    /// The file system.
    pub files: Arc<dyn Files>,
    /// Where the print sink prints.
    pub stdout: Arc<dyn Stdout>,
    /// Wakes this subtask's worker.
    pub waker: Waker,
}

/// Where sinks print that show their output at once. A closure that never blocks is one.
pub trait Stdout: Send + Sync {
    /// Whether more should be written now; if not, the waker is called when it should.
    fn ready(&self, waker: &Waker) -> bool {
        let _ = waker;
        true
    }

    /// Takes whole lines, each with its line feed. Never blocks, and takes them also if it is not ready.
    fn write(&self, lines: &str);

    /// Whether every line has to be a JSON object, because events of the job stand beside it.
    fn wants_objects(&self) -> bool {
        false
    }

    /// Waits until everything that was written before is out, or nobody is there to read it. May block: not for a worker's
    /// thread.
    ///
    /// # Errors
    /// If that takes too long.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

impl<F: Fn(&str) + Send + Sync> Stdout for F {
    fn write(&self, lines: &str) {
        self(lines);
    }
}

mod bytes_as_bin {
    //! MessagePack `bin` for a token's payload, instead of an array of numbers.
    use serde::{Deserializer, Serializer, de::Visitor};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(bytes)
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}
