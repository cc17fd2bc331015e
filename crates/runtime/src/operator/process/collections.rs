//! Map and list state as user code gets them.

use super::{OwnCopy, State};
use crate::error::{Error, Result};
use crate::key::{Key, Shape};
use crate::plan::StatePlan;
use crate::state::{AnyList, AnyMap, ListState, MapState};
use crate::subtask::SubtaskBuilder;
use crate::time::Time;
use std::marker::PhantomData;

/// Declares a map per key, from user keys `M` to values `V`. Each of its entries is stored by itself: a large map of which
/// little changes makes small checkpoints.
pub struct Map<M, V> {
    name: &'static str,
    of: PhantomData<fn() -> (M, V)>,
}

impl<M, V> Map<M, V> {
    /// A map with a name, unique in its operator, under which checkpoints keep it.
    #[must_use]
    pub const fn named(name: &'static str) -> Map<M, V> {
        Map { name, of: PhantomData }
    }
}

impl<M: Key, V: crate::state::Value> State for Map<M, V> {
    type Open<K: Key> = AnyMap<K, M, V>;
    type At<'a, K: Key> = MapRef<'a, K, M, V>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        let entry = (Shape::of_type::<M>(), Shape::of_type::<V>());
        let (key, value) = (Shape::of_type::<K>().to_string(), Shape::Map(Box::new(entry)).to_string());
        vec![StatePlan { name: self.name.to_owned(), kind: "map".to_owned(), key, value }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<AnyMap<K, M, V>> {
        self.check_user_keys(operator)?;
        builder.map(operator, self.name)
    }

    fn at<'a, K: Key>(open: &'a mut AnyMap<K, M, V>, hash: u64, key: &'a K, _: Time) -> MapRef<'a, K, M, V> {
        MapRef::new(open, hash, key)
    }
}

impl<M: Key, V: crate::state::Value> Map<M, V> {
    /// What is declared if every subtask has a copy of its own.
    #[must_use]
    pub fn declare_copies(&self) -> Vec<StatePlan> {
        let plan = self.declare::<u64>().into_iter();
        plan.map(|plan| StatePlan { kind: "broadcast".to_owned(), ..plan }).collect()
    }

    /// Registers the copy of the subtask that is being built.
    ///
    /// # Errors
    /// If the name is declared twice, the user keys cannot be hashed, or this worker owns no key group.
    pub fn open_copy(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<OwnCopy<M, V>> {
        self.check_user_keys(operator)?;
        let (hash, key) = builder.own_key().map_err(|error| error.at_operator(operator))?;
        Ok(OwnCopy { state: builder.map_copy(operator, self.name)?, hash, key })
    }

    fn check_user_keys(&self, operator: &str) -> Result<()> {
        let shape = Shape::of_type::<M>();
        if !holds_unhashable(&shape) {
            return Ok(());
        }
        let text = format!("the user keys of the map `{}` are {shape}: a key can hold no float and no map", self.name);
        Err(Error::refused(text).at_operator(operator))
    }
}

fn holds_unhashable(shape: &Shape) -> bool {
    match shape {
        Shape::Leaf(leaf) => matches!(*leaf, "f32" | "f64"),
        Shape::Map(_) => true,
        Shape::Optional(inner) | Shape::Sequence(inner) => holds_unhashable(inner),
        Shape::Tuple(parts) => parts.iter().any(holds_unhashable),
        Shape::Struct(fields) => fields.iter().any(|(_, shape)| holds_unhashable(shape)),
        Shape::Enum(variants) => variants.values().any(|(_, shape)| holds_unhashable(shape)),
        Shape::Unknown | Shape::Any => false,
    }
}

/// The map of one key. Reading changes nothing; a write marks one entry for the next checkpoint.
pub struct MapRef<'a, K, M, V> {
    state: &'a mut AnyMap<K, M, V>,
    hash: u64,
    key: &'a K,
}

impl<'a, K, M, V> MapRef<'a, K, M, V> {
    pub(super) fn new(state: &'a mut AnyMap<K, M, V>, hash: u64, key: &'a K) -> MapRef<'a, K, M, V> {
        MapRef { state, hash, key }
    }
}

impl<K: Key, M: Key, V: crate::state::Value> MapRef<'_, K, M, V> {
    /// A copy of the value of a user key, if there is one; see [`MapRef::read`].
    #[must_use]
    pub fn get(&self, field: &M) -> Option<V> {
        self.read(field, |value| value.cloned())
    }

    /// Whether there is a value of a user key.
    #[must_use]
    pub fn contains(&self, field: &M) -> bool {
        self.read(field, |value| value.is_some())
    }

    /// Looks at the value of a user key without a copy. `look` must not use this state otherwise.
    pub fn read<R>(&self, field: &M, look: impl FnOnce(Option<&V>) -> R) -> R {
        self.state.peek(self.hash, self.key, field, look)
    }

    /// Sets the value of a user key.
    pub fn insert(&mut self, field: M, value: V) {
        let put = self.state.put(self.hash, self.key, field, value);
        self.state.settle(put);
    }

    /// Changes the value of a user key in place, made by `init` if there is none.
    pub fn update<R>(&mut self, field: M, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R {
        self.state.fold(self.hash, self.key, field, init, change)
    }

    /// Removes and returns the value of a user key.
    pub fn remove(&mut self, field: &M) -> Option<V> {
        let removed = self.state.remove(self.hash, self.key, field);
        self.state.settle(removed)
    }

    /// Shows all entries of this key, in an order that means nothing, and that a restore does not change unless it is one into
    /// another backend. `look` must not use this state otherwise.
    pub fn for_each(&self, look: impl FnMut(&M, &V)) {
        self.state.settle(self.state.for_each(self.hash, self.key, look));
    }

    /// Copies of all entries of this key, in the order of [`MapRef::for_each`].
    #[must_use]
    pub fn entries(&self) -> Vec<(M, V)> {
        let mut entries = Vec::new();
        self.for_each(|field, value| entries.push((field.clone(), value.clone())));
        entries
    }

    /// Whether this key has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.settle(self.state.is_empty(self.hash, self.key))
    }

    /// Removes all entries of this key.
    pub fn clear(&mut self) {
        let cleared = self.state.clear(self.hash, self.key);
        self.state.settle(cleared);
    }
}

/// Declares a list per key. It grows at its end and is cleared as a whole; a checkpoint stores only what was appended since
/// the one before.
pub struct List<V> {
    name: &'static str,
    of: PhantomData<fn() -> V>,
}

impl<V> List<V> {
    /// A list with a name, unique in its operator, under which checkpoints keep it.
    #[must_use]
    pub const fn named(name: &'static str) -> List<V> {
        List { name, of: PhantomData }
    }
}

impl<V: crate::state::Value> State for List<V> {
    type Open<K: Key> = AnyList<K, V>;
    type At<'a, K: Key> = ListRef<'a, K, V>;

    fn declare<K: Key>(&self) -> Vec<StatePlan> {
        let value = Shape::Sequence(Box::new(Shape::of_type::<V>())).to_string();
        let (name, kind) = (self.name.to_owned(), "list".to_owned());
        vec![StatePlan { name, kind, key: Shape::of_type::<K>().to_string(), value }]
    }

    fn open<K: Key>(&self, operator: &str, builder: &mut SubtaskBuilder) -> Result<AnyList<K, V>> {
        builder.list(operator, self.name)
    }

    fn at<'a, K: Key>(open: &'a mut AnyList<K, V>, hash: u64, key: &'a K, _: Time) -> ListRef<'a, K, V> {
        ListRef::new(open, hash, key)
    }
}

/// The list of one key. Reading changes nothing.
pub struct ListRef<'a, K, V> {
    state: &'a mut AnyList<K, V>,
    hash: u64,
    key: &'a K,
}

impl<'a, K, V> ListRef<'a, K, V> {
    pub(super) fn new(state: &'a mut AnyList<K, V>, hash: u64, key: &'a K) -> ListRef<'a, K, V> {
        ListRef { state, hash, key }
    }
}

impl<K: Key, V: crate::state::Value> ListRef<'_, K, V> {
    /// Appends an element.
    pub fn push(&mut self, item: V) {
        let appended = self.state.append(self.hash, self.key.clone(), item);
        self.state.settle(appended);
    }

    /// Looks at all elements, in their order, without a copy. `look` must not use this state otherwise.
    pub fn read<R>(&self, look: impl FnOnce(&[V]) -> R) -> R {
        self.state.peek(self.hash, self.key, look)
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(<[V]>::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read(<[V]>::is_empty)
    }

    /// Copies of all elements.
    #[must_use]
    pub fn to_vec(&self) -> Vec<V> {
        self.read(<[V]>::to_vec)
    }

    /// Takes all elements out, in their order.
    pub fn take(&mut self) -> Vec<V> {
        let taken = self.state.clear(self.hash, self.key);
        self.state.settle(taken)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        drop(self.take());
    }
}
