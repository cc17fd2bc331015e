//! Tests of the verification: a good directory, and every kind of object damaged in every way.

use super::blobs::in_flight;
use super::{Directory, Report, Severity, checkpoint_rows, part_rows, verify};
use crate::io::StorageRequest;
use crate::io::storage::StorageServer;
use crate::layout;
use crate::manifest::Manifest;
use crate::segment::Footer;
use crate::testing::sample_job::{self, SampleJob};
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointId, Kind};
use proptest::prelude::*;

/// Slots: 1 Start, 2 full, 3 increment, 4 Start, 5 savepoint, 6 increment. Checkpoints: 1, 2, (3 failed), 4, 5.
async fn good() -> SampleJob {
    SampleJob::good(StorageServer::in_memory()).await
}

async fn report(job: &SampleJob) -> Report {
    verify(&job.storage, |_| {}).await.expect("listed")
}

async fn replace(job: &SampleJob, path: &str, bytes: Option<Bytes>) {
    job.storage.serve(StorageRequest::Delete { path: path.to_owned() }).await;
    if let Some(bytes) = bytes {
        job.put(path, bytes).await;
    }
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

#[tokio::test]
async fn a_good_directory_has_no_findings_and_every_byte_of_it_was_read() {
    let job = good().await;
    let mut last = None;
    let report = verify(&job.storage, |progress| last = Some(progress)).await.expect("listed");
    assert_eq!(report.findings, []);
    assert_eq!(report.checkpoints, 4);
    assert_eq!(report.newest_whole, Some(CheckpointId(5)));
    assert_eq!(report.objects as usize, job.paths().await.len());
    let last = last.expect("progress");
    assert_eq!((last.done, last.total), (report.bytes, report.bytes));
}

#[tokio::test]
async fn every_object_flipped_or_truncated_is_found_and_named() {
    let paths = good().await.paths().await;
    assert!(paths.len() > 20);
    for path in paths {
        for how in ["flipped", "truncated"] {
            let job = good().await;
            let bytes = job.get(&path).await.expect("there");
            let changed =
                if how == "flipped" { flipped(&bytes, bytes.len() / 2) } else { bytes.slice(..bytes.len() - 3) };
            replace(&job, &path, Some(changed)).await;
            let report = report(&job).await;
            let named =
                report.findings.iter().any(|finding| finding.path == path && finding.severity == Severity::Damage);
            assert!(named, "{path} {how}: {:?}", report.findings);
            assert!(report.findings.iter().all(|finding| !finding.advice.is_empty()));
        }
    }
}

#[tokio::test]
async fn every_missing_object_that_a_restore_needs_is_found_and_named() {
    for path in good().await.paths().await {
        let job = good().await;
        replace(&job, &path, None).await;
        let report = report(&job).await;
        let found = report.findings.iter().any(|finding| finding.path == path && finding.severity == Severity::Damage);
        // Retention deletes checkpoint slots, and nothing depends on the history.
        let is_start = ["log/1.json", "log/4.json"].contains(&path.as_str());
        let needed = is_start || path.starts_with("manifests/") || path.starts_with("data/");
        assert_eq!(found, needed, "{path}: {:?}", report.findings);
    }
}

#[tokio::test]
async fn the_newest_whole_checkpoint_is_named_although_newer_ones_are_damaged() {
    // Checkpoint 5 builds on 2, and 2 on 1; 4 is a savepoint.
    for (path, whole) in [("data/4/5-0.seg", Some(4)), ("data/1/2-1.seg", Some(4)), ("manifests/1-1.json", Some(4))] {
        let job = good().await;
        replace(&job, path, None).await;
        assert_eq!(report(&job).await.newest_whole, whole.map(CheckpointId), "{path}");
    }
    let job = good().await;
    for path in ["data/4/4-0.seg", "manifests/1-1.json"] {
        replace(&job, path, None).await;
    }
    assert_eq!(report(&job).await.newest_whole, None);
}

#[tokio::test]
async fn a_manifest_of_another_life_is_found_although_it_is_sound() {
    let job = good().await;
    let bytes = job.get("manifests/5-4.json").await.expect("there");
    let mut manifest = Manifest::decode("manifests/5-4.json", &bytes).expect("sound");
    manifest.job = "another".to_owned();
    replace(&job, "manifests/5-4.json", Some(manifest.encode())).await;
    let report = report(&job).await;
    assert!(
        report.findings.iter().any(|finding| finding.what.contains("copied from elsewhere")),
        "{:?}",
        report.findings
    );
    assert_eq!(report.newest_whole, Some(CheckpointId(4)));
}

#[tokio::test]
async fn a_blob_with_a_sound_checksum_that_is_no_segment_is_damage() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    let id = job.checkpoint(Kind::Checkpoint, None).await;
    let path = layout::manifest(id, job.attempt);
    let mut manifest = Manifest::decode(&path, &job.get(&path).await.expect("there")).expect("sound");
    let text = Bytes::from_static(b"a text of more than twenty-eight bytes is no segment");
    for part in manifest.parts.iter_mut().filter(|part| part.subtask.index == 0) {
        let Some(blob) = &mut part.segment else { continue };
        blob.length = text.len() as u64;
        blob.checksum = crate::envelope::hex(xxhash_rust::xxh3::xxh3_64(&text));
    }
    replace(&job, "data/1/1-0.seg", Some(text)).await;
    replace(&job, &path, Some(manifest.encode())).await;
    let findings = report(&job).await.findings;
    assert!(
        findings.iter().any(|finding| finding.path == "data/1/1-0.seg" && finding.what.contains("segment")),
        "{findings:?}"
    );
}

#[tokio::test]
async fn leftovers_are_notes_and_no_damage() {
    let mut job = good().await;
    job.unrecorded().await;
    job.put("notes/mine", Bytes::from_static(b"?")).await;
    let report = report(&job).await;
    assert!(!report.is_damaged());
    let noted: Vec<&str> = report.findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(noted, ["data/4/6-0.seg", "data/4/6-1.seg", "manifests/6-4.json", "notes/mine"]);
}

#[tokio::test]
async fn what_is_collected_beside_a_verification_is_no_damage() {
    let job = good().await;
    // The full checkpoint that others build on is not among what a collector takes; take an unneeded one.
    let mut taken = false;
    let victim = ["log/5.json", "manifests/4-4.json", "data/4/4-0.seg", "data/4/4-1.seg"];
    let storage = job.storage.clone();
    let report = verify(&job.storage, |_| {
        if !std::mem::replace(&mut taken, true) {
            for path in victim {
                // In memory, a deletion is done when its future is first polled.
                let delete = storage.serve(StorageRequest::Delete { path: path.to_owned() });
                futures_util::FutureExt::now_or_never(delete);
            }
        }
    });
    let report = report.await.expect("listed");
    assert!(taken && job.get("log/5.json").await.is_none());
    assert!(!report.is_damaged(), "{:?}", report.findings);
}

#[tokio::test]
async fn a_lost_log_is_damage_and_an_empty_directory_is_not() {
    let job = good().await;
    for slot in 1..=6 {
        replace(&job, &layout::slot(flott_checkpoint::Slot(slot)), None).await;
    }
    assert!(report(&job).await.findings.iter().any(|finding| finding.what.contains("the log is gone")));
    assert!(!report(&SampleJob::new(StorageServer::in_memory())).await.is_damaged());
}

#[tokio::test]
async fn a_head_that_restores_what_is_gone_is_damage() {
    let mut job = good().await;
    job.start(Some(CheckpointId(77))).await;
    assert!(report(&job).await.findings.iter().any(|finding| finding.what.contains("restores checkpoint 77")));
}

#[tokio::test]
async fn the_rows_say_what_there_is_also_of_a_damaged_checkpoint() {
    let job = good().await;
    replace(&job, "manifests/2-1.json", None).await;
    let directory = Directory::read(&job.storage, &mut |_| {}).await.expect("listed");
    let rows = checkpoint_rows(&directory);
    assert_eq!(rows.iter().map(|row| row.id.0).collect::<Vec<_>>(), [1, 2, 4, 5]);
    assert!(rows[1].details.is_none());
    let savepoint = rows[2].details.as_ref().expect("sound");
    assert_eq!((savepoint.kind, savepoint.base, savepoint.duration), (Kind::Savepoint, None, 18_000));
    assert_eq!(rows[3].details.as_ref().expect("sound").base, Some(CheckpointId(2)));
    let manifest = directory.manifest(CheckpointId(5), AttemptId(4)).expect("sound");
    let parts = part_rows(manifest);
    assert_eq!(parts.len(), 4);
    assert_eq!(parts[2].vertex, "count, out");
    assert!(parts[0].splits.contains_key("lines") && parts[0].segment.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_flipped_bit_anywhere_is_damage(object: prop::sample::Index, at: prop::sample::Index, bit in 0..8u8) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let job = good().await;
            let paths = job.paths().await;
            let path = object.get(&paths);
            let mut bytes = job.get(path).await.expect("there").to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            replace(&job, path, Some(bytes.into())).await;
            assert!(report(&job).await.is_damaged(), "bit {bit} of byte {at} of {path}");
        });
    }
}

#[test]
fn a_segment_that_lacks_what_was_in_flight_is_damage() {
    let (id, attempt) = (CheckpointId(3), AttemptId(1));
    let manifest = sample_job::manifest(id, attempt, None);
    let footer = Footer::of(&sample_job::segment_bytes(id, 1)).expect("a good segment");
    let mut channels = in_flight(&manifest, &layout::segment(attempt, id, 1));
    assert_eq!(channels.len(), 1);
    for channel in &mut channels {
        assert_eq!(channel.missing_in(&footer), None);
        channel.bytes += 1;
        let what = channel.missing_in(&footer).expect("a byte is missing");
        assert!(
            what.contains("`channel-0-0`") && what.contains("13 bytes") && what.contains("instead of 14"),
            "{what}"
        );
        let other = Footer::of(&sample_job::segment_bytes(id, 0)).expect("a good segment");
        assert!(
            channel.missing_in(&other).is_some_and(|what| what.contains("holds 0 bytes")),
            "the segment of another"
        );
    }
}

#[tokio::test]
async fn an_entry_that_a_late_write_brought_back_is_void_and_no_damage() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    for _ in 0..3 {
        job.checkpoint(Kind::Checkpoint, None).await;
    }
    let of_the_first = ["log/2.json", "manifests/1-1.json", "data/1/1-0.seg", "data/1/1-1.seg"];
    let mut entries = Vec::new();
    for path in of_the_first {
        entries.push(job.get(path).await.expect("there"));
        replace(&job, path, None).await;
    }
    replace(&job, "log/2.json", entries.first().cloned()).await;
    let found = report(&job).await;
    assert!(!found.is_damaged(), "{:?}", found.findings);
    let [void] = found.findings.as_slice() else { panic!("one finding: {:?}", found.findings) };
    assert!(void.path == "log/2.json" && void.what.contains("late write"), "{void:?}");
    assert_eq!(found.newest_whole, Some(CheckpointId(3)));
    // As soon as anything of it is there, it is a checkpoint like any other.
    replace(&job, "data/1/1-0.seg", entries.get(2).cloned()).await;
    assert!(report(&job).await.is_damaged());
}

#[tokio::test]
async fn a_newest_checkpoint_of_which_nothing_is_left_is_damage() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    for _ in 0..2 {
        job.checkpoint(Kind::Checkpoint, None).await;
    }
    for path in ["manifests/2-1.json", "data/1/2-0.seg", "data/1/2-1.seg"] {
        replace(&job, path, None).await;
    }
    assert!(report(&job).await.is_damaged());
}

#[tokio::test]
async fn an_entry_copied_to_another_slot_is_damage_there() {
    for slot in ["7", "5000", "18446744073709551615"] {
        let job = good().await;
        let path = format!("log/{slot}.json");
        job.put(&path, job.get("log/6.json").await.expect("there")).await;
        let found = report(&job).await;
        let named = found.findings.iter().find(|finding| finding.path == path).expect("found");
        assert_eq!(named.severity, Severity::Damage);
        assert!(named.what.contains("copied or renamed"), "{named:?}");
    }
}
