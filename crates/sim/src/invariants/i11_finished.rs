//! I11, I6: a finished job has committed all of its output, and its last checkpoint holds the state of an undisturbed run.

use super::i02_exact_state::difference;
use super::{Checked, Ledger, Visible, broken};
use crate::jobs::Shape;
use crate::oracle::{fold, identity, whole};
use crate::storage::Storage;
use std::collections::BTreeSet;

const TAG: &str = "I11 finished";

pub(super) fn check(ledger: &Ledger, visible: &Visible, storage: &Storage) -> Checked {
    let seen: BTreeSet<_> = visible.rows.iter().flatten().map(identity).collect();
    if let Some((_, lost)) = ledger.rows.iter().find(|(identity, _)| !seen.contains(identity)) {
        return broken(TAG, format!("the job is finished and {lost:?} is not in its output"));
    }
    let Some(chain) = ledger.chain(storage) else {
        return broken(TAG, "the job is finished and has no readable checkpoint");
    };
    if !chain.top().finished {
        return broken(TAG, format!("the job is finished, and checkpoint {} does not say so", chain.top().id));
    }
    if chain.prefix(&ledger.job) != whole(&ledger.job) {
        return broken(TAG, format!("the job is finished at {:?}", chain.prefix(&ledger.job)));
    }
    if !ledger.exact || matches!(ledger.job.shape, Shape::Timers | Shape::Expiring) {
        return Ok(());
    }
    let mut expected = fold(&ledger.job, chain.top().workers, &whole(&ledger.job)).state;
    expected.retain(|_, kept| !kept.is_empty());
    match chain.state(storage, &ledger.job) {
        Ok(stored) if stored == expected => Ok(()),
        Ok(stored) => broken(TAG, format!("in the last checkpoint {}", difference(&stored, &expected))),
        Err(error) => broken(TAG, error),
    }
}
