//! What a completed checkpoint says of itself: its manifest.

use super::lineage::Lineage;
use crate::attempt::Attempt;
use crate::control::SubtaskPart;
use crate::manifest::{KeySeed, Manifest, ManifestTimings};
use crate::plan::Role;
use crate::time::Time;
use flott_checkpoint::{Completed, Guarantee};

/// The manifest of a checkpoint of which every part is durable.
pub(super) fn manifest(completed: &Completed<SubtaskPart>, lineage: &Lineage, attempt: &Attempt) -> Manifest {
    let barrier = completed.barrier;
    let base = barrier.base.filter(|_| !completed.full).map(|base| lineage.manifest_of(base));
    let (vertices, edges) = Manifest::shape(&attempt.plan);
    Manifest {
        job: attempt.plan.job.clone(),
        id: barrier.id,
        attempt: barrier.attempt,
        incarnation: attempt.incarnation.clone(),
        key_seed: KeySeed(attempt.key_seed),
        key_groups: attempt.key_groups,
        kind: barrier.kind,
        mode: barrier.mode,
        guarantee: completed.guarantee.min(of_sources(attempt)),
        parent: completed.parent,
        base,
        finished: completed.finished,
        takes_over: attempt.claim.is_some_and(|claim| claim.overwrite),
        adopted: attempt.adopted.clone(),
        workers: attempt.workers,
        timings: ManifestTimings {
            started_at: Time::of_millis(barrier.triggered_at).0,
            completed_at: Time::of_millis(completed.acked_at).0,
        },
        vertices,
        edges,
        parts: completed.parts.iter().map(|part| part.part.clone()).collect(),
    }
}

/// What a restore is worth as far as the sources go: what one of them gives out after the cut is lost if it cannot be read
/// again, and no later checkpoint of this line gets it back.
fn of_sources(attempt: &Attempt) -> Guarantee {
    let all = attempt.plan.operators.iter().all(|o| !matches!(o.role, Role::Source { replayable: false, .. }));
    if all { Guarantee::ExactlyOnce } else { Guarantee::AtMostOnce }
}
