//! Reads a checkpoint while it is held, and lets it go whatever happens: at the end, after an error, after Ctrl-C.

use crate::output::Failure;
use flott_checkpoint::CheckpointId;
use flott_runtime::io::storage::find_storage;
use flott_runtime::state_reader::{Checkpoint, Hold};
use std::future::Future;

/// Which checkpoint of which directory.
#[derive(Clone, Debug)]
pub struct Which<'a> {
    /// A checkpoint directory, a job's directory in it, or a savepoint.
    pub directory: &'a str,
    /// The job, if the directory holds several.
    pub job: Option<&'a str>,
    /// The newest if not given.
    pub id: Option<u64>,
}

/// Does something with a checkpoint. `command` says to others who holds it.
pub async fn reading<T>(
    which: Which<'_>,
    command: &str,
    work: impl AsyncFnOnce(&Checkpoint) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (_, storage) = find_storage(which.directory, which.job).await?;
    let holder = format!("flott {command}, process {}", std::process::id());
    let id = which.id.map(CheckpointId);
    let (hold, entry) = Hold::take(&storage, which.directory, id, &holder).await?;
    if let Some(why) = hold.refused() {
        eprintln!(
            "flott: checkpoint {} is read without a pin: a collector can take it away meanwhile: {why}",
            entry.id
        );
    }
    let result = unless_interrupted(async {
        let checkpoint = Checkpoint::open(&storage, entry).await?;
        work(&checkpoint).await
    })
    .await;
    if let Err(error) = hold.release().await {
        eprintln!("flott: {error}");
    }
    result
}

/// Does it to its end, or until somebody wants it to stop.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = interrupted() => Err(Failure::Interrupted),
        result = work => result,
    }
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Then a signal ends the process as it would any other.
        _ => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
