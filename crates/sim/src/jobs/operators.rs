//! The operators of the simulated jobs, as the users' library builds its own: on chains and declared state.

use super::{Job, KEY_GROUPS, Row, Tally};
use flott_runtime::error::{Error, Result};
use flott_runtime::key::{Key, hash_key, key_group, owner};
use flott_runtime::operator::{Context, Next, Operator, Signal};
use flott_runtime::record::Keyed;
use flott_runtime::state::{AnyValue, ValueState};
use flott_runtime::time::Timestamp;
use std::sync::Arc;

/// A row under the key that its state has.
pub type KeyedRow<K> = Keyed<K, Row>;

fn state_failed(error: impl std::fmt::Display) -> Error {
    Error::failed(error.to_string())
}

/// The key of a tally: the row's key and origin, so that order matters and is kept.
#[must_use]
pub fn by_key_and_origin(row: &Row) -> (u64, u32) {
    (row.key, row.origin)
}

/// The same as text: another hash, hence another shuffle, for the same streams.
#[must_use]
pub fn by_text(row: &Row) -> String {
    format!("{}/{}", row.key, row.origin)
}

/// The key of a timer: the row itself.
#[must_use]
pub fn by_serial(row: &Row) -> (u64, u32) {
    (row.serial, row.origin)
}

/// Puts a key and its hash to each row.
pub struct KeyBy<K> {
    /// The job's secret.
    pub seed: u64,
    /// The key of a row.
    pub key: fn(&Row) -> K,
    /// The rest of the chain.
    pub next: Next<KeyedRow<K>>,
}

impl<K: Key> Operator<Row> for KeyBy<K> {
    fn on_record(&mut self, value: Row, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let key = (self.key)(&value);
        let hash = hash_key(self.seed, &key).map_err(state_failed)?;
        self.next.on_record(Keyed { hash, key, value }, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

impl Job {
    fn hold(&self, cx: &mut Context<'_>) {
        if !self.slow.is_zero() {
            cx.hold_until(cx.now.after(self.slow));
        }
    }
}

/// Tallies the rows of each key.
pub struct Count<K> {
    /// What a row does to a tally.
    pub job: Arc<Job>,
    /// By key.
    pub state: AnyValue<K, Tally>,
    /// The rest of the chain.
    pub next: Next<Row>,
}

impl<K: Key> Operator<KeyedRow<K>> for Count<K> {
    fn on_record(&mut self, record: KeyedRow<K>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.job.hold(cx);
        let Keyed { hash, key, value } = record;
        let before = self.state.get(hash, &key).map_err(state_failed)?;
        let (after, out) = self.job.tally(before, &value);
        match after {
            Some(tally) => self.state.update(hash, key, Tally::default, |kept| *kept = tally).map_err(state_failed)?,
            None => {
                self.state.remove(hash, &key).map_err(state_failed)?;
            }
        }
        self.next.on_record(out, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

/// Tallies everything that a broadcast brings, under a key that this subtask owns.
pub struct Replica {
    /// What a row does to a tally.
    pub job: Arc<Job>,
    /// The job's secret.
    pub seed: u64,
    /// This subtask.
    pub index: u16,
    /// How many there are.
    pub workers: u16,
    /// By key and origin.
    pub state: AnyValue<(u64, u32), Tally>,
    /// The rest of the chain.
    pub next: Next<Row>,
}

impl Replica {
    /// The first key from a row's own key on, in steps, that lies in a key group of this subtask.
    fn own_key(&self, row: &Row) -> Result<(u64, (u64, u32))> {
        let keys = (0..).map(|step| (row.key + step * self.job.keys, row.origin));
        for key in keys {
            let hash = hash_key(self.seed, &key).map_err(state_failed)?;
            let group = key_group(hash, KEY_GROUPS);
            if owner(group, KEY_GROUPS, self.workers.into()) == u32::from(self.index) {
                return Ok((hash, key));
            }
        }
        unreachable!("every worker owns key groups")
    }
}

impl Operator<Row> for Replica {
    fn on_record(&mut self, row: Row, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.job.hold(cx);
        let (hash, key) = self.own_key(&row)?;
        let before = self.state.get(hash, &key).map_err(state_failed)?;
        let (after, out) = self.job.tally(before, &row);
        match after {
            Some(tally) => self.state.put(hash, key, tally).map_err(state_failed)?,
            None => {
                self.state.remove(hash, &key).map_err(state_failed)?;
            }
        }
        self.next.on_record(Row { replica: self.index, ..out }, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
