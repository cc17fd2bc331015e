//! Folds the records of each key into one value of declared state.

use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::heartbeat::Mark;
use crate::key::Key;
use crate::record::Keyed;
use crate::state::{StateError, Value, ValueState};
use crate::time::Timestamp;
use std::marker::PhantomData;
use std::sync::Arc;

/// Gives out key and new value after every record.
pub struct Fold<K, A, F, S> {
    init: Arc<A>,
    f: Arc<F>,
    state: S,
    mark: Mark,
    next: Next<(K, A)>,
}

impl<K, A, F, S> Fold<K, A, F, S> {
    /// A fold before the rest of the chain.
    pub fn new(init: Arc<A>, f: Arc<F>, state: S, mark: Mark, next: Next<(K, A)>) -> Fold<K, A, F, S> {
        Fold { init, f, state, mark, next }
    }
}

impl<K: Key, T, A: Value, F: Fn(&mut A, T), S: ValueState<K, A>> Operator<Keyed<K, T>> for Fold<K, A, F, S> {
    #[inline]
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        cx.enter(self.mark);
        let folded = self.state.update(
            hash,
            key.clone(),
            || (*self.init).clone(),
            |folded| {
                (self.f)(folded, value);
                folded.clone()
            },
        );
        self.next.on_record((key, folded.map_err(failed)?), at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        self.state.look_ahead(upcoming.iter().map(|record| record.hash));
    }
}

/// A fold that begins with the first record of a key.
pub struct Reduce<K, T, F, S> {
    f: Arc<F>,
    state: S,
    mark: Mark,
    next: Next<(K, T)>,
    of: PhantomData<fn(T)>,
}

impl<K, T, F, S> Reduce<K, T, F, S> {
    /// A reduction before the rest of the chain.
    pub fn new(f: Arc<F>, state: S, mark: Mark, next: Next<(K, T)>) -> Reduce<K, T, F, S> {
        Reduce { f, state, mark, next, of: PhantomData }
    }
}

impl<K: Key, T: Value, F: Fn(&mut T, T), S: ValueState<K, T>> Operator<Keyed<K, T>> for Reduce<K, T, F, S> {
    fn on_record(&mut self, record: Keyed<K, T>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        cx.enter(self.mark);
        // Either the record becomes the value, or it is combined with the one that is there: never both.
        let value = std::cell::Cell::new(Some(value));
        let reduced = self.state.update(
            hash,
            key.clone(),
            || value.take().expect("the value is made before it is changed"),
            |reduced| {
                if let Some(value) = value.take() {
                    (self.f)(reduced, value);
                }
                reduced.clone()
            },
        );
        self.next.on_record((key, reduced.map_err(failed)?), at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }

    fn look_ahead(&mut self, upcoming: &[Keyed<K, T>]) {
        self.state.look_ahead(upcoming.iter().map(|record| record.hash));
    }
}

/// The message of a state error names operator and state itself.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
pub(super) fn failed(error: StateError) -> Error {
    Error::failed(error.to_string())
}
