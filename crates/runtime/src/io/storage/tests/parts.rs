//! Tests of a store that takes parts by number: parts are sent again, slow puts get a second try, lost answers lose nothing.

use super::faulty::{Fault, Faulty, Kind};
use super::{QUICK, append, create, failure, finish, read};
use crate::io::storage::blob::PART_BYTES;
use crate::io::storage::{RetryOptions, StorageServer};
use crate::io::{StorageReply, StorageRequest};
use crate::testing::storage_suite;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PATH: &str = "data/1/1-0.seg";

/// A try that hangs is given up by nobody but a second one.
const PATIENT: RetryOptions = RetryOptions { timeout: Duration::from_secs(600), ..QUICK };

fn remote(faults: Vec<(Kind, Fault)>, retry: RetryOptions) -> (Arc<Faulty>, StorageServer) {
    let store = Arc::new(Faulty::new(faults));
    let server = StorageServer::with_parts(store.clone(), "job", "mem://b/job", retry).expect("a path");
    server.store.expect_puts_within(Duration::from_millis(1));
    (store, server)
}

async fn must_be_written(server: &StorageServer, length: usize) {
    assert!(matches!(server.serve(append(PATH, length)).await, StorageReply::Done));
    assert!(matches!(server.serve(finish(PATH)).await, StorageReply::Done));
    let StorageReply::Read(bytes) = server.serve(read(PATH)).await else { panic!("finished") };
    assert_eq!(bytes.len(), length);
    assert!(bytes.iter().all(|byte| *byte == 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_parts_by_number_keeps_all_promises() {
    storage_suite::all(|| remote(Vec::new(), QUICK).1).await;
}

#[tokio::test]
async fn a_failed_part_is_sent_again_in_its_place() {
    for fault in [Fault::Error, Fault::Lost, Fault::Hang] {
        let (store, server) = remote(vec![(Kind::Part, fault); 4], QUICK);
        must_be_written(&server, 3 * PART_BYTES + 1).await;
        assert_eq!(store.calls(Kind::Part), 8, "{fault:?}: four parts, and four failures");
        assert_eq!(server.store.turns.open(), 0);
    }
}

#[tokio::test]
async fn a_part_that_is_refused_breaks_the_blob_at_once_and_its_upload_is_given_back() {
    let (store, server) = remote(vec![(Kind::Part, Fault::Denied)], QUICK);
    let text = failure(server.serve(append(PATH, PART_BYTES + 1)).await);
    assert!(text.contains("not yours"), "{text}");
    assert_eq!((store.calls(Kind::Part), store.aborted.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_upload_that_was_completed_without_an_answer_is_complete() {
    let (store, server) = remote(vec![(Kind::Complete, Fault::Lost)], QUICK);
    must_be_written(&server, PART_BYTES + 1).await;
    assert_eq!(store.calls(Kind::Complete), 2);
}

#[tokio::test]
async fn an_upload_that_was_completed_without_an_answer_is_complete_also_where_its_blocks_are_used_up() {
    let (store, server) = remote(vec![(Kind::Complete, Fault::Lost), (Kind::Complete, Fault::UsedUp)], QUICK);
    must_be_written(&server, PART_BYTES + 1).await;
    assert_eq!(store.calls(Kind::Complete), 2);
}

#[tokio::test]
async fn an_upload_that_somebody_took_away_is_not_complete() {
    let (_, server) = remote(vec![(Kind::Complete, Fault::Gone)], QUICK);
    assert!(matches!(server.serve(append(PATH, PART_BYTES + 1)).await, StorageReply::Done));
    failure(server.serve(finish(PATH)).await);
    assert!(matches!(server.serve(read(PATH)).await, StorageReply::NotFound));
}

#[tokio::test]
async fn a_conflict_is_no_object_of_somebody_elses() {
    let (store, server) = remote(vec![(Kind::Create, Fault::Conflict)], QUICK);
    let reply = server.serve(create("log/1.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_)), "nobody has created anything: {reply:?}");
    assert!(matches!(server.serve(create("log/1.json")).await, StorageReply::Created));
    assert_eq!(store.calls(Kind::Create), 2);
    // What may be repeated is, as after any error that passes.
    let (store, server) = remote(vec![(Kind::Part, Fault::Conflict), (Kind::Complete, Fault::Conflict)], QUICK);
    must_be_written(&server, PART_BYTES + 1).await;
    assert_eq!((store.calls(Kind::Part), store.calls(Kind::Complete)), (3, 2));
}

#[tokio::test]
async fn a_put_that_hangs_is_overtaken_by_a_second_try() {
    for (kind, length) in [(Kind::Overwrite, 1_000), (Kind::Part, PART_BYTES + 1)] {
        let (store, server) = remote(vec![(kind, Fault::Hang)], PATIENT);
        must_be_written(&server, length).await;
        assert_eq!(store.calls(kind), if kind == Kind::Part { 3 } else { 2 });
    }
}

#[tokio::test]
async fn a_second_try_that_fails_takes_nothing_from_the_first() {
    // Late enough for a second try, which is told no at once.
    let (store, server) = remote(vec![(Kind::Overwrite, Fault::Late), (Kind::Overwrite, Fault::Denied)], PATIENT);
    must_be_written(&server, 1_000).await;
    assert_eq!(store.calls(Kind::Overwrite), 2);
}

#[tokio::test]
async fn a_create_that_hangs_is_overtaken_and_whoever_asked_settles_it() {
    let (store, server) = remote(vec![(Kind::Create, Fault::Hang)], PATIENT);
    let reply = server.serve(create("log/1.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_)), "the first try may have created it before: {reply:?}");
    assert_eq!(store.calls(Kind::Create), 2);
    assert!(matches!(server.serve(create("log/1.json")).await, StorageReply::Exists));
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_never_said_to_be_somebody_elses() {
    // The first try creates the object, and its answer never comes; the second finds it.
    let (store, server) = remote(vec![(Kind::Create, Fault::Vanished)], QUICK);
    let reply = server.serve(create("manifests/1-1.json")).await;
    assert!(matches!(reply, StorageReply::Unknown(_)), "{reply:?}");
    assert_eq!(store.calls(Kind::Create), 2);
}

#[tokio::test]
async fn a_slow_create_is_created_if_its_second_try_finds_the_object() {
    let (store, server) = remote(vec![(Kind::Create, Fault::LateAnswer)], PATIENT);
    let reply = server.serve(create("log/1.json")).await;
    assert!(matches!(reply, StorageReply::Created), "{reply:?}");
    assert_eq!(store.calls(Kind::Create), 2);
}

#[tokio::test]
async fn a_slow_create_of_what_no_checkpoint_waits_for_is_sent_once() {
    let (store, server) = remote(vec![(Kind::Create, Fault::Hang)], QUICK);
    assert!(matches!(server.serve(create("history/1-1.json")).await, StorageReply::Unknown(_)));
    assert_eq!(store.calls(Kind::Create), 1);
}

#[tokio::test]
async fn uploads_of_an_attempt_that_ended_are_given_back() {
    let (store, server) = remote(Vec::new(), QUICK);
    assert!(matches!(server.serve(append(PATH, PART_BYTES + 1)).await, StorageReply::Done));
    server.forget(flott_checkpoint::AttemptId(1)).await;
    assert_eq!(store.aborted.load(Ordering::SeqCst), 1);
    assert!(matches!(server.serve(StorageRequest::Discard { path: PATH.to_owned() }).await, StorageReply::Done));
}
