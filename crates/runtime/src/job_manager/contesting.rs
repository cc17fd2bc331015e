//! The first phase of an attempt: winning its Start, and with it the log (L2, L3, L5). Drives floor 0's contest over the
//! storage, and judges a claim that departs from what the head says (R2).

use super::JobSettings;
use super::desk::Cx;
use super::log_calls::{LogAnswer, LogCalls};
use crate::error::Error;
use crate::io::{StorageReply, Ticket};
use crate::plan::{Plan, Role};
use crate::time::Time;
use flott_checkpoint::fallback::{Allowed, SinkEpoch, fall_back, judge_going_back, may_have_committed};
use flott_checkpoint::{
    CheckpointId, Claim, Contest, ContestAction, ContestError, ContestEvent, ContestOptions, LogEntry, Restore,
};

/// A contest under way.
pub(super) struct Contesting {
    contest: Contest,
    calls: LogCalls,
    /// The log is claimed for the first time by this process.
    first: bool,
}

/// What a contest has come to.
pub(super) enum Contested {
    /// Storage calls are under way.
    Going,
    /// The log is ours.
    Owned(Box<Claim>),
    /// It is not.
    Lost(Error),
}

impl Contesting {
    pub(super) fn begin(restore: Restore, cx: &mut Cx<'_>) -> (Contesting, Contested) {
        let fresh = cx.desk.fresh_incarnation();
        let tries = cx.desk.settings.settle_tries;
        let past = cx.desk.past.clone();
        let first = past.is_empty();
        let contest = Contest::new(ContestOptions { restore, fresh, past, tries });
        let mut contesting = Contesting { contest, calls: LogCalls::default(), first };
        let action = contesting.contest.begin();
        let step = contesting.obey(action, cx);
        (contesting, step)
    }

    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.calls.waits_for(ticket)
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.calls.due()
    }

    pub(super) fn on_time(&mut self, cx: &mut Cx<'_>) {
        self.calls.on_time(cx);
    }

    pub(super) fn on_storage(&mut self, reply: StorageReply, cx: &mut Cx<'_>) -> Contested {
        let Some(answer) = self.calls.on_reply(reply, cx) else { return Contested::Going };
        let event = match answer {
            LogAnswer::Listed(slots) => ContestEvent::Listed { slots, nonce: cx.desk.random() },
            LogAnswer::Read(slot, entry) => ContestEvent::Read { slot, entry },
            LogAnswer::Created(outcome) => ContestEvent::Created(outcome),
            LogAnswer::Failed(why) => ContestEvent::StorageFailed(why),
        };
        let action = self.contest.on(event);
        self.obey(action, cx)
    }

    fn obey(&mut self, action: ContestAction, cx: &mut Cx<'_>) -> Contested {
        match action {
            ContestAction::List => self.calls.list(cx),
            ContestAction::Read(slot) => self.calls.read(slot, cx),
            ContestAction::Create { slot, entry } => {
                // Once a Start of ours may be in the log, a later contest must know it as ours.
                if let LogEntry::Start(start) = entry.as_ref() {
                    self.remember(start.nonce, cx);
                }
                self.calls.create(slot, &entry, cx);
            }
            ContestAction::Consider(claim) => {
                let verdict = match judge(&claim, &cx.desk.plan, &cx.desk.settings) {
                    Ok(warning) => {
                        warning.into_iter().for_each(|warning| cx.warn(warning));
                        ContestEvent::Agreed
                    }
                    Err(why) => ContestEvent::Refused(why),
                };
                let action = self.contest.on(verdict);
                return self.obey(action, cx);
            }
            ContestAction::Owned(claim) => {
                cx.desk.past.extend(self.contest.nonces());
                return Contested::Owned(claim);
            }
            ContestAction::Failed(error) => return Contested::Lost(lost(&error)),
        }
        Contested::Going
    }

    fn remember(&self, nonce: u64, cx: &mut Cx<'_>) {
        if !self.first && !cx.desk.past.contains(&nonce) {
            cx.desk.past.push(nonce);
        }
    }
}

pub(super) fn lost(error: &ContestError) -> Error {
    match error {
        ContestError::Fenced { .. } => super::fenced(error.to_string()),
        ContestError::Damaged { .. }
        | ContestError::NoSuchCheckpoint { .. }
        | ContestError::NoSuchIncarnation { .. }
        | ContestError::NoBeginning
        | ContestError::Refused(_) => Error::unusable(error.to_string()),
        // The driver has seen the storage work: what fails now may pass, the first time too.
        _ => Error::failed(error.to_string()),
    }
}

/// R2: output that is committed is not written again unless that is allowed; then there is something to be warned of. A new
/// incarnation is free to begin: its output is told from the old one's by name (R4).
pub(super) fn judge(claim: &Claim, plan: &Plan, settings: &JobSettings) -> Result<Option<String>, String> {
    let (Some(to), false) = (claim.start.restored_from, claim.begins()) else { return Ok(None) };
    let going =
        judge_going_back(to, &committed(claim, plan), allowed(settings)).map_err(|refusal| refusal.to_string())?;
    let doubled = going.doubled.first();
    Ok(doubled.map(|SinkEpoch { sink, epoch }| {
        format!("sink `{sink}` may have committed output up to checkpoint {epoch}, and writes it again from {to} on")
    }))
}

/// What transactional sinks may have committed by the time of this claim: whatever is recorded.
pub(super) fn committed(claim: &Claim, plan: &Plan) -> Vec<SinkEpoch> {
    let sinks = plan.operators.iter().filter(|operator| operator.role == Role::Sink { transactional: true });
    let newest = claim.next_id().0.checked_sub(1).filter(|&id| id > 0).map(CheckpointId);
    may_have_committed(sinks.map(|sink| sink.name.as_str()), newest)
}

/// Which older checkpoint to restore instead of a damaged one (R2), and what the user should know.
pub(super) fn older_checkpoint(
    claim: &Claim,
    error: &Error,
    plan: &Plan,
    settings: &JobSettings,
) -> Result<(Restore, String), Error> {
    let Some(damaged) = &claim.restore else { return Err(error.clone()) };
    match fall_back(damaged, &committed(claim, plan), allowed(settings)) {
        Ok(going) => {
            let warning = format!("{error}; the job goes back to checkpoint {}", going.to);
            Ok((Restore::Id(going.to), warning))
        }
        Err(refusal) => Err(Error::unusable(format!("{error}: {refusal}"))),
    }
}

fn allowed(settings: &JobSettings) -> Allowed {
    Allowed { no_fallback: settings.no_fallback, duplicates: settings.allow_duplicates }
}
