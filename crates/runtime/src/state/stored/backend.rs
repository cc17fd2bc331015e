//! The registry of one subtask's stored state.

use super::cache::Cache;
use super::{Failure, StoredList, StoredMap, StoredTimers, StoredValue};
use crate::key::{Key, KeySpace};
use crate::segment::StateName;
use crate::state::store::{Store, StoreError};
use crate::state::{
    ListDeclaration, MapDeclaration, SharedTable, StateBackend, StateError, TimerDeclaration, Value, ValueDeclaration,
};
use std::rc::Rc;
use std::sync::Arc;

type Open = Box<dyn FnOnce() -> Result<Box<dyn Store>, StoreError>>;

/// The state of one subtask in a store.
pub struct StoredBackend {
    store: Option<Rc<Cache>>,
    /// Most subtasks declare no state, and need no store.
    open: Option<Open>,
    space: KeySpace,
    names: Vec<StateName>,
    tables: Vec<SharedTable>,
    failure: Failure,
}

impl StoredBackend {
    /// A backend without states over an empty store, for the key groups that `space` owns.
    #[must_use]
    pub fn new(store: Box<dyn Store>, space: KeySpace) -> Self {
        Self::lazy(Box::new(|| Ok(store)), space)
    }

    /// As [`StoredBackend::new`], over a store that is opened when the first state is declared.
    #[must_use]
    pub fn lazy(open: Box<dyn FnOnce() -> Result<Box<dyn Store>, StoreError>>, space: KeySpace) -> Self {
        let (store, failure) = (None, Failure::default());
        Self { store, open: Some(open), space, names: Vec::new(), tables: Vec::new(), failure }
    }

    /// What fails where nobody can be told at once.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    fn claim(&mut self, name: StateName) -> Result<(Arc<StateName>, Rc<Cache>), StateError> {
        if self.names.contains(&name) {
            return Err(StateError::Duplicate(name));
        }
        if let Some(open) = self.open.take() {
            let opened = open().map_err(|StoreError(text)| StateError::Backend(name.clone(), text))?;
            self.store = Some(Rc::new(Cache::new(opened, self.space.seed)));
        }
        let store = self.store.clone();
        let store =
            store.ok_or_else(|| StateError::Backend(name.clone(), "its store could not be opened".to_owned()))?;
        self.names.push(name.clone());
        Ok((Arc::new(name), store))
    }

    fn add<H>(&mut self, (handle, table): (H, SharedTable)) -> H {
        self.tables.push(table);
        handle
    }
}

impl StateBackend for StoredBackend {
    type Value<K: Key, V: Value> = StoredValue<K, V>;
    type Timers<K: Key> = StoredTimers<K>;
    type Map<K: Key, M: Key, V: Value> = StoredMap<K, M, V>;
    type List<K: Key, V: Value> = StoredList<K, V>;

    fn value<K: Key, V: Value>(&mut self, declaration: ValueDeclaration) -> Result<StoredValue<K, V>, StateError> {
        let (name, store) = self.claim(declaration.name)?;
        StoredValue::new(store, name, self.space.clone(), self.failure()).map(|made| self.add(made))
    }

    fn timers<K: Key>(&mut self, declaration: TimerDeclaration) -> Result<StoredTimers<K>, StateError> {
        let (name, store) = self.claim(declaration.name)?;
        StoredTimers::new(store, name, self.space.clone(), self.failure()).map(|made| self.add(made))
    }

    fn map<K: Key, M: Key, V: Value>(&mut self, declaration: MapDeclaration) -> Result<StoredMap<K, M, V>, StateError> {
        let (name, store) = self.claim(declaration.name)?;
        StoredMap::new(store, (name, declaration.copies), self.space.clone(), self.failure()).map(|made| self.add(made))
    }

    fn list<K: Key, V: Value>(&mut self, declaration: ListDeclaration) -> Result<StoredList<K, V>, StateError> {
        let (name, store) = self.claim(declaration.name)?;
        StoredList::new(store, (name, declaration.split), self.space.clone(), self.failure()).map(|made| self.add(made))
    }

    fn tables(&self) -> &[SharedTable] {
        &self.tables
    }
}
