//! What a user can set about a job as a whole, and whether it makes sense together.
//!
//! Plain values with the defaults of the contracts; reading flags and variables is the users' library's business.

use crate::attempt::WorkerOptions;
use crate::error::{Error, Result};
use crate::plan::{OperatorPlan, Plan, Role};
use flott_checkpoint::{Guarantee, LiteSet, Options, RestartOptions, Restore};

/// How a job is run.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// There is a checkpoint storage. Without one nothing is recorded, and a bounded job commits once, at its end.
    pub checkpoints: bool,
    /// `--workers`; if nobody said, those of the restored checkpoint.
    pub workers: Option<u16>,
    /// Workers of a job that has no checkpoint and for which nobody said: the cores of the machine.
    pub default_workers: u16,
    /// `--restore`: shapes the first Start of this process alone (L3).
    pub restore: Restore,
    /// `--require`: the least guarantee, end to end.
    pub require: Option<Guarantee>,
    /// `--no-fallback`: a damaged checkpoint ends the job.
    pub no_fallback: bool,
    /// `--allow-duplicates`: a fallback may pass output that is committed (R2).
    pub allow_duplicates: bool,
    /// `--allow-unclaimed-state`: state that no operator claims is left behind.
    pub allow_unclaimed_state: bool,
    /// `--overwrite`: foreign output is taken over, and removed after the first commit (R4).
    pub overwrite: bool,
    /// Key groups of an incarnation that begins here.
    pub key_groups: u16,
    /// Intervals, time-outs and how many checkpoints are kept.
    pub coordinator: Options,
    /// What happens after a failure.
    pub restart: RestartOptions,
    /// How often an unknown outcome of the storage is repeated before the attempt ends (L5).
    pub settle_tries: u32,
    /// Sizes and times of the workers.
    pub worker: WorkerOptions,
}

impl Default for JobSettings {
    fn default() -> Self {
        JobSettings {
            checkpoints: true,
            workers: None,
            default_workers: 1,
            restore: Restore::Latest,
            require: None,
            no_fallback: false,
            allow_duplicates: false,
            allow_unclaimed_state: false,
            overwrite: false,
            key_groups: 128,
            coordinator: Options::default(),
            restart: RestartOptions::default(),
            settle_tries: 8,
            worker: WorkerOptions::default(),
        }
    }
}

impl JobSettings {
    /// Refuses what makes no sense, for the plan it is meant for.
    ///
    /// # Errors
    /// `Refused`, with all reasons.
    pub fn validate(&self, plan: &Plan) -> Result<()> {
        let mut wrong: Vec<String> = Vec::new();
        if let Err(errors) = self.coordinator.validate() {
            wrong.extend(errors.iter().map(ToString::to_string));
        }
        wrong.extend(self.restart.validate().err().map(|error| error.to_string()));
        if self.workers == Some(0) || (self.workers.is_none() && self.default_workers == 0) {
            wrong.push("the number of workers is 0: use at least 1".to_owned());
        }
        if self.key_groups == 0 {
            wrong.push("the number of key groups is 0: use at least 1".to_owned());
        }
        if let Some(workers) = self.workers.filter(|&workers| workers > self.key_groups) {
            wrong.push(format!(
                "{workers} workers are more than the {} key groups: some would never work",
                self.key_groups
            ));
        }
        wrong.extend(duplicate_names(&plan.operators));
        if !self.checkpoints {
            wrong.extend(self.without_checkpoints(plan));
        }
        if wrong.is_empty() { Ok(()) } else { Err(Error::refused(wrong.join("; "))) }
    }

    fn without_checkpoints(&self, plan: &Plan) -> Option<String> {
        // Nothing can be restored, which is what `latest` comes to and `none` asks for.
        if matches!(self.restore, Restore::Id(_)) {
            return Some("--restore ID needs a checkpoint directory: add --checkpoint-dir".to_owned());
        }
        let unbounded = plan.operators.iter().find(|o| matches!(o.role, Role::Source { bounded: false, .. }))?;
        let sink = plan.operators.iter().find(|o| matches!(o.role, Role::Sink { transactional: true }))?;
        Some(format!(
            "source `{}` never ends and sink `{}` shows its output only when a checkpoint commits it: add --checkpoint-dir",
            unbounded.name, sink.name
        ))
    }
}

fn duplicate_names(operators: &[OperatorPlan]) -> Vec<String> {
    let mut seen = LiteSet::new();
    let doubled = operators.iter().filter(|operator| !seen.insert(operator.name.as_str()));
    doubled.map(|operator| format!("two operators are called `{}`: names must be unique", operator.name)).collect()
}
