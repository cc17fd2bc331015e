//! `--dry-run`: everything that a start with `--restore` checks, without a start. Reads only: nothing is run, and not a byte is
//! written.

use crate::graph::Frozen;
use crate::settings::Settings;
use flott_checkpoint::{AttemptId, CheckpointId, Restore};
use flott_runtime::attempt::World;
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::io::place_files::PlaceFiles;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{StorageServer, find_storage, open_storage_to_read};
use flott_runtime::io::threads::OsThreads;
use flott_runtime::job_manager::{JobSettings, check_restore, looking_attempt};
use flott_runtime::manifest::{AdoptedLife, BaseEntry, Manifest};
use flott_runtime::savepoint;
use flott_runtime::sink::SinkContext;
use flott_runtime::worker::Look;
use serde_json::{Value, json};
use std::sync::Arc;

/// What would be restored.
pub(crate) struct Found {
    /// Where it is.
    place: String,
    /// The checkpoint, and what it builds on.
    manifests: Vec<Manifest>,
    warnings: Vec<String>,
    /// It begins a new incarnation.
    begins: bool,
}

/// Checks everything; `None`: nothing would be restored, and nothing speaks against it. Must not be called inside of a tokio
/// runtime.
pub(crate) fn dry_run(frozen: &Frozen, settings: &Settings) -> Result<Option<Found>> {
    let manager = super::manager_settings(settings, &frozen.plan)?;
    let Some((storage, top, claim)) = block_on(locate(&frozen.plan.job, settings))?? else {
        return Ok(None);
    };
    let place = storage.name().to_owned();
    let manifests = block_on(savepoint::read_whole(&storage, top))??;
    let newest = manifests.first().ok_or_else(|| Error::unusable("there is no manifest"))?;
    let warnings = fits(newest, frozen, &manager)?;
    block_on(check_entries(&storage, &manifests, frozen, &manager))??;
    if let Some(claim) = claim {
        check_outputs(frozen, newest, claim, manager.overwrite)?;
    }
    Ok(Some(Found { place, manifests, warnings, begins: claim.is_some() }))
}

/// Decodes every entry of every worker with the types of the job, as a restore would.
async fn check_entries(
    storage: &StorageServer,
    manifests: &[Manifest],
    frozen: &Frozen,
    settings: &JobSettings,
) -> Result<()> {
    let world = World {
        files: Arc::new(PlaceFiles::default()),
        threads: Arc::new(OsThreads),
        stdout: Arc::new(|_: &str| {}),
        heartbeats: Heartbeats::default(),
        stores: None,
    };
    let Some(attempt) = looking_attempt(manifests, &frozen.plan, settings, world)? else { return Ok(()) };
    for worker in 0..attempt.workers {
        let mut look = Look::new(&attempt, worker)?;
        while let Some(requests) = look.advance()? {
            for (ticket, request) in requests {
                look.on_reply(ticket, storage.serve(request).await)?;
            }
        }
    }
    Ok(())
}

fn fits(manifest: &Manifest, frozen: &Frozen, settings: &JobSettings) -> Result<Vec<String>> {
    let mut warnings = check_restore(manifest, &frozen.plan, settings)?;
    if manifest.finished {
        warnings.push("the job has finished there: it would commit its output and end".to_owned());
    }
    Ok(warnings)
}

/// The storage and the checkpoint in it; and if an incarnation begins with it, whether output is claimed.
async fn locate(job: &str, settings: &Settings) -> Result<Option<(StorageServer, BaseEntry, Option<bool>)>> {
    if let Some(location) = &settings.restore_from {
        return elsewhere(location, settings.claim.unwrap_or(false)).await.map(Some);
    }
    let id = match &settings.restore {
        Some(Restore::None) => return Ok(None),
        Some(Restore::Id(id)) => Some(*id),
        _ => None,
    };
    let Some(directory) = &settings.checkpoint_dir else {
        return Err(Error::refused("there is nothing to look at: checkpoints are off")
            .hint("name what would be restored with --restore PATH or --checkpoint-dir"));
    };
    let storage = open_storage_to_read(directory, job).await?;
    match savepoint::what_the_log_says(&storage, id).await? {
        None => Ok(None),
        Some(Ok(entry)) => {
            let top = BaseEntry { id: entry.id, attempt: entry.attempt, checksum: entry.checksum };
            Ok(Some((storage, top, None)))
        }
        Some(Err(from)) => elsewhere(&from.location, from.claim).await.map(Some),
    }
}

async fn elsewhere(location: &str, claim: bool) -> Result<(StorageServer, BaseEntry, Option<bool>)> {
    let (_, storage) = find_storage(location, None).await?;
    let place = storage.name().to_owned();
    let (found, _) = savepoint::find(&storage, &place, claim).await?;
    let top =
        BaseEntry { id: found.savepoint.id, attempt: found.savepoint.attempt, checksum: found.savepoint.checksum };
    Ok((storage, top, Some(claim)))
}

/// R4, as far as sinks can say so without changing anything.
fn check_outputs(frozen: &Frozen, manifest: &Manifest, claim: bool, overwrite: bool) -> Result<()> {
    let mut lives = manifest.adopted.clone();
    lives.push(AdoptedLife { incarnation: manifest.incarnation.clone(), up_to: manifest.id });
    for (sink, make) in &frozen.committers {
        let Some(committer) = make(&context(&frozen.plan.job, sink, manifest.id)) else { continue };
        if committer.claims_by_looking() {
            let looked = if claim { committer.adopt(&lives) } else { committer.claim(overwrite) };
            looked.map_err(|error| error.at_operator(sink))?;
        }
    }
    Ok(())
}

fn context(job: &str, sink: &str, after: CheckpointId) -> SinkContext {
    SinkContext {
        job: job.to_owned(),
        operator: sink.to_owned(),
        subtask: 0,
        parallelism: 1,
        // No incarnation has such a name: it is foreign to all.
        incarnation: "dryrun".to_owned(),
        attempt: AttemptId(0),
        first_checkpoint: CheckpointId(after.0.saturating_add(1)),
        files: Arc::new(PlaceFiles::default()),
        stdout: Arc::new(|_: &str| {}),
        waker: Arc::new(|| {}),
    }
}

#[cfg(test)]
mod tests;

impl Found {
    fn newest(&self) -> &Manifest {
        self.manifests.first().expect("it was looked at")
    }

    fn bytes(&self) -> u64 {
        self.manifests.iter().fold(0, |sum, manifest| sum.saturating_add(manifest.bytes()))
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let manifest = self.newest();
        let Manifest { id, attempt, guarantee, workers, job, .. } = manifest;
        let mut lines = vec![
            format!(
                "would restore checkpoint {id} (attempt {attempt} of job `{job}`, {guarantee}) with {workers} workers"
            ),
            format!(
                "  from {}: {} bytes in {} checkpoints, every checksum is right and every entry fits",
                self.place,
                self.bytes(),
                self.manifests.len()
            ),
        ];
        if self.begins {
            lines.push("  as the beginning of a new incarnation".to_owned());
        }
        for operator in manifest.vertices.iter().flat_map(|vertex| &vertex.operators) {
            let states = operator
                .states
                .iter()
                .map(|state| format!("{} `{}` of {} by {}", state.kind, state.name, state.value, state.key));
            let states: Vec<String> = states.collect();
            let states = if states.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
            lines.push(format!("  operator `{}`{states}", operator.name));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let manifest = self.newest();
        json!({
            "event": "dry-run",
            "restores": {
                "checkpoint": manifest.id,
                "attempt": manifest.attempt,
                "job": manifest.job,
                "from": self.place,
                "guarantee": manifest.guarantee,
                "workers": manifest.workers,
                "bytes": self.bytes(),
                "begins_incarnation": self.begins,
            },
            "warnings": self.warnings,
        })
    }
}
