//! Messages between a job manager and its workers, which may be lost, doubled and late; and the turns of the workers.

use super::World;
use crate::faults::{MessageFault, order_name, report_name};
use crate::happening::{Asker, Happening, Request};
use crate::incidents::Point;
use crate::invariants::Checked;
use crate::mutation::Mutation;
use flott_checkpoint::{AttemptId, CheckpointId, SubtaskId};
use flott_runtime::control::{Order, Report, ToManager, ToWorker};
use flott_runtime::io::StorageRequest;
use flott_runtime::testing::Turn;
use flott_runtime::time::Time;
use flott_runtime::worker::Mail;

impl World {
    /// When the copies of a message arrive.
    fn arrivals(&mut self, name: &'static str) -> Vec<Time> {
        let soon = self.soon(10, 400);
        match self.faults.of_message(name) {
            None => vec![soon],
            Some(MessageFault::Lost) => vec![],
            Some(MessageFault::Doubled) => vec![soon, self.soon(100, 600_000)],
            Some(MessageFault::Delayed) => vec![self.soon(5_000, 900_000)],
        }
    }

    /// The job manager tells a worker something.
    pub(super) fn post_order(&mut self, process: usize, worker: u16, mail: ToWorker) {
        if self.swallows(process, worker, &mail) {
            return;
        }
        for moment in self.arrivals(order_name(&mail.order)) {
            self.agenda.at(moment, Happening::Order(process, worker, mail.clone()));
        }
    }

    /// Mutation `resolved-lost-downstream`: only the first worker hears that a checkpoint is over.
    fn swallows(&mut self, process: usize, worker: u16, mail: &ToWorker) -> bool {
        let Order::Resolved { id, completed } = mail.order else { return false };
        if self.setup.mutation != Some(Mutation::ResolvedLostDownstream) || worker == 0 || completed {
            return false;
        }
        let vertices = u16::try_from(self.plan.vertices.len()).unwrap_or(0);
        for vertex in 0..vertices {
            let report = Report::Resolved { id, subtask: SubtaskId { vertex, index: worker } };
            let moment = self.soon(10, 400);
            self.agenda.at(moment, Happening::Report(process, ToManager { attempt: mail.attempt, worker, report }));
        }
        true
    }

    /// Mutation `commit-before-log`: the workers hear that a checkpoint is complete when its manifest is being written.
    pub(super) fn forge_completion(&mut self, request: &Request) {
        let StorageRequest::Create { path, .. } = &request.request else { return };
        let Some(name) = path.strip_prefix("manifests/").and_then(|name| name.strip_suffix(".json")) else { return };
        let mut numbers = name.split('-').filter_map(|number| number.parse::<u64>().ok());
        let (Some(id), Some(attempt)) = (numbers.next(), numbers.next()) else { return };
        let (id, attempt) = (CheckpointId(id), AttemptId(attempt));
        for worker in 0..self.setup.workers {
            let mail = ToWorker { attempt, order: Order::Resolved { id, completed: true } };
            let moment = self.soon(10, 400);
            self.agenda.at(moment, Happening::Order(request.process, worker, mail));
        }
    }

    pub(super) fn deliver_order(&mut self, process: usize, worker: u16, mail: ToWorker) -> Checked {
        let Some((_, host)) = self.processes.get_mut(process).and_then(|it| it.host.as_mut()) else { return Ok(()) };
        host.mail(worker, Mail::Order(mail));
        let moment = self.soon(1, 60);
        self.wake_workers(process, moment);
        Ok(())
    }

    fn post_report(&mut self, process: usize, attempt: AttemptId, worker: u16, report: Report) -> Checked {
        self.questions.reported(process, attempt, &report, &self.plan)?;
        if let Report::Acked { part, .. } = &report {
            if part.finished && self.setup.mutation == Some(Mutation::FinishedIsSilent) {
                return Ok(());
            }
            if let Some(act) = self.incidents.pass(process, Point::BeforeAck) {
                // It goes on its way when the process is continued, if it ever is.
                let mail = ToManager { attempt, worker, report };
                self.agenda.at(self.now(), Happening::Report(process, mail));
                return self.act(process, act);
            }
        }
        for moment in self.arrivals(report_name(&report)) {
            let mail = ToManager { attempt, worker, report: report.clone() };
            self.agenda.at(moment, Happening::Report(process, mail));
        }
        Ok(())
    }

    // ---- turns ----

    /// The workers have something to do at a moment.
    pub(super) fn wake_workers(&mut self, process: usize, moment: Time) {
        let Some(it) = self.processes.get_mut(process) else { return };
        if it.turn_at.is_none_or(|at| at > moment) {
            it.turn_at = Some(moment);
            it.turns += 1;
            self.agenda.at(moment, Happening::Turn(process, it.turns));
        }
    }

    /// The workers do what they have to do until something else happens.
    pub(super) fn turn(&mut self, process: usize, turn: u64) -> Checked {
        let Some(it) = self.processes.get_mut(process).filter(|it| it.turns == turn) else { return Ok(()) };
        it.turn_at = None;
        loop {
            let Some((attempt, host)) = self.processes.get_mut(process).and_then(|it| it.host.as_mut()) else {
                return Ok(());
            };
            let attempt = *attempt;
            let Some(turn) = host.turn(&mut self.random) else {
                if let Some(moment) = host.next_moment() {
                    self.wake_workers(process, moment);
                }
                return Ok(());
            };
            let done = host.is_done();
            self.serve(process, attempt, turn)?;
            if done {
                if let Some(it) = self.processes.get_mut(process) {
                    it.host = None;
                }
                let moment = self.soon(10, 2_000);
                self.agenda.at(moment, Happening::AttemptEnded(process, attempt, None));
                return Ok(());
            }
            let next = self.soon(2, 40);
            if self.agenda.next_moment().is_some_and(|moment| moment <= next) {
                self.wake_workers(process, next);
                return Ok(());
            }
            self.clock.move_to(next);
        }
    }

    fn serve(&mut self, process: usize, attempt: AttemptId, turn: Turn) -> Checked {
        if let Some((channel, id)) = turn.barrier {
            self.questions.barrier(process, attempt, channel, id);
        }
        let Some(worker) = turn.worker else { return Ok(()) };
        let now = self.now();
        for (ticket, request) in turn.storage {
            let asker = Asker::Worker(attempt, worker);
            self.agenda.at(now, Happening::Send(Request { process, asker, ticket, request }));
        }
        for (ticket, call) in turn.calls {
            let moment = self.soon(20, 4_000);
            self.agenda.at(moment, Happening::Call(process, attempt, worker, ticket, call));
        }
        turn.reports.into_iter().try_for_each(|report| self.post_report(process, attempt, worker, report))
    }
}
