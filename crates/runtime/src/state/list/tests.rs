//! What a list remembers of its past.

use super::*;

fn lengths(list: &Elements<u8>, epochs: Range<Epoch>) -> Vec<usize> {
    epochs.map(|epoch| list.length_at(epoch)).collect()
}

#[test]
fn a_list_knows_how_long_it_was_at_the_end_of_each_epoch_that_anybody_may_ask_for() {
    let mut list = Elements::new();
    for epoch in [2, 2, 3, 5, 5, 5, 9] {
        list.push(0, epoch, 1);
    }
    assert_eq!(lengths(&list, 0..11), [0, 0, 2, 3, 3, 6, 6, 6, 6, 7, 7]);
    list.push(0, 10, 4);
    assert_eq!(lengths(&list, 4..11), [3, 6, 6, 6, 6, 7, 8], "what was passed is forgotten, what was not is known");
    assert_eq!(list.lengths.len(), 4);
}

#[test]
fn a_list_that_grows_in_every_epoch_remembers_no_more_than_the_epochs_in_use() {
    let mut list = Elements::new();
    for epoch in 1..10_000 {
        list.push(0u8, epoch, epoch.saturating_sub(3));
        assert!(list.lengths.len() <= 5, "{} at epoch {epoch}", list.lengths.len());
    }
}
