//! Reads what a job committed: all parts whose names do not begin with a dot.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Committed rows and how often each is there.
pub(super) struct Rows(BTreeMap<String, u64>);

impl Rows {
    pub(super) fn read(directory: &Path) -> Result<Rows, String> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
        let mut rows = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let text = fs::read_to_string(entry.path()).map_err(failed)?;
            for row in text.lines().skip(1) {
                *rows.entry(row.to_owned()).or_insert(0) += 1;
            }
        }
        Ok(Rows(rows))
    }

    /// These rows, each as often as it comes.
    pub(super) fn of(all: impl IntoIterator<Item = String>) -> Rows {
        let mut rows = BTreeMap::new();
        all.into_iter().for_each(|row| *rows.entry(row).or_insert(0) += 1);
        Rows(rows)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.values().sum()
    }

    /// Rows that the other one lacks, and rows that it has too many.
    pub(super) fn differences(&self, other: &Rows) -> (u64, u64) {
        let lacks = |these: &Rows, those: &Rows| {
            these.0.iter().map(|(row, count)| count.saturating_sub(those.0.get(row).copied().unwrap_or(0))).sum()
        };
        (lacks(self, other), lacks(other, self))
    }

    /// The same for the last count of each key: by how much it is short, and by how much it is over.
    pub(super) fn final_differences(&self, other: &Rows) -> (u64, u64) {
        let (mine, others) = (self.last_counts(), other.last_counts());
        let mut differences = (0, 0);
        for (key, count) in &mine {
            let counted = others.get(key).copied().unwrap_or(0);
            differences.0 += count.saturating_sub(counted);
            differences.1 += counted.saturating_sub(*count);
        }
        differences
    }

    /// The highest count by key: rows are `by,key,flights,...`.
    fn last_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for row in self.0.keys() {
            let mut columns = row.split(',');
            let (Some(by), Some(key), Some(count)) = (columns.next(), columns.next(), columns.next()) else { continue };
            let count: u64 = count.parse().unwrap_or(0);
            let highest = counts.entry(format!("{by},{key}")).or_insert(0);
            *highest = count.max(*highest);
        }
        counts
    }
}
