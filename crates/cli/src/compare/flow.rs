//! The records of a comparison: numbers that come on a schedule that does not wait, as in a log that others write to.
//!
//! When nothing holds it, record `n` is due `n / rate` after the beginning, also after a crash: whoever is late has to catch
//! up, and being late shows. The end is not known beforehand; it is set once, and then it is the same for every attempt.

use flott::connector::{BoxedReader, Next, Source, SourceContext, SplitReader, Time};
use flott::{Error, Result};
use flott_runtime::io::clock::SystemClock;
use flott_runtime::time::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Splits of the flow; enough that their hashes spread over two workers.
const SPLITS: u16 = 16;

/// Records between the place where the end is set and the place where it is. A split gives out far fewer in the moment that
/// it takes to set it.
const AHEAD: u64 = 10_000;

/// What the source, the sink and whoever watches share.
pub(super) struct Flow {
    clock: SystemClock,
    began: Time,
    /// Records a second; `None`: as fast as they are taken.
    rate: Option<f64>,
    splits: [Split; SPLITS as usize],
    /// Whether pauses are looked for.
    watched: AtomicBool,
    longest_pause: AtomicU64,
    crash: AtomicBool,
    ended: AtomicBool,
}

/// One of the splits that the records are dealt to in turn.
struct Split {
    /// How many records it has in all; `u64::MAX` until somebody says so.
    records: AtomicU64,
    /// The most that it has given out.
    given: AtomicU64,
}

impl Default for Split {
    fn default() -> Split {
        Split { records: AtomicU64::new(u64::MAX), given: AtomicU64::new(0) }
    }
}

impl Flow {
    pub(super) fn new(rate: Option<f64>) -> Arc<Flow> {
        let clock = SystemClock::new();
        Arc::new(Flow {
            clock,
            began: clock.now(),
            rate,
            splits: Default::default(),
            watched: AtomicBool::new(false),
            longest_pause: AtomicU64::new(0),
            crash: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.clock.now().since(self.began)
    }

    /// When a record was due; `None` if records have no schedule.
    pub(super) fn due(&self, number: u64) -> Option<Duration> {
        Some(Duration::from_secs_f64(number as f64 / self.rate?))
    }

    /// Sets the end of each split a little ahead of what it gave out so far, so that none has passed it before it hears of it.
    pub(super) fn end(&self) {
        for split in &self.splits {
            split.records.store(split.given.load(Ordering::Relaxed) + AHEAD, Ordering::Release);
        }
        self.ended.store(true, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn end_at(&self, records_of_a_split: u64) {
        self.splits.iter().for_each(|split| split.records.store(records_of_a_split, Ordering::Release));
    }

    /// Whether the end is not set yet.
    pub(super) fn is_open(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    /// All records there are, if the end is set, else those given out: what an undisturbed run counts.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.splits.iter().zip(0u64..).flat_map(|(split, index)| {
            let records = match split.records.load(Ordering::Acquire) {
                u64::MAX => split.given.load(Ordering::Relaxed),
                records => records,
            };
            (0..records).map(move |record| record * u64::from(SPLITS) + index)
        })
    }

    /// Looks for pauses from now on, or no more.
    pub(super) fn watch(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// The longest time for which a split gave out nothing while it was watched.
    pub(super) fn longest_pause(&self) -> Duration {
        Duration::from_nanos(self.longest_pause.load(Ordering::Relaxed))
    }

    /// The next record that asks will end the attempt.
    pub(super) fn crash(&self) {
        self.crash.store(true, Ordering::Relaxed);
    }

    /// Whether to crash now; says yes once.
    pub(super) fn is_doomed(&self) -> bool {
        self.crash.load(Ordering::Relaxed) && self.crash.swap(false, Ordering::Relaxed)
    }
}

/// The source.
pub(super) struct Numbers(pub(super) Arc<Flow>);

impl Source for Numbers {
    type Item = u64;
    /// Records given out.
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok((0..SPLITS).map(|split| split.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        let index = split.parse().ok().filter(|index| *index < usize::from(SPLITS));
        let index = index.ok_or_else(|| Error::unusable(format!("there is no split `{split}`")))?;
        Ok(Box::new(Reader { flow: Arc::clone(&self.0), index, next: from.unwrap_or(0), last: None }))
    }

    /// Nobody knows yet where it ends, and no split may be left behind.
    fn is_bounded(&self) -> bool {
        false
    }
}

struct Reader {
    flow: Arc<Flow>,
    index: usize,
    next: u64,
    /// When it gave out its last record.
    last: Option<Duration>,
}

impl Reader {
    fn split(&self) -> &Split {
        self.flow.splits.get(self.index).expect("checked when it was opened")
    }

    fn given(&mut self, now: Duration) {
        self.next += 1;
        self.split().given.fetch_max(self.next, Ordering::Relaxed);
        if let Some(last) = self.last.replace(now)
            && self.flow.watched.load(Ordering::Relaxed)
        {
            let pause = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
            self.flow.longest_pause.fetch_max(pause, Ordering::Relaxed);
        }
    }
}

impl SplitReader for Reader {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Next<u64>> {
        if self.next >= self.split().records.load(Ordering::Acquire) {
            return Ok(Next::End);
        }
        let number = self.next * u64::from(SPLITS) + self.index as u64;
        let elapsed = self.flow.elapsed();
        if let Some(due) = self.flow.due(number)
            && elapsed < due
        {
            return Ok(Next::At(now.after(due - elapsed)));
        }
        self.given(elapsed);
        Ok(Next::Record(number, None))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("split {}, record {}", self.index, self.next)
    }
}
