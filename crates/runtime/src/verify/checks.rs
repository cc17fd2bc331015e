//! What must hold between the objects of a job's directory. Pure: from what was read to what is wrong.

use super::directory::Directory;
use super::{Finding, Severity};
use crate::envelope::hex;
use crate::layout::{self, Name};
use crate::manifest::Manifest;
use flott_checkpoint::{AttemptId, CheckpointEntry, CheckpointId, LiteSet, LogEntry, Slot, lite_map};

const COPY: &str = "put back a copy of this file, if there is one";
const FALL_BACK: &str =
    "the job falls back to an older checkpoint by itself, or says how (exit code 4); a copy of the file repairs it";
const LEFTOVER: &str = "none: it is being written now, or was left by a dead attempt and goes with the next collection";

/// All checks but those of the blobs' contents.
pub(super) fn check(directory: &Directory) -> Vec<Finding> {
    let mut findings = Vec::new();
    check_log(directory, &mut findings);
    for (slot, entry) in directory.checkpoints() {
        check_checkpoint(directory, slot, entry, &mut findings);
    }
    findings.extend(directory.damaged.iter().map(|(path, what)| {
        let advice = "nothing depends on it: delete it, or put back a copy";
        damage(path.clone(), what.clone(), advice, None, None)
    }));
    findings.extend(orphans(directory).into_iter().map(|path| note(path, "no entry of the log names it", LEFTOVER)));
    findings.extend(
        directory
            .strangers
            .iter()
            .map(|path| note(path.clone(), "it is foreign, not one of the job's objects", "none: it is never touched")),
    );
    findings
}

/// The newest checkpoint of which nothing is damaged, nor of what it builds on.
pub(super) fn newest_whole(directory: &Directory, findings: &[Finding]) -> Option<CheckpointId> {
    let damaged: LiteSet<CheckpointId> = findings.iter().filter_map(|finding| finding.checkpoint).collect();
    let whole = |entry: &&CheckpointEntry| {
        let mut next = Some((entry.id, entry.attempt));
        while let Some((id, attempt)) = next {
            let Some(manifest) = directory.manifest(id, attempt).filter(|_| !damaged.contains(&id)) else {
                return false;
            };
            // A manifest's base is older than itself, so this ends.
            next = manifest.base.map(|base| (base.id, base.attempt));
        }
        true
    };
    directory.checkpoints().rev().map(|(_, entry)| entry).find(whole).map(|entry| entry.id)
}

fn check_log(directory: &Directory, findings: &mut Vec<Finding>) {
    let log = &directory.log;
    if directory.is_savepoint {
        if log.is_empty() {
            let what = "the savepoint cannot be restored: its first object is damaged".to_owned();
            findings.push(damage(layout::SAVEPOINT.to_owned(), what, COPY, None, None));
        }
        return;
    }
    if log.is_empty() && directory.lengths.keys().any(|path| path.starts_with(layout::MANIFESTS)) {
        let what = "the log is gone, though there are manifests".to_owned();
        findings.push(damage(layout::LOG.to_owned(), what, "put back a copy of the whole directory `log`", None, None));
    }
    for (slot, entry) in log {
        if let Err(what) = entry {
            findings.push(damage(layout::slot(*slot), what.clone(), COPY, None, Some(*slot)));
        }
    }
    let mut attempts: LiteSet<AttemptId> = directory.checkpoints().map(|(_, entry)| entry.attempt).collect();
    attempts.extend((!log.is_empty()).then_some(AttemptId(1)));
    for attempt in attempts {
        let slot = Slot(attempt.0);
        match log.get(&slot) {
            None => {
                let what = format!("the Start of attempt {attempt} is missing; Starts are never deleted");
                findings.push(damage(layout::slot(slot), what, COPY, None, None));
            }
            Some(Ok(LogEntry::Checkpoint(_))) => {
                let what = format!("a checkpoint stands where the Start of attempt {attempt} must be");
                findings.push(damage(layout::slot(slot), what, COPY, None, None));
            }
            _ => {}
        }
    }
    check_ids(directory, findings);
    check_head(directory, findings);
}

/// Ids grow along the log (L6).
fn check_ids(directory: &Directory, findings: &mut Vec<Finding>) {
    for ((_, before), (slot, after)) in directory.checkpoints().zip(directory.checkpoints().skip(1)) {
        if after.id <= before.id {
            let what = format!("checkpoint {} comes after checkpoint {}: ids must grow", after.id, before.id);
            findings.push(damage(layout::slot(slot), what, COPY, Some(after.id), Some(slot)));
        }
    }
}

/// What the next attempt restores must be there (L3).
fn check_head(directory: &Directory, findings: &mut Vec<Finding>) {
    let Some((slot, Ok(LogEntry::Start(start)))) = directory.log.last() else { return };
    let Some(id) = start.restored_from else { return };
    if !directory.checkpoints().any(|(_, entry)| entry.id == id) {
        let what = format!("it restores checkpoint {id}, which is not in the log");
        findings.push(damage(
            layout::slot(*slot),
            what,
            "start with --restore and one of the checkpoints that are there",
            None,
            Some(*slot),
        ));
    }
}

fn check_checkpoint(directory: &Directory, slot: Slot, entry: &CheckpointEntry, findings: &mut Vec<Finding>) {
    let path = layout::manifest(entry.id, entry.attempt);
    if entry.manifest != path {
        let what = format!("it names `{}`, but the manifest of its checkpoint is {path}", entry.manifest);
        return findings.push(damage(layout::slot(slot), what, FALL_BACK, Some(entry.id), Some(slot)));
    }
    if is_void(directory, entry) {
        findings.push(note(layout::slot(slot), "nothing is left of its checkpoint, and nothing needs it: collected, and the entry was brought back by a late write", LEFTOVER));
        return;
    }
    let mut bad = |path: String, what: String| findings.push(damage(path, what, FALL_BACK, Some(entry.id), Some(slot)));
    let Some(found) = directory.manifests.get(&(entry.id, entry.attempt)) else {
        return bad(path, format!("it is missing, but {} names it", layout::slot(slot)));
    };
    let manifest = match &found.content {
        Err(what) => return bad(path, what.clone()),
        Ok(_) if found.checksum != Some(entry.checksum) => {
            let what = format!(
                "it is sound, but not the one that {} names: was it copied from elsewhere?",
                layout::slot(slot)
            );
            return bad(path, what);
        }
        Ok(manifest) => manifest,
    };
    if let Some(what) = wrong_incarnation(directory, entry.attempt, manifest) {
        bad(path, what);
    }
    if let Some(base) = manifest.base {
        match directory.manifests.get(&(base.id, base.attempt)) {
            None => bad(base.path(), format!("it is missing, but checkpoint {} builds on it", entry.id)),
            Some(found) if found.checksum != Some(base.checksum) => {
                let reason = found.content.as_ref().err().cloned();
                let other = || format!("it is not the one that checkpoint {} builds on", entry.id);
                bad(base.path(), reason.unwrap_or_else(other));
            }
            Some(_) => {}
        }
    }
}

/// A create that was given up may land late, in a slot that retention has emptied meanwhile. Such an entry restores nothing: its
/// checkpoint was collected, so all of it is gone, and its parents before it; a newer one is there and does not build on it.
fn is_void(directory: &Directory, entry: &CheckpointEntry) -> bool {
    let key = (entry.id, entry.attempt);
    let is_blob =
        |path: &String| matches!(layout::parse(path), Some(Name::Segment { id, attempt, .. }) if (id, attempt) == key);
    let is_base = |manifest: &Manifest| manifest.base.is_some_and(|base| (base.id, base.attempt) == key);
    let manifests = || directory.manifests.values().filter_map(|found| found.content.as_ref().ok());
    !directory.manifests.contains_key(&key)
        && !directory.lengths.keys().any(is_blob)
        && !manifests().any(is_base)
        && !directory.checkpoints().any(|(_, other)| Some(other.id) == entry.parent)
        && directory
            .checkpoints()
            .any(|(_, newer)| newer.id > entry.id && directory.manifest(newer.id, newer.attempt).is_some())
}

/// A manifest repeats what the log says about the incarnation (C1).
fn wrong_incarnation(directory: &Directory, attempt: AttemptId, manifest: &Manifest) -> Option<String> {
    let Some(Ok(LogEntry::Start(start))) = directory.log.get(&Slot(attempt.0)) else { return None };
    let starts = directory.log.values().filter_map(|entry| match entry {
        Ok(LogEntry::Start(start)) => start.began,
        _ => None,
    });
    let began = lite_map(starts.map(|began| (began.id, began)));
    if manifest.incarnation != hex(start.incarnation) {
        return Some(format!(
            "it is of incarnation {}, but its attempt is of {}",
            manifest.incarnation,
            hex(start.incarnation)
        ));
    }
    let began = began.get(&start.incarnation)?;
    let same = manifest.key_seed.0 == began.key_seed && manifest.key_groups == began.key_groups;
    (!same).then(|| "its key seed or key groups are not those of its incarnation".to_owned())
}

/// Manifests and segments that nothing in the log leads to.
fn orphans(directory: &Directory) -> Vec<String> {
    let recorded: LiteSet<(CheckpointId, AttemptId)> =
        directory.checkpoints().map(|(_, entry)| (entry.id, entry.attempt)).collect();
    // With a damaged entry it is not known what is named.
    if directory.log.values().any(Result::is_err) {
        return Vec::new();
    }
    let of_the_log = |path: &str| match layout::parse(path) {
        Some(Name::Manifest(id, attempt) | Name::Segment { id, attempt, .. }) => recorded.contains(&(id, attempt)),
        _ => true,
    };
    directory.lengths.keys().filter(|path| !of_the_log(path)).cloned().collect()
}

pub(super) fn damage(
    path: String,
    what: String,
    advice: &str,
    checkpoint: Option<CheckpointId>,
    because_of: Option<Slot>,
) -> Finding {
    Finding { severity: Severity::Damage, path, what, advice: advice.to_owned(), checkpoint, because_of }
}

fn note(path: String, what: &str, advice: &str) -> Finding {
    let (what, advice) = (what.to_owned(), advice.to_owned());
    Finding { severity: Severity::Note, path, what, advice, checkpoint: None, because_of: None }
}
