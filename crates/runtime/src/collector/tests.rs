//! Tests of the collector, on a storage in memory, one request at a time or in any order.

use super::{Collected, Collector};
use crate::control::Captured;
use crate::history::{HistoryEntry, KEPT, Phases};
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout;
use crate::pin::Pin;
use crate::testing::sample_job::SampleJob;
use crate::time::Time;
use flott_checkpoint::{AttemptId, Barrier, CheckpointId, InUse, Kind, LiteSet, LogEntry, Mode, Outcome, Slot, Tried};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

mod late_pins;

const NOW: Time = Time(1_800_000_000_000_000);

/// A collector beside its job.
struct Bench {
    job: SampleJob,
    collector: Collector,
    asked: Vec<(Ticket, StorageRequest)>,
    /// This object is in no listing.
    hidden: Option<String>,
    /// All deletions that were asked for, in order.
    deletions: Vec<String>,
}

impl Bench {
    fn new(job: SampleJob) -> Bench {
        let collector = Collector::new(job.attempt, 1_000);
        Bench { job, collector, asked: Vec::new(), hidden: None, deletions: Vec::new() }
    }

    fn in_use(&self, retained: u32) -> InUse {
        let (attempt, newest) = (self.job.attempt, self.job.parent);
        InUse { attempt, newest, restored_from: None, pending: None, pins: LiteSet::new(), retained }
    }

    fn begin(&mut self, retained: u32) {
        let in_use = self.in_use(retained);
        self.collector.collect(in_use, NOW, &mut self.asked);
    }

    /// Serves the request at this place of the queue.
    async fn serve(&mut self, at: usize) -> Option<Collected> {
        let (ticket, request) = self.asked.remove(at);
        assert!(self.collector.owns(ticket));
        if let StorageRequest::Delete { path } = &request {
            self.deletions.push(path.clone());
        }
        let mut reply = self.job.storage.serve(request).await;
        if let StorageReply::Listed(objects) = &mut reply {
            objects.retain(|(path, _)| self.hidden.as_ref() != Some(path));
        }
        self.collector.on(ticket, reply, &mut self.asked)
    }

    async fn finish(&mut self) -> Collected {
        loop {
            if let Some(end) = self.serve(0).await {
                return end;
            }
        }
    }

    async fn collect(&mut self, retained: u32) -> Collected {
        self.begin(retained);
        self.finish().await
    }

    /// Serves until the next request is a deletion of a path that begins so.
    async fn until_deletion_of(&mut self, prefix: &str) {
        let is_it =
            |request: &StorageRequest| matches!(request, StorageRequest::Delete { path } if path.starts_with(prefix));
        while !self.asked.first().is_some_and(|(_, request)| is_it(request)) {
            assert_eq!(self.serve(0).await, None, "the run ended before a deletion below {prefix}");
        }
    }
}

async fn full_checkpoints(count: usize) -> SampleJob {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    for _ in 0..count {
        job.checkpoint(Kind::Checkpoint, None).await;
    }
    job
}

#[tokio::test]
async fn only_the_retained_checkpoints_stay_and_start_slots_stay_for_ever() {
    let mut bench = Bench::new(full_checkpoints(6).await);
    assert_eq!(bench.collect(3).await, Collected::Done { deleted: 3 * 4 });
    let paths = bench.job.paths().await;
    for id in 1..=6 {
        let named = |path: &str| paths.iter().any(|known| known == path);
        let (id, kept) = (CheckpointId(id), id > 3);
        assert_eq!(named(&layout::slot(Slot(id.0 + 1))), kept);
        assert_eq!(named(&layout::manifest(id, AttemptId(1))), kept);
        assert_eq!(named(&layout::segment(AttemptId(1), id, 1)), kept);
        assert!(named(&layout::history(id, AttemptId(1))), "the history is not collected with its checkpoint");
    }
    assert!(paths.contains(&layout::slot(Slot(1))));
    assert_eq!(bench.collect(3).await, Collected::Done { deleted: 0 });
}

#[tokio::test]
async fn slot_then_manifest_then_blobs_newest_checkpoint_first() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    bench.collect(1).await;
    let expected =
        ["log/3.json", "manifests/2-1.json", "data/1/2-0.seg", "data/1/2-1.seg", "log/2.json", "manifests/1-1.json"];
    assert_eq!(bench.deletions.iter().take(6).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_void_start_in_a_slot_that_was_emptied_is_a_start_and_stays() {
    let mut bench = Bench::new(full_checkpoints(4).await);
    assert_eq!(bench.collect(2).await, Collected::Done { deleted: 2 * 4 });
    let start = bench.job.get("log/1.json").await.expect("Start slots stay");
    let Ok(LogEntry::Start(mut start)) = LogEntry::decode(&start) else { panic!("a Start") };
    start.attempt = AttemptId(2);
    bench.job.put("log/2.json", LogEntry::Start(start).encode().into()).await;
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.deletions.clear();
    bench.collect(2).await;
    assert!(!bench.deletions.contains(&"log/2.json".to_owned()), "{:?}", bench.deletions);
    assert_eq!(bench.deletions.first().map(String::as_str), Some("log/4.json"), "the rest goes on");
}

#[tokio::test]
async fn what_a_retained_increment_builds_on_stays_down_to_the_full_one() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    job.checkpoint(Kind::Checkpoint, None).await;
    let mut base = job.checkpoint(Kind::Checkpoint, None).await;
    for _ in 0..4 {
        base = job.checkpoint(Kind::Checkpoint, Some(base)).await;
    }
    let mut bench = Bench::new(job);
    bench.collect(1).await;
    assert_eq!(bench.deletions, ["log/2.json", "manifests/1-1.json", "data/1/1-0.seg", "data/1/1-1.seg"]);
}

#[tokio::test]
async fn pinned_checkpoints_stay_and_savepoints_as_long_as_they_are_copied() {
    let mut job = full_checkpoints(2).await;
    job.checkpoint(Kind::Savepoint, None).await;
    job.checkpoint(Kind::Checkpoint, None).await;
    job.checkpoint(Kind::Checkpoint, None).await;
    let pin = Pin { checkpoint: CheckpointId(2), holder: "an export".to_owned() };
    job.put(&Pin::path("export"), pin.encode()).await;
    let mut bench = Bench::new(job);
    let copied = InUse { pins: LiteSet::from_iter([CheckpointId(3)]), ..bench.in_use(1) };
    bench.collector.collect(copied, NOW, &mut bench.asked);
    bench.finish().await;
    let log = |bench: &Bench| -> Vec<String> {
        bench.deletions.iter().filter(|path| path.starts_with("log/")).cloned().collect()
    };
    assert_eq!(
        log(&bench),
        ["log/5.json", "log/2.json"],
        "checkpoints 1 and 4 of 5 with a pin on 2 and the savepoint 3"
    );
    bench.collect(1).await;
    assert_eq!(log(&bench), ["log/5.json", "log/2.json", "log/4.json"], "it is copied");
}

#[tokio::test]
async fn a_pin_that_comes_after_the_slot_is_gone_saves_manifest_and_blobs() {
    let mut bench = Bench::new(full_checkpoints(2).await);
    bench.begin(1);
    bench.until_deletion_of("log/").await;
    let pin = Pin { checkpoint: CheckpointId(1), holder: "an export".to_owned() };
    bench.job.put(&Pin::path("export"), pin.encode()).await;
    let end = bench.finish().await;
    assert!(matches!(end, Collected::Incomplete { deleted: 1, .. }), "{end:?}");
    assert!(bench.job.get("manifests/1-1.json").await.is_some());
    // The slot is gone, but what is pinned is no orphan.
    incomplete(&bench.collect(1).await, 0, "a pin holds it, and its slot is gone");
    bench.job.storage.serve(StorageRequest::Delete { path: Pin::path("export") }).await;
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 3 });
}

#[tokio::test]
async fn orphans_of_dead_attempts_go_and_what_is_being_written_stays() {
    let mut job = full_checkpoints(1).await;
    job.unrecorded().await;
    job.start(Some(CheckpointId(1))).await;
    job.unrecorded().await;
    job.put("data/3/9-0.seg", "of a newer checkpoint".into()).await;
    job.put("data/9/9-0.seg", "of a newer attempt".into()).await;
    job.put("manifests/9-9.json", "of a newer attempt".into()).await;
    job.put("notes/mine", "of somebody else".into()).await;
    let mut bench = Bench::new(job);
    let dead = ["manifests/2-1.json", "data/1/2-0.seg", "data/1/2-1.seg"];
    assert_eq!(bench.collect(3).await, Collected::Done { deleted: 3 });
    assert_eq!(bench.deletions, dead);
    // The aborted checkpoint 3 of this attempt goes when a newer one is recorded.
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.deletions.clear();
    bench.collect(3).await;
    assert_eq!(bench.deletions, ["manifests/3-3.json", "data/3/3-0.seg", "data/3/3-1.seg"]);
}

#[tokio::test]
async fn what_a_dead_attempt_wrote_under_the_id_of_a_savepoint_goes() {
    let mut job = full_checkpoints(1).await;
    job.unrecorded().await;
    job.start(Some(CheckpointId(1))).await;
    // Recorded ids never repeat, but an unrecorded one is tried again.
    job.put("manifests/3-1.json", "of the dead attempt".into()).await;
    job.put("data/1/3-0.seg", "of the dead attempt".into()).await;
    assert_eq!(job.checkpoint(Kind::Savepoint, None).await, CheckpointId(3));
    let mut bench = Bench::new(job);
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.collect(3).await;
    for gone in ["manifests/3-1.json", "data/1/3-0.seg", "manifests/2-1.json"] {
        assert!(bench.deletions.contains(&gone.to_owned()), "{gone}: {:?}", bench.deletions);
    }
    assert!(bench.job.get("manifests/3-3.json").await.is_some(), "the savepoint itself stays");
}

#[tokio::test]
async fn an_abandoned_branch_stays_until_the_new_one_has_a_checkpoint() {
    let mut job = full_checkpoints(4).await;
    job.start(Some(CheckpointId(2))).await;
    let mut bench = Bench::new(job);
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 0 });
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.collect(2).await;
    let gone: Vec<&String> = bench.deletions.iter().filter(|path| path.starts_with("log/")).collect();
    assert_eq!(gone, ["log/5.json", "log/4.json", "log/2.json"], "2 is the parent of the newest and stays");
}

#[tokio::test]
async fn a_fenced_collector_deletes_nothing_more_ever() {
    for stop in ["log/", "manifests/", "data/"] {
        let mut bench = Bench::new(full_checkpoints(5).await);
        bench.begin(1);
        bench.until_deletion_of(stop).await;
        // The process is stopped here; another attempt takes over, and this one goes on with the batch in hand.
        let newest = bench.job.parent;
        bench.job.start(newest).await;
        assert_eq!(bench.finish().await, Collected::Fenced, "stopped before {stop}");
        let batch = if stop == "data/" { 4 } else { bench.deletions.len() };
        assert_eq!(bench.deletions.len(), batch, "one batch at most");
        assert!(
            bench.deletions.iter().all(|path| path.contains("/4-") || path == "log/5.json"),
            "{:?}",
            bench.deletions
        );
        bench.begin(1);
        assert!(bench.asked.is_empty() && !bench.collector.is_running());
    }
}

#[tokio::test]
async fn a_newer_attempt_is_seen_although_the_slots_between_are_deleted() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    bench.begin(1);
    // Stopped before anything was looked at; meanwhile it records two more itself, a newer attempt starts and empties slots.
    let id = bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.until_deletion_of("log/").await;
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    bench.job.start(Some(id)).await;
    for slot in 5..=6 {
        bench.job.storage.serve(StorageRequest::Delete { path: layout::slot(Slot(slot)) }).await;
    }
    assert_eq!(bench.finish().await, Collected::Fenced);
    assert_eq!(bench.deletions, ["log/3.json"]);
}

#[tokio::test]
async fn its_own_newer_checkpoints_do_not_stop_it() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    bench.begin(1);
    bench.until_deletion_of("manifests/").await;
    bench.job.checkpoint(Kind::Checkpoint, None).await;
    assert_eq!(bench.finish().await, Collected::Done { deleted: 8 });
}

#[tokio::test]
async fn a_failed_deletion_is_reported_and_made_up_for_by_the_next_run() {
    for stop in ["log/", "manifests/", "data/"] {
        let mut bench = Bench::new(full_checkpoints(3).await);
        bench.begin(1);
        bench.until_deletion_of(stop).await;
        let (ticket, _) = bench.asked.remove(0);
        let reply = StorageReply::Failed("no such luck".to_owned());
        assert_eq!(bench.collector.on(ticket, reply, &mut bench.asked), None);
        match bench.finish().await {
            Collected::Incomplete { reason, deleted } => assert!(reason == "no such luck" && deleted >= 4, "{deleted}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(bench.collect(1).await, Collected::Done { deleted: 1.. }));
        let left = bench.job.paths().await;
        assert_eq!(left.iter().filter(|path| path.starts_with("data/")).count(), 2, "{left:?}");
    }
}

/// Something else in the place of an object.
async fn spoil(bench: &Bench, path: &str) {
    bench.job.storage.serve(StorageRequest::Delete { path: path.to_owned() }).await;
    bench.job.put(path, "not what it was".into()).await;
}

#[track_caller]
fn incomplete(end: &Collected, expected: u64, part: &str) {
    match end {
        Collected::Incomplete { deleted, reason } => {
            assert!(reason.contains(part), "`{part}` is not in: {reason}");
            assert_eq!(*deleted, expected, "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// The checkpoints of which slot, manifest and blobs are there.
async fn whole_ones(job: &SampleJob) -> Vec<u64> {
    let paths: BTreeSet<String> = job.paths().await.into_iter().collect();
    let of = |id: u64| {
        let (id, attempt) = (CheckpointId(id), AttemptId(1));
        let segments = [0, 1].map(|worker| layout::segment(attempt, id, worker));
        [layout::slot(Slot(id.0 + 1)), layout::manifest(id, attempt)].into_iter().chain(segments)
    };
    (1..10).filter(|id| of(*id).all(|path| paths.contains(&path))).collect()
}

#[tokio::test]
async fn what_cannot_be_read_holds_what_it_may_stand_for_and_nothing_else() {
    // What is spoiled of five checkpoints, of which one is retained; what stays; what the user is told.
    let cases: [(&str, &[u64], &str); 6] = [
        ("log/6.json", &[1, 2, 3, 4, 5], "every checkpoint is kept, because log/6.json is unusable"),
        ("log/4.json", &[1, 2, 3, 5], "all before checkpoint 4 are kept, because log/4.json is unusable"),
        ("log/1.json", &[5], "all before checkpoint 1 are kept, because log/1.json is unusable"),
        ("manifests/5-1.json", &[1, 2, 3, 4, 5], "checkpoint 5 is needed and what it builds on is not known"),
        ("manifests/2-1.json", &[2, 5], "checkpoint 2 is kept, because nobody knows what it is: manifests/2-1.json"),
        ("pins/junk", &[1, 2, 3, 4, 5], "all up to checkpoint 5 are kept, because pins/junk may hold any of them"),
    ];
    for (path, stays, text) in cases {
        let mut bench = Bench::new(full_checkpoints(5).await);
        spoil(&bench, path).await;
        let gone = 4 * (5 - stays.len() as u64);
        incomplete(&bench.collect(1).await, gone, text);
        assert_eq!(whole_ones(&bench.job).await, stays, "{path}");
        incomplete(&bench.collect(1).await, 0, path);
    }
}

#[tokio::test]
async fn a_pin_that_cannot_be_read_does_not_hold_what_came_after_it() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    spoil(&bench, "pins/junk").await;
    incomplete(&bench.collect(1).await, 0, "pins/junk");
    for _ in 0..3 {
        bench.job.checkpoint(Kind::Checkpoint, None).await;
    }
    incomplete(&bench.collect(1).await, 2 * 4, "pins/junk");
    assert_eq!(whole_ones(&bench.job).await, [1, 2, 3, 6]);
    bench.job.storage.serve(StorageRequest::Delete { path: "pins/junk".to_owned() }).await;
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 3 * 4 });
}

#[tokio::test]
async fn an_entry_that_a_late_write_brought_back_goes_again() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    let void = bench.job.get("log/2.json").await.expect("it is there");
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 8 });
    bench.job.put("log/2.json", void).await;
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 2 }, "the slot, and a manifest that is not there");
    assert!(bench.job.get("log/2.json").await.is_none());
}

#[tokio::test]
async fn an_entry_copied_above_the_head_stops_the_run_and_is_no_fence() {
    let mut bench = Bench::new(full_checkpoints(3).await);
    let copy = bench.job.get("log/2.json").await.expect("it is there");
    bench.begin(1);
    bench.until_deletion_of("manifests/").await;
    bench.job.put("log/5000.json", copy).await;
    incomplete(&bench.finish().await, 2, "nothing more is collected, because log/5000.json is unusable");
    bench.job.storage.serve(StorageRequest::Delete { path: "log/5000.json".to_owned() }).await;
    assert_eq!(bench.collect(1).await, Collected::Done { deleted: 6 });
}

#[tokio::test]
async fn wishes_during_a_run_become_one_run_after_it() {
    let mut bench = Bench::new(full_checkpoints(4).await);
    for retained in [4, 3, 2] {
        bench.begin(retained);
    }
    assert_eq!(bench.finish().await, Collected::Done { deleted: 0 });
    assert!(bench.collector.is_running());
    assert_eq!(bench.finish().await, Collected::Done { deleted: 8 });
    assert!(!bench.collector.is_running() && bench.asked.is_empty());
}

#[tokio::test]
async fn old_history_goes_but_recent_failures_stay() {
    let mut job = SampleJob::new(StorageServer::in_memory());
    job.start(None).await;
    let tried = |id, outcome, ended_at| {
        let (id, attempt) = (CheckpointId(id), AttemptId(1));
        let barrier = Barrier { id, attempt, mode: Mode::Aligned, kind: Kind::Checkpoint, base: None, triggered_at: 0 };
        HistoryEntry {
            tried: Tried { barrier, ended_at, outcome },
            workers: 1,
            phases: Phases::default(),
            captured: Captured::default(),
        }
    };
    let failed = || Outcome::Unknown { reason: "killed".to_owned() };
    let done = || Outcome::Completed { full: true, bytes: 1, acked_at: 1 };
    for entry in [tried(1, failed(), 0), tried(2, failed(), NOW.millis() - 1_000), tried(3, done(), NOW.millis())] {
        job.put(&entry.path(), entry.encode()).await;
    }
    for id in 4..4 + KEPT as u64 {
        job.put(&layout::history(CheckpointId(id), AttemptId(1)), "never read".into()).await;
    }
    let mut bench = Bench::new(job);
    assert_eq!(bench.collect(3).await, Collected::Done { deleted: 2 });
    assert_eq!(bench.deletions, ["history/1-1.json", "history/3-1.json"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever the history of the job, the order of the answers and the crashes: what the log names is whole, the
    /// retained checkpoints are there with all their bases, and nothing of a newer attempt is touched.
    #[test]
    fn what_the_log_names_is_always_whole(
        steps in prop::collection::vec(0..6u8, 1..30),
        retained in 1..4u32,
        order: Vec<prop::sample::Index>,
        stop_after in 0..60usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut job = SampleJob::new(StorageServer::in_memory());
            job.start(None).await;
            for step in steps {
                let parent = job.parent;
                match step {
                    0 => drop(job.checkpoint(Kind::Checkpoint, None).await),
                    1 | 2 => drop(job.checkpoint(Kind::Checkpoint, parent).await),
                    3 => drop(job.checkpoint(Kind::Savepoint, None).await),
                    4 => drop(job.unrecorded().await),
                    _ => drop(job.start(parent).await),
                }
            }
            let mut bench = Bench::new(job);
            bench.begin(retained);
            for n in 0..stop_after {
                if bench.asked.is_empty() {
                    break;
                }
                let at = order.get(n % order.len().max(1)).map_or(0, |index| index.index(bench.asked.len()));
                bench.serve(at).await;
                whole(&bench.job).await;
            }
            let mut needed = bench.job.parent;
            while let Some(base) = needed.and_then(|id| bench.job.manifests.get(&id)) {
                let bytes = bench.job.get(&base.path()).await.expect("the newest checkpoint is whole");
                needed = crate::manifest::Manifest::decode(&base.path(), &bytes).expect("sound").base.map(|base| base.id);
            }
        });
    }
}

/// Each slot's manifest is there, and each manifest that a slot names has its segments and its base.
async fn whole(job: &SampleJob) {
    let paths: BTreeSet<String> = job.paths().await.into_iter().collect();
    let mut slots = BTreeMap::new();
    for path in &paths {
        if let Some(layout::Name::Slot(slot)) = layout::parse(path) {
            let bytes = job.get(path).await.expect("listed");
            slots.insert(slot, flott_checkpoint::LogEntry::decode(&bytes).expect("sound"));
        }
    }
    for (slot, entry) in slots {
        let flott_checkpoint::LogEntry::Checkpoint(entry) = entry else { continue };
        let bytes = job.get(&entry.manifest).await.unwrap_or_else(|| panic!("slot {slot} names nothing"));
        let manifest = crate::manifest::Manifest::decode(&entry.manifest, &bytes).expect("sound");
        assert!(manifest.blobs().keys().all(|blob| paths.contains(*blob)), "slot {slot} is not whole");
        assert!(manifest.base.is_none_or(|base| paths.contains(&base.path())), "slot {slot} lost its base");
    }
}

#[tokio::test]
async fn a_checkpoint_recorded_during_a_listing_that_misses_it_stays_whole() {
    let mut bench = Bench::new(full_checkpoints(8).await);
    // 7 and 8 are recorded while the log is listed; 8 is seen and 7 is not.
    bench.hidden = Some(layout::slot(Slot(8)));
    let in_use = InUse { newest: Some(CheckpointId(6)), ..bench.in_use(1) };
    bench.collector.collect(in_use, NOW, &mut bench.asked);
    assert_eq!(bench.finish().await, Collected::Done { deleted: 5 * 4 });
    let of_seven = |path: &&String| path.contains("/7-") || **path == layout::slot(Slot(8));
    assert_eq!(bench.deletions.iter().find(of_seven), None);
}
