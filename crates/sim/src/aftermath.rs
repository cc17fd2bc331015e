//! After a quiet end: a further attempt of the job that nothing disturbs, with the production collector, and what that must leave.
//!
//! The second half of I8: what nobody needs goes in the end, whatever dead attempts, aborted checkpoints and late requests left.
//! The attempt is a short one, made here: a Start, and as many full checkpoints as are retained, with nothing in them. It
//! decides nothing about the run before it.

use crate::checkpoints::Chain;
use crate::invariants::{Checked, broken};
use crate::storage::Storage;
use bytes::Bytes;
use flott_checkpoint::{AttemptId, CheckpointEntry, CheckpointId, InUse, Kind, LogEntry, Slot, StartEntry};
use flott_runtime::collector::{Collected, Collector};
use flott_runtime::io::StorageRequest;
use flott_runtime::layout::{self, Name};
use flott_runtime::manifest::Manifest;
use flott_runtime::time::Time;
use std::collections::{BTreeSet, VecDeque};

const TAG: &str = "I8 collected";

/// More runs than this have nothing to wait for.
const RUNS: usize = 4;

/// Runs the further attempt, and compares what is left with what is needed.
///
/// # Errors
/// If something is left that nobody needs, or something is gone that somebody does.
pub fn check(storage: &mut Storage, newest: &CheckpointEntry, retained: u32, now: Time) -> Checked {
    let Some((attempt, recorded)) = further_attempt(storage, newest, retained) else {
        return broken(TAG, "a further attempt has nothing to go on from");
    };
    let in_use = InUse {
        attempt,
        newest: recorded.last().map(|entry| entry.id),
        restored_from: Some(newest.id),
        pending: None,
        pins: flott_checkpoint::LiteSet::new(),
        retained,
    };
    let mut collector = Collector::new(attempt, 1);
    for _ in 0..RUNS {
        match run(&mut collector, &in_use, storage, now) {
            Some(Collected::Done { deleted: 0 }) => return compare(storage, &recorded),
            Some(Collected::Done { .. }) => {}
            other => return broken(TAG, format!("nothing disturbs the collector, and it ends with {other:?}")),
        }
    }
    broken(TAG, "the collector finds something to delete in every run")
}

fn slots(storage: &Storage) -> impl Iterator<Item = (Slot, LogEntry)> + '_ {
    storage.paths("log/").filter_map(|path| {
        let Some(Name::Slot(slot)) = layout::parse(path) else { return None };
        Some((slot, LogEntry::read(slot, storage.get(path)?).ok()?))
    })
}

fn create(storage: &mut Storage, path: String, bytes: Bytes) {
    storage.apply(&StorageRequest::Create { path, bytes });
}

fn further_attempt(
    storage: &mut Storage,
    newest: &CheckpointEntry,
    retained: u32,
) -> Option<(AttemptId, Vec<CheckpointEntry>)> {
    let manifest = Chain::read(storage, newest).ok()?.top().clone();
    let (head, entry) = slots(storage).max_by_key(|(slot, _)| *slot)?;
    let owner = slots(storage).find(|(slot, _)| slot.0 == entry.attempt().0);
    let Some((_, LogEntry::Start(owner))) = owner else { return None };
    let attempt = AttemptId(head.0 + 1);
    let next_id = CheckpointId(newest.id.0 + 1);
    let start = StartEntry {
        attempt,
        nonce: 1,
        incarnation: owner.incarnation,
        restored_from: Some(newest.id),
        next_id,
        began: None,
        savepoint: None,
    };
    create(storage, layout::slot(Slot(attempt.0)), LogEntry::Start(start).encode().into());
    let mut recorded = Vec::new();
    for n in 0..u64::from(retained) {
        let (id, parent) = (CheckpointId(next_id.0 + n), CheckpointId(newest.id.0 + n));
        let entry = record(storage, &manifest, Slot(attempt.0 + 1 + n), id, attempt, parent);
        recorded.push(entry);
    }
    Some((attempt, recorded))
}

/// Records a full checkpoint with nothing in it.
fn record(
    storage: &mut Storage,
    like: &Manifest,
    slot: Slot,
    id: CheckpointId,
    attempt: AttemptId,
    parent: CheckpointId,
) -> CheckpointEntry {
    let mut manifest = like.clone();
    (manifest.id, manifest.attempt, manifest.parent) = (id, attempt, Some(parent));
    (manifest.base, manifest.kind) = (None, Kind::Checkpoint);
    for part in &mut manifest.parts {
        (part.base, part.segment) = (None, None);
    }
    let (path, bytes) = (manifest.path(), manifest.encode());
    let checksum = Manifest::checksum(&bytes);
    create(storage, path.clone(), bytes);
    let entry = CheckpointEntry { slot, id, attempt, nonce: id.0, parent: Some(parent), manifest: path, checksum };
    create(storage, layout::slot(slot), LogEntry::Checkpoint(entry.clone()).encode().into());
    entry
}

fn run(collector: &mut Collector, in_use: &InUse, storage: &mut Storage, now: Time) -> Option<Collected> {
    let mut asked = Vec::new();
    collector.collect(in_use.clone(), now, &mut asked);
    let mut queue = VecDeque::from(asked);
    while let Some((ticket, request)) = queue.pop_front() {
        let reply = storage.apply(&request);
        let mut more = Vec::new();
        if let Some(end) = collector.on(ticket, reply, &mut more) {
            return Some(end);
        }
        queue.extend(more);
    }
    None
}

fn compare(storage: &Storage, recorded: &[CheckpointEntry]) -> Checked {
    let mut needed: BTreeSet<String> = BTreeSet::new();
    for (slot, entry) in slots(storage) {
        let LogEntry::Checkpoint(entry) = entry else {
            needed.insert(layout::slot(slot));
            continue;
        };
        let chain = Chain::read(storage, &entry).ok();
        if recorded.contains(&entry) {
            needed.insert(layout::slot(slot));
            needed.extend(chain.iter().flat_map(Chain::paths));
        }
    }
    // The history has a rule of its own (G3).
    let belongs = |path: &str| !path.starts_with(layout::HISTORY) && path != layout::PROBE;
    let left: Vec<&str> = storage.paths("").filter(|path| belongs(path) && !needed.contains(*path)).collect();
    let gone: Vec<&String> = needed.iter().filter(|path| storage.get(path).is_none()).collect();
    let whole = recorded.iter().all(|entry| needed.contains(&entry.manifest));
    match (left.is_empty(), gone.is_empty() && whole) {
        (true, true) => Ok(()),
        (false, _) => broken(TAG, format!("nobody needs them, and they are left: {}", left.join(", "))),
        (true, false) => broken(TAG, format!("they are needed, and gone: {gone:?}")),
    }
}
