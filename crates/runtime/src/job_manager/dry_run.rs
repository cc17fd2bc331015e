//! What a start would come to, without one: the decisions of a start, in its order, on what somebody else has read.
//!
//! Nothing is written: it ends where a start would create its first entry of the log.

use super::{JobSettings, check_required, contesting, planning, promises, shape};
use crate::attempt::{Attempt, Restore, RestoredManifest, World};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{AdoptedLife, BaseEntry, Manifest};
use crate::plan::Plan;
use crate::savepoint::{self, Serve};
use flott_checkpoint::{
    AttemptId, CheckpointId, Claim, Contest, ContestAction, ContestEvent, ContestOptions, Incarnation,
    Restore as Wanted,
};
use std::sync::Arc;

/// What a start would claim, and what the user should know of it.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The claim.
    pub claim: Claim,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Finds out what a start would claim of the job's own storage (none yet: an empty log), and whether it may (R2).
///
/// # Errors
/// What a start would say.
pub async fn look_at_claim(
    storage: Option<&impl Serve>,
    restore: Wanted,
    plan: &Plan,
    settings: &JobSettings,
) -> Result<Looked> {
    let fresh = Incarnation { id: 0, key_seed: 0, key_groups: settings.key_groups };
    let mut contest = Contest::new(ContestOptions { restore, fresh, past: Vec::new(), tries: 1 });
    let mut action = contest.begin();
    loop {
        let event = match (action, storage) {
            (ContestAction::List, None) => ContestEvent::Listed { slots: Vec::new(), nonce: 0 },
            (ContestAction::List, Some(storage)) => match savepoint::slots(storage).await {
                Ok(slots) => ContestEvent::Listed { slots: slots.iter().copied().collect(), nonce: 0 },
                Err(error) => ContestEvent::StorageFailed(error.to_string()),
            },
            (ContestAction::Read(slot), Some(storage)) => match savepoint::read_slot(storage, slot).await {
                Ok(entry) => ContestEvent::Read { slot, entry },
                Err(error) => ContestEvent::StorageFailed(error.to_string()),
            },
            (ContestAction::Read(slot), None) => ContestEvent::Read { slot, entry: None },
            (ContestAction::Failed(error), _) => return Err(contesting::lost(&error)),
            (ContestAction::Consider(claim), _) => {
                let warning = contesting::judge(&claim, plan, settings).map_err(Error::unusable)?;
                return Ok(Looked { claim: *claim, warnings: warning.into_iter().collect() });
            }
            (ContestAction::Create { .. } | ContestAction::Owned(_), _) => {
                let claim = contest.claim().ok_or_else(|| Error::failed("the contest has come to nothing"))?;
                return Ok(Looked { claim: claim.clone(), warnings: Vec::new() });
            }
        };
        action = contest.on(event);
    }
}

/// What a claim restores, in the job's own storage or in that of its savepoint; `None`: nothing.
#[must_use]
pub fn restored_by(claim: &Claim) -> Option<BaseEntry> {
    let own = claim.restore.as_ref();
    let own = own.map(|entry| BaseEntry { id: entry.id, attempt: entry.attempt, checksum: entry.checksum });
    let savepoint = claim.start.savepoint.as_ref();
    own.or(savepoint.map(|at| BaseEntry { id: at.id, attempt: at.attempt, checksum: at.checksum }))
}

/// What a start would restore instead of what turned out to be damaged (R2), and the warning about it.
///
/// # Errors
/// What a start would say, if it would end: `Unusable`, or the error itself if it is about something else than damage.
pub fn instead_of_damaged(
    claim: &Claim,
    error: Error,
    plan: &Plan,
    settings: &JobSettings,
) -> Result<(Wanted, String)> {
    if error.kind() != ErrorKind::Unusable || error.is_misfit() {
        return Err(error);
    }
    contesting::older_checkpoint(claim, &error, plan, settings)
}

/// Checks identity, workers, operators, states, types and the required guarantee of what would be restored, if anything is.
/// Gives back what the user should know.
///
/// # Errors
/// `Unusable` if it does not fit the job, naming the operator; `Refused` if it is worth less than is required.
pub fn check_restore(
    claim: &Claim,
    newest: Option<&Manifest>,
    plan: &Plan,
    settings: &JobSettings,
) -> Result<Vec<String>> {
    shape::workers(settings, newest, claim.incarnation.key_groups)?;
    let inherited = planning::inherited(claim, newest, plan);
    check_required(&promises(plan, Some(settings.coordinator.mode), inherited), settings.require)?;
    let Some(manifest) = newest else { return Ok(Vec::new()) };
    Ok(shape::check(manifest, planning::expected(claim).as_ref(), plan, settings)?.warnings)
}

/// Whose output a start would go on with.
#[must_use]
pub fn adopted_by(claim: &Claim, newest: Option<&Manifest>) -> Vec<AdoptedLife> {
    planning::adopted(claim, newest)
}

/// The attempt that would restore the newest of some manifests, the others being those that it builds on, as far as its workers
/// can be asked whether every entry fits ([`crate::worker::Look`]). `None` if there is no manifest.
///
/// # Errors
/// As [`check_restore`].
pub fn looking_attempt(
    manifests: &[Manifest],
    plan: &Arc<Plan>,
    settings: &JobSettings,
    world: World,
) -> Result<Option<Arc<Attempt>>> {
    let Some(newest) = manifests.iter().max_by_key(|manifest| manifest.id) else { return Ok(None) };
    let workers = shape::workers(settings, Some(newest), newest.key_groups)?;
    let same_topology = shape::check(newest, None, plan, settings)?.same_topology;
    let by_id = |manifest: &Manifest| -> (CheckpointId, RestoredManifest) { (manifest.id, manifest.restored()) };
    let restore = Restore {
        checkpoint: newest.id,
        manifests: manifests.iter().map(by_id).collect(),
        same_topology,
        own: false,
        commits: false,
        looks_only: true,
    };
    Ok(Some(Arc::new(Attempt {
        id: AttemptId(0),
        plan: Arc::clone(plan),
        workers,
        incarnation: newest.incarnation.clone(),
        key_seed: newest.key_seed.0,
        key_groups: newest.key_groups,
        first_checkpoint: CheckpointId(newest.id.0.saturating_add(1)),
        restore: Some(restore),
        claim: None,
        adopted: Vec::new(),
        options: settings.worker,
        world,
    })))
}
