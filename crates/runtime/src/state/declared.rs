//! What a state was declared as, and what is known of its types; written once for all kinds and all backends.

use super::{Declaration, StateError, StateKind, StateName};
use crate::key::Shape;
use std::sync::Arc;

/// Name, kind, and the shapes seen so far.
pub(super) struct Declared {
    pub(super) name: Arc<StateName>,
    pub(super) kind: StateKind,
    key_shape: Shape,
    value_shape: Shape,
    /// Of the values in the checkpoint that was restored.
    pub(super) restored_value: Shape,
    /// Entries of other workers were restored: no increment can build on what was restored.
    pub(super) foreign: bool,
}

impl Declared {
    pub(super) fn new(name: Arc<StateName>, kind: StateKind) -> Declared {
        let (key_shape, value_shape) = (Shape::Unknown, Shape::Unknown);
        Declared { name, kind, key_shape, value_shape, restored_value: Shape::Unknown, foreign: false }
    }

    pub(super) fn declaration(&self) -> Declaration {
        let (key_shape, value_shape) = (self.key_shape.clone(), self.value_shape.clone());
        Declaration { name: Arc::clone(&self.name), kind: self.kind, key_shape, value_shape }
    }

    /// Checks what a checkpoint holds for this state.
    pub(super) fn expect(&mut self, stored: &Declaration) -> Result<(), StateError> {
        if stored.kind != self.kind {
            let name = (*self.name).clone();
            return Err(StateError::OtherKind { name, stored: stored.kind, declared: self.kind });
        }
        self.value_shape.merge(stored.value_shape.clone());
        self.restored_value.merge(stored.value_shape.clone());
        self.check_shape(stored.key_shape.clone())
    }

    /// Compares the shape in the checkpoint with that of a key read back as this job's type.
    pub(super) fn check_shape(&mut self, other: Shape) -> Result<(), StateError> {
        if !self.key_shape.agrees_with(&other) {
            let (stored, declared) = (self.key_shape.to_string(), other.to_string());
            return Err(StateError::KeyShape { name: (*self.name).clone(), stored, declared });
        }
        self.key_shape.merge(other);
        Ok(())
    }

    /// Later entries may fill the holes of earlier shapes.
    pub(super) fn merge(&mut self, key: Shape, value: Shape) {
        self.key_shape.merge(key);
        self.value_shape.merge(value);
    }
}
