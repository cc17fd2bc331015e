//! Finds out why a job does not stop: a state machine over the workers' heartbeats.
//!
//! A step is bounded to about a millisecond, so a worker that is in the same step a second later is in user code that does
//! not return. It cannot be stopped from outside, only named.

use flott_runtime::error::Error;
use flott_runtime::heartbeat::Pulse;
use flott_runtime::time::Time;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Between the two looks at the heartbeats.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// See the head of this file.
pub(super) struct Watch {
    patience: Duration,
    /// The user has asked to stop; by then the job must be over.
    job_until: Option<Time>,
    /// The workers were told to go; by then they must be gone.
    attempt_until: Option<Time>,
    /// The deadline has passed, and this is what the workers showed.
    first_look: Option<(Time, Vec<Pulse>)>,
}

impl Watch {
    pub(super) fn new(patience: Duration) -> Watch {
        Watch { patience, job_until: None, attempt_until: None, first_look: None }
    }

    /// The user has asked to stop. A second wish does not prolong the first.
    pub(super) fn on_stop(&mut self, now: Time) {
        self.job_until.get_or_insert(now.after(self.patience));
    }

    /// The workers were told to go.
    pub(super) fn on_attempt_ending(&mut self, now: Time) {
        self.attempt_until.get_or_insert(now.after(self.patience));
    }

    /// The workers are gone. What was seen of them counts no more, unless the job itself was late already then.
    pub(super) fn on_attempt_ended(&mut self) {
        self.attempt_until = None;
        let job_until = self.job_until;
        self.first_look.take_if(|(seen, _)| job_until.is_none_or(|until| *seen < until));
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Time> {
        match &self.first_look {
            Some((at, _)) => Some(at.after(BETWEEN_LOOKS)),
            None => self.deadline(),
        }
    }

    fn deadline(&self) -> Option<Time> {
        [self.job_until, self.attempt_until].into_iter().flatten().min()
    }

    /// Looks; the error says that it is over and why.
    pub(super) fn look(&mut self, now: Time, pulses: Vec<Pulse>) -> Option<Error> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let Some((_, first)) = self.first_look.take() else {
            self.first_look = Some((now, pulses));
            return None;
        };
        Some(self.verdict(&first, &pulses))
    }

    fn verdict(&self, first: &[Pulse], second: &[Pulse]) -> Error {
        let patience = humantime::format_duration(self.patience);
        let hangs = |pair: &(usize, (&Pulse, &Pulse))| pair.1.0.stepping && pair.1.0.steps == pair.1.1.steps;
        match first.iter().zip(second).enumerate().find(hangs) {
            Some((worker, (pulse, _))) => {
                let operator = pulse.operator.as_deref().unwrap_or("unknown");
                Error::failed(format!("its code does not return: worker {worker} could not stop within {patience}"))
                    .at_operator(operator)
                    .at_position(format!("record {} of its chain", pulse.record))
                    .hint(
                        "the process ends without a final checkpoint; started again, the job goes on from its last one",
                    )
            }
            None => Error::failed(format!("the job could not stop within {patience}"))
                .hint("look at the warnings above; --stop-timeout allows more time"),
        }
    }
}
