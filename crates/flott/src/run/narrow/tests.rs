//! A rush is narrowed, and what a checkpoint waits for goes past it.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::{JoinSet, yield_now};

#[tokio::test]
async fn of_a_rush_of_deletions_only_some_are_under_way_and_a_log_slot_does_not_wait_for_them() {
    let (narrow, inside, most) = (Narrow::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut rush = JoinSet::new();
    for n in 0..200 {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        rush.spawn(narrow.pass(&StorageRequest::Delete { path: n.to_string() }, async move {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    while rush.join_next().await.is_some() {}
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);

    // Nobody leaves the narrow place, and the slot is created all the same.
    let mut stuck = JoinSet::new();
    for n in 0..AT_ONCE {
        stuck.spawn(narrow.pass(&StorageRequest::Delete { path: n.to_string() }, std::future::pending::<()>()));
    }
    yield_now().await;
    let slot = StorageRequest::Create { path: "log/1.json".to_owned(), bytes: Vec::new().into() };
    assert_eq!(narrow.pass(&slot, async { "created" }).await, "created");
}
