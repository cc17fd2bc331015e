//! Records and the batches in which they travel.
//!
//! A batch is typed inside a process and erased on a channel: a channel moves boxes, the two ends know the type.

use crate::error::{Error, Result};
use crate::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::io::Write;
use std::marker::PhantomData;
use std::vec::IntoIter;

/// What may cross a channel: it must be possible to encode it, so that a job that works on threads works in a cluster.
pub trait Record: Serialize + DeserializeOwned + Clone + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> Record for T {}

/// A record with its key: the sender evaluates `key_by` once and ships the hash (design D9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Keyed<K, T> {
    /// The seeded hash of the key; decides key group, subtask and bucket.
    pub hash: u64,
    /// The key.
    pub key: K,
    /// The record.
    pub value: T,
}

/// Records in order, with a timestamp column if they have event time. Reading takes records out, so a half-consumed
/// batch keeps its position by itself.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    records: IntoIter<T>,
    timestamps: Option<IntoIter<Timestamp>>,
}

impl<T> Batch<T> {
    /// A batch of records; a timestamp column is as long as the records.
    #[must_use]
    pub fn new(records: Vec<T>, timestamps: Option<Vec<Timestamp>>) -> Batch<T> {
        debug_assert!(timestamps.as_ref().is_none_or(|column| column.len() == records.len()));
        Batch { records: records.into_iter(), timestamps: timestamps.map(Vec::into_iter) }
    }

    /// The next record and its timestamp.
    #[inline]
    pub fn take(&mut self) -> Option<(T, Option<Timestamp>)> {
        let record = self.records.next()?;
        Some((record, self.timestamps.as_mut().and_then(Iterator::next)))
    }

    /// At most so many of the records that are left, in order.
    #[inline]
    #[must_use]
    pub fn upcoming(&self, most: usize) -> &[T] {
        let rest = self.records.as_slice();
        rest.get(..most).unwrap_or(rest)
    }

    /// How many records are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether all records are taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }
}

/// A batch whose type only the two ends of the channel know.
pub trait AnyBatch: Send {
    /// For the receiver, which knows the type.
    fn as_any(&mut self) -> &mut dyn Any;
    /// Records left.
    fn len(&self) -> usize;
    /// Whether no record is left.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends what is left in MessagePack (`[records, timestamps or nil]`, fields by name).
    ///
    /// # Errors
    /// If a record's own `Serialize` fails.
    fn encode(&self, out: &mut Vec<u8>) -> Result<()>;
}

impl<T: Record> AnyBatch for Batch<T> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        Batch::len(self)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let columns = (self.records.as_slice(), self.timestamps.as_ref().map(|column| column.as_slice()));
        rmp_serde::encode::write_named(out, &columns)
            .map_err(|error| Error::invalid(format!("cannot encode a record: {error}")))
    }
}

/// How batches of one edge are decoded; encoding needs no help, the batch knows its type.
pub trait BatchCodec: Send + Sync {
    /// Reads what [`AnyBatch::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are not a batch of this edge's type. Never panics, and allocates no more than the bytes justify.
    fn decode(&self, bytes: &[u8]) -> Result<Box<dyn AnyBatch>>;
}

/// The codec of batches of `T`.
pub struct TypedCodec<T>(PhantomData<fn() -> T>);

impl<T> Default for TypedCodec<T> {
    fn default() -> Self {
        TypedCodec(PhantomData)
    }
}

impl<T: Record> BatchCodec for TypedCodec<T> {
    fn decode(&self, bytes: &[u8]) -> Result<Box<dyn AnyBatch>> {
        let (records, timestamps): (Vec<T>, Option<Vec<Timestamp>>) =
            crate::messagepack::from_slice(bytes).map_err(|error| {
                Error::failed(format!("cannot decode a batch of {}: {error}", std::any::type_name::<T>()))
            })?;
        if timestamps.as_ref().is_some_and(|column| column.len() != records.len()) {
            return Err(Error::failed("cannot decode a batch: its timestamp column has another length"));
        }
        Ok(Box::new(Batch::new(records, timestamps)))
    }
}

/// The bytes that a record counts for against the credits of its channel: its size in memory, or its encoded size if it
/// owns heap memory and that is larger.
#[inline]
pub fn weight<T: Record>(record: &T) -> usize {
    if !std::mem::needs_drop::<T>() {
        return size_of::<T>();
    }
    let mut counter = Counter(0);
    // A record that cannot be encoded is reported by whoever has to encode it; here its own size must do.
    let _ = rmp_serde::encode::write(&mut counter, record);
    counter.0.max(size_of::<T>())
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
