//! What a restore would come to, without one: the same checks, on a manifest that somebody else has read.

use super::{JobSettings, check_required, promises, shape};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::plan::Plan;

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
