//! What an undisturbed run yields: a fold over the input, on one thread, without time.

use crate::checkpoints::InFlight;
use crate::jobs::operators::{by_key_and_origin, by_text};
use crate::jobs::{Job, Row, Shape, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// How many rows of each split were read.
pub type Prefix = BTreeMap<u32, u64>;

/// Rows of each stream, in order.
pub type Streams = BTreeMap<(u32, u64, u16), Vec<Row>>;

/// State by operator and state name, then by key as text.
pub type State = BTreeMap<&'static str, BTreeMap<String, Tally>>;

/// What a prefix of the input yields.
#[derive(Debug, Default)]
pub struct Yield {
    /// What comes out; behind timers, what comes out sooner or later.
    pub output: Streams,
    /// What is kept; nothing is said of timers.
    pub state: State,
}

/// All of the input.
#[must_use]
pub fn whole(job: &Job) -> Prefix {
    let origins = job.sources().flat_map(|source| job.origins(source));
    origins.map(|origin| (origin, job.rows_of(origin))).collect()
}

/// Folds a prefix of the input.
#[must_use]
pub fn fold(job: &Job, workers: u16, prefix: &Prefix) -> Yield {
    let mut result = Yield::default();
    for (&origin, &rows) in prefix {
        for serial in 0..rows {
            let row = job.row(origin, serial);
            match job.shape {
                Shape::Timers | Shape::Expiring => result.emit(row),
                Shape::Rules if origin >= 1_000 => {
                    (0..workers).for_each(|replica| result.rule(job, &row, replica));
                }
                Shape::Broadcast => (0..workers).for_each(|replica| result.replica(job, &row, replica)),
                Shape::TwoShuffles => {
                    let out = result.tally(job, "first", format!("{:?}", by_key_and_origin(&row)), &row);
                    let key = format!("{:?}", by_text(&out));
                    let out = result.tally(job, "tally", key, &out);
                    result.emit(out);
                }
                Shape::Count
                | Shape::Union
                | Shape::Rebalance
                | Shape::Maps
                | Shape::Lists
                | Shape::TwoInputs
                | Shape::Gather
                | Shape::Folds
                | Shape::Waiting
                | Shape::Rules => {
                    let out = result.tally(job, "tally", format!("{:?}", by_key_and_origin(&row)), &row);
                    result.emit(out);
                }
            }
        }
    }
    result
}

/// What a state becomes when all that was in flight has been taken: later hops first, each channel in order.
#[must_use]
pub fn settle(job: &Job, state: State, in_flight: &[InFlight]) -> State {
    let mut result = Yield { state, ..Yield::default() };
    for InFlight { edge, to, row } in in_flight {
        match (job.shape, edge) {
            (Shape::Timers, _) => {}
            (Shape::Broadcast, _) => result.replica(job, row, *to),
            (Shape::Rules, 1) => result.rule(job, row, *to),
            (Shape::TwoShuffles, 0) => {
                let out = result.tally(job, "first", format!("{:?}", by_key_and_origin(row)), row);
                result.tally(job, "tally", format!("{:?}", by_text(&out)), &out);
            }
            (Shape::TwoShuffles, _) => {
                result.tally(job, "tally", format!("{:?}", by_text(row)), row);
            }
            (_, _) => {
                result.tally(job, "tally", format!("{:?}", by_key_and_origin(row)), row);
            }
        }
    }
    result.state.retain(|_, kept| !kept.is_empty());
    result.state
}

impl Yield {
    fn emit(&mut self, row: Row) {
        self.output.entry(row.stream()).or_default().push(row);
    }

    fn tally(&mut self, job: &Job, operator: &'static str, key: String, row: &Row) -> Row {
        let kept = self.state.entry(operator).or_default();
        let (after, out) = job.tally(kept.remove(&key), row);
        if let Some(tally) = after {
            kept.insert(key, tally);
        }
        out
    }

    /// Which key a subtask keeps a broadcast row under depends on the hash, so it is named by replica here.
    fn replica(&mut self, job: &Job, row: &Row, replica: u16) {
        let key = format!("{replica}: {:?}", by_key_and_origin(row));
        let out = self.tally(job, "tally", key, row);
        self.emit(Row { replica, ..out });
    }

    /// What a subtask's copy keeps of a row that all get; nothing comes out.
    fn rule(&mut self, job: &Job, row: &Row, replica: u16) {
        self.tally(job, "rules", format!("{replica}: {:?}", by_key_and_origin(row)), row);
    }

    /// Every row that comes out, by what tells it from all others.
    #[must_use]
    pub fn identities(&self) -> BTreeSet<(u32, u64, u64, u16)> {
        self.output.values().flatten().map(identity).collect()
    }
}

/// What tells a row from all others.
#[must_use]
pub fn identity(row: &Row) -> (u32, u64, u64, u16) {
    (row.origin, row.serial, row.key, row.replica)
}
