//! Tests of the storage server: the conformance suite on two stores, and what a store does that fails, lies or is slow.

mod faulty;
mod parts;

use super::blob::PART_BYTES;
use super::{RetryOptions, StorageServer, open_storage, open_storage_to_read};
use crate::error::ErrorKind;
use crate::io::{StorageReply, StorageRequest};
use crate::testing::storage_suite;
use bytes::Bytes;
use faulty::{Fault, Faulty, Kind, full_disk};
use flott_checkpoint::AttemptId;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const QUICK: RetryOptions = RetryOptions {
    tries: 5,
    first_pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(2),
    timeout: Duration::from_millis(300),
};

fn faulty(faults: Vec<(Kind, Fault)>) -> (Arc<Faulty>, StorageServer) {
    let store = Arc::new(Faulty::new(faults));
    let server = StorageServer::new(store.clone(), "job", QUICK).expect("a path");
    (store, server)
}

fn create(path: &str) -> StorageRequest {
    StorageRequest::Create { path: path.to_owned(), bytes: Bytes::from_static(b"{}") }
}

fn append(path: &str, length: usize) -> StorageRequest {
    StorageRequest::Append { path: path.to_owned(), bytes: Bytes::from(vec![7; length]) }
}

fn finish(path: &str) -> StorageRequest {
    StorageRequest::Finish { path: path.to_owned() }
}

fn read(path: &str) -> StorageRequest {
    StorageRequest::Read { path: path.to_owned(), range: None }
}

/// The text of a failure.
#[track_caller]
fn failure(reply: StorageReply) -> String {
    match reply {
        StorageReply::Failed(text) => text,
        other => panic!("should have failed: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_directory_keeps_all_promises() {
    let root = tempfile::tempdir().expect("a directory");
    let mut n = 0;
    storage_suite::all(|| {
        n += 1;
        open_storage(&root.path().join("dir").display().to_string(), &format!("job-{n}")).expect("opened")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_memory_keeps_all_promises() {
    storage_suite::all(StorageServer::in_memory).await;
}

#[tokio::test]
async fn passing_failures_of_idempotent_requests_are_repeated_up_to_five_tries() {
    let path = "data/1/1-0.seg";
    let asks: [(Kind, StorageRequest); 5] = [
        (Kind::Get, read(path)),
        (Kind::List, StorageRequest::List { prefix: "data".to_owned() }),
        (Kind::Delete, StorageRequest::Delete { path: path.to_owned() }),
        (Kind::Overwrite, finish(path)),
        (Kind::Head, StorageRequest::Read { path: path.to_owned(), range: Some(0..0) }),
    ];
    for (kind, request) in asks {
        for failures in [4, 5] {
            let (store, server) = faulty(vec![(kind, Fault::Error); failures]);
            if kind == Kind::Get || kind == Kind::Head {
                server.serve(create(path)).await;
            }
            if kind == Kind::Overwrite {
                assert!(matches!(server.serve(append(path, 10)).await, StorageReply::Done));
            }
            let reply = server.serve(request.clone()).await;
            let failed = matches!(reply, StorageReply::Failed(_));
            assert_eq!(failed, failures == 5, "{kind:?} after {failures} failures: {reply:?}");
            assert_eq!(store.calls(kind), 5, "{kind:?}");
            if failed {
                let text = failure(reply);
                assert!(text.contains("a passing fault") && text.contains("tried 5 times"), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_create_with_an_unknown_outcome_is_said_to_be_unknown_and_not_repeated() {
    for fault in [Fault::Error, Fault::Lost, Fault::Hang] {
        let (store, server) = faulty(vec![(Kind::Create, fault)]);
        let reply = server.serve(create("log/1.json")).await;
        assert!(matches!(reply, StorageReply::Unknown(_)), "{fault:?}: {reply:?}");
        assert_eq!(store.calls(Kind::Create), 1);
        // The caller settles it by asking again.
        let again = server.serve(create("log/1.json")).await;
        assert_eq!(matches!(again, StorageReply::Exists), fault == Fault::Lost, "{fault:?}: {again:?}");
    }
}

#[tokio::test]
async fn a_refused_create_fails_at_once_with_the_stores_reason() {
    let (store, server) = faulty(vec![(Kind::Create, Fault::Denied)]);
    let text = failure(server.serve(create("log/1.json")).await);
    assert!(text.contains("log/1.json") && text.contains("not yours"), "{text}");
    assert_eq!(store.calls(Kind::Create), 1);
}

#[tokio::test]
async fn a_slow_read_is_given_up_and_repeated() {
    let (store, server) = faulty(vec![(Kind::Get, Fault::Hang)]);
    server.serve(create("log/1.json")).await;
    assert!(matches!(server.serve(read("log/1.json")).await, StorageReply::Read(_)));
    assert_eq!(store.calls(Kind::Get), 2);
}

#[tokio::test]
async fn a_failed_part_breaks_the_blob_until_it_is_discarded() {
    let (store, server) = faulty(vec![(Kind::Part, Fault::Error)]);
    let path = "data/1/1-0.seg";
    let text = failure(server.serve(append(path, PART_BYTES + 1)).await);
    assert!(text.contains("a passing fault"), "{text}");
    assert!(failure(server.serve(append(path, 1)).await).contains("a passing fault"));
    assert!(failure(server.serve(finish(path)).await).contains("a passing fault"));
    assert_eq!(store.aborted.load(Ordering::SeqCst), 1, "the upload is given back");
    assert!(matches!(server.serve(StorageRequest::Discard { path: path.to_owned() }).await, StorageReply::Done));
    assert!(matches!(server.serve(append(path, PART_BYTES + 1)).await, StorageReply::Done));
    assert!(matches!(server.serve(finish(path)).await, StorageReply::Done));
    let StorageReply::Read(bytes) = server.serve(read(path)).await else { panic!("finished") };
    assert_eq!(bytes.len(), PART_BYTES + 1);
    assert_eq!(server.store.turns.open(), 0, "no queue is left behind");
}

#[tokio::test]
async fn an_abort_that_hangs_holds_nobody_up() {
    let (store, server) =
        faulty(vec![(Kind::Part, Fault::Error), (Kind::Abort, Fault::Hang), (Kind::Abort, Fault::Hang)]);
    let path = "data/1/1-0.seg";
    let discard = StorageRequest::Discard { path: path.to_owned() };
    let text = failure(server.serve(append(path, PART_BYTES + 1)).await);
    assert!(text.contains("a passing fault"), "the cause is told, not what followed: {text}");
    assert!(matches!(server.serve(discard.clone()).await, StorageReply::Done));
    assert!(matches!(server.serve(append(path, PART_BYTES + 1)).await, StorageReply::Done));
    let text = failure(server.serve(discard).await);
    assert!(text.contains("cannot be taken back"), "{text}");
    assert_eq!(store.calls(Kind::Abort), 2);
    assert_eq!(server.store.turns.open(), 0);
}

#[tokio::test]
async fn an_attempt_that_is_forgotten_leaves_no_open_blob_behind() {
    let (store, server) = faulty(vec![]);
    let large = "data/1/2-0.seg";
    server.serve(append(large, PART_BYTES + 1)).await;
    server.serve(append("data/1/2-1.seg", 10)).await;
    server.serve(append("data/10/2-0.seg", 10)).await;
    // Its turn has come before the attempt is forgotten, although it is served after.
    let late = server.serve(append(large, 10));
    let (reply, ()) = tokio::join!(late, server.forget(AttemptId(1)));
    assert!(matches!(reply, StorageReply::Done));
    assert_eq!(store.aborted.load(Ordering::SeqCst), 1, "the upload is given back");
    assert_eq!(server.store.turns.open(), 1, "only the blob of the other attempt");
    assert!(matches!(server.serve(finish("data/10/2-0.seg")).await, StorageReply::Done));
    assert!(failure(server.serve(finish(large)).await).contains("never begun"));
}

#[tokio::test]
async fn the_staging_file_of_a_forgotten_attempt_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = open_storage(&dir.path().display().to_string(), "job").expect("opened");
    let files = || std::fs::read_dir(dir.path().join("job/data/1")).map_or(0, Iterator::count);
    server.serve(append("data/1/2-0.seg", PART_BYTES + 1)).await;
    assert_eq!(files(), 1, "half written");
    server.forget(AttemptId(1)).await;
    assert_eq!(files(), 0);
}

#[tokio::test]
async fn a_dropped_append_breaks_the_blob_instead_of_leaving_a_gap() {
    let server = StorageServer::in_memory();
    drop(server.serve(append("data/1/1-0.seg", 10)));
    let text = failure(server.serve(append("data/1/1-0.seg", 10)).await);
    assert!(text.contains("given up half way"), "{text}");
}

#[tokio::test]
async fn a_full_disk_fails_the_request_with_the_systems_words() {
    let (_, server) = faulty(vec![(Kind::Overwrite, Fault::Full); 5]);
    let path = "data/1/1-0.seg";
    server.serve(append(path, 10)).await;
    let text = failure(server.serve(finish(path)).await);
    assert!(text.contains(path) && text.contains(&full_disk().to_string()), "{text}");

    let (_, server) = faulty(vec![(Kind::Part, Fault::Full)]);
    let text = failure(server.serve(append(path, PART_BYTES + 1)).await);
    assert!(text.contains(&full_disk().to_string()), "{text}");
}

#[tokio::test]
async fn a_store_that_overwrites_is_refused_at_the_start() {
    let (_, server) = faulty(vec![(Kind::Create, Fault::Overwrites); 10]);
    let error = server.probe().await.expect_err("no fence");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("two processes"), "{error}");
    // Also when an honest life of the store left its probe.
    let (_, server) =
        faulty(vec![(Kind::Create, Fault::None), (Kind::Create, Fault::Overwrites), (Kind::Create, Fault::Overwrites)]);
    server.serve(create("probe")).await;
    server.probe().await.expect_err("no fence");
}

#[tokio::test]
async fn the_probe_passes_on_honest_stores_again_and_again_and_through_lost_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let server = open_storage(&dir.path().display().to_string(), "job").expect("opened");
        server.probe().await.expect("honest");
    }
    for fault in [Fault::Lost, Fault::Error] {
        let (_, server) = faulty(vec![(Kind::Create, fault), (Kind::Create, fault)]);
        server.probe().await.expect("honest");
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_refused_with_the_reason() {
    let (_, server) = faulty(vec![(Kind::Create, Fault::Denied); 5]);
    let error = server.probe().await.expect_err("not writable");
    assert_eq!(error.kind().exit_code(), 2);
    assert!(error.to_string().contains("cannot be written") && error.to_string().contains("not yours"), "{error}");

    // A place where nobody may make directories.
    let error = open_storage("/proc/flott", "job").expect_err("not writable");
    assert_eq!(error.kind().exit_code(), 2);
    assert!(error.to_string().contains("/proc/flott"), "{error}");
}

#[tokio::test]
async fn a_location_that_cannot_be_a_storage_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, b"").expect("written");
    let file = file.display().to_string();
    let below = format!("{file}/below");
    let cases = [
        (file.as_str(), "is not a directory"),
        (below.as_str(), "cannot create the checkpoint directory"),
        ("", "is empty"),
        #[cfg(not(feature = "s3"))]
        ("s3://bucket/x", "the feature `s3` of `flott`"),
        #[cfg(not(feature = "gs"))]
        ("gs://bucket/x", "the feature `gs` of `flott`"),
        #[cfg(not(feature = "az"))]
        ("az://bucket/x", "the feature `az` of `flott`"),
        ("abfs://c/x", "az://container/prefix"),
        ("ftp://host/x", "unknown scheme `ftp`"),
        ("file://relative", "is not a file URL"),
        ("file:///a%zz", "is not a file URL"),
    ];
    for (location, words) in cases {
        let error = open_storage(location, "job").expect_err(location);
        assert_eq!(error.kind().exit_code(), 2, "{location}");
        assert!(error.to_string().contains(words), "{location}: {error}");
    }
    open_storage(&dir.path().display().to_string(), "../escape").expect_err("no job name");
    let nothing = open_storage_to_read(&dir.path().display().to_string(), "none").await;
    nothing.expect_err("nothing there");
    assert!(!dir.path().join("none").exists(), "a reader makes no directories");
}

#[tokio::test]
async fn a_file_url_is_the_path_it_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}/with%20space", dir.path().display());
    let server = open_storage(&url, "job").expect("opened");
    server.serve(create("log/1.json")).await;
    assert!(dir.path().join("with space/job/log/1.json").is_file());
}

#[tokio::test]
async fn a_sweep_removes_half_written_files_of_dead_attempts_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = open_storage(&dir.path().display().to_string(), "job").expect("opened");
    let root = dir.path().join("job");
    let touch = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, b"half").expect("written");
    };
    let dead = ["log/4.json#1", "manifests/9-3.json#12", "data/4/7-0.seg#1", "history/9-4.json#2"];
    let alive = [
        "log/5.json#1",
        "log/6.json#1",
        "manifests/9-5.json#1",
        "data/5/1-0.seg#1",
        "data/4/7-0.seg",
        "data/4/x#1",
        "notes#1",
    ];
    dead.iter().chain(&alive).for_each(|name| touch(name));
    assert_eq!(server.sweep_staged(AttemptId(5)).await.expect("swept"), dead.len());
    assert!(dead.iter().all(|name| !root.join(name).exists()));
    assert!(alive.iter().all(|name| root.join(name).exists()));
    assert_eq!(StorageServer::in_memory().sweep_staged(AttemptId(5)).await.expect("nothing to do"), 0);
}

#[tokio::test]
async fn the_directory_of_an_attempt_goes_with_its_last_blob() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = open_storage(&dir.path().display().to_string(), "job").expect("opened");
    server.serve(create("data/1/1-0.seg")).await;
    server.serve(StorageRequest::Delete { path: "data/1/1-0.seg".to_owned() }).await;
    let left = |path: &Path| path.exists();
    assert!(!left(&dir.path().join("job/data/1")));
    assert!(left(&dir.path().join("job")));
    assert!(matches!(server.serve(create("data/1/1-0.seg")).await, StorageReply::Created));
}

/// A local storage with one object of each kind.
async fn furnished() -> (tempfile::TempDir, StorageServer) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = open_storage(&dir.path().display().to_string(), "job").expect("opened");
    for path in ["log/1.json", "manifests/1-1.json", "history/1-1.json", "pins/export", "data/1/1-0.seg"] {
        assert!(matches!(server.serve(create(path)).await, StorageReply::Created));
    }
    (dir, server)
}

async fn listed(server: &StorageServer, prefix: &str) -> Vec<String> {
    match server.serve(StorageRequest::List { prefix: prefix.to_owned() }).await {
        StorageReply::Listed(objects) => objects.into_iter().map(|(path, _)| path).collect(),
        other => panic!("{prefix} cannot be listed: {other:?}"),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn foreign_names_are_listed_as_such_and_hinder_no_listing() {
    use std::os::unix::{ffi::OsStrExt, fs::symlink};
    let (dir, server) = furnished().await;
    let job = dir.path().join("job");
    let foreign: [&[u8]; 5] = [b"caf\xe9", b"a\nb", b"%ff", b"a#1#x", b"..."];
    for directory in ["log", "manifests", "history", "pins", "data", "data/1", ""] {
        let before = listed(&server, directory).await;
        for name in foreign {
            std::fs::write(job.join(directory).join(std::ffi::OsStr::from_bytes(name)), "x").expect("a file");
        }
        // A circle, and a directory with something in it.
        symlink(".", job.join(directory).join("circle")).expect("a link");
        std::fs::create_dir(job.join(directory).join("mine")).expect("a directory");
        std::fs::write(job.join(directory).join("mine/notes"), "x").expect("a file");
        let after = listed(&server, directory).await;
        assert!(before.iter().all(|path| after.contains(path)), "{after:?}");
        let new = after.iter().filter(|path| !before.contains(path));
        let ours: Vec<_> = new.filter(|path| crate::layout::parse(path).is_some()).collect();
        assert!(ours.is_empty(), "{directory}: {ours:?}");
    }
    let report = crate::verify::verify(&server, |_| {}).await.expect("it can be listed");
    let foreign = report.findings.iter().filter(|finding| finding.what.contains("foreign"));
    assert!(foreign.count() >= 5 * 7, "{report:?}");
}

#[tokio::test]
async fn a_file_that_is_being_written_is_in_no_listing() {
    let (dir, server) = furnished().await;
    std::fs::write(dir.path().join("job/log/2.json#1"), "x").expect("a file");
    assert_eq!(listed(&server, "log").await, ["log/1.json"]);
}

#[cfg(unix)]
#[tokio::test]
async fn what_stands_in_an_objects_place_is_said_at_once() {
    use std::os::unix::fs::symlink;
    type Make = fn(&Path);
    let things: [(&str, Make); 3] = [
        ("is a directory where a file must be", |path| std::fs::create_dir_all(path).expect("a directory")),
        ("is a link that leads nowhere where a file must be", |path| symlink("nowhere", path).expect("a link")),
        ("is a pipe, a socket or a device where a file must be", |path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
        }),
    ];
    for (what, make) in things {
        let (dir, server) = furnished().await;
        for path in ["log/2.json", "manifests/2-1.json", "history/2-1.json", "pins/other", "data/1/2-0.seg"] {
            make(&dir.path().join("job").join(path));
            let seen = listed(&server, "").await.contains(&path.to_owned());
            assert_eq!(seen, !path.starts_with("pins/"), "{path} can be seen, unless it is no pin at all");
            for request in [create(path), read(path), StorageRequest::Read { path: path.to_owned(), range: Some(0..9) }]
            {
                match server.serve(request).await {
                    StorageReply::Obstructed(text) => assert!(text.contains(what) && text.contains(path), "{text}"),
                    other => panic!("{path}: {other:?}"),
                }
            }
            assert!(failure(server.serve(append(path, 10)).await).contains(what));
        }
    }
    let (dir, server) = furnished().await;
    std::fs::write(dir.path().join("job/data/2"), "x").expect("a file");
    let text = failure(server.serve(append("data/2/2-0.seg", 10)).await);
    assert!(text.contains("data/2 is a file where a directory must be"), "{text}");
}
