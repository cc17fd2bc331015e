//! Folds whose parts can be combined: records of one key become one before they cross to the key's worker.

use crate::keyed::{Keyed, stateful_vertex};
use crate::stream::Stream;
use flott_runtime::key::Key;
use flott_runtime::operator::Head;
use flott_runtime::operator::fold::Reduce;
use flott_runtime::operator::pre_aggregate::PreAggregate;
use flott_runtime::operator::process::{State, Value};
use flott_runtime::record::{Keyed as KeyedRecord, Record};
use std::sync::Arc;

/// A keyed stream whose folds may take their records in any order and in parts. Made by [`Keyed::commutative`].
///
/// Each worker folds the records of a key that it sends, in a table of at most 1,024 keys, and sends one part instead: when
/// the table is full, after 5 milliseconds, and before every barrier and the end of the input. So checkpoints hold nothing of
/// it and are as exact as without. What changes is what comes out: key and value after each *part*, not after each record,
/// and how many parts there are depends on time. The last output of a key is the same.
///
/// It pays when keys come often: a hot key costs its worker a few hundred records a second, however many there are. With
/// keys that hardly repeat it is only another table on the way.
pub struct Commutative<K, T>(Keyed<K, T>);

impl<K: Key, T: Record> Commutative<K, T> {
    pub(crate) fn new(keyed: Keyed<K, T>) -> Commutative<K, T> {
        Commutative(keyed)
    }

    /// As [`Keyed::fold`], with parts: each begins as `init`, and `combine` puts two of them together. So `init` must be
    /// neutral, and folding records into two values and combining these must be the same as folding all into one. The state
    /// is that of [`Keyed::fold`], and can be restored into it.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # fn count(words: Stream<String>) -> Stream<(String, u64)> {
    /// words.key_by(|word| word.clone()).commutative().fold("count", 0u64, |n, _| *n += 1, |n, more| *n += more)
    /// # }
    /// ```
    pub fn fold<A: Record + Sync>(
        self,
        name: &str,
        init: A,
        f: impl Fn(&mut A, T) + Send + Sync + 'static,
        combine: impl Fn(&mut A, A) + Send + Sync + 'static,
    ) -> Stream<(K, A)> {
        let f = Arc::new(f);
        let begin = {
            let f = Arc::clone(&f);
            move |record| {
                let mut part = init.clone();
                f(&mut part, record);
                part
            }
        };
        self.in_parts(name, Value::named("fold"), begin, move |part: &mut A, record| f(part, record), combine)
    }

    /// As [`Keyed::reduce`], with parts: `f` must give the same whatever the order of the records and wherever one puts
    /// brackets. The state is that of [`Keyed::reduce`], and can be restored into it.
    pub fn reduce(self, name: &str, f: impl Fn(&mut T, T) + Send + Sync + 'static) -> Stream<(K, T)> {
        let f = Arc::new(f);
        let combine = Arc::clone(&f);
        let add = move |part: &mut T, record| f(part, record);
        self.in_parts(name, Value::named("reduce"), |record| record, add, move |kept, part| combine(kept, part))
    }

    fn in_parts<A: Record>(
        self,
        name: &str,
        state: Value<A>,
        begin: impl Fn(T) -> A + Send + Sync + 'static,
        add: impl Fn(&mut A, T) + Send + Sync + 'static,
        combine: impl Fn(&mut A, A) + Send + Sync + 'static,
    ) -> Stream<(K, A)> {
        let Commutative(keyed) = self;
        let job = keyed.stream.job.clone();
        let (begin, add, combine) = (Arc::new(begin), Arc::new(add), Arc::new(combine));
        let states = state.declare::<K>();
        let (vertex, stream) = stateful_vertex(&job, name, states, None, move |builder, name, mark, _, next| {
            let state = state.open::<K>(name, builder)?;
            let reduce = Reduce::new(Arc::clone(&combine), state, mark, next);
            Ok(Box::new(Head::<KeyedRecord<K, A>, _>::new(reduce)))
        });
        keyed.lead_through(vertex, name, move |builder, mark, outlet| {
            let alarm = builder.alarm();
            PreAggregate::new(Arc::clone(&begin), Arc::clone(&add), alarm, mark, Box::new(outlet))
        });
        stream
    }
}
