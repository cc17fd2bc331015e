//! I2, I15: the state of an exact checkpoint is the fold of what was read before it, restored along all its increments.
//! I4: of an unaligned one it is, once what was in flight is taken.

use super::{Checked, broken};
use crate::checkpoints::Chain;
use crate::jobs::{Job, Row, Shape};
use crate::oracle::{State, fold};
use crate::storage::Storage;
use std::collections::BTreeMap;

const TAG: &str = "I2 exact state";

pub(super) fn check(job: &Job, workers: u16, chain: &Chain, storage: &Storage) -> Checked {
    let id = chain.top().id;
    let prefix = chain.prefix(job);
    if job.shape == Shape::Timers {
        return check_timers(chain, storage);
    }
    let mut expected = fold(job, workers, &prefix).state;
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
