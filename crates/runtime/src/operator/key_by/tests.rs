//! Keys whose equality and encoding disagree are found.

use super::*;
use serde::{Deserialize, Serialize};

/// Equal by its letters, encoded with its case.
#[derive(Clone, Serialize, Deserialize)]
struct Caseless(String);

impl PartialEq for Caseless {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Caseless {}

#[test]
#[should_panic(expected = "`Eq` and `Serialize`")]
fn equal_keys_with_different_encodings_are_found_in_debug_builds() {
    let mut check = EqualityCheck::default();
    check.look(&Caseless("a".to_owned()), "key_by");
    check.look(&Caseless("A".to_owned()), "key_by");
}

#[test]
fn ordinary_keys_pass_the_check() {
    let mut check = EqualityCheck::default();
    for number in (0..100u64).chain(0..100) {
        check.look(&number, "key_by");
    }
    assert_eq!(check.kept.len(), KEYS_KEPT);
}
