//! What everything that serves storage requests must do: the promises that the log, checkpoints and restores rest on.
//!
//! Run [`all`] on each implementation. A broken promise panics with its name. The suite knows no implementation.

use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use std::ops::Range;

/// Whatever serves storage requests.
pub trait Serves {
    /// Serves one request. Calls for one blob are served in the order of these calls.
    fn serve(&self, request: StorageRequest) -> BoxFuture<'static, StorageReply>;
}

impl Serves for StorageServer {
    fn serve(&self, request: StorageRequest) -> BoxFuture<'static, StorageReply> {
        StorageServer::serve(self, request).boxed()
    }
}

/// All promises, each on a storage that `fresh` makes empty.
///
/// # Panics
/// If one is broken.
pub async fn all<S: Serves>(mut fresh: impl FnMut() -> S) {
    an_object_is_created_once_and_never_changed(&fresh()).await;
    exactly_one_of_racing_creates_wins(&fresh()).await;
    ranges_are_read_exactly(&fresh()).await;
    a_listing_shows_all_objects_below_a_prefix_in_order(&fresh()).await;
    a_delete_is_idempotent(&fresh()).await;
    appends_of_one_blob_keep_their_order(&fresh()).await;
    blobs_do_not_mix(&fresh()).await;
    a_blob_is_invisible_until_it_is_finished(&fresh()).await;
    a_discarded_blob_never_existed(&fresh()).await;
    an_unbegun_blob_cannot_be_finished(&fresh()).await;
    a_name_that_is_no_path_is_refused(&fresh()).await;
}

/// Create if absent, whole, for ever.
///
/// # Panics
/// If the promise is broken.
pub async fn an_object_is_created_once_and_never_changed(s: &dyn Serves) {
    assert!(matches!(create(s, "log/1.json", b"first").await, StorageReply::Created));
    assert!(matches!(create(s, "log/1.json", b"second").await, StorageReply::Exists));
    assert_eq!(read(s, "log/1.json").await.as_deref(), Some(&b"first"[..]));
    assert!(matches!(create(s, "log/2.json", b"").await, StorageReply::Created));
    assert_eq!(read(s, "log/2.json").await.as_deref(), Some(&b""[..]));
    assert_eq!(read(s, "log/3.json").await, None);
}

/// The fence (D5): of many creates of one slot at the same time one wins, and the object is the winner's.
///
/// # Panics
/// If the promise is broken.
pub async fn exactly_one_of_racing_creates_wins(s: &dyn Serves) {
    for slot in 1..=4 {
        let path = format!("log/{slot}.json");
        let replies = join_all((0..8u8).map(|n| create(s, &path, &[n; 1000]))).await;
        let winners: Vec<u8> = (0..8u8)
            .zip(&replies)
            .filter(|(_, reply)| matches!(reply, StorageReply::Created))
            .map(|(n, _)| n)
            .collect();
        let [winner] = winners.as_slice() else { panic!("slot {slot} has the winners {winners:?}: {replies:?}") };
        assert!(
            replies.iter().all(|reply| matches!(reply, StorageReply::Created | StorageReply::Exists)),
            "{replies:?}"
        );
        assert_eq!(read(s, &path).await.as_deref(), Some(&[*winner; 1000][..]), "slot {slot}");
    }
}

/// A range is read exactly, as far as the object goes.
///
/// # Panics
/// If the promise is broken.
pub async fn ranges_are_read_exactly(s: &dyn Serves) {
    create(s, "manifests/1-1.json", b"0123456789").await;
    for (range, expected) in [(0..10, "0123456789"), (3..7, "3456"), (9..10, "9"), (4..4, "")] {
        match read_range(s, "manifests/1-1.json", range.clone()).await {
            StorageReply::Read(bytes) => assert_eq!(&bytes[..], expected.as_bytes(), "{range:?}"),
            other => panic!("{range:?} is answered with {other:?}"),
        }
    }
    for (range, there) in [(5..11, "56789"), (10..12, ""), (100..u64::MAX, "")] {
        match read_range(s, "manifests/1-1.json", range.clone()).await {
            StorageReply::Read(bytes) => assert_eq!(&bytes[..], there.as_bytes(), "{range:?} goes past the end"),
            other => panic!("{range:?} is answered with {other:?}"),
        }
    }
    for range in [0..5, 0..0] {
        let reply = read_range(s, "manifests/2-1.json", range).await;
        assert!(matches!(reply, StorageReply::NotFound), "{reply:?}");
    }
}

/// A listing is complete, exact about lengths, and sorted; a prefix is a whole directory name.
///
/// # Panics
/// If the promise is broken.
pub async fn a_listing_shows_all_objects_below_a_prefix_in_order(s: &dyn Serves) {
    assert_eq!(list(s, "log").await, []);
    assert_eq!(list(s, "").await, []);
    for (path, length) in [("data/2/1-0.seg", 3), ("data/1/1-0.seg", 5), ("data/10/1-1.seg", 0), ("log/1.json", 1)] {
        create(s, path, &vec![b'x'; length]).await;
    }
    let data = [("data/1/1-0.seg".to_owned(), 5), ("data/10/1-1.seg".to_owned(), 0), ("data/2/1-0.seg".to_owned(), 3)];
    assert_eq!(list(s, "data").await, data);
    assert_eq!(list(s, "data/1").await, data.iter().take(1).cloned().collect::<Vec<_>>());
    assert_eq!(list(s, "dat").await, []);
    assert_eq!(list(s, "").await.len(), 4);
}

/// Deleting what is not there is no failure; what is deleted is gone, and may be created anew.
///
/// # Panics
/// If the promise is broken.
pub async fn a_delete_is_idempotent(s: &dyn Serves) {
    create(s, "data/1/1-0.seg", b"x").await;
    create(s, "data/1/1-1.seg", b"y").await;
    for _ in 0..2 {
        done(s, StorageRequest::Delete { path: "data/1/1-0.seg".to_owned() }).await;
        assert_eq!(list(s, "data").await, [("data/1/1-1.seg".to_owned(), 1)]);
        assert_eq!(read(s, "data/1/1-0.seg").await, None);
    }
    done(s, StorageRequest::Delete { path: "data/7/7-7.seg".to_owned() }).await;
    done(s, StorageRequest::Delete { path: "data/1/1-1.seg".to_owned() }).await;
    assert!(matches!(create(s, "data/1/1-1.seg", b"new").await, StorageReply::Created));
}

/// The order of a blob's bytes is that of the calls, also when nobody waits for an answer before the next call.
///
/// # Panics
/// If the promise is broken.
pub async fn appends_of_one_blob_keep_their_order(s: &dyn Serves) {
    let path = "data/1/1-0.seg";
    let mut expected = Vec::new();
    let mut waiting = Vec::new();
    for n in 0..100u8 {
        let bytes = vec![n; usize::from(n) * 1_000];
        expected.extend_from_slice(&bytes);
        waiting.push(s.serve(StorageRequest::Append { path: path.to_owned(), bytes: bytes.into() }));
    }
    waiting.push(s.serve(StorageRequest::Finish { path: path.to_owned() }));
    // Polled in the wrong order on purpose.
    waiting.reverse();
    for reply in join_all(waiting).await {
        assert!(matches!(reply, StorageReply::Done), "{reply:?}");
    }
    assert!(read(s, path).await.as_deref() == Some(&expected[..]), "the bytes of the blob are in another order");
}

/// Blobs that are written at the same time, some of them of several parts, keep their own bytes.
///
/// # Panics
/// If the promise is broken.
pub async fn blobs_do_not_mix(s: &dyn Serves) {
    const CHUNK: usize = 1 << 20;
    let path = |worker: u8| format!("data/1/1-{worker}.seg");
    for chunk in 0..20 {
        // Only the first blob gets all chunks.
        let workers = if chunk < 3 { 0..4u8 } else { 0..1 };
        let appends = workers.map(|n| {
            let bytes = Bytes::from(vec![n; CHUNK + usize::from(n)]);
            done(s, StorageRequest::Append { path: path(n), bytes })
        });
        join_all(appends).await;
    }
    for n in 0..4u8 {
        done(s, StorageRequest::Finish { path: path(n) }).await;
        let bytes = read(s, &path(n)).await.expect("finished");
        let chunks = if n == 0 { 20 } else { 3 };
        assert_eq!(bytes.len(), chunks * (CHUNK + usize::from(n)));
        assert!(bytes.iter().all(|byte| *byte == n), "blob {n} holds bytes of another one");
    }
}

/// Nothing partial is ever seen, however much was appended.
///
/// # Panics
/// If the promise is broken.
pub async fn a_blob_is_invisible_until_it_is_finished(s: &dyn Serves) {
    let path = "data/1/1-0.seg".to_owned();
    for _ in 0..20 {
        let bytes = Bytes::from(vec![7; 1 << 20]);
        done(s, StorageRequest::Append { path: path.clone(), bytes }).await;
        assert_eq!(list(s, "").await, []);
        assert_eq!(read(s, &path).await, None);
    }
    done(s, StorageRequest::Finish { path: path.clone() }).await;
    assert_eq!(list(s, "").await, [(path, 20 << 20)]);
}

/// Discard leaves nothing, may be said twice and of a blob that was never begun; the blob may be begun anew.
///
/// # Panics
/// If the promise is broken.
pub async fn a_discarded_blob_never_existed(s: &dyn Serves) {
    let path = "data/1/1-0.seg".to_owned();
    for megabytes in [1, 20] {
        for _ in 0..megabytes {
            done(s, StorageRequest::Append { path: path.clone(), bytes: Bytes::from(vec![1; 1 << 20]) }).await;
        }
        for _ in 0..2 {
            done(s, StorageRequest::Discard { path: path.clone() }).await;
            assert_eq!(list(s, "").await, []);
        }
    }
    done(s, StorageRequest::Append { path: path.clone(), bytes: Bytes::from_static(b"anew") }).await;
    done(s, StorageRequest::Finish { path: path.clone() }).await;
    assert_eq!(read(s, &path).await.as_deref(), Some(&b"anew"[..]));
}

/// A `Finish` without an `Append` is a mistake, and says so.
///
/// # Panics
/// If the promise is broken.
pub async fn an_unbegun_blob_cannot_be_finished(s: &dyn Serves) {
    let reply = s.serve(StorageRequest::Finish { path: "data/1/1-0.seg".to_owned() }).await;
    assert!(matches!(reply, StorageReply::Failed(_)), "{reply:?}");
    assert_eq!(list(s, "").await, []);
}

/// Nothing outside of the job's directory can be named.
///
/// # Panics
/// If the promise is broken.
pub async fn a_name_that_is_no_path_is_refused(s: &dyn Serves) {
    for path in ["../x", "a//b", "data/../../x"] {
        assert!(matches!(create(s, path, b"x").await, StorageReply::Failed(_)), "{path}");
        let reply = s.serve(StorageRequest::Append { path: path.to_owned(), bytes: Bytes::from_static(b"x") }).await;
        assert!(matches!(reply, StorageReply::Failed(_)), "{path}: {reply:?}");
    }
    assert_eq!(list(s, "").await, []);
}

fn create(s: &dyn Serves, path: &str, bytes: &[u8]) -> BoxFuture<'static, StorageReply> {
    s.serve(StorageRequest::Create { path: path.to_owned(), bytes: Bytes::copy_from_slice(bytes) })
}

async fn read_range(s: &dyn Serves, path: &str, range: Range<u64>) -> StorageReply {
    s.serve(StorageRequest::Read { path: path.to_owned(), range: Some(range) }).await
}

async fn read(s: &dyn Serves, path: &str) -> Option<Bytes> {
    match s.serve(StorageRequest::Read { path: path.to_owned(), range: None }).await {
        StorageReply::Read(bytes) => Some(bytes),
        StorageReply::NotFound => None,
        other => panic!("a read of {path} is answered with {other:?}"),
    }
}

async fn list(s: &dyn Serves, prefix: &str) -> Vec<(String, u64)> {
    match s.serve(StorageRequest::List { prefix: prefix.to_owned() }).await {
        StorageReply::Listed(objects) => objects,
        other => panic!("a listing of `{prefix}` is answered with {other:?}"),
    }
}

async fn done(s: &dyn Serves, request: StorageRequest) {
    let text = format!("{request:.60?}");
    let reply = s.serve(request).await;
    assert!(matches!(reply, StorageReply::Done), "{text} is answered with {reply:?}");
}
