//! Pins that come after the slot of their checkpoint is gone.

use super::{Bench, incomplete};
use crate::io::StorageRequest;
use crate::io::storage::StorageServer;
use crate::pin::Pin;
use crate::testing::sample_job::SampleJob;
use flott_checkpoint::{CheckpointId, Kind};

#[tokio::test]
async fn what_the_pinned_checkpoint_builds_on_stays_until_the_pin_goes() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    let first = job.checkpoint(Kind::Checkpoint, None).await;
    let second = job.checkpoint(Kind::Checkpoint, Some(first)).await;
    job.checkpoint(Kind::Checkpoint, Some(second)).await;
    job.checkpoint(Kind::Checkpoint, None).await;
    let mut bench = Bench::new(job);
    bench.begin(1);
    bench.until_deletion_of("log/").await;
    let pin = Pin { checkpoint: CheckpointId(3), holder: "an export".to_owned() };
    bench.job.put(&Pin::path("export"), pin.encode()).await;
    bench.finish().await;
    assert_eq!(bench.deletions, ["log/4.json"], "the slot of the pinned one");
    incomplete(&bench.collect(1).await, 0, "a pin holds it, and its slot is gone");
    for path in ["manifests/1-1.json", "data/1/1-0.seg", "manifests/2-1.json", "data/1/2-0.seg", "data/1/3-0.seg"] {
        assert!(bench.job.get(path).await.is_some(), "{path}");
    }
    bench.job.storage.serve(StorageRequest::Delete { path: Pin::path("export") }).await;
    bench.collect(1).await;
    let paths = bench.job.paths().await;
    let left = paths.iter().filter(|path| path.starts_with("manifests/"));
    assert_eq!(left.collect::<Vec<_>>(), ["manifests/4-1.json"]);
}
