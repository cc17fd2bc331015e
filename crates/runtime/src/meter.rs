//! What one subtask has done: records, bytes and time, for whoever watches.
//!
//! The subtask counts in plain cells of its own and adds them here once a step. Nothing is decided by it, and a number may be a
//! step old.

use flott_checkpoint::lite_map;
use litemap::LiteMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The meter of one subtask, over all attempts of the process.
#[derive(Debug, Default)]
pub struct Meter {
    records_in: AtomicU64,
    records_out: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    busy: AtomicU64,
    backpressured: AtomicU64,
    idle: AtomicU64,
    channels_without_credit: AtomicU64,
    least_credit: AtomicI64,
    watermark: AtomicI64,
    hot: Mutex<Option<Arc<dyn HotKeys>>>,
}

/// Something that knows the heaviest keys of a subtask.
pub(crate) trait HotKeys: Send + Sync {
    /// What it knows now.
    fn read(&self) -> Hot;
}

impl std::fmt::Debug for dyn HotKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.read())
    }
}

/// The heaviest keys of one operator in one subtask, of its last million records or so, by samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Hot {
    /// The operator.
    pub operator: String,
    /// Records that were looked at.
    pub samples: u64,
    /// Keys with at least a hundredth of the samples, heaviest first, as text, and the share of the samples that they have at
    /// least. At most 16.
    pub keys: Vec<(String, f64)>,
}

/// Stands for none.
const NONE: i64 = i64::MIN;

/// What a subtask adds after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Portion {
    /// Records that its chain took; of a source, those that it gave out.
    pub records_in: u64,
    /// Records that it sent, to each receiver, and that its sinks took.
    pub records_out: u64,
    /// Weight of the records that came in by channels, in bytes.
    pub bytes_in: u64,
    /// Weight of the records that it sent, in bytes.
    pub bytes_out: u64,
    /// Microseconds within steps.
    pub busy: u64,
    /// Microseconds between steps without credit.
    pub backpressured: u64,
    /// Other microseconds between steps: it has nothing to do, or another subtask of its worker is at work.
    pub idle: u64,
}

/// What a meter shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// All portions so far.
    pub sum: Portion,
    /// Output channels without credit.
    pub channels_without_credit: u64,
    /// The credit of the output channel that has least, in bytes; looked at some times a second.
    pub least_credit: Option<i64>,
    /// The watermark, in milliseconds since the epoch.
    pub watermark: Option<i64>,
}

impl Meter {
    /// Adds what a step did.
    pub(crate) fn add(&self, portion: Portion) {
        let add = |counter: &AtomicU64, count: u64| {
            if count > 0 {
                counter.fetch_add(count, Relaxed);
            }
        };
        add(&self.records_in, portion.records_in);
        add(&self.records_out, portion.records_out);
        add(&self.bytes_in, portion.bytes_in);
        add(&self.bytes_out, portion.bytes_out);
        add(&self.busy, portion.busy);
        add(&self.backpressured, portion.backpressured);
        add(&self.idle, portion.idle);
    }

    /// Says how the subtask stands.
    pub(crate) fn stand(&self, channels_without_credit: u32, watermark: Option<i64>) {
        self.channels_without_credit.store(channels_without_credit.into(), Relaxed);
        self.watermark.store(watermark.unwrap_or(NONE), Relaxed);
    }

    /// Says how much credit the output channel with the least has.
    pub(crate) fn credit(&self, least: Option<i64>) {
        self.least_credit.store(least.unwrap_or(NONE), Relaxed);
    }

    /// From now on the heaviest keys are known there.
    pub(crate) fn watch(&self, keys: Arc<dyn HotKeys>) {
        *self.hot.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }

    /// The heaviest keys, if the subtask has keys.
    #[must_use]
    pub fn hot(&self) -> Option<Hot> {
        let keys = self.hot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        keys.map(|keys| keys.read())
    }

    /// What it shows now.
    #[must_use]
    pub fn read(&self) -> Reading {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        Reading {
            sum: Portion {
                records_in: load(&self.records_in),
                records_out: load(&self.records_out),
                bytes_in: load(&self.bytes_in),
                bytes_out: load(&self.bytes_out),
                busy: load(&self.busy),
                backpressured: load(&self.backpressured),
                idle: load(&self.idle),
            },
            channels_without_credit: load(&self.channels_without_credit),
            least_credit: Some(self.least_credit.load(Relaxed)).filter(|credit| *credit != NONE),
            watermark: Some(self.watermark.load(Relaxed)).filter(|watermark| *watermark != NONE),
        }
    }
}

/// The meters of one worker, by vertex.
#[derive(Debug, Default)]
pub struct Meters(Mutex<LiteMap<u16, Arc<Meter>>>);

impl Meters {
    /// The meter of a vertex's subtask; the same in all attempts.
    pub fn of(&self, vertex: u16) -> Arc<Meter> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let none = || AtomicI64::new(NONE);
        let fresh = || Arc::new(Meter { watermark: none(), least_credit: none(), ..Meter::default() });
        Arc::clone(all.entry(vertex).or_insert_with(fresh))
    }

    /// The heaviest keys of each vertex that has keys.
    #[must_use]
    pub fn hot(&self) -> LiteMap<u16, Hot> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lite_map(all.iter().filter_map(|(vertex, meter)| Some((*vertex, meter.hot()?))))
    }

    /// What all of them show, by vertex.
    #[must_use]
    pub fn read(&self) -> LiteMap<u16, Reading> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lite_map(all.iter().map(|(vertex, meter)| (*vertex, meter.read())))
    }
}
