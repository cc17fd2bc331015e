//! What the job must have written, computed from its arguments alone, and the reader that takes its output away.
//!
//! Output grows by nature. So it is read as somebody behind the job would: a part that has been there for some checkpoints is
//! read, compared and deleted. What is left is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// So many checkpoints after it was seen a part is read: no restart commits it again.
const PATIENCE: u64 = 20;

/// What the job was told to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Records in all.
    pub(super) records: u64,
    /// Keys that are alive at a time.
    pub(super) slots: u64,
    /// Records of a key.
    pub(super) life: u64,
}

impl Load {
    /// The row of a key: how many records it has and their sum; `None` if it gives out none.
    pub(super) fn row(&self, key: u64) -> Option<(u64, u64)> {
        let Load { records, slots, life } = *self;
        let (slot, generation) = (key % slots, key / slots);
        let begun = slot % life;
        // The first life of a slot has begun before the job.
        let rounds = (generation * life).saturating_sub(begun)..(generation + 1) * life - begun;
        let numbers = rounds.map(|round| round * slots + slot);
        let last = numbers.clone().next_back()?;
        let sum = numbers.clone().fold(0u64, |sum, number| sum.wrapping_add(mix(number)));
        (last < records).then_some((numbers.count() as u64, sum))
    }

    /// Every key that has begun.
    fn keys(&self) -> u64 {
        (self.records / self.slots / self.life + 2) * self.slots
    }
}

/// The finisher of SplitMix64, as in the job.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Reads the output and compares it.
pub(super) struct Reader {
    load: Load,
    directory: PathBuf,
    /// Parts that wait, and the number of completed checkpoints when they were seen first.
    seen: BTreeMap<PathBuf, u64>,
    /// By key, whether its row was there.
    found: Vec<bool>,
    pub(super) rows: u64,
    /// What is wrong; the first ones.
    pub(super) wrong: Vec<String>,
}

/// So many wrong rows say enough.
const MOST_WRONG: usize = 10;

impl Reader {
    pub(super) fn new(load: Load, directory: &Path) -> Reader {
        let found = vec![false; usize::try_from(load.keys()).unwrap_or(usize::MAX)];
        Reader { load, directory: directory.to_owned(), seen: BTreeMap::new(), found, rows: 0, wrong: Vec::new() }
    }

    /// Takes away what is old enough, or everything.
    pub(super) fn look(&mut self, completed: u64, everything: bool) -> Result<(), String> {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if !entry.file_name().to_string_lossy().starts_with('.') && path.extension().is_some_and(|e| e == "csv") {
                self.seen.entry(path).or_insert(completed);
            }
        }
        let is_due = |since: u64| everything || completed >= since + PATIENCE;
        let due: Vec<PathBuf> =
            self.seen.iter().filter(|(_, since)| is_due(**since)).map(|(path, _)| path.clone()).collect();
        for path in due {
            let failed = |error: std::io::Error| format!("cannot take {} away: {error}", path.display());
            for line in fs::read_to_string(&path).map_err(failed)?.lines().skip(1) {
                self.check(line);
            }
            fs::remove_file(&path).map_err(failed)?;
            self.seen.remove(&path);
        }
        Ok(())
    }

    fn check(&mut self, line: &str) {
        let mut numbers = line.split(',').map(str::parse::<u64>);
        let (Some(Ok(key)), Some(Ok(count)), Some(Ok(sum))) = (numbers.next(), numbers.next(), numbers.next()) else {
            return self.complain(format!("a row that is none: `{line}`"));
        };
        let place = usize::try_from(key).ok().and_then(|key| self.found.get_mut(key));
        let was_there = place.map(|found| std::mem::replace(found, true));
        match (self.load.row(key), was_there) {
            (_, Some(true)) => self.complain(format!("the row of key {key} is there twice")),
            (Some(right), Some(false)) if right == (count, sum) => self.rows += 1,
            (right, _) => self.complain(format!("key {key} has {count} records with sum {sum}, not {right:?}")),
        }
    }

    fn complain(&mut self, what: String) {
        if self.wrong.len() < MOST_WRONG {
            self.wrong.push(what);
        }
    }

    /// After the end: what is missing.
    pub(super) fn end(&mut self) {
        let keys = (0u64..).zip(&self.found);
        let lost: Vec<u64> =
            keys.filter(|(key, found)| !**found && self.load.row(*key).is_some()).map(|(key, _)| key).collect();
        if let Some(first) = lost.first() {
            self.complain(format!("{} rows are lost, the first one that of key {first}", lost.len()));
        }
    }
}
