//! The limit: two threads that make the numbers, hash them as flott does, hand batches of 1,024 to the owner of the key and
//! count in a bare hash table. No engine, no checkpoint, no event but the count.

use crate::keyed_count::{SecondHalf, WORKERS, key};
use flott_runtime::key::hash_key;
use hashbrown::HashTable;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const BATCH: usize = 1_024;
const QUEUE: usize = 16;
const SEED: u64 = 7;

type Batch = Vec<(u64, u64)>;

/// CPU nanoseconds per record of the second half.
pub(crate) fn run(records: u64) -> f64 {
    let half = SecondHalf::of(records);
    let workers = u64::from(WORKERS);
    let (senders, receivers): (Vec<SyncSender<Batch>>, Vec<Receiver<Batch>>) =
        (0..workers).map(|_| sync_channel(QUEUE)).unzip();
    std::thread::scope(|scope| {
        for receiver in receivers {
            let half = Arc::clone(&half);
            scope.spawn(move || count(&receiver, &half));
        }
        for worker in 0..workers {
            let senders = senders.clone();
            scope.spawn(move || produce(worker, records, &senders));
        }
        drop(senders);
    });
    half.per_record()
}

fn produce(worker: u64, records: u64, senders: &[SyncSender<Batch>]) {
    let mut open: Vec<Batch> = senders.iter().map(|_| Vec::with_capacity(BATCH)).collect();
    for number in (worker..records).step_by(senders.len()) {
        let key = key(number);
        let hash = hash_key(SEED, &key).expect("a number has an encoding");
        let owner = (hash >> 32) as usize % senders.len();
        open[owner].push((hash, key));
        if open[owner].len() == BATCH {
            let full = std::mem::replace(&mut open[owner], Vec::with_capacity(BATCH));
            senders[owner].send(full).expect("the counting thread lives");
        }
    }
    for (batch, sender) in open.into_iter().zip(senders) {
        sender.send(batch).expect("the counting thread lives");
    }
}

fn count(receiver: &Receiver<Batch>, half: &SecondHalf) {
    let mut table: HashTable<(u64, u64)> = HashTable::new();
    for batch in receiver {
        for (hash, key) in &batch {
            let rehash = |entry: &(u64, u64)| hash_key(SEED, &entry.0).expect("a number has an encoding");
            let entry = table.entry(*hash, |entry| entry.0 == *key, rehash).or_insert((*key, 0)).into_mut();
            entry.1 += 1;
            black_box(entry.1);
        }
        half.add(batch.len() as u64);
    }
}
