//! Reads a checkpoint while it is held, and lets it go whatever happens: at the end, after an error, after Ctrl-C.

use crate::output::Failure;
use flott_checkpoint::{CheckpointEntry, CheckpointId};
use flott_runtime::io::runtime::block_on;
use flott_runtime::io::storage::{StorageServer, find_storage};
use flott_runtime::state_reader::{Checkpoint, Hold};
use std::future::Future;
use std::sync::mpsc;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

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
    // Before there is a pin: a signal that comes in between must not leave it behind.
    let interrupted = signals();
    let held = Held::take(which, command).await?;
    let result = until(interrupted, async { work(&held.open().await?).await }).await;
    held.release().await;
    result
}

/// Does something with two checkpoints, as [`reading`].
pub async fn reading_both<T>(
    (first, second): (Which<'_>, Which<'_>),
    command: &str,
    work: impl AsyncFnOnce(&Checkpoint, &Checkpoint) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let interrupted = signals();
    let one = Held::take(first, command).await?;
    let other = match Held::take(second, command).await {
        Ok(other) => other,
        Err(failure) => {
            one.release().await;
            return Err(failure);
        }
    };
    let result = until(interrupted, async { work(&one.open().await?, &other.open().await?).await }).await;
    one.release().await;
    other.release().await;
    result
}

/// A checkpoint that is held.
struct Held {
    storage: StorageServer,
    hold: Hold,
    entry: CheckpointEntry,
}

impl Held {
    async fn take(which: Which<'_>, command: &str) -> Result<Held, Failure> {
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
        Ok(Held { storage, hold, entry })
    }

    async fn open(&self) -> Result<Checkpoint, Failure> {
        Ok(Checkpoint::open(&self.storage, self.entry.clone()).await?)
    }

    async fn release(self) {
        if let Err(error) = self.hold.release().await {
            eprintln!("flott: {error}");
        }
    }
}

/// Does it to its end, or until somebody wants it to stop.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    until(signals(), work).await
}

async fn until<T>(
    mut interrupted: oneshot::Receiver<()>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        Ok(()) = &mut interrupted => Err(Failure::Interrupted),
        result = work => result,
    }
}

/// Listens from now on. The first signal is told; the second ends the process, whatever it is doing.
#[expect(
    clippy::disallowed_methods,
    reason = "a command has no host, and this thread must hear signals whatever the others do"
)]
fn signals() -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    let (ready, is_ready) = mpsc::channel::<()>();
    // A thread of its own: it hears signals while the command waits for a disk.
    std::thread::spawn(move || {
        block_on(async move {
            let Some(mut signals) = Signals::new() else { return };
            drop(ready);
            signals.next().await;
            let _ = tell.send(());
            signals.next().await;
            std::process::exit(130);
        })
    });
    // It ends when the signals are listened to, or cannot be.
    let _ = is_ready.recv();
    told
}

#[cfg(unix)]
struct Signals(Signal, Signal);

#[cfg(unix)]
impl Signals {
    /// `None`: then a signal ends the process as it would any other.
    fn new() -> Option<Signals> {
        Some(Signals(signal(SignalKind::interrupt()).ok()?, signal(SignalKind::terminate()).ok()?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Option<Signals> {
        Some(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
