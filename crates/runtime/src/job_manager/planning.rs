//! The second phase of an attempt: reading and checking what it restores, before any worker exists (R1-R3, D16).
//!
//! The log names the manifest and its checksum; the parts in a manifest name the checkpoints that they build on, and the log
//! names those manifests, and so on down to full parts. What is damaged may be given up for an older checkpoint; what has another shape may not.

use super::desk::Cx;
use super::lineage::{ChainLength, Lineage};
use super::log_calls::{LogAnswer, LogCalls};
use super::{Outcome, promises, shape};
use crate::attempt::{Attempt, Claim as SinkClaim, Restore};
use crate::error::Error;
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::manifest::Manifest;
use flott_checkpoint::guarantee::{PathGuarantee, below};
use flott_checkpoint::{
    AttemptId, CheckpointEntry, CheckpointId, Claim, Guarantee, Incarnation, Kind, LogEntry, Origin, Slot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A restore being planned.
pub(super) struct Planning {
    claim: Box<Claim>,
    /// Read and verified so far.
    manifests: BTreeMap<CheckpointId, Manifest>,
    /// What the log says about checkpoints, as far as it was read.
    entries: BTreeMap<CheckpointId, CheckpointEntry>,
    /// Slots of the log that may still be read for that; `None` before the log was listed.
    unread: Option<BTreeSet<Slot>>,
    calls: LogCalls,
    reading: Option<(Ticket, CheckpointEntry)>,
}

/// What a plan has come to.
pub(super) enum Planned {
    /// Manifests are being read.
    Going,
    /// The attempt can start.
    Ready(Box<Ready>),
    /// The checkpoint cannot be read: an older one might be (R2).
    Damaged(Error),
    /// It cannot start for another reason.
    Failed(Error),
}

/// An attempt that can start.
pub(super) struct Ready {
    pub(super) attempt: Arc<Attempt>,
    pub(super) lineage: Lineage,
}

impl Planning {
    pub(super) fn begin(claim: Box<Claim>, cx: &mut Cx<'_>) -> (Planning, Planned) {
        let mut planning = Planning {
            claim,
            manifests: BTreeMap::new(),
            entries: BTreeMap::new(),
            unread: None,
            calls: LogCalls::default(),
            reading: None,
        };
        planning.entries.extend(planning.claim.restore.iter().map(|entry| (entry.id, entry.clone())));
        let planned = planning.go_on(cx);
        (planning, planned)
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.calls.waits_for(ticket) || self.reading.as_ref().is_some_and(|(mine, _)| *mine == ticket)
    }

    /// Asks for the next thing that is missing: a manifest, or the place in the log that names it.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Planned {
        let top = self.claim.restore.as_ref().map(|entry| entry.id);
        let bases = self.manifests.values().flat_map(Manifest::bases);
        let Some(missing) = top.into_iter().chain(bases).find(|id| !self.manifests.contains_key(id)) else {
            return self.ready(cx);
        };
        match (self.entries.get(&missing), &mut self.unread) {
            (Some(entry), _) => {
                let request = StorageRequest::Read { path: entry.manifest.clone(), range: None };
                self.reading = Some((cx.ask(request), entry.clone()));
            }
            (None, None) => self.calls.list(cx),
            (None, Some(unread)) => match unread.pop_last() {
                Some(slot) => self.calls.read(slot, cx),
                None => {
                    let error = format!("checkpoint {missing}, which increments build on, is not in the log any more");
                    return Planned::Damaged(Error::unusable(error));
                }
            },
        }
        Planned::Going
    }

    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Planned {
        if let Some((_, entry)) = self.reading.take() {
            return self.on_manifest(&entry, reply, cx);
        }
        match self.calls.on_reply(reply, cx) {
            Some(LogAnswer::Listed(slots)) => self.unread = Some(slots.into_iter().collect()),
            Some(LogAnswer::Read(_, Some(Ok(LogEntry::Checkpoint(entry))))) => {
                self.entries.insert(entry.id, entry);
            }
            // A damaged slot hinders only if it is the one that is looked for; then it is not found.
            Some(LogAnswer::Read(..)) => {}
            Some(LogAnswer::Failed(why)) => return Planned::Failed(Error::failed(format!("cannot read the log: {why}"))),
            Some(LogAnswer::Created(_)) | None => return Planned::Going,
        }
        self.go_on(cx)
    }

    fn on_manifest(&mut self, entry: &CheckpointEntry, reply: StorageReply, cx: &mut Cx<'_>) -> Planned {
        let (id, path) = (entry.id, &entry.manifest);
        let damaged = |why: &str| Planned::Damaged(Error::unusable(format!("{path} {why}")).at_checkpoint(id));
        match reply {
            StorageReply::Read(bytes) if Manifest::checksum(&bytes) != entry.checksum => {
                damaged("is damaged: its checksum is not the one in the log")
            }
            // Its bytes are those that were written: what cannot be read now is of another version, not damaged.
            StorageReply::Read(bytes) => match Manifest::decode(path, &bytes) {
                Ok(manifest) => {
                    self.manifests.insert(id, manifest);
                    self.go_on(cx)
                }
                Err(error) => Planned::Failed(error.at_checkpoint(id)),
            },
            StorageReply::NotFound => damaged("is missing"),
            StorageReply::Failed(why) => {
                Planned::Failed(Error::failed(format!("cannot read {path}: {why}")).at_checkpoint(id))
            }
            reply => Planned::Failed(Error::failed(format!("the storage answered {reply:?} about {path}"))),
        }
    }

    /// Everything is read: check it against the plan, and describe the attempt.
    fn ready(&mut self, cx: &mut Cx<'_>) -> Planned {
        match self.describe(cx) {
            Ok(ready) => Planned::Ready(Box::new(ready)),
            Err(error) => Planned::Failed(error),
        }
    }

    fn describe(&mut self, cx: &mut Cx<'_>) -> Result<Ready, Error> {
        let claim = self.claim.clone();
        let settings = &cx.desk.settings;
        let top = claim.restore.as_ref().and_then(|entry| self.manifests.get(&entry.id));
        let workers = shape::workers(settings, top)?;
        let inherited = inherited(&claim, top, cx);
        required(&promises(&cx.desk.plan, Some(settings.coordinator.mode), inherited), cx)?;
        let mut same_topology = true;
        if let Some(manifest) = top {
            let fits = shape::check(manifest, &claim.incarnation, &cx.desk.plan, settings)?;
            same_topology = fits.same_topology;
            fits.warnings.into_iter().for_each(|warning| cx.warn(warning));
        }
        let restore = top.map(|manifest| Restore {
            checkpoint: manifest.id,
            manifests: self.manifests.iter().map(|(&id, manifest)| (id, manifest.restored())).collect(),
            same_topology,
        });
        let lineage = self.lineage(&claim, top, inherited);
        let overwrite = cx.desk.settings.overwrite;
        let claims = (claim.restore.is_none() || overwrite).then_some(SinkClaim { overwrite });
        let attempt = attempt(claim.attempt, claim.incarnation, workers, claim.next_id(), restore, claims, cx);
        Ok(Ready { attempt: Arc::new(attempt), lineage })
    }

    fn lineage(&self, claim: &Claim, top: Option<&Manifest>, inherited: Guarantee) -> Lineage {
        let mut chain = ChainLength::default();
        for manifest in self.manifests.values() {
            chain.add(manifest.is_full(), manifest.bytes());
        }
        let may_build = !claim.first_is_full && top.is_some_and(|manifest| manifest.kind != Kind::Savepoint);
        let base = top.map(|manifest| manifest.id).filter(|_| may_build);
        let origin = Origin {
            attempt: claim.attempt,
            next_id: claim.next_id(),
            parent: claim.start.restored_from,
            base,
            inherited,
        };
        let finished = top.filter(|manifest| manifest.finished);
        Lineage {
            origin,
            next_slot: claim.next_slot(),
            finished: finished
                .map(|manifest| Outcome::Finished { checkpoint: Some(manifest.id), before: true }),
            chain,
        }
    }
}

/// An attempt of a job without a checkpoint storage: nothing is restored, and nobody else can own it.
pub(super) fn without_log(id: AttemptId, cx: &mut Cx<'_>) -> Planned {
    let incarnation = cx.desk.fresh_incarnation();
    let settings = &cx.desk.settings;
    let described = shape::workers(settings, None)
        .and_then(|workers| required(&promises(&cx.desk.plan, None, Guarantee::ExactlyOnce), cx).map(|()| workers));
    match described {
        Err(error) => Planned::Failed(error),
        Ok(workers) => {
            let claims = Some(SinkClaim { overwrite: cx.desk.settings.overwrite });
            let first = CheckpointId(1);
            let attempt = attempt(id, incarnation, workers, first, None, claims, cx);
            let origin = Origin {
                attempt: id,
                next_id: first,
                parent: None,
                base: None,
                inherited: Guarantee::ExactlyOnce,
            };
            let chain = ChainLength::default();
            let lineage = Lineage { origin, next_slot: Slot(0), finished: None, chain };
            Planned::Ready(Box::new(Ready { attempt: Arc::new(attempt), lineage }))
        }
    }
}

fn attempt(
    id: AttemptId,
    incarnation: Incarnation,
    workers: u16,
    first_checkpoint: CheckpointId,
    restore: Option<Restore>,
    claim: Option<SinkClaim>,
    cx: &Cx<'_>,
) -> Attempt {
    Attempt {
        id,
        plan: cx.desk.plan.clone(),
        workers,
        incarnation: format!("{:016x}", incarnation.id),
        key_seed: incarnation.key_seed,
        key_groups: incarnation.key_groups,
        first_checkpoint,
        restore,
        claim,
        options: cx.desk.settings.worker,
        world: cx.desk.world.clone(),
    }
}

/// What the restored state and output are worth (D13): less than the manifest says if output of later epochs may come again.
fn inherited(claim: &Claim, top: Option<&Manifest>, cx: &Cx<'_>) -> Guarantee {
    let Some(manifest) = top else { return Guarantee::ExactlyOnce };
    let doubled = super::contesting::committed(claim, cx).iter().any(|sink| sink.epoch > manifest.id);
    if doubled { manifest.guarantee.min(Guarantee::AtLeastOnce) } else { manifest.guarantee }
}

fn required(paths: &[PathGuarantee], cx: &Cx<'_>) -> Result<(), Error> {
    let Some(required) = cx.desk.settings.require else { return Ok(()) };
    let lesser: Vec<String> = below(paths, required).iter().map(ToString::to_string).collect();
    if lesser.is_empty() {
        return Ok(());
    }
    Err(Error::refused(format!("--require {required} cannot be met: {}", lesser.join("; "))))
}
