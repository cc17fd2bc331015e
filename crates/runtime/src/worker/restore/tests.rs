//! What an error of state means for the checkpoint that is restored.

use super::unrestored;
use crate::error::ErrorKind;
use crate::segment::StateName;
use crate::state::StateError;
use flott_checkpoint::KeyGroup;

#[test]
fn a_store_that_fails_says_nothing_about_the_checkpoint_and_damage_does() {
    let name = || StateName::new("operator", "state");
    let full = StateError::Backend(name(), "no space left on device".to_owned());
    let damaged = StateError::Damaged(name(), KeyGroup(3), "element 4 of a list of 3".to_owned());
    let kinds = [&full, &damaged].map(|error| unrestored("data/1/1-0.seg", error).kind());
    assert_eq!(kinds, [ErrorKind::Failed, ErrorKind::Unusable]);
    assert!(unrestored("", &full).to_string().contains("no space left"), "the cause is told");
}
