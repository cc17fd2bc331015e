//! A running job, in the hands of the program that started it.

use crate::run::{Report, Status};
use flott_checkpoint::Mode;
use flott_runtime::error::{Error, Result};
use flott_runtime::job_manager::{Command, ManagerEvent};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;

/// How long a dropped handle waits for its job to go away.
const FAREWELL: Duration = Duration::from_secs(5);

/// A running job. Everything it can be asked returns at once, but [`JobHandle::wait`]. Dropping it cancels the job; what
/// its last completed checkpoint holds is safe.
///
/// It owns the job's I/O threads, and may be used and dropped inside of a tokio runtime: it has one of its own.
pub struct JobHandle {
    /// Taken by `drop`.
    runtime: Option<Runtime>,
    commands: Commands,
}

/// Asks a running job for things, from any thread. Outlives the handle, and then asks nobody.
#[derive(Clone)]
pub struct Commands {
    events: UnboundedSender<ManagerEvent>,
    shared: Arc<crate::run::Shared>,
}

impl JobHandle {
    pub(crate) fn new(
        runtime: Runtime,
        events: UnboundedSender<ManagerEvent>,
        shared: Arc<crate::run::Shared>,
    ) -> JobHandle {
        JobHandle { runtime: Some(runtime), commands: Commands { events, shared } }
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

    /// Asks for a checkpoint now; with `full`, for one that leans on no other.
    pub fn checkpoint(&self, full: bool) {
        self.commands.send(Command::Checkpoint { full });
    }

    /// Asks for a savepoint as soon as no checkpoint is pending.
    pub fn savepoint(&self) {
        self.commands.send(Command::Savepoint);
    }

    /// Asks the job to stop with a final checkpoint, without draining its sources.
    pub fn stop(&self) {
        self.commands.stop();
    }

    /// Asks the job to stop at once, without a checkpoint.
    pub fn cancel(&self) {
        self.commands.send(Command::Cancel);
    }

    /// Takes the next checkpoints in another mode. A job that requires more than the mode promises keeps its own, and warns.
    ///
    /// # Errors
    /// If no job can run in that mode; in this version a job can run in all of them.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.commands.send(Command::SetMode(mode));
        Ok(())
    }

    /// Takes the next checkpoints at another interval.
    ///
    /// # Errors
    /// If no job can keep such an interval.
    pub fn set_interval(&self, interval: Duration) -> Result<()> {
        crate::settings::check_interval(interval).map_err(Error::refused)?;
        self.commands.send(Command::SetInterval(interval));
        Ok(())
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

    /// Runs something beside the job, until the job's I/O threads end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }
}

impl Commands {
    /// As [`JobHandle::status`].
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
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
