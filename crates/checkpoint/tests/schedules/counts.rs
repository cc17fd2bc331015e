//! A multiset of records in one word: 16 kinds, each up to 15 times. A loss, a duplicate and a leak all show in it.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

pub type Record = u8;

const BITS: u32 = 4;
const MOST: u64 = (1 << BITS) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counts(u64);

impl Counts {
    pub fn count(&mut self, record: Record) {
        assert!(self.of(record) < MOST, "the model never counts that far");
        self.0 += 1 << (BITS * u32::from(record));
    }

    pub fn of(self, record: Record) -> u64 {
        (self.0 >> (BITS * u32::from(record))) & MOST
    }

    pub fn covers(self, other: Counts) -> bool {
        (0..16).all(|record| self.of(record) >= other.of(record))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Every kind as often as it was counted.
    pub fn records(self) -> impl Iterator<Item = Record> {
        (0..16).flat_map(move |record| (0..self.of(record)).map(move |_| record))
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts(self.0 + other.0)
    }
}

impl FromIterator<Record> for Counts {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Counts {
        let mut counts = Counts::default();
        records.into_iter().for_each(|record| counts.count(record));
        counts
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), Add::add)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries((0..16).filter(|&kind| self.of(kind) > 0).map(|kind| (kind, self.of(kind)))).finish()
    }
}
