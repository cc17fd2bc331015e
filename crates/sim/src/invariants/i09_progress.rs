//! I9: when nothing fails any more the job comes to its end; and no process gives up for a reason that it must not have.

use super::{Checked, broken};
use flott_runtime::ErrorKind;
use flott_runtime::job_manager::Outcome;

const TAG: &str = "I9 progress";

/// The heal phase is over and the job is not.
///
/// # Errors
/// Always.
pub fn stuck(what: &str) -> Checked {
    broken(TAG, format!("nothing fails any more, and the job does not end: {what}"))
}

/// A process ended.
///
/// # Errors
/// If it must not end so: nothing that a simulated world does damages a checkpoint or output.
pub fn outcome(outcome: &Outcome, superseded: bool, stop_was_asked: bool) -> Checked {
    match outcome {
        Outcome::Finished { .. } => Ok(()),
        Outcome::Stopped { .. } | Outcome::Cancelled if stop_was_asked => Ok(()),
        Outcome::Stopped { .. } | Outcome::Cancelled => broken(TAG, "a process stopped, and nobody had asked for that"),
        Outcome::Failed(error) => match error.kind() {
            ErrorKind::Failed => Ok(()),
            ErrorKind::Refused if error.to_string().contains("checkpoint log") => Ok(()),
            // What it wanted to restore may be collected meanwhile.
            ErrorKind::Fenced | ErrorKind::Unusable if superseded => Ok(()),
            kind => broken(TAG, format!("a process ended with code {}: {error}", kind.exit_code())),
        },
    }
}
