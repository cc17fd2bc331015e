//! The jobs that are simulated: small, with every kind of edge, and made so that what they must yield is known.
//!
//! Every record carries where it came from and its number there. Where order is kept from a split to a sink, each key of each
//! split has a chain of hashes, so that a lost, doubled or swapped record changes everything behind it.

pub mod input;
pub mod operators;
pub mod output;
mod plans;
pub mod process;
pub mod source;

pub use plans::plan;

use flott_runtime::testing::Random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Key groups of all jobs: few, so that groups are full and split over the workers.
pub const KEY_GROUPS: u16 = 16;
/// Where the file sink writes.
pub const OUTPUT: &str = "out";

/// The one type of record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The split it came from: 1000 times the source, plus the split.
    pub origin: u32,
    /// Its number there, from 0.
    pub serial: u64,
    /// Its key.
    pub key: u64,
    /// Behind a broadcast: which subtask's copy this is.
    pub replica: u16,
    /// How many rows of this key and origin came so far.
    pub count: u64,
    /// The chain of hashes over them.
    pub chain: u64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { origin, serial, key, replica, count, chain } = self;
        write!(f, "{origin} {serial} {key} {replica} {count} {chain:x}")
    }
}

impl Row {
    /// Reads a line of the file sink.
    #[must_use]
    pub fn parse(line: &str) -> Option<Row> {
        let mut fields = line.split(' ');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (origin, serial, key) = (u32::try_from(number()?).ok()?, number()?, number()?);
        let (replica, count) = (u16::try_from(number()?).ok()?, number()?);
        let chain = u64::from_str_radix(fields.next()?, 16).ok()?;
        fields.next().is_none().then_some(Row { origin, serial, key, replica, count, chain })
    }

    /// Rows of one stream stay in order, if the job keeps order.
    #[must_use]
    pub fn stream(&self) -> (u32, u64, u16) {
        (self.origin, self.key, self.replica)
    }
}

/// What is kept for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Rows so far.
    pub count: u64,
    /// The chain of hashes over them; where order is not kept, their sum.
    pub chain: u64,
}

/// SplitMix64's finish: what chains and sums are made of.
#[must_use]
pub fn mix(number: u64) -> u64 {
    Random::new(number).draw()
}

/// What the graph looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A keyed tally behind a shuffle.
    Count,
    /// Two sources, one of which ends early, into one tally.
    Union,
    /// A tally, and another one behind a second shuffle.
    TwoShuffles,
    /// Round robin to a stateless vertex, then a tally that cares for no order.
    Rebalance,
    /// Every subtask gets everything.
    Broadcast,
    /// Every row waits for a processing-time timer of its own.
    Timers,
    /// The tallies of a key in a map.
    Maps,
    /// Tallies kept as lists.
    Lists,
    /// As `Union`, with an operator of two inputs.
    TwoInputs,
    /// Rows of a key are gathered before the shuffle.
    Gather,
    /// Tallies that expire; the rows pass as they are.
    Expiring,
    /// A keyed tally beside a second source that every subtask gets, and keeps tallies of in a copy of its own.
    Rules,
    /// The tally is an aggregate.
    Folds,
    /// Rows wait in the list of the worker that read them, before the shuffle; a tally that cares for no order.
    Waiting,
}

impl Shape {
    /// Those that a seed draws from. What came later is drawn apart, so that seeds mean what they meant.
    pub const DRAWN: [Shape; 12] = [
        Shape::Count,
        Shape::Union,
        Shape::TwoShuffles,
        Shape::Rebalance,
        Shape::Broadcast,
        Shape::Timers,
        Shape::Maps,
        Shape::Lists,
        Shape::TwoInputs,
        Shape::Gather,
        Shape::Expiring,
        Shape::Rules,
    ];

    /// Whether the tally of a key is a sum that cares for no order.
    #[must_use]
    pub fn sums(self) -> bool {
        matches!(self, Shape::Rebalance | Shape::Waiting)
    }

    /// Whether rows of a stream reach the sink in order, in a run without failures.
    #[must_use]
    pub fn keeps_order(self) -> bool {
        !self.sums() && self != Shape::Timers
    }
}

/// Where the rows come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A source that makes them up.
    Made,
    /// Files of JSON lines, one a split.
    Files {
        /// They are compressed.
        gzip: bool,
        /// Each comes so long after the one before, into a directory that is watched; without it all are there.
        watched: Option<Duration>,
    },
}

/// Where the rows go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkKind {
    /// The file sink, on the file system in memory.
    Files {
        /// Another part is begun at so many bytes.
        part_size: u64,
        /// Another part is begun at this age.
        part_age: Duration,
    },
    /// The memory sink.
    Memory,
    /// The staged sink, into a store with transactions.
    Staged,
}

/// One job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The graph.
    pub shape: Shape,
    /// Splits of each source.
    pub splits: u32,
    /// Rows of a whole split; some splits are shorter.
    pub rows: u64,
    /// Different keys.
    pub keys: u64,
    /// Every so manieth row of a split deletes the state of its key; 0: none does.
    pub delete_every: u64,
    /// Time between two rows of a split.
    pub pause: Duration,
    /// A tally takes no further row for so long after each: rows wait in queues.
    pub slow: Duration,
    /// The source says that it ends by itself: its splits are read one after the other.
    pub bounded: bool,
    /// How long a timer waits, or a value lives.
    pub timer: Duration,
    /// Where the rows come from.
    pub input: Input,
    /// Every so manieth line of a file cannot be read: its row comes as a dead letter; 0: none.
    pub broken_every: u64,
    /// All files are there.
    pub all_there: Arc<AtomicBool>,
    /// The sink.
    pub sink: SinkKind,
    /// The next row that is read cannot be read: the attempt fails, the next one can.
    pub fails_next: Arc<AtomicBool>,
}

impl Job {
    /// The sources: their numbers.
    #[must_use]
    pub fn sources(&self) -> std::ops::Range<u32> {
        if matches!(self.shape, Shape::Union | Shape::TwoInputs | Shape::Rules) { 0..2 } else { 0..1 }
    }

    /// The origins of a source.
    pub fn origins(&self, source: u32) -> impl Iterator<Item = u32> + use<> {
        (0..self.splits).map(move |split| source * 1_000 + split)
    }

    /// How many rows a split has.
    #[must_use]
    pub fn rows_of(&self, origin: u32) -> u64 {
        let early = if origin >= 1_000 { 5 } else { 1 };
        let quarters = 1 + mix(u64::from(origin) + self.rows) % 4;
        (self.rows * quarters / 4 / early).max(2)
    }

    /// A row of a split.
    #[must_use]
    pub fn row(&self, origin: u32, serial: u64) -> Row {
        let key = mix(serial ^ (u64::from(origin) << 32)) % self.keys;
        Row { origin, serial, key, replica: 0, count: 0, chain: 0 }
    }

    /// Whether the line of a row cannot be read.
    #[must_use]
    pub fn is_broken(&self, serial: u64) -> bool {
        self.broken_every > 0 && serial % self.broken_every == self.broken_every - 1
    }

    /// Whether a row deletes what is kept for its key.
    #[must_use]
    pub fn deletes(&self, row: &Row) -> bool {
        self.delete_every > 0 && row.serial % self.delete_every == self.delete_every - 1
    }

    /// What a row makes of what was kept for its key: what is kept then, and the row that goes on.
    #[must_use]
    pub fn tally(&self, before: Option<Tally>, row: &Row) -> (Option<Tally>, Row) {
        if self.shape.sums() {
            let Tally { count, chain } = before.unwrap_or_default();
            let sum = chain.wrapping_add(mix(row.serial ^ (u64::from(row.origin) << 40)));
            return (Some(Tally { count: count + 1, chain: sum }), row.clone());
        }
        if self.deletes(row) {
            return (None, Row { count: 0, chain: 0, ..row.clone() });
        }
        let Tally { count, chain } = before.unwrap_or_default();
        let kept = Tally { count: count + 1, chain: mix(chain ^ mix(row.serial) ^ row.chain) };
        let out = Row { count: kept.count, chain: kept.chain, ..row.clone() };
        (Some(kept), out)
    }
}
