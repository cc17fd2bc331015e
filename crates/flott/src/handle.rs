//! A running job, in the hands of the program that started it.

use crate::run::{Report, Shared, Status, Store, Target};
use flott_checkpoint::{CheckpointId, Mode, RequestId};
use flott_runtime::error::{Error, Result};
use flott_runtime::job_manager::{Command, ManagerEvent};
use flott_runtime::whereabouts::Whereabouts;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::UnboundedSender;

/// How long a dropped handle waits for its job to go away.
const FAREWELL: Duration = Duration::from_secs(5);

/// A running job. Everything it can be asked returns at once, but [`JobHandle::checkpoint`], [`JobHandle::savepoint`] and
/// [`JobHandle::wait`]. Dropping it cancels the job; what
/// its last completed checkpoint holds is safe.
///
/// It owns the job's I/O threads, and may be used and dropped inside of a tokio runtime: it has one of its own.
pub struct JobHandle {
    /// Taken by `drop`.
    runtime: Option<Runtime>,
    commands: Commands,
    metrics: Option<String>,
}

/// Asks a running job for things, from any thread. Outlives the handle, and then asks nobody.
#[derive(Clone)]
pub struct Commands {
    events: UnboundedSender<ManagerEvent>,
    shared: Arc<Shared>,
    /// The job's own storage, from which savepoints are copied.
    store: Store,
    io: Handle,
}

/// A savepoint that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SavepointReport {
    /// Its directory, absolute.
    pub path: String,
    /// The checkpoint that it is a copy of.
    pub checkpoint: CheckpointId,
    /// Bytes of its segments.
    pub bytes: u64,
}

impl JobHandle {
    pub(crate) fn new(runtime: Runtime, commands: Commands, metrics: Option<String>) -> JobHandle {
        JobHandle { runtime: Some(runtime), commands, metrics }
    }

    /// Where metrics are served, as `127.0.0.1:9184`, if they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<&str> {
        self.metrics.as_deref()
    }

    /// What can be asked of the job, to be given to others.
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.commands.status()
    }

    /// Takes a checkpoint now; with `full`, one that leans on no other. Blocks the calling thread until it is complete: what
    /// it holds survives any crash. A final checkpoint that comes first serves as well.
    ///
    /// # Errors
    /// Why there is none: it was aborted, checkpoints are off, the attempt failed (it is not asked for again), or the job has
    /// ended or does so before.
    pub fn checkpoint(&self, full: bool) -> Result<CheckpointId> {
        self.commands.checkpoint(full)
    }

    /// Takes a savepoint into a directory of its own, which is new or empty: a full checkpoint, taken aligned as soon as no
    /// other one is pending, and copied there. Blocks the calling thread until the copy is complete. The directory may be moved
    /// and copied; a job begins from it with [`crate::Job::restore_from`].
    ///
    /// # Errors
    /// `Refused` if no savepoint can be written there; else as [`JobHandle::checkpoint`], or why it could not be copied. The job
    /// goes on in any case; a directory without `savepoint.json` holds no savepoint.
    pub fn savepoint(&self, directory: impl Into<String>) -> Result<SavepointReport> {
        self.commands.savepoint(directory)
    }

    /// Ends the job with a savepoint. Its final checkpoint is full and, when its output is committed, copied to the directory;
    /// then the job is over. With `drain` the sources end where they are: everything they gave out is processed to its end,
    /// watermarks and timers as at the end of the input, and the job is finished. Blocks the calling thread.
    ///
    /// # Errors
    /// `Refused` if no savepoint can be written there: the job goes on. Else why there is none, although the job has ended.
    pub fn stop_with_savepoint(&self, directory: impl Into<String>, drain: bool) -> Result<SavepointReport> {
        self.commands.stop_with_savepoint(directory, drain)
    }

    /// Asks the job to stop with a final checkpoint, without draining its sources.
    pub fn stop(&self) {
        self.commands.stop();
    }

    /// Asks the job to stop at once, without a checkpoint.
    pub fn cancel(&self) {
        self.commands.send(Command::Cancel);
    }

    /// Takes the next checkpoints in another mode. The pending one goes on as it began; what the job promises meanwhile is
    /// [`Status::guarantee`].
    ///
    /// # Errors
    /// If the mode is less than what the job requires, if checkpoints are off, or if the job is over.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.commands.set(Some(mode), None)
    }

    /// Takes the next checkpoints at another interval.
    ///
    /// # Errors
    /// If no job can keep such an interval, if checkpoints are off, or if the job is over.
    pub fn set_interval(&self, interval: Duration) -> Result<()> {
        self.commands.set(None, Some(interval))
    }

    /// Waits for the end of the job. Blocks the calling thread.
    ///
    /// # Errors
    /// Why it failed; [`crate::ErrorKind::exit_code`] is the code of a process that ends with it.
    pub fn wait(self) -> Result<Report> {
        self.commands.shared.wait()
    }

    /// Waits for the end of the job, but not longer than this; `None` if it still runs.
    #[must_use]
    pub fn wait_for(&self, time: Duration) -> Option<Result<Report>> {
        self.commands.shared.wait_for(time)
    }

    /// Answers at a local socket, until the job's I/O threads end.
    ///
    /// # Errors
    /// If the system has no room for it.
    #[cfg(unix)]
    pub(crate) fn listen(
        &self,
        socket: &flott_runtime::io::local_socket::LocalSocket,
        job: &str,
    ) -> std::io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        let listener = tokio::net::UnixListener::from_std(socket.listener()?)?;
        runtime.spawn(crate::run::task(crate::run::serve(listener, job.into(), self.commands())));
        Ok(())
    }

    /// Runs something beside the job, until the job's I/O threads end.
    pub(crate) fn spawn(&self, task: crate::run::Task) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }
}

impl Commands {
    pub(crate) fn new(
        events: UnboundedSender<ManagerEvent>,
        shared: Arc<Shared>,
        store: Store,
        io: Handle,
    ) -> Commands {
        Commands { events, shared, store, io }
    }

    /// As [`JobHandle::status`].
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// As [`JobHandle::checkpoint`].
    ///
    /// # Errors
    /// As [`JobHandle::checkpoint`].
    pub fn checkpoint(&self, full: bool) -> Result<CheckpointId> {
        self.ask(|request| Command::Checkpoint { full, request })
    }

    /// As [`JobHandle::savepoint`].
    ///
    /// # Errors
    /// As [`JobHandle::savepoint`].
    pub fn savepoint(&self, directory: impl Into<String>) -> Result<SavepointReport> {
        self.shared.check_savepoints()?;
        let (commands, directory) = (self.clone(), directory.into());
        self.block_on(async move {
            let _busy = commands.shared.busy().await;
            commands.take_savepoint(&directory).await
        })
    }

    /// As [`JobHandle::stop_with_savepoint`].
    ///
    /// # Errors
    /// As [`JobHandle::stop_with_savepoint`].
    pub fn stop_with_savepoint(&self, directory: impl Into<String>, drain: bool) -> Result<SavepointReport> {
        self.shared.check_savepoints()?;
        let (commands, directory) = (self.clone(), directory.into());
        self.block_on(async move { commands.end_with_savepoint(&directory, drain).await })
    }

    /// Runs something on the job's I/O threads, also from inside of another runtime.
    fn block_on<T: Send + 'static>(&self, task: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, answer) = std::sync::mpsc::channel();
        self.io.spawn(crate::run::task(async move {
            let _ = done.send(task.await);
        }));
        answer.recv().unwrap_or_else(|_| Err(Error::failed("the job is gone")))
    }

    /// The end of the job waits for what holds [`Shared::busy`], so that must be held by whoever waits for this.
    pub(crate) async fn take_savepoint(&self, directory: &str) -> Result<SavepointReport> {
        self.shared.check_savepoints()?;
        let target = Target::claim(directory, &self.store).await?;
        let id = match self.ask_later(|request| Command::Savepoint { request }).await {
            Ok(id) => id,
            Err(error) => return Err(target.given_back(error).await),
        };
        let written = target.write(&self.store, id).await;
        self.send(Command::Release(id));
        written
    }

    pub(crate) async fn end_with_savepoint(&self, directory: &str, drain: bool) -> Result<SavepointReport> {
        self.shared.check_savepoints()?;
        let target = Target::claim(directory, &self.store).await?;
        let answer = match self.shared.ask_last(target) {
            Ok(answer) => answer,
            Err((target, error)) => return Err(target.given_back(error).await),
        };
        self.send(Command::EndWithSavepoint { drain });
        answer.await.unwrap_or_else(|_| Err(Error::failed("the job is gone, and no savepoint was written")))
    }

    /// While this lives, the end of the job waits for whoever has it.
    #[cfg(unix)]
    pub(crate) async fn busy(&self) -> impl Sized + use<> {
        self.shared.busy().await
    }

    async fn ask_later(&self, command: impl FnOnce(RequestId) -> Command) -> Result<CheckpointId> {
        let (asking, answer) = tokio::sync::oneshot::channel();
        let request = self.shared.ask(Box::new(move |answer| drop(asking.send(answer))))?;
        self.send(command(request));
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Where the pending checkpoint is: which channel of which subtask has not delivered its barrier, and why. `None` if none
    /// is pending.
    pub async fn locate(&self) -> Option<Arc<Whereabouts>> {
        let (request, found) = self.shared.seek();
        self.send(Command::Locate { request });
        found.await.ok().flatten()
    }

    fn ask(&self, command: impl FnOnce(RequestId) -> Command) -> Result<CheckpointId> {
        // Not tokio's channel: whoever asks may be within a runtime of their own, where that one must not block.
        let (asking, answer) = std::sync::mpsc::channel();
        let request = self.shared.ask(Box::new(move |answer| drop(asking.send(answer))))?;
        self.send(command(request));
        // Every request is answered, at the latest when the job is over.
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Takes the next checkpoints in another mode, at another interval, or both; nothing is changed if either cannot be.
    ///
    /// # Errors
    /// As [`JobHandle::set_mode`] and [`JobHandle::set_interval`].
    pub fn set(&self, mode: Option<Mode>, interval: Option<Duration>) -> Result<()> {
        self.shared.check(mode, interval)?;
        self.send(Command::Set { mode, interval });
        Ok(())
    }

    /// As [`JobHandle::stop`].
    pub fn stop(&self) {
        self.send(Command::Stop);
    }

    fn send(&self, command: Command) {
        // A job that is over wants nothing any more.
        let _ = self.events.send(ManagerEvent::Command(command));
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.commands.shared.wait_for(Duration::ZERO).is_none() {
            self.cancel();
            let _ = self.commands.shared.wait_for(FAREWELL);
        }
        if let Some(runtime) = self.runtime.take() {
            // Not `drop`, which would block and is forbidden inside of another runtime.
            runtime.shutdown_background();
        }
    }
}

fn gone() -> Error {
    Error::failed("no checkpoint was taken: the job is gone")
}
