//! One simulated process: a job manager, the workers of its attempt, and what it would still do if it were not dead.

use crate::happening::Happening;
use flott_checkpoint::AttemptId;
use flott_runtime::job_manager::JobManager;
use flott_runtime::testing::DeterministicHost;
use flott_runtime::time::Time;

/// Whether a process moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It does.
    Runs,
    /// It was stopped (SIGSTOP), and will go on as if nothing had happened.
    Stopped,
    /// It is gone: it ended, or was killed.
    Gone,
}

/// See the head of this file.
pub struct Process {
    /// The job manager.
    pub manager: JobManager,
    /// The workers of the running attempt.
    pub host: Option<(AttemptId, DeterministicHost)>,
    /// Whether it moves.
    pub life: Life,
    /// What waits until it is continued.
    pub deferred: Vec<Happening>,
    /// When the job manager wants to be woken.
    pub wake: Option<Time>,
    /// When the workers have their next turn.
    pub turn_at: Option<Time>,
    /// Counts the turns that were planned: only the newest plan is valid.
    pub turns: u64,
    /// It was told to stop the job.
    pub told_to_stop: bool,
    /// Its newest Start.
    pub attempt: Option<AttemptId>,
    /// A Start of its was just created, and its second listing has not been asked for (mutation `hole-start`).
    pub fresh_start: Option<u64>,
}

impl Process {
    /// A process that has not begun.
    #[must_use]
    pub fn new(manager: JobManager) -> Process {
        Process {
            manager,
            host: None,
            life: Life::Runs,
            deferred: Vec::new(),
            wake: None,
            turn_at: None,
            turns: 0,
            told_to_stop: false,
            attempt: None,
            fresh_start: None,
        }
    }

    /// The workers, if they are those of this attempt.
    pub fn host_of(&mut self, attempt: AttemptId) -> Option<&mut DeterministicHost> {
        self.host.as_mut().filter(|(running, _)| *running == attempt).map(|(_, host)| host)
    }
}
