//! `--dry-run`: everything that a start checks before it runs, without a start, with the decisions of a start. Reads only: nothing
//! is run, and not a byte is written.

use super::task::blocking;
use crate::graph::{Frozen, MakeCommitter};
use crate::settings::Settings;
use flott_checkpoint::{AttemptId, Claim, Elsewhere, Restore};
use flott_runtime::attempt::World;
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::io::Files;
use flott_runtime::io::place_files::PlaceFiles;
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{StorageServer, find_storage, open_storage_if_there};
use flott_runtime::io::threads::OsThreads;
use flott_runtime::job_manager::{
    JobSettings, adopted_by, check_restore, instead_of_damaged, look_at_claim, looking_attempt, restored_by,
};
use flott_runtime::manifest::Manifest;
use flott_runtime::plan::Plan;
use flott_runtime::savepoint;
use flott_runtime::sink::SinkContext;
use flott_runtime::worker::Look;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What would be restored.
pub(crate) struct Found {
    /// Where it is.
    place: String,
    /// The checkpoint, and what it builds on.
    manifests: Vec<Manifest>,
    warnings: Vec<String>,
    /// With how many workers the job would go on.
    workers: u16,
    /// It begins a new incarnation.
    begins: bool,
}

/// Checks everything; `None`: nothing would be restored, and nothing speaks against it. Must not be called inside of a tokio
/// runtime.
pub(crate) fn dry_run(frozen: &Frozen, settings: &Settings) -> Result<Option<Found>> {
    let manager = super::manager_settings(settings, &frozen.plan)?;
    block_on(look(frozen, settings, &manager))?
}

/// Goes the way of a start, from one checkpoint to an older one if need be.
async fn look(frozen: &Frozen, settings: &Settings, manager: &JobSettings) -> Result<Option<Found>> {
    let Some(directory) = &settings.checkpoint_dir else {
        return Err(Error::refused("there is nothing to look at: checkpoints are off")
            .hint("name what would be restored with --restore PATH or --checkpoint-dir"));
    };
    let own = open_storage_if_there(directory, &frozen.plan.job).await?;
    let mut wanted = manager.restore.clone();
    if let Some(location) = &settings.restore_from {
        let (elsewhere, _) = super::savepoint::find(location, settings.claim.unwrap_or(false)).await?;
        wanted = Restore::Savepoint(Box::new(elsewhere));
    }
    let mut warnings = Vec::new();
    loop {
        let looked = look_at_claim(own.as_ref(), wanted, &frozen.plan, manager).await?;
        warnings.extend(looked.warnings);
        match restored(&looked.claim, own.as_ref(), frozen, manager).await? {
            Ok(found) => {
                let newest = found.as_ref().and_then(|it| it.manifests.first());
                let to = (frozen.plan.job.as_str(), Arc::new(PlaceFiles::default()) as Arc<dyn Files>);
                check_outputs(&frozen.committers, to, &looked.claim, newest, manager)?;
                return Ok(found.map(|found| {
                    warnings.extend(found.warnings);
                    Found { warnings, ..found }
                }));
            }
            Err(damage) => {
                let (older, warning) = instead_of_damaged(&looked.claim, damage, &frozen.plan, manager)?;
                warnings.push(warning);
                wanted = older;
            }
        }
    }
}

/// Reads and checks what a claim restores. An error in the answer: it is damaged, if it is not of other types.
async fn restored(
    claim: &Claim,
    own: Option<&StorageServer>,
    frozen: &Frozen,
    manager: &JobSettings,
) -> Result<Result<Option<Found>>> {
    let elsewhere = match &claim.start.savepoint {
        // It was there when the log came to name it.
        Some(savepoint) => {
            let found = find_storage(&savepoint.location, None).await;
            Some(found.map_err(|error| Error::unusable(error.to_string()))?.1)
        }
        None => None,
    };
    let (Some(top), Some(storage)) = (restored_by(claim), elsewhere.as_ref().or(own)) else {
        check_restore(claim, None, &frozen.plan, manager)?;
        return Ok(Ok(None));
    };
    let manifests = match savepoint::sound_manifests(storage, top).await? {
        Ok(manifests) => manifests,
        Err(damage) => return Ok(Err(damage)),
    };
    let newest = manifests.first().ok_or_else(|| Error::unusable("there is no manifest"))?;
    let mut warnings = check_restore(claim, Some(newest), &frozen.plan, manager)?;
    if newest.finished {
        warnings.push("the job has finished there: it would commit its output and end".to_owned());
    }
    let fits = match savepoint::read_blobs(storage, &manifests).await {
        Ok(()) => check_entries(storage, &manifests, frozen, manager).await,
        Err(damage) => Err(damage),
    };
    let place = storage.name().to_owned();
    Ok(fits.map(|workers| Some(Found { place, manifests, warnings, workers, begins: claim.begins() })))
}

/// Decodes every entry of every worker with the types of the job, as a restore would; says how many workers those are.
async fn check_entries(
    storage: &StorageServer,
    manifests: &[Manifest],
    frozen: &Frozen,
    settings: &JobSettings,
) -> Result<u16> {
    let world = World {
        files: Arc::new(PlaceFiles::default()),
        threads: Arc::new(OsThreads),
        stdout: Arc::new(|_: &str| {}),
        heartbeats: Heartbeats::default(),
        stores: None,
    };
    let attempt = looking_attempt(manifests, &frozen.plan, settings, world)?;
    let attempt = attempt.ok_or_else(|| Error::unusable("there is no manifest"))?;
    for worker in 0..attempt.workers {
        let mut look = Look::new(&attempt, worker)?;
        while let Some(requests) = look.advance()? {
            for (ticket, request) in requests {
                look.on_reply(ticket, storage.serve(request).await)?;
            }
        }
    }
    Ok(attempt.workers)
}

/// What a start asks of its outputs before it touches the log, if it is told to begin anew. A Start that they refused afterwards
/// would stay the head of the log, and be what each later start goes on from (L3).
pub(super) struct Foresight {
    plan: Arc<Plan>,
    committers: Vec<(String, MakeCommitter)>,
    files: Arc<dyn Files>,
    manager: JobSettings,
}

impl Foresight {
    pub(super) fn new(frozen: &Frozen, files: &Arc<dyn Files>, manager: &JobSettings) -> Foresight {
        let (plan, files) = (Arc::clone(&frozen.plan), Arc::clone(files));
        Foresight { plan, committers: frozen.committers.clone(), files, manager: manager.clone() }
    }

    /// Looks at the job's own storage, given a savepoint from which it begins. What else is wrong the start will say.
    pub(super) async fn look(self, own: &StorageServer, savepoint: Option<(Elsewhere, Manifest)>) -> Result<()> {
        let (wanted, newest) = match savepoint {
            Some((savepoint, newest)) => (Restore::Savepoint(Box::new(savepoint)), Some(newest)),
            None if self.manager.restore == Restore::None => (Restore::None, None),
            None => return Ok(()),
        };
        let Ok(looked) = look_at_claim(Some(own), wanted, &self.plan, &self.manager).await else { return Ok(()) };
        // Sinks look at directories and ask buckets: not on a thread that serves others.
        let (answer, asked) = oneshot::channel();
        blocking(move || {
            let to = (self.plan.job.as_str(), self.files);
            let checked = check_outputs(&self.committers, to, &looked.claim, newest.as_ref(), &self.manager);
            let _ = answer.send(checked);
        });
        asked.await.map_err(|_| Error::failed("the check of the outputs panicked"))?
    }
}

/// R4, as far as sinks can say so without changing anything.
fn check_outputs(
    committers: &[(String, MakeCommitter)],
    (job, files): (&str, Arc<dyn Files>),
    claim: &Claim,
    newest: Option<&Manifest>,
    manager: &JobSettings,
) -> Result<()> {
    if claim.restore.is_some() {
        return Ok(());
    }
    let lives = adopted_by(claim, newest);
    let adopts = !manager.overwrite && !lives.is_empty();
    for (sink, make) in committers {
        let Some(committer) = make(&context(job, sink, &files, claim)) else { continue };
        if committer.claims_by_looking() {
            let looked = if adopts { committer.adopt(&lives) } else { committer.claim(manager.overwrite) };
            looked.map_err(|error| error.at_operator(sink))?;
        }
    }
    Ok(())
}

fn context(job: &str, sink: &str, files: &Arc<dyn Files>, claim: &Claim) -> SinkContext {
    // No incarnation has the name of one that would begin: it is foreign to all.
    let incarnation = if claim.begins() { "dryrun".to_owned() } else { format!("{:016x}", claim.incarnation.id) };
    SinkContext {
        job: job.to_owned(),
        operator: sink.to_owned(),
        subtask: 0,
        parallelism: 1,
        incarnation,
        attempt: AttemptId(0),
        first_checkpoint: claim.next_id(),
        files: Arc::clone(files),
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
        let Manifest { id, attempt, guarantee, workers: before, job, .. } = manifest;
        let workers = self.workers;
        let rescaled = if workers == *before { String::new() } else { format!(", rescaled from {before}") };
        let mut lines = vec![
            format!(
                "would restore checkpoint {id} (attempt {attempt} of job `{job}`, {guarantee}) with {workers} workers{rescaled}"
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
        let mut event = json!({
            "event": "dry-run",
            "restores": {
                "checkpoint": manifest.id,
                "attempt": manifest.attempt,
                "job": manifest.job,
                "from": self.place,
                "guarantee": manifest.guarantee,
                "workers": self.workers,
                "bytes": self.bytes(),
                "begins_incarnation": self.begins,
            },
            "warnings": self.warnings,
        });
        if self.workers != manifest.workers
            && let Some(restores) = event.get_mut("restores").and_then(Value::as_object_mut)
        {
            restores.insert("rescaled_from".to_owned(), json!(manifest.workers));
        }
        event
    }
}
