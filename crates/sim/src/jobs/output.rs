//! Where simulated jobs write that do not write files: the memory sink, and a store with transactions whose answers get lost.

use super::Row;
use flott_runtime::connector::MemorySink;
use flott_runtime::connector::staged::{EpochMark, Rows, SinkLife, StagedStore};
use flott_runtime::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// An epoch that is visible: checkpoint, subtask, rows.
pub type Epoch = (u64, u64, Vec<Row>);

/// All of it. Clones share it.
#[derive(Clone, Default)]
pub struct Output {
    /// Of jobs that write there.
    pub memory: MemorySink<Row>,
    /// Of jobs that write there.
    pub store: Store,
}

impl Output {
    /// What is visible, in the order of epochs.
    #[must_use]
    pub fn epochs(&self) -> Vec<Epoch> {
        let memory = self.memory.epochs().into_iter();
        let mut epochs: Vec<Epoch> =
            memory.map(|(epoch, rows)| (epoch.checkpoint.0, epoch.subtask.into(), rows)).collect();
        epochs.extend(self.store.lock().epochs.iter().cloned());
        epochs.sort_by_key(|(checkpoint, subtask, _)| (*checkpoint, *subtask));
        epochs
    }
}

/// A store with transactions. Each one is atomic; now and then one is refused, or done and not answered.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    marks: BTreeMap<(SinkLife, u16), u64>,
    epochs: Vec<Epoch>,
    calls: u64,
}

impl Store {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StagedStore<Row> for Store {
    fn claim(&self, life: &SinkLife, _overwrite: bool) -> Result<()> {
        match self.lock().marks.keys().find(|(other, _)| other.incarnation != life.incarnation) {
            Some((other, _)) => Err(Error::refused(format!("the store holds output of {}", other.incarnation))),
            None => Ok(()),
        }
    }

    fn commit(&self, mark: &EpochMark, rows: Rows<'_, Row>) -> Result<()> {
        let rows = rows.collect::<Result<Vec<Row>>>()?;
        let mut state = self.lock();
        state.calls += 1;
        if state.calls.is_multiple_of(7) {
            return Err(Error::failed("the store is away"));
        }
        let newest = state.marks.entry((mark.life.clone(), mark.writer)).or_insert(0);
        if *newest < mark.epoch.0 {
            *newest = mark.epoch.0;
            state.epochs.push((mark.epoch.0, mark.writer.into(), rows));
        }
        if state.calls.is_multiple_of(5) { Err(Error::failed("the answer is lost")) } else { Ok(()) }
    }
}
