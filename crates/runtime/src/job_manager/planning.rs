//! The second phase of an attempt: reading and checking what it restores, before any worker exists (R1-R3, D16).
//!
//! The log names the manifest and its checksum; a manifest names the one that its increments build on, and so on down to a
//! full one. What is damaged may be given up for an older checkpoint; what has another shape may not.

use super::desk::Cx;
use super::lineage::{ChainLength, Lineage};
use super::{Outcome, check_required, promises, shape};
use crate::attempt::{Attempt, Claim as SinkClaim, Restore, RestoredManifest};
use crate::error::Error;
use crate::io::{StorageReply, StorageRequest, Ticket, elsewhere};
use crate::manifest::{AdoptedLife, BaseEntry, Manifest};
use crate::plan::Plan;
use flott_checkpoint::{AttemptId, CheckpointId, Claim, Guarantee, Incarnation, Kind, Mode, Origin, Slot, lite_map};
use litemap::LiteMap;
use std::sync::Arc;

/// A restore being planned.
pub(super) struct Planning {
    claim: Box<Claim>,
    /// Where the manifests and all that they name are, if not in the job's own directory.
    elsewhere: Option<String>,
    /// Read and verified so far, with what named them.
    manifests: LiteMap<CheckpointId, (BaseEntry, Manifest)>,
    reading: Option<(Ticket, BaseEntry)>,
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
        let top = super::restored_by(&claim);
        let elsewhere = claim.start.savepoint.as_ref().map(|savepoint| savepoint.location.clone());
        let mut planning = Planning { claim, elsewhere, manifests: LiteMap::new_vec(), reading: None };
        let planned = match top {
            Some(top) => planning.read(top, cx),
            None => planning.ready(cx),
        };
        (planning, planned)
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.reading.as_ref().is_some_and(|(mine, _)| *mine == ticket)
    }

    fn read(&mut self, what: BaseEntry, cx: &mut Cx<'_>) -> Planned {
        self.reading = Some((cx.ask(StorageRequest::Read { path: self.at(&what.path()), range: None }), what));
        Planned::Going
    }

    /// How the storage is asked for an object of what is restored.
    fn at(&self, path: &str) -> String {
        self.elsewhere.as_ref().map_or_else(|| path.to_owned(), |location| elsewhere(location, path))
    }

    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Planned {
        let Some((_, what)) = self.reading.take() else { return Planned::Going };
        let (id, path) = (what.id, self.at(&what.path()));
        let damaged = |why: &str| Planned::Damaged(Error::unusable(format!("{path} {why}")).at_checkpoint(id));
        match reply {
            StorageReply::Read(bytes) if Manifest::checksum(&bytes) != what.checksum => {
                damaged("is damaged: its checksum is not the one that was recorded")
            }
            // Its bytes are those that were written: what cannot be read now is of another version, not damaged.
            StorageReply::Read(bytes) => match Manifest::decode(&what.path(), &bytes) {
                Ok(manifest) => self.add(manifest, what, cx),
                Err(error) => Planned::Failed(error.at_checkpoint(id)),
            },
            StorageReply::NotFound => damaged("is missing"),
            StorageReply::Obstructed(what) => damaged(&format!("cannot be read: {what}")),
            StorageReply::Failed(why) => {
                Planned::Failed(Error::failed(format!("cannot read {path}: {why}")).at_checkpoint(id))
            }
            reply => Planned::Failed(Error::failed(format!("the storage answered {reply:?} about {path}"))),
        }
    }

    fn add(&mut self, manifest: Manifest, what: BaseEntry, cx: &mut Cx<'_>) -> Planned {
        let base = manifest.base;
        self.manifests.insert(what.id, (what, manifest));
        match base {
            // A manifest's base is older than itself: that was checked when it was decoded, so this comes to an end.
            Some(base) => self.read(base, cx),
            None => self.ready(cx),
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
        // What it builds on is older.
        let top = self.manifests.last().map(|(_, (_, manifest))| manifest);
        let workers = shape::workers(settings, top, claim.incarnation.key_groups)?;
        let inherited = inherited(&claim, top, &cx.desk.plan);
        check_required(&promises(&cx.desk.plan, Some(settings.coordinator.mode), inherited), settings.require)?;
        let (mut same_topology, mut new_sources) = (true, false);
        if let Some(manifest) = top {
            let fits = shape::check(manifest, expected(&claim).as_ref(), &cx.desk.plan, settings)?;
            (same_topology, new_sources) = (fits.same_topology, fits.new_sources);
            fits.warnings.into_iter().for_each(|warning| cx.warn(warning));
        }
        let restore = top.map(|manifest| Restore {
            checkpoint: manifest.id,
            manifests: lite_map(self.manifests.iter().map(|(&id, (_, manifest))| (id, self.restored(manifest)))),
            same_topology,
            own: self.elsewhere.is_none(),
            commits: claim.start.savepoint.as_ref().is_none_or(|savepoint| savepoint.claim),
            looks_only: false,
        });
        let mut lineage = self.lineage(&claim, top, workers, inherited);
        lineage.finished.take_if(|_| new_sources);
        // A takeover that a crash interrupted is not to be asked for again.
        let own = top.filter(|_| self.elsewhere.is_none());
        let overwrite = cx.desk.settings.overwrite || own.is_some_and(|manifest| manifest.takes_over);
        let claims = (claim.restore.is_none() || overwrite).then_some(SinkClaim { overwrite });
        let mut attempt = attempt(claim.attempt, claim.incarnation, workers, claim.next_id(), restore, claims, cx);
        attempt.adopted = adopted(&claim, top);
        Ok(Ready { attempt: Arc::new(attempt), lineage })
    }

    /// What workers need of a manifest, under the names by which they can ask for it.
    fn restored(&self, manifest: &Manifest) -> RestoredManifest {
        let mut restored = manifest.restored();
        if let Some(location) = &self.elsewhere {
            let segments = restored.parts.iter_mut().map(|(_, part)| part).filter_map(|part| part.segment.as_mut());
            segments.for_each(|blob| blob.path = elsewhere(location, &blob.path));
        }
        restored
    }

    fn lineage(&self, claim: &Claim, top: Option<&Manifest>, workers: u16, inherited: Guarantee) -> Lineage {
        let mut chain = ChainLength::default();
        for (_, manifest) in self.manifests.values() {
            chain.add(manifest.is_full(), manifest.bytes());
        }
        // Other workers have other key groups, so there is nothing to build an increment on.
        let builds = |manifest: &Manifest| manifest.kind != Kind::Savepoint && manifest.workers == workers;
        let may_build = !claim.first_is_full && top.is_some_and(builds);
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
            finished: finished.map(|manifest| Outcome::Finished { checkpoint: Some(manifest.id), before: true }),
            chain,
            newest: base.and_then(|id| self.manifests.get(&id)).map(|(what, _)| *what),
        }
    }
}

/// An attempt of a job without a checkpoint storage: nothing is restored, and nobody else can own it.
pub(super) fn without_log(id: AttemptId, cx: &mut Cx<'_>) -> Planned {
    let incarnation = cx.desk.fresh_incarnation();
    let settings = &cx.desk.settings;
    let described = shape::workers(settings, None, incarnation.key_groups).and_then(|workers| {
        check_required(&promises(&cx.desk.plan, None, Guarantee::ExactlyOnce), cx.desk.settings.require)
            .map(|()| workers)
    });
    match described {
        Err(error) => Planned::Failed(error),
        Ok(workers) => {
            let claims = Some(SinkClaim { overwrite: cx.desk.settings.overwrite });
            let first = CheckpointId(1);
            let attempt = attempt(id, incarnation, workers, first, None, claims, cx);
            let origin =
                Origin { attempt: id, next_id: first, parent: None, base: None, inherited: Guarantee::ExactlyOnce };
            let chain = ChainLength::default();
            let lineage = Lineage { origin, next_slot: Slot(0), finished: None, chain, newest: None };
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
        adopted: Vec::new(),
        options: cx.desk.settings.worker,
        world: cx.desk.world.clone(),
    }
}

/// What the restored state and output are worth (D13): less than the manifest says if output of later epochs may come again.
pub(super) fn inherited(claim: &Claim, top: Option<&Manifest>, plan: &Plan) -> Guarantee {
    let Some(manifest) = top else { return Guarantee::ExactlyOnce };
    if claim.start.savepoint.is_some() {
        // Output of other incarnations is told from its own (R4).
        return manifest.guarantee;
    }
    let doubled = super::contesting::committed(claim, plan).iter().any(|sink| sink.epoch > manifest.id);
    if doubled { manifest.guarantee.min(Guarantee::AtLeastOnce) } else { manifest.guarantee }
}

/// Whose output this incarnation goes on with: what the manifest says and, of a claimed savepoint, that of its own.
pub(super) fn adopted(claim: &Claim, top: Option<&Manifest>) -> Vec<AdoptedLife> {
    let mut adopted = top.map(|manifest| manifest.adopted.clone()).unwrap_or_default();
    match (&claim.start.savepoint, top) {
        (Some(savepoint), Some(manifest)) if savepoint.claim => {
            adopted.push(AdoptedLife { incarnation: manifest.incarnation.clone(), up_to: manifest.id });
        }
        (Some(_), _) => adopted.clear(),
        (None, _) => {}
    }
    adopted
}

/// The incarnation that the manifest must be of; of a savepoint's only the key seed and the key groups are kept (R3), and
/// the log holds nothing else of it.
pub(super) fn expected(claim: &Claim) -> Option<Incarnation> {
    claim.start.savepoint.is_none().then_some(claim.incarnation)
}

/// Whether checkpoints may be taken in this mode from now on.
pub(super) fn allows_mode(mode: Mode, cx: &Cx<'_>) -> Result<(), Error> {
    check_required(&promises(&cx.desk.plan, Some(mode), Guarantee::ExactlyOnce), cx.desk.settings.require)
}
