//! Somebody asks again and again where the pending checkpoint is. It must change nothing, each question gets one answer, and
//! what is said must be so: compared with the barriers and acks that the simulator itself has carried.

use super::World;
use crate::happening::Happening;
use crate::invariants::{Checked, broken};
use crate::setup::{BEGIN, Era, Setup};
use flott_checkpoint::{AttemptId, CheckpointId, RequestId, SubtaskId};
use flott_runtime::control::Report;
use flott_runtime::job_manager::{Command, Located};
use flott_runtime::packet::ChannelId;
use flott_runtime::plan::Plan;
use flott_runtime::testing::Random;
use flott_runtime::time::Time;
use flott_runtime::whereabouts::{MissingBarrier, Stage, Standing};
use std::collections::BTreeSet;

const TAG: &str = "where the barrier is";

/// Sets what is drawn about questions apart from all else.
const QUESTIONS: u64 = 0x0A5C_0A5C;

/// Most questions come while the trouble lasts, some behind it.
const SPAN_MICROS: u64 = 5_000_000;

type Cut = (usize, AttemptId, CheckpointId);

/// What was asked, and what is known to be so.
#[derive(Default)]
pub(super) struct Questions {
    asked: u64,
    /// Not answered: by process and request.
    open: BTreeSet<(usize, u64)>,
    /// Barriers that reached their worker.
    delivered: BTreeSet<(Cut, ChannelId)>,
    /// Parts whose ack was given out by the worker …
    acked: BTreeSet<(Cut, SubtaskId)>,
    /// … and heard by the job manager.
    heard: BTreeSet<(Cut, SubtaskId)>,
    /// Answers that named something.
    pub told: u64,
}

impl Questions {
    /// When somebody will ask; nobody did in the first era.
    pub(super) fn moments(setup: &Setup) -> Vec<Time> {
        if setup.era == Era::First {
            return Vec::new();
        }
        let mut random = Random::new(setup.seed ^ QUESTIONS);
        (0..random.below(24)).map(|_| Time(BEGIN.0 + random.below(SPAN_MICROS))).collect()
    }

    /// A worker gives something out.
    pub(super) fn reported(&mut self, process: usize, attempt: AttemptId, report: &Report, plan: &Plan) -> Checked {
        match report {
            Report::Acked { id, part } => {
                self.acked.insert(((process, attempt, *id), part.subtask));
                Ok(())
            }
            Report::Located { id, standings } => {
                let cut = (process, attempt, *id);
                standings.iter().try_for_each(|standing| self.check(cut, standing, plan))
            }
            _ => Ok(()),
        }
    }

    /// A report reaches the job manager.
    pub(super) fn heard(&mut self, process: usize, attempt: AttemptId, report: &Report) {
        if let Report::Acked { id, part } = report {
            self.heard.insert(((process, attempt, *id), part.subtask));
        }
    }

    pub(super) fn barrier(&mut self, process: usize, attempt: AttemptId, channel: ChannelId, id: CheckpointId) {
        self.delivered.insert(((process, attempt, id), channel));
    }

    /// Whether a subtask stands where it says.
    fn check(&self, cut: Cut, Standing { subtask, stage, .. }: &Standing, plan: &Plan) -> Checked {
        let acked = self.acked.contains(&(cut, *subtask));
        match stage {
            Stage::Acked if acked => Ok(()),
            Stage::Acked => broken(TAG, format!("{subtask} says that it has acked checkpoint {}, and has not", cut.2)),
            Stage::Over => Ok(()),
            _ if acked => broken(TAG, format!("{subtask} says {stage:?} of checkpoint {}, which it has acked", cut.2)),
            Stage::Arriving(missing) => missing.iter().try_for_each(|one| self.check_channel(cut, *subtask, one, plan)),
            Stage::Scanning | Stage::Preparing | Stage::Uploading => Ok(()),
        }
    }

    fn check_channel(&self, cut: Cut, subtask: SubtaskId, missing: &MissingBarrier, plan: &Plan) -> Checked {
        let Some(from) = missing.from else { return Ok(()) };
        let edges = plan.edges.iter().zip(0u16..);
        let mut between = edges.filter(|(edge, _)| (edge.from, edge.to) == (from.vertex, subtask.vertex));
        let delivered = between.any(|(_, edge)| {
            let channel = ChannelId { edge, from: from.index, to: subtask.index };
            self.delivered.contains(&(cut, channel))
        });
        if delivered == missing.arrived {
            return Ok(());
        }
        let said = if missing.arrived { "has" } else { "has not" };
        let text = format!("{subtask} says that the barrier of checkpoint {} from {from} {said} arrived", cut.2);
        broken(TAG, text)
    }
}

impl World {
    /// Somebody asks one of the processes that run.
    pub(super) fn ask(&mut self) -> Checked {
        let running: Vec<usize> = (0..self.processes.len()).filter(|index| self.is_running(*index)).collect();
        let place = self.questions.asked as usize % running.len().max(1);
        let Some(&process) = running.get(place) else { return Ok(()) };
        self.questions.asked += 1;
        let request = self.questions.asked;
        self.questions.open.insert((process, request));
        self.command(process, Command::Locate { request: RequestId(request) })
    }

    pub(super) fn plan_questions(&mut self) {
        for moment in Questions::moments(&self.setup) {
            self.agenda.at(moment, Happening::Ask);
        }
    }

    /// A question is answered.
    pub(super) fn located(&mut self, process: usize, request: RequestId, located: &Located) -> Checked {
        self.say(|| format!("process {process} answers question {}: {located:?}", request.0));
        if !self.questions.open.remove(&(process, request.0)) {
            return broken(TAG, format!("question {} is answered twice, or was not asked", request.0));
        }
        let (Some(found), Some(attempt)) = (located, self.processes.get(process).and_then(|it| it.attempt)) else {
            return Ok(());
        };
        self.questions.told += u64::from(!found.delays.is_empty());
        let cut = (process, attempt, found.id);
        match found.delays.iter().find(|delay| self.questions.heard.contains(&(cut, delay.subtask))) {
            Some(delay) => broken(TAG, format!("checkpoint {}: {delay}, and that part was acked", found.id)),
            None => Ok(()),
        }
    }

    /// A process is over: nobody may be left waiting.
    pub(super) fn all_answered(&self, process: usize) -> Checked {
        match self.questions.open.iter().find(|(asked, _)| *asked == process) {
            Some((_, request)) => broken(TAG, format!("process {process} ended, and question {request} has no answer")),
            None => Ok(()),
        }
    }
}
