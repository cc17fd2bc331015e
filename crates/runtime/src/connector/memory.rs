//! A source and a sink in memory, for tests and first steps.
//!
//! The sink's output outlives the job that writes it: it is in a handle that the test keeps.

use crate::error::{Error, Result};
use crate::manifest::AdoptedLife;
use crate::record::Record;
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Token};
use crate::source::{BoxedReader, Next, Source, SourceContext, SplitReader};
use crate::time::{Time, Timestamp};
use flott_checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// A record of a [`MemorySource`] and its event time.
type Timed<T> = (T, Option<Timestamp>);

/// Gives out records that it was made with. Replayable, bounded.
pub struct MemorySource<T> {
    splits: Vec<Mutex<Vec<Timed<T>>>>,
}

impl<T: Record> MemorySource<T> {
    /// One split with these records.
    #[must_use]
    pub fn new(records: Vec<T>) -> MemorySource<T> {
        MemorySource::with_splits(vec![records])
    }

    /// A split for each list, named `0`, `1`, ….
    #[must_use]
    pub fn with_splits(splits: Vec<Vec<T>>) -> MemorySource<T> {
        let untimed = |records: Vec<T>| Mutex::new(records.into_iter().map(|record| (record, None)).collect());
        MemorySource { splits: splits.into_iter().map(untimed).collect() }
    }

    /// Takes the event time of each record from it.
    #[must_use]
    pub fn timestamp(mut self, of: impl Fn(&T) -> Timestamp) -> Self {
        for split in &mut self.splits {
            for (record, timestamp) in split.get_mut().unwrap_or_else(PoisonError::into_inner) {
                *timestamp = Some(of(record));
            }
        }
        self
    }
}

impl<T: Record> Source for MemorySource<T> {
    type Item = T;
    /// How many records the split gave out.
    type Position = usize;

    fn splits(&self, _cx: &SourceContext) -> Result<Vec<String>> {
        Ok((0..self.splits.len()).map(|index| index.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<usize>, _cx: &SourceContext) -> Result<BoxedReader<T, usize>> {
        let records = split.parse().ok().and_then(|index: usize| self.splits.get(index));
        let records = records.ok_or_else(|| Error::unusable(format!("the memory source has no split `{split}`")))?;
        let next = from.unwrap_or(0);
        let records = records.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = records.get(next..).unwrap_or_default().to_vec().into_iter();
        Ok(Box::new(MemoryReader { split: split.to_owned(), rest, next }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

struct MemoryReader<T> {
    split: String,
    rest: std::vec::IntoIter<Timed<T>>,
    next: usize,
}

impl<T> SplitReader for MemoryReader<T> {
    type Item = T;
    type Position = usize;

    fn next(&mut self, _now: Time) -> Result<Next<T>> {
        let Some((record, timestamp)) = self.rest.next() else { return Ok(Next::End) };
        self.next += 1;
        Ok(Next::Record(record, timestamp))
    }

    fn position(&self) -> usize {
        self.next
    }

    fn describe(&self) -> String {
        format!("memory split {}, record {}", self.split, self.next)
    }
}

/// Keeps what is committed in memory. Transactional: an epoch's records are in its token, so a commit can be repeated by
/// anybody. Clones share the output.
pub struct MemorySink<T> {
    output: Arc<Mutex<Output<T>>>,
}

impl<T> Clone for MemorySink<T> {
    fn clone(&self) -> Self {
        MemorySink { output: self.output.clone() }
    }
}

impl<T> Default for MemorySink<T> {
    fn default() -> Self {
        MemorySink { output: Arc::new(Mutex::new(Output { epochs: BTreeMap::new(), order: Vec::new(), repeated: 0 })) }
    }
}

struct Output<T> {
    /// By token name: the incarnation, and the records.
    epochs: BTreeMap<String, (Epoch, Vec<T>)>,
    /// The names in the order of their commits.
    order: Vec<String>,
    repeated: u64,
}

/// A committed epoch of one subtask of a [`MemorySink`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The sink operator's name.
    pub sink: String,
    /// The incarnation of the job.
    pub incarnation: String,
    /// The checkpoint that the epoch was sealed for.
    pub checkpoint: CheckpointId,
    /// The subtask that wrote it.
    pub subtask: u16,
}

impl<T: Record> MemorySink<T> {
    /// A sink without output.
    #[must_use]
    pub fn new() -> MemorySink<T> {
        MemorySink::default()
    }

    fn lock(&self) -> MutexGuard<'_, Output<T>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All committed records, in the order of commits.
    #[must_use]
    pub fn committed(&self) -> Vec<T> {
        self.epochs().into_iter().flat_map(|(_, records)| records).collect()
    }

    /// All committed epochs, in the order of commits.
    #[must_use]
    pub fn epochs(&self) -> Vec<(Epoch, Vec<T>)> {
        let output = self.lock();
        output.order.iter().filter_map(|name| output.epochs.get(name).cloned()).collect()
    }

    /// How many commits came for an epoch that was committed already.
    #[must_use]
    pub fn repeated_commits(&self) -> u64 {
        self.lock().repeated
    }
}

impl<T: Record> Sink<T> for MemorySink<T> {
    type Writer = MemoryWriter<T>;

    fn open(&self, cx: &SinkContext) -> Result<MemoryWriter<T>> {
        Ok(MemoryWriter {
            sink: cx.operator.clone(),
            incarnation: cx.incarnation.clone(),
            subtask: cx.subtask,
            records: Vec::new(),
        })
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        let (sink, incarnation) = (cx.operator.clone(), cx.incarnation.clone());
        Some(Arc::new(MemoryCommitter { output: self.clone(), sink, incarnation }))
    }

    fn is_transactional(&self) -> bool {
        true
    }
}

/// Collects the records of one subtask's epoch.
pub struct MemoryWriter<T> {
    sink: String,
    incarnation: String,
    subtask: u16,
    records: Vec<T>,
}

impl<T: Record> SinkWriter<T> for MemoryWriter<T> {
    fn write(&mut self, record: T, _now: Time) -> Result<()> {
        self.records.push(record);
        Ok(())
    }

    fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
        if self.records.is_empty() {
            return None;
        }
        let (sink, incarnation) = (self.sink.clone(), self.incarnation.clone());
        let epoch = Epoch { sink, incarnation, checkpoint: id, subtask: self.subtask };
        Some(Box::new((epoch, std::mem::take(&mut self.records))))
    }
}

struct MemoryCommitter<T> {
    output: MemorySink<T>,
    sink: String,
    incarnation: String,
}

impl<T: Record> MemoryCommitter<T> {
    fn is_foreign(&self, epoch: &Epoch) -> bool {
        epoch.sink == self.sink && epoch.incarnation != self.incarnation
    }
}

impl<T: Record> Committer for MemoryCommitter<T> {
    fn claim(&self, overwrite: bool) -> Result<()> {
        let output = self.output.lock();
        match output.epochs.values().find(|(epoch, _)| self.is_foreign(epoch)) {
            Some((epoch, _)) if !overwrite => Err(Error::refused(format!(
                "the memory sink `{}` holds output of incarnation {}",
                self.sink, epoch.incarnation
            ))
            .hint("`--overwrite` replaces it")),
            _ => Ok(()),
        }
    }

    fn adopt(&self, lives: &[AdoptedLife]) -> Result<()> {
        let output = self.output.lock();
        let is_adopted = |epoch: &Epoch| {
            lives.iter().any(|life| life.incarnation == epoch.incarnation && epoch.checkpoint <= life.up_to)
        };
        let mut foreign = output.epochs.values().filter(|(epoch, _)| self.is_foreign(epoch) && !is_adopted(epoch));
        match foreign.next() {
            Some((epoch, _)) => Err(Error::refused(format!(
                "the memory sink `{}` holds output of incarnation {} up to checkpoint {}, later than what is restored",
                self.sink, epoch.incarnation, epoch.checkpoint
            ))),
            None => Ok(()),
        }
    }

    fn claims_by_looking(&self) -> bool {
        true
    }

    fn overwrite_foreign(&self) -> Result<()> {
        let mut output = self.output.lock();
        output.epochs.retain(|_, (epoch, _)| !self.is_foreign(epoch));
        let Output { epochs, order, .. } = &mut *output;
        order.retain(|name| epochs.contains_key(name));
        Ok(())
    }

    fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
        let (epoch, records) =
            sealed.downcast_ref::<(Epoch, Vec<T>)>().expect("a memory sink gets back what its writer sealed");
        let payload = rmp_serde::to_vec_named(&(epoch, records))
            .map_err(|error| Error::failed(format!("cannot encode a record: {error}")))?;
        let Epoch { sink, incarnation, checkpoint, subtask } = epoch;
        Ok(vec![Token { name: format!("{incarnation}/{checkpoint}/{subtask}/{sink}"), payload }])
    }

    fn commit(&self, token: &Token) -> Result<()> {
        let (epoch, records): (Epoch, Vec<T>) = crate::messagepack::from_slice(&token.payload).map_err(|error| {
            Error::unusable(format!("token `{}` of a memory sink cannot be read: {error}", token.name))
        })?;
        let mut output = self.output.lock();
        if output.epochs.contains_key(&token.name) {
            output.repeated += 1;
        } else {
            output.order.push(token.name.clone());
            output.epochs.insert(token.name.clone(), (epoch, records));
        }
        Ok(())
    }

    fn clean(&self, _restored: &[Token]) -> Result<()> {
        Ok(())
    }
}
