//! The paths of a plan and what each promises (contract 3, D13). Computed, never claimed.

use crate::error::{Error, Result};
use crate::plan::{Plan, Role};
use flott_checkpoint::guarantee::{Path, PathGuarantee, below, by_reason, of_path};
use flott_checkpoint::{Guarantee, LiteSet, Mode};

/// What every path from a source to a sink promises under a mode (`None`: checkpoints are off), if what was restored had
/// the guarantee `inherited` ([`Guarantee::ExactlyOnce`] if nothing was).
#[must_use]
pub fn promises(plan: &Plan, mode: Option<Mode>, inherited: Guarantee) -> Vec<PathGuarantee> {
    paths(plan).into_iter().map(|path| of_path(path, mode, inherited)).collect()
}

/// Refuses paths that promise less than `--require` asks for.
///
/// # Errors
/// [`ErrorKind::Refused`](crate::error::ErrorKind::Refused), with each such path and what limits it.
pub fn check_required(paths: &[PathGuarantee], required: Option<Guarantee>) -> Result<()> {
    let Some(required) = required else { return Ok(()) };
    let lesser = by_reason(below(paths, required));
    if lesser.is_empty() {
        return Ok(());
    }
    Err(Error::refused(format!("--require {required} cannot be kept: {}", lesser.join("; "))))
}

fn paths(plan: &Plan) -> Vec<Path> {
    let mut paths = Vec::new();
    for source in &plan.operators {
        let Role::Source { replayable, .. } = source.role else { continue };
        let reached = reached_from(plan, source.vertex);
        for sink in plan.operators.iter().filter(|sink| reached.contains(&sink.vertex)) {
            let Role::Sink { transactional } = sink.role else { continue };
            paths.push(Path { source: source.name.clone(), replayable, sink: sink.name.clone(), transactional });
        }
    }
    paths
}

/// All vertices that records of a vertex can reach, itself included.
fn reached_from(plan: &Plan, from: u16) -> LiteSet<u16> {
    let mut reached = LiteSet::from_iter([from]);
    let mut open = vec![from];
    while let Some(vertex) = open.pop() {
        let next = plan.edges.iter().filter(|edge| edge.from == vertex).map(|edge| edge.to);
        open.extend(next.filter(|&to| reached.insert(to)));
    }
    reached
}
