//! I2, I15: the state of an exact checkpoint is the fold of what was read before it, restored along all its increments.
//! I4: of an unaligned one it is, once what was in flight is taken.

use super::{Checked, broken};
use crate::checkpoints::Chain;
use crate::jobs::{Job, Row, Shape, Tally};
use crate::oracle::{State, fold};
use crate::storage::Storage;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const TAG: &str = "I2 exact state";

pub(super) fn check(job: &Job, chain: &Chain, storage: &Storage) -> Checked {
    let id = chain.top().id;
    let prefix = chain.prefix(job);
    if job.shape == Shape::Timers {
        return check_timers(chain, storage);
    }
    if job.shape == Shape::Expiring {
        return check_expiring(job, chain, storage);
    }
    let mut expected = fold(job, chain.top().workers, &prefix).state;
    expected.retain(|_, kept| !kept.is_empty());
    let (stored, in_flight) = match super::i04_in_flight::settled(job, chain, storage) {
        Ok(settled) => settled,
        Err(error) => return broken(TAG, format!("checkpoint {id}: {error}")),
    };
    if stored == expected {
        return Ok(());
    }
    let (place, tag) = (difference(&stored, &expected), if in_flight == 0 { TAG } else { super::i04_in_flight::TAG });
    broken(tag, format!("checkpoint {id} ({}) at {prefix:?}, {in_flight} rows in flight: {place}", chain.top().mode))
}

/// The first place where two states differ.
pub(super) fn difference(stored: &State, expected: &State) -> String {
    for (operator, kept) in expected {
        for (key, tally) in kept {
            let found = stored.get(operator).and_then(|kept| kept.get(key));
            if found != Some(tally) {
                return format!("`{operator}` has {found:?} for {key} instead of {tally:?}");
            }
        }
    }
    for (operator, kept) in stored {
        let more = kept.keys().find(|key| expected.get(operator).is_none_or(|kept| !kept.contains_key(*key)));
        if let Some(key) = more {
            return format!("`{operator}` has {:?} for {key}, which should not be there", kept.get(key));
        }
    }
    "no difference".to_owned()
}

/// A row waits exactly if it has a timer.
fn check_timers(chain: &Chain, storage: &Storage) -> Checked {
    let id = chain.top().id;
    let name = |_: u16, key: &(u64, u32)| format!("{key:?}");
    let waiting = chain.read_state::<(u64, u32), Row>(storage, "delay", "waiting", name);
    let timers = chain.read_timers(storage, "delay", "timers", name);
    let (waiting, timers): (BTreeMap<String, Row>, _) = match (waiting, timers) {
        (Ok(waiting), Ok(timers)) => (waiting, timers),
        (Err(error), _) | (_, Err(error)) => return broken(TAG, format!("checkpoint {id}: {error}")),
    };
    let waiting: Vec<&String> = waiting.keys().collect();
    let timers: Vec<&String> = timers.iter().collect();
    if waiting == timers {
        return Ok(());
    }
    broken(TAG, format!("checkpoint {id}: the rows {waiting:?} wait, and {timers:?} have timers"))
}

/// A value that expires, as it is stored.
#[derive(Deserialize)]
struct Kept {
    value: Tally,
}

/// What is kept for a key is the tally of its last rows: of those since it expired, was deleted, or began.
fn check_expiring(job: &Job, chain: &Chain, storage: &Storage) -> Checked {
    let (id, prefix) = (chain.top().id, chain.prefix(job));
    let name = |_: u16, key: &(u64, u32)| format!("{key:?}");
    let stored: BTreeMap<String, Kept> = match chain.read_state(storage, "tally", "tally", name) {
        Ok(stored) => stored,
        Err(error) => return broken(TAG, format!("checkpoint {id}: {error}")),
    };
    let in_flight = match chain.in_flight(storage) {
        Ok(in_flight) => in_flight,
        Err(error) => return broken(TAG, format!("checkpoint {id}: {error}")),
    };
    let waiting: BTreeSet<(u32, u64)> = in_flight.iter().map(|it| (it.row.origin, it.row.serial)).collect();
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (&origin, &count) in &prefix {
        let taken = (0..count).filter(|serial| !waiting.contains(&(origin, *serial)));
        for row in taken.map(|serial| job.row(origin, serial)) {
            rows.entry(format!("{:?}", (row.key, row.origin))).or_default().push(row);
        }
    }
    for (key, Kept { value }) in stored {
        let of_key = rows.get(&key).map(Vec::as_slice).unwrap_or_default();
        let last = usize::try_from(value.count).ok().and_then(|count| of_key.len().checked_sub(count));
        let last = last.and_then(|first| of_key.get(first..)).unwrap_or_default();
        let expected = last.iter().fold(None, |before, row| job.tally(before, row).0);
        if expected.as_ref() != Some(&value) {
            let text = format!("checkpoint {id} at {prefix:?}: {value:?} for {key} instead of {expected:?}");
            return broken(TAG, text);
        }
    }
    Ok(())
}
