//! What a job promises at the moment (D13): not what it was started with, but what a crash now would leave.
//!
//! Only arithmetic over what is told: the restored checkpoint, the modes that were set, the checkpoints that were completed.

use flott_checkpoint::guarantee::of_job;
use flott_checkpoint::{Guarantee, Mode};
use flott_runtime::error::{Error, Result};
use flott_runtime::job_manager::{JobSettings, check_required, promises};
use flott_runtime::plan::Plan;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// See the head of this file.
pub(crate) struct Outlook {
    plan: Arc<Plan>,
    require: Option<Guarantee>,
    /// How the next checkpoint is taken; `None`: checkpoints are off.
    mode: Option<Mode>,
    interval: Option<Duration>,
    /// What the restored checkpoint was worth.
    inherited: Guarantee,
    /// The weakest of all modes since the last exact checkpoint: until the next one, a crash may go back to one of theirs.
    weakest: Guarantee,
}

impl Outlook {
    pub(crate) fn new(plan: Arc<Plan>, settings: &JobSettings) -> Outlook {
        let mode = settings.checkpoints.then_some(settings.coordinator.mode);
        let interval = settings.coordinator.interval.filter(|_| settings.checkpoints);
        let weakest = worth(mode);
        Outlook { plan, require: settings.require, mode, interval, inherited: Guarantee::ExactlyOnce, weakest }
    }

    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode
    }

    pub(crate) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// What the job promises now: the least of all paths from a source to a sink.
    pub(crate) fn guarantee(&self) -> Guarantee {
        of_job(&promises(&self.plan, self.mode, self.inherited.min(self.weakest)))
    }

    /// An attempt began with a checkpoint of this worth, or with nothing, which is worth the most.
    pub(crate) fn begun(&mut self, inherited: Guarantee) {
        self.inherited = inherited;
        self.weakest = worth(self.mode);
    }

    pub(crate) fn changed(&mut self, mode: Mode, interval: Option<Duration>) {
        self.mode = Some(mode);
        self.interval = interval;
        self.weakest = self.weakest.min(mode.guarantee());
    }

    pub(crate) fn completed(&mut self, mode: Mode) {
        self.weakest = match mode.is_exact() {
            true => worth(self.mode),
            false => self.weakest.min(mode.guarantee()),
        };
    }

    /// Refuses what the job cannot do, before it is asked to.
    ///
    /// # Errors
    /// If checkpoints are off, or `--require` asks for more.
    pub(crate) fn check(&self, mode: Option<Mode>, interval: Option<Duration>) -> Result<()> {
        if self.mode.is_none() && (mode.is_some() || interval.is_some()) {
            return Err(Error::refused("checkpoints are off, for there is no checkpoint directory"));
        }
        if let Some(mode) = mode {
            check_required(&promises(&self.plan, Some(mode), Guarantee::ExactlyOnce), self.require)?;
        }
        interval.map_or(Ok(()), crate::settings::check_interval).map_err(Error::refused)
    }
}

fn worth(mode: Option<Mode>) -> Guarantee {
    mode.map_or(Guarantee::ExactlyOnce, Mode::guarantee)
}
