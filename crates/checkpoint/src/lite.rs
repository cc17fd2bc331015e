//! Small ordered sets and maps as sorted vectors: they compile to a fraction of a tree, which is compiled anew for each type of
//! key. Never for many entries in any order: what is inserted below the last entry moves all above it.

use litemap::LiteMap;
use std::borrow::Borrow;
use std::ops::Deref;

#[cfg(test)]
mod tests;

/// A set as a sorted slice, beside [`LiteMap`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LiteSet<T>(Vec<T>);

impl<T: Ord> LiteSet<T> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> LiteSet<T> {
        LiteSet(Vec::new())
    }

    /// Whether it was new; if it was not, the old value stays.
    pub fn insert(&mut self, value: T) -> bool {
        let place = self.place(&value);
        if let Err(place) = place {
            self.0.insert(place, value);
        }
        place.is_err()
    }

    /// Whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(value).map(|place| self.0.remove(place)).is_ok()
    }

    /// Whether it is there. Hides that of the slice, which would look at each.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(value).is_ok()
    }

    fn place<Q: Ord + ?Sized>(&self, value: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|known| known.borrow().cmp(value))
    }
}

impl<T> Default for LiteSet<T> {
    fn default() -> LiteSet<T> {
        LiteSet(Vec::new())
    }
}

impl<T> Deref for LiteSet<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Ord> Extend<T> for LiteSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.insert(value);
        }
    }
}

impl<T: Ord> FromIterator<T> for LiteSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> LiteSet<T> {
        let mut set = LiteSet::new();
        set.extend(values);
        set
    }
}

impl<T> IntoIterator for LiteSet<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a LiteSet<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// As collecting into the map, by inserting: that sorts, and a sort is compiled for each type of entry. Of entries with one
/// key the last stays.
pub fn lite_map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> LiteMap<K, V> {
    let mut map = LiteMap::new_vec();
    for (key, value) in entries {
        map.insert(key, value);
    }
    map
}
