//! What a restore would come to, without one: the same checks, on manifests that somebody else has read.

use super::{JobSettings, check_required, promises, shape};
use crate::attempt::{Attempt, Restore, RestoredManifest, World};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::plan::Plan;
use flott_checkpoint::{AttemptId, CheckpointId};
use std::sync::Arc;

/// Checks workers, operators, states, types and the required guarantee of what would be restored. Gives back what the user
/// should know.
///
/// # Errors
/// `Unusable` if it does not fit the job, naming the operator; `Refused` if it is worth less than is required.
pub fn check_restore(manifest: &Manifest, plan: &Plan, settings: &JobSettings) -> Result<Vec<String>> {
    shape::workers(settings, Some(manifest), manifest.key_groups)?;
    let promised = promises(plan, Some(settings.coordinator.mode), manifest.guarantee);
    check_required(&promised, settings.require)?;
    Ok(shape::check(manifest, None, plan, settings)?.warnings)
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
