//! The same count on plain timely dataflow: its own source, exchange and progress tracking, a hash table in an operator; no
//! flow control and no checkpoint.

use crate::keyed_count::{SecondHalf, WORKERS, key};
use flott_runtime::key::hash_key;
use hashbrown::HashTable;
use std::hint::black_box;
use std::sync::Arc;
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Input, generic::Operator};

const SEED: u64 = 7;
/// Records between two steps of the worker; timely has no flow control of its own.
const ROUND: u64 = 64 * 1_024;

/// CPU nanoseconds per record of the second half.
pub(crate) fn run(records: u64) -> f64 {
    let half = SecondHalf::of(records);
    let seen = Arc::clone(&half);
    timely::execute(timely::Config::process(usize::from(WORKERS)), move |worker| {
        let (index, peers) = (worker.index() as u64, worker.peers() as u64);
        let half = Arc::clone(&seen);
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let route = Exchange::new(|key: &u64| hash_key(SEED, key).expect("a number has an encoding"));
            scope.input_from(&mut input).sink(route, "count", {
                let mut table: HashTable<(u64, u64)> = HashTable::new();
                move |(input, _)| {
                    input.for_each(|_, batch: &mut Vec<u64>| {
                        half.add(batch.len() as u64);
                        batch.drain(..).for_each(|key| add(&mut table, key));
                    });
                }
            });
        });
        let mut round = 0;
        for number in (index..records).step_by(peers as usize) {
            input.send(key(number));
            if number / ROUND > round {
                round = number / ROUND;
                input.advance_to(round);
                worker.step();
            }
        }
    })
    .expect("timely starts")
    .join()
    .into_iter()
    .for_each(|worker| worker.expect("the worker ends"));
    half.per_record()
}

fn add(table: &mut HashTable<(u64, u64)>, key: u64) {
    let hash = hash_key(SEED, &key).expect("a number has an encoding");
    let rehash = |entry: &(u64, u64)| hash_key(SEED, &entry.0).expect("a number has an encoding");
    let entry = table.entry(hash, |entry| entry.0 == key, rehash).or_insert((key, 0)).into_mut();
    entry.1 += 1;
    black_box(entry.1);
}
