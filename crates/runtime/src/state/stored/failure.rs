//! What went wrong with the state of one subtask, for code whose face to the user cannot fail.
//!
//! User code goes on with an absent value until it returns; then nothing that it emitted leaves, no cut of this state is
//! scanned, and the attempt ends. So a failed store costs a restart and never a wrong result.

use crate::state::StateError;
use std::cell::RefCell;
use std::rc::Rc;

/// See the head of this file. Clones are the same; the first failure stays.
#[derive(Clone, Debug, Default)]
pub struct Failure(Rc<RefCell<Option<StateError>>>);

impl Failure {
    /// What failed first.
    #[must_use]
    pub fn get(&self) -> Option<StateError> {
        self.0.borrow().clone()
    }

    /// The result, or what stands for it, and the error is kept.
    pub(crate) fn or_default<T: Default>(&self, result: Result<T, StateError>) -> T {
        result.unwrap_or_else(|error| {
            self.0.borrow_mut().get_or_insert(error);
            T::default()
        })
    }
}
