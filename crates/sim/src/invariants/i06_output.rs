//! I6: what is visible belongs to recorded checkpoints, and is, per stream, what an undisturbed run shows first.

use super::{Checked, Ledger, broken};
use crate::jobs::Row;
use crate::oracle::{Streams, identity};
use std::collections::BTreeSet;

const TAG: &str = "I6 output";

/// What a reader of the output sees.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    /// Its parts: checkpoint, subtask, number.
    pub parts: BTreeSet<(u64, u64, u64)>,
    /// Their rows, in that order; a line that is no row is an `Err`.
    pub rows: Vec<Result<Row, String>>,
}

/// Every committed part belongs to a recorded checkpoint or to one before it.
pub(super) fn committed(ledger: &Ledger, new: &[(u64, u64, u64)]) -> Checked {
    let newest = ledger.newest.as_ref().map_or(0, |entry| entry.id.0);
    match new.iter().find(|(checkpoint, ..)| *checkpoint > newest) {
        Some((checkpoint, ..)) => {
            broken(TAG, format!("output of checkpoint {checkpoint} is visible, and {newest} is the newest recorded"))
        }
        None => Ok(()),
    }
}

/// What a subtask shows is a prefix of its epochs: nothing appears before what was already there.
pub(super) fn in_order(ledger: &Ledger, new: &[(u64, u64, u64)]) -> Checked {
    for &(checkpoint, subtask, n) in new {
        let behind = |seen: &&(u64, u64, u64)| seen.1 == subtask && (seen.0, seen.2) > (checkpoint, n);
        if let Some((later, ..)) = ledger.seen.iter().find(behind) {
            return broken(
                TAG,
                format!(
                    "of subtask {subtask} output of checkpoint {later} was visible before part {n} of {checkpoint}"
                ),
            );
        }
    }
    Ok(())
}

/// Every visible row is one that must come, in its place.
pub(super) fn rows(ledger: &Ledger, visible: &Visible) -> Checked {
    let mut seen = BTreeSet::new();
    let mut streams = Streams::new();
    for row in &visible.rows {
        let row = match row {
            Ok(row) => row,
            Err(line) => return broken(TAG, format!("`{line}` is a piece of a row")),
        };
        let Some(expected) = ledger.rows.get(&identity(row)) else {
            return broken(TAG, format!("{row:?} is not in the output of an undisturbed run"));
        };
        if !ledger.exact {
            continue;
        }
        if row != expected {
            return broken(TAG, format!("{row:?} came out instead of {expected:?}"));
        }
        if !seen.insert(identity(row)) {
            return broken(TAG, format!("{row:?} came out twice"));
        }
        streams.entry(row.stream()).or_default().push(row.clone());
    }
    if ledger.exact && ledger.job.shape.keeps_order() { prefixes(ledger, &streams) } else { Ok(()) }
}

fn prefixes(ledger: &Ledger, streams: &Streams) -> Checked {
    for (stream, rows) in streams {
        let expected = ledger.whole.output.get(stream).map(Vec::as_slice).unwrap_or_default();
        let wrong = rows.iter().zip(expected).find(|(row, expected)| row != expected);
        if let Some((row, expected)) = wrong {
            return broken(TAG, format!("{row:?} is visible before {expected:?}"));
        }
    }
    Ok(())
}
