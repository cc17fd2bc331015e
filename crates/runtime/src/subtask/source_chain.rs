//! The head of a chain that reads a source: its splits, and where each of them stands.
//!
//! Splits of a bounded source are read one after the other, in the order of their names, so that a thousand files need one
//! open file; those of an unbounded source are read in turn.

use crate::control::SplitPart;
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::owner_of_name;
use crate::operator::part::DeadLetter;
use crate::operator::{Chain, Context, Next, Signal};
use crate::record::AnyBatch;
use crate::source::{BoxedReader, Next as Read, Source, SourceContext, Unreadable, Waker};
use crate::subtask::SourcePort;
use crate::time::Time;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// Records taken from one split of an unbounded source before it is the next one's turn.
const TURN: u32 = 128;

/// What came of pulling at a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pulled {
    /// There may be more at once.
    More,
    /// The step may take no more.
    Stopped,
    /// Nothing now; the waker tells, or this moment comes.
    Wait(Option<Time>),
    /// All splits are at their end.
    End,
}

pub(super) struct SourceChain<S: Source> {
    operator: String,
    source: Arc<S>,
    cx: SourceContext,
    /// In the order of their names.
    splits: Vec<Split<S>>,
    turn: usize,
    next: Next<S::Item>,
    taken: Rc<Cell<u64>>,
    mark: Mark,
    beside: Option<Beside>,
    /// No split has anything before this moment, unless a reader calls the waker.
    waits_until: Option<Time>,
    woken: Arc<AtomicBool>,
}

/// Where records go that the source cannot read, and how many went there in this process.
pub(super) struct Beside {
    pub(super) next: Next<DeadLetter<String>>,
    pub(super) count: Arc<AtomicU64>,
}

struct Split<S: Source> {
    name: String,
    state: SplitState<S>,
}

enum SplitState<S: Source> {
    /// Not opened yet in this attempt.
    Waiting(Option<S::Position>),
    Reading(BoxedReader<S::Item, S::Position>),
    /// At its end, which is this position (none if it was restored so).
    Finished(Option<serde_json::Value>),
}

impl<S: Source> SourceChain<S> {
    pub(super) fn new(
        operator: &str,
        source: Arc<S>,
        cx: SourceContext,
        next: Next<S::Item>,
        taken: Rc<Cell<u64>>,
        mark: Mark,
    ) -> SourceChain<S> {
        let woken = Arc::<AtomicBool>::default();
        let waker: Waker = {
            let (woken, wake) = (Arc::clone(&woken), cx.waker);
            Arc::new(move || {
                woken.store(true, Ordering::Release);
                wake();
            })
        };
        let (operator, cx) = (operator.to_owned(), SourceContext { waker, ..cx });
        let (splits, turn, beside, waits_until) = (Vec::new(), 0, None, None);
        SourceChain { operator, source, cx, splits, turn, next, taken, mark, beside, waits_until, woken }
    }

    /// What cannot be read goes this way.
    pub(super) fn with_dead_letters(self, beside: Beside) -> SourceChain<S> {
        SourceChain { beside: Some(beside), ..self }
    }

    fn restored(&self, name: String, part: SplitPart) -> Result<Split<S>> {
        let state = if part.finished {
            SplitState::Finished(Some(part.position))
        } else if part.position.is_null() {
            SplitState::Waiting(None)
        } else {
            let position = serde_json::from_value(part.position).map_err(|error| {
                Error::unusable(format!("the stored position of split `{name}` is not one of this source: {error}"))
                    .at_operator(&self.operator)
                    .hint("restore with the source that wrote it, or start over with --restore none --overwrite")
            })?;
            SplitState::Waiting(Some(position))
        };
        Ok(Split { name, state })
    }

    /// A split at its beginning. A split that will be opened later is looked at now, so that the first checkpoint knows what it was
    /// and a change before it is read is noticed as any other.
    fn beginning(&self, name: String) -> Result<Split<S>> {
        let later = self.source.is_bounded() && self.source.is_replayable();
        let position = if later {
            let reader = self.source.open(&name, None, &self.cx).map_err(|error| error.at_operator(&self.operator))?;
            Some(reader.position())
        } else {
            None
        };
        Ok(Split { name, state: SplitState::Waiting(position) })
    }

    /// Reads from the split whose turn it is; says what became of it.
    fn pull_split(&mut self, budget: u32, cx: &mut Context<'_>) -> Result<SplitPulled> {
        let Some(split) = self.splits.get_mut(self.turn) else { return Ok(SplitPulled::End) };
        if let SplitState::Waiting(position) = &mut split.state {
            let reader = self
                .source
                .open(&split.name, position.take(), &self.cx)
                .map_err(|error| error.at_operator(&self.operator))?;
            split.state = SplitState::Reading(reader);
        }
        let SplitState::Reading(reader) = &mut split.state else { return Ok(SplitPulled::End) };
        let mut skipped = 0;
        for _ in 0..budget {
            if !cx.may_take() {
                return Ok(SplitPulled::Stopped);
            }
            cx.enter(self.mark);
            let read = reader
                .next(cx.now)
                .map_err(|error| error.at_operator(&self.operator).at_position(reader.describe()))?;
            if !matches!(read, Read::Record(..) | Read::Unreadable(_)) {
                cx.took_none();
            }
            match read {
                Read::Record(record, at) => {
                    self.taken.set(self.taken.get() + 1);
                    let next = &mut self.next;
                    let sent = cx.naming(|| reader.describe(), |cx| next.on_record(record, at, cx));
                    sent.map_err(|error| error.at_position(reader.describe()))?;
                }
                Read::Unreadable(unreadable) => {
                    let beside = self.beside.as_mut().ok_or_else(|| nowhere(&unreadable, &self.operator))?;
                    self.taken.set(self.taken.get() + 1);
                    let sent = cx.naming(|| reader.describe(), |cx| beside.take(*unreadable, &self.operator, cx));
                    sent.map_err(|error| error.at_position(reader.describe()))?;
                }
                Read::Pending => return Ok(SplitPulled::Wait(None)),
                Read::At(moment) => return Ok(SplitPulled::Wait(Some(moment))),
                Read::Skipped => {
                    skipped += 1;
                    if skipped == TURN {
                        // Nothing was taken, so nothing else bounds the step.
                        return Ok(SplitPulled::Skipped);
                    }
                }
                Read::End => {
                    let position = to_json(&reader.position(), &self.operator)?;
                    split.state = SplitState::Finished(Some(position));
                    return Ok(SplitPulled::End);
                }
            }
        }
        Ok(SplitPulled::TurnOver)
    }

    /// Reads split after split. A split has its turn until it has nothing to give now, so that of many files only one is
    /// open; of a source without end, where that may never be, a turn is also over after some records.
    fn pull_in_turn(&mut self, cx: &mut Context<'_>) -> Result<Pulled> {
        let turn = if self.source.is_bounded() { u32::MAX } else { TURN };
        // Splits in a row that have nothing more to give now, and how many of them are at their end.
        let (mut quiet, mut ended) = (0, 0);
        let mut wait: Option<Time> = None;
        while quiet < self.splits.len() {
            let pulled = self.pull_split(turn, cx)?;
            if !(matches!(pulled, SplitPulled::Stopped | SplitPulled::Skipped) && self.source.is_bounded()) {
                self.turn = (self.turn + 1) % self.splits.len();
            }
            match pulled {
                SplitPulled::Stopped => return Ok(Pulled::Stopped),
                SplitPulled::Skipped => return Ok(Pulled::More),
                SplitPulled::TurnOver => (quiet, ended, wait) = (0, 0, None),
                SplitPulled::End => (quiet, ended) = (quiet + 1, ended + 1),
                SplitPulled::Wait(moment) => {
                    quiet += 1;
                    wait = [wait, moment].into_iter().flatten().min();
                }
            }
        }
        Ok(if ended == self.splits.len() { Pulled::End } else { Pulled::Wait(wait) })
    }
}

impl Beside {
    #[cold]
    fn take(&mut self, unreadable: Unreadable, operator: &str, cx: &mut Context<'_>) -> Result<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let Unreadable { record, position, error } = unreadable;
        let letter = DeadLetter { record, error, operator: operator.to_owned(), position: Some(position) };
        self.next.on_record(letter, None, cx)
    }
}

/// A source that hands over what it cannot read although nobody asked.
#[cold]
fn nowhere(unreadable: &Unreadable, operator: &str) -> Error {
    Error::invalid(&unreadable.error).at_operator(operator).at_position(&unreadable.position)
}

enum SplitPulled {
    /// The step may take no more.
    Stopped,
    /// It left out so many records in a row that it is time for something else; there may be more.
    Skipped,
    /// It gave as many records as are its share; there may be more.
    TurnOver,
    Wait(Option<Time>),
    End,
}

/// Each name once. Apart, so that the sort is not compiled for each source.
fn in_order(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

fn to_json<P: serde::Serialize>(position: &P, operator: &str) -> Result<serde_json::Value> {
    serde_json::to_value(position)
        .map_err(|error| Error::failed(format!("cannot store the position of a split: {error}")).at_operator(operator))
}

impl<S: Source> SourcePort for SourceChain<S> {
    fn operator(&self) -> &str {
        &self.operator
    }

    fn open(&mut self, restored: Option<Vec<(String, SplitPart)>>) -> Result<()> {
        let mine = |name: &str| owner_of_name(name, self.cx.parallelism) == self.cx.subtask;
        self.splits = match restored {
            Some(parts) => {
                let parts = parts.into_iter().filter(|(name, _)| mine(name));
                parts.map(|(name, part)| self.restored(name, part)).collect::<Result<_>>()?
            }
            None => {
                let names = self.source.splits(&self.cx).map_err(|error| error.at_operator(&self.operator))?;
                let names = in_order(names).into_iter().filter(|name| mine(name));
                names.map(|name| self.beginning(name)).collect::<Result<_>>()?
            }
        };
        Ok(())
    }

    fn pull(&mut self, cx: &mut Context<'_>) -> Result<Pulled> {
        if self.splits.is_empty() {
            return Ok(Pulled::End);
        }
        // Before the readers are asked: what they are woken for from now on is for the next time.
        let woken = self.woken.swap(false, Ordering::Acquire);
        // A worker has many reasons to run; none of them has made the moment come.
        if !woken && self.waits_until.is_some_and(|moment| moment > cx.now) {
            return Ok(Pulled::Wait(self.waits_until));
        }
        let pulled = self.pull_in_turn(cx)?;
        self.waits_until = if let Pulled::Wait(moment) = pulled { moment } else { None };
        Ok(pulled)
    }

    fn parts(&self) -> Result<Vec<(String, SplitPart)>> {
        let part = |split: &Split<S>| {
            let (position, finished) = match &split.state {
                SplitState::Waiting(None) => (serde_json::Value::Null, false),
                SplitState::Waiting(Some(position)) => (to_json(position, &self.operator)?, false),
                SplitState::Reading(reader) => (to_json(&reader.position(), &self.operator)?, false),
                SplitState::Finished(position) => (position.clone().unwrap_or_default(), true),
            };
            Ok((split.name.clone(), SplitPart { position, finished }))
        };
        self.splits.iter().map(part).collect()
    }
}

impl<S: Source> Chain for SourceChain<S> {
    fn on_batch(&mut self, _: u8, _: &mut dyn AnyBatch, _: &mut Context<'_>) -> Result<()> {
        unreachable!("a source has no inputs")
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)?;
        self.beside.as_mut().map_or(Ok(()), |beside| beside.next.on_signal(signal, cx))
    }

    fn source(&mut self) -> Option<&mut dyn SourcePort> {
        Some(self)
    }
}
