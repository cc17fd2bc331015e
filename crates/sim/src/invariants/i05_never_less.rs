//! I5: without alignment a checkpoint may have counted more than what was read before it, never less.

use super::{Checked, broken};
use crate::checkpoints::Chain;
use crate::jobs::{Job, Shape};
use crate::oracle::fold;
use crate::storage::Storage;

const TAG: &str = "I5 never less";

pub(super) fn check(job: &Job, chain: &Chain, storage: &Storage) -> Checked {
    let id = chain.top().id;
    if matches!(job.shape, Shape::Timers | Shape::Expiring) {
        return Ok(());
    }
    let stored = match super::i04_in_flight::settled(job, chain, storage) {
        Ok((stored, _)) => stored,
        Err(error) => return broken(TAG, format!("checkpoint {id}: {error}")),
    };
    for (operator, kept) in fold(job, chain.top().workers, &chain.prefix(job)).state {
        for (key, tally) in kept {
            let count = stored.get(operator).and_then(|kept| kept.get(&key)).map_or(0, |kept| kept.count);
            if count < tally.count {
                let text = format!("checkpoint {id}: `{operator}` has counted {count} of {} for {key}", tally.count);
                return broken(TAG, text);
            }
        }
    }
    Ok(())
}
