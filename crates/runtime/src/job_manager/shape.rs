//! Whether a checkpoint fits the job as it is now (contract 5). Pure: a manifest and a plan in, warnings or an error out.
//! Nothing runs before this is known.

use super::settings::JobSettings;
use crate::envelope::hex;
use crate::error::{Error, Result};
use crate::key::Shape;
use crate::manifest::{KeySeed, Manifest, ManifestOperator, ManifestRole};
use crate::plan::{OperatorPlan, Plan, Role, StatePlan};
use flott_checkpoint::Incarnation;

/// The checkpoint fits.
#[derive(Debug)]
pub(super) struct Fits {
    /// What the user should know.
    pub(super) warnings: Vec<String>,
    /// Vertices and edges are the same: parts per channel apply.
    pub(super) same_topology: bool,
    /// There are sources that the checkpoint does not know: the job cannot be finished.
    pub(super) new_sources: bool,
}

/// How many workers the attempt has: what the user says, or the checkpoint, or the default; at most one for each key group.
pub(super) fn workers(settings: &JobSettings, manifest: Option<&Manifest>, key_groups: u16) -> Result<u16> {
    let workers = settings.workers.or(manifest.map(|manifest| manifest.workers));
    let workers = workers.unwrap_or(settings.default_workers.min(key_groups));
    if workers > key_groups {
        let what =
            format!("{workers} workers are more than the {key_groups} key groups of this job: some would never work");
        return Err(Error::refused(what).hint(format!("use --workers {key_groups} or fewer")));
    }
    match manifest {
        Some(manifest) if manifest.workers != workers => check_rescale(manifest, workers).map(|()| workers),
        _ => Ok(workers),
    }
}

/// Records in flight belong to channels, and other workers have other ones.
fn check_rescale(manifest: &Manifest, workers: u16) -> Result<()> {
    let (captured, before) = (manifest.captured(), manifest.workers);
    if captured.is_nothing() {
        return Ok(());
    }
    let hint = format!(
        "run it with --workers {before} and --checkpoint-mode aligned, and stop it: that checkpoint holds nothing in flight. A \
         savepoint holds nothing in flight either"
    );
    Err(Error::unusable(format!(
        "the checkpoint was taken with {before} workers and holds {} records that were in flight between them, so it cannot be \
         restored with {workers}",
        captured.records
    ))
    .at_checkpoint(manifest.id)
    .hint(hint))
}

/// Checks operators and states against the plan.
pub(super) fn check(
    manifest: &Manifest,
    incarnation: Option<&Incarnation>,
    plan: &Plan,
    settings: &JobSettings,
) -> Result<Fits> {
    incarnation.map_or(Ok(()), |incarnation| check_identity(manifest, incarnation))?;
    let (mut warnings, mut new_sources) = (Vec::new(), false);
    for stored in operators(manifest) {
        let fits = match claimant(stored, manifest, plan) {
            Some(operator) => fit(stored, operator, settings, &mut warnings),
            // It showed its output at once: there is nothing left of it.
            None if stored.role == (ManifestRole::Sink { transactional: false }) => Ok(()),
            None => unclaimed(&format!("operator `{}`", stored.name), settings, &mut warnings),
        };
        fits.map_err(|error| error.at_checkpoint(manifest.id))?;
    }
    for operator in plan.operators.iter().filter(|operator| !operators(manifest).any(|s| takes(operator, s))) {
        match operator.role {
            Role::Stateful => warnings.push(format!("operator `{}` is new: its state starts empty", operator.name)),
            Role::Source { .. } => {
                new_sources = true;
                warnings.push(format!("source `{}` is new: it starts at its beginning", operator.name));
            }
            Role::Sink { .. } => {}
        }
    }
    let same_topology = manifest.same_topology(plan);
    if !same_topology {
        check_nothing_in_flight(manifest)?;
    }
    Ok(Fits { warnings, same_topology, new_sources })
}

/// Records in flight belong to channels, and so to the operators and edges that were.
fn check_nothing_in_flight(manifest: &Manifest) -> Result<()> {
    let captured = manifest.captured();
    if captured.is_nothing() {
        return Ok(());
    }
    let hint = "run the job as it was and stop it in mode aligned, or take a savepoint, and change it then";
    Err(Error::unusable(format!(
        "the checkpoint holds {} records that were in flight between operators, and the job has other operators or connections now",
        captured.records
    ))
    .at_checkpoint(manifest.id)
    .hint(hint))
}

fn check_identity(manifest: &Manifest, incarnation: &Incarnation) -> Result<()> {
    let same = manifest.incarnation == hex(incarnation.id)
        && manifest.key_seed == KeySeed(incarnation.key_seed)
        && manifest.key_groups == incarnation.key_groups;
    if same {
        return Ok(());
    }
    Err(Error::unusable("the manifest belongs to another incarnation of the job than the log says")
        .at_checkpoint(manifest.id)
        .hint("was the directory copied together from two?"))
}

fn operators(manifest: &Manifest) -> impl Iterator<Item = &ManifestOperator> {
    manifest.vertices.iter().flat_map(|vertex| &vertex.operators)
}

/// The operator of the plan to which stored state goes: the one of that name, or the one that was renamed from it.
fn claimant<'a>(stored: &ManifestOperator, manifest: &Manifest, plan: &'a Plan) -> Option<&'a OperatorPlan> {
    let renamed = |operator: &&OperatorPlan| {
        takes(operator, stored) && !operators(manifest).any(|other| other.name == operator.name)
    };
    let same_name = plan.operators.iter().find(|operator| operator.name == stored.name);
    same_name.or_else(|| plan.operators.iter().find(renamed))
}

fn takes(operator: &OperatorPlan, stored: &ManifestOperator) -> bool {
    operator.name == stored.name || operator.renamed_from.as_ref() == Some(&stored.name)
}

fn unclaimed(what: &str, settings: &JobSettings, warnings: &mut Vec<String>) -> Result<()> {
    if settings.allow_unclaimed_state {
        warnings.push(format!("the state of {what} is left behind: nothing in the job claims it"));
        return Ok(());
    }
    Err(Error::unusable(format!("the checkpoint has state of {what}, which nothing in the job claims"))
        .hint("keep its name, say `.renamed_from(…)`, or give it up with --allow-unclaimed-state"))
}

fn fit(
    stored: &ManifestOperator,
    operator: &OperatorPlan,
    settings: &JobSettings,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let same_role = match (stored.role, operator.role) {
        (ManifestRole::Source, Role::Source { .. }) | (ManifestRole::Stateful, Role::Stateful) => true,
        // A sink may begin to commit; one that stops would leave what it has prepared.
        (ManifestRole::Sink { transactional: was }, Role::Sink { transactional: is }) => is || !was,
        _ => false,
    };
    if !same_role {
        return Err(Error::unusable(format!(
            "`{}` was a {} when the checkpoint was taken, and is a {} now",
            operator.name,
            word(stored.role),
            word(ManifestRole::from(operator.role))
        ))
        .hint("give it another name"));
    }
    for state in &stored.states {
        match operator.states.iter().find(|declared| declared.name == state.name) {
            Some(declared) => fit_state(state, declared, operator)?,
            None => unclaimed(&format!("`{}` of operator `{}`", state.name, operator.name), settings, warnings)?,
        }
    }
    Ok(())
}

fn fit_state(stored: &StatePlan, declared: &StatePlan, operator: &OperatorPlan) -> Result<()> {
    let changed = |what: &str, was: &str, is: &str| {
        Err(Error::unusable(format!(
            "the {what} of state `{}` of operator `{}` was `{was}` when the checkpoint was taken, and is `{is}` now",
            stored.name, operator.name
        ))
        .hint("use a new name for the state, or --restore none --overwrite to start over"))
    };
    if stored.kind != declared.kind {
        return changed("kind", &stored.kind, &declared.kind);
    }
    // What is no shape says nothing.
    let shape = |text: &str| text.parse::<Shape>().unwrap_or_default();
    if !shape(&stored.key).agrees_with(&shape(&declared.key)) {
        return changed("key type", &stored.key, &declared.key);
    }
    Ok(())
}

fn word(role: ManifestRole) -> &'static str {
    match role {
        ManifestRole::Source => "source",
        ManifestRole::Stateful => "stateful operator",
        ManifestRole::Sink { transactional: true } => "committing sink",
        ManifestRole::Sink { transactional: false } => "sink that does not commit",
    }
}
