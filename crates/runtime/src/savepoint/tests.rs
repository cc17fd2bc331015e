//! Copying a savepoint, and finding it again: what is whole, what is not, and what a failure on the way leaves behind.

use super::*;
use crate::error::ErrorKind;
use crate::testing::sample_job::SampleJob;
use crate::verify::verify;
use flott_checkpoint::Kind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Checkpoints 1 (full), 2 (on 1), 4 (a savepoint), 5 (on 2).
async fn job() -> SampleJob {
    SampleJob::good(StorageServer::in_memory()).await
}

async fn copied() -> (SampleJob, StorageServer) {
    let (job, shelf) = (job().await, StorageServer::in_memory());
    claim(&shelf).await.expect("it is empty");
    copy(&job.storage, &shelf, CheckpointId(4)).await.expect("it is copied");
    (job, shelf)
}

async fn paths(storage: &StorageServer) -> Vec<String> {
    match storage.serve(StorageRequest::List { prefix: String::new() }).await {
        StorageReply::Listed(objects) => objects.into_iter().map(|(path, _)| path).collect(),
        other => panic!("{other:?}"),
    }
}

/// Writes an object anew.
async fn replace(storage: &StorageServer, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read(storage, path).await.expect("readable").expect("there").to_vec();
    change(&mut bytes);
    storage.serve(StorageRequest::Delete { path: path.to_owned() }).await;
    create(storage, path, bytes.into()).await.expect("written");
}

#[tokio::test]
async fn a_copy_is_whole_by_itself_and_is_found_again() {
    let (job, shelf) = copied().await;
    assert_eq!(paths(&shelf).await, ["data/4/4-0.seg", "data/4/4-1.seg", "manifests/4-4.json", layout::SAVEPOINT]);
    let report = verify(&shelf, |_| ()).await.expect("readable");
    assert!(!report.is_damaged(), "{:?}", report.findings);
    assert_eq!((report.checkpoints, report.newest_whole), (1, Some(CheckpointId(4))));
    let (found, manifest) = find(&shelf, "/shelf", true).await.expect("it is there");
    assert_eq!((manifest.kind, found.savepoint.id), (Kind::Savepoint, CheckpointId(4)));
    assert_eq!(found.savepoint.checksum, Manifest::checksum(&job.get("manifests/4-4.json").await.expect("there")));
    assert_eq!((found.savepoint.location.as_str(), found.savepoint.claim), ("/shelf", true));
    // A directory of a job gives its newest checkpoint.
    let (newest, _) = find(&job.storage, "/job", false).await.expect("it has some");
    assert_eq!((newest.savepoint.id, newest.incarnation), (CheckpointId(5), found.incarnation));
}

#[tokio::test]
async fn what_builds_on_others_is_no_savepoint_nor_is_what_was_collected() {
    let (job, shelf) = (job().await, StorageServer::in_memory());
    let error = copy(&job.storage, &shelf, CheckpointId(5)).await.expect_err("it builds on 2");
    assert!(error.to_string().contains("builds on others"), "{error}");
    let error = copy(&job.storage, &shelf, CheckpointId(3)).await.expect_err("it failed");
    assert!(error.to_string().contains("not in the log"), "{error}");
    assert_eq!(paths(&shelf).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_directory_is_claimed_once() {
    let shelf = StorageServer::in_memory();
    claim(&shelf).await.expect("it is empty");
    let error = claim(&shelf).await.expect_err("it is claimed");
    assert!(error.kind() == ErrorKind::Refused && error.to_string().contains("another savepoint"), "{error}");
    let error = find(&shelf, "/shelf", false).await.expect_err("there is none");
    assert!(error.kind() == ErrorKind::Refused && error.to_string().contains("left unfinished"), "{error}");
    unclaim(&shelf).await;
    assert_eq!(paths(&shelf).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_segment_that_is_not_what_was_written_is_not_copied() {
    for path in ["data/4/4-1.seg", "manifests/4-4.json"] {
        let (job, shelf) = (job().await, StorageServer::in_memory());
        replace(&job.storage, path, |bytes| bytes[20] ^= 1).await;
        let error = copy(&job.storage, &shelf, CheckpointId(4)).await.expect_err("it is damaged");
        assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains(path), "{error}");
        assert!(!paths(&shelf).await.contains(&layout::SAVEPOINT.to_owned()));
    }
}

#[tokio::test]
async fn every_damage_to_a_savepoint_is_found_before_anything_is_restored() {
    for path in [layout::SAVEPOINT, "manifests/4-4.json"] {
        let (_, shelf) = copied().await;
        replace(&shelf, path, |bytes| bytes[30] ^= 4).await;
        let error = find(&shelf, "/shelf", false).await.expect_err("it is damaged");
        assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains(path), "{error}");
        assert!(verify(&shelf, |_| ()).await.expect("readable").is_damaged(), "{path}");
    }
    let (_, shelf) = copied().await;
    shelf.serve(StorageRequest::Delete { path: "manifests/4-4.json".to_owned() }).await;
    let error = find(&shelf, "/shelf", false).await.expect_err("it is gone");
    assert!(error.kind() == ErrorKind::Unusable && error.to_string().contains("is missing"), "{error}");
    let (_, shelf) = copied().await;
    shelf.serve(StorageRequest::Delete { path: "data/4/4-0.seg".to_owned() }).await;
    assert!(verify(&shelf, |_| ()).await.expect("readable").is_damaged(), "a segment is gone");
}

/// A storage that works so often and then no more; it keeps the kinds of requests.
struct Breaks {
    storage: StorageServer,
    left: AtomicUsize,
    asked: Mutex<Vec<String>>,
}

impl Serve for Breaks {
    async fn serve(&self, request: StorageRequest) -> StorageReply {
        let is_write = !matches!(request, StorageRequest::Read { .. });
        if is_write {
            self.asked.lock().expect("not poisoned").push(format!("{request:?}").chars().take(6).collect());
            if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
                return StorageReply::Failed("no space left".to_owned());
            }
        }
        self.storage.serve(request).await
    }
}

#[tokio::test]
async fn wherever_writing_fails_there_is_either_no_savepoint_or_a_whole_one() {
    let job = job().await;
    let mut whole = 0;
    for left in 0..20 {
        let storage = StorageServer::in_memory();
        let shelf = Breaks { storage, left: AtomicUsize::new(left), asked: Mutex::default() };
        let copied = copy(&job.storage, &shelf, CheckpointId(4)).await;
        let found = find(&shelf.storage, "/shelf", false).await;
        match copied {
            Ok(_) => {
                whole += 1;
                found.expect("it is complete");
                assert!(!verify(&shelf.storage, |_| ()).await.expect("readable").is_damaged(), "{left}");
            }
            Err(error) => {
                assert!(error.to_string().contains("no space left"), "{error}");
                assert!(found.is_err(), "{left}: {:?}", shelf.asked.lock());
            }
        }
    }
    assert!(whole > 5 && whole < 20, "{whole}");
}

/// The first creates have an outcome that nobody knows; none of them was done.
struct Busy(StorageServer, AtomicUsize);

impl Serve for Busy {
    async fn serve(&self, request: StorageRequest) -> StorageReply {
        let is_create = matches!(request, StorageRequest::Create { .. });
        if is_create && self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return StorageReply::Unknown("503".to_owned());
        }
        self.0.serve(request).await
    }
}

#[tokio::test]
async fn a_create_of_unknown_outcome_is_repeated_and_not_for_ever() {
    for (failures, is_well) in [(1, true), (99, false)] {
        let shelf = Busy(StorageServer::in_memory(), AtomicUsize::new(failures));
        assert_eq!(claim(&shelf).await.is_ok(), is_well, "{failures}");
        shelf.1.store(failures, Ordering::SeqCst);
        assert_eq!(create(&shelf, "manifests/1-1.json", Bytes::from_static(b"x")).await.is_ok(), is_well, "{failures}");
    }
}
