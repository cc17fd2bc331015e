//! The storage and the blocking calls of a simulated world: when a request takes effect, and what its answer says.

use super::World;
use crate::faults::{Call, CallFault};
use crate::happening::{Asker, Happening, Request};
use crate::incidents::{Act, Point};
use crate::invariants::{Checked, stopped_world};
use crate::mutation::Mutation;
use crate::process::Life;
use flott_checkpoint::{AttemptId, Kind, LogEntry, Mode};
use flott_runtime::io::{Answer, BlockingCall, StorageReply, StorageRequest, Ticket};
use flott_runtime::time::Time;
use flott_runtime::worker::Mail;

fn entry_of(request: &StorageRequest) -> Option<LogEntry> {
    match request {
        StorageRequest::Create { path, bytes } if path.starts_with("log/") => LogEntry::decode(bytes).ok(),
        _ => None,
    }
}

/// The named moment that comes just before a request.
fn point_before(request: &Request) -> Option<Point> {
    match &request.request {
        StorageRequest::Create { path, .. } if path.starts_with("manifests/") => Some(Point::AfterLastAck),
        StorageRequest::Create { .. } => entry_of(&request.request).map(|entry| match entry {
            LogEntry::Start(_) => Point::BeforeStart,
            LogEntry::Checkpoint(_) => Point::AfterManifest,
        }),
        StorageRequest::Read { .. } if request.asker != Asker::Manager => Some(Point::DuringRestore),
        StorageRequest::Delete { .. } => Some(Point::DuringCollection),
        _ => None,
    }
}

impl World {
    /// A request leaves its process.
    pub(super) fn send(&mut self, request: Request) -> Checked {
        let process = request.process;
        if let Some(act) = point_before(&request).and_then(|point| self.incidents.pass(process, point)) {
            if act == Act::Stop
                && let Some(it) = self.processes.get_mut(process)
            {
                it.deferred.push(Happening::Send(request));
            }
            return self.act(process, act);
        }
        if self.setup.mutation == Some(Mutation::CommitBeforeLog) {
            self.forge_completion(&request);
        }
        let call = Call::of(&request.request);
        let fault = self.faults.of_call(call);
        let mut effect = match fault {
            Some(CallFault::Slow) => self.soon(200_000, 2_500_000),
            Some(CallFault::Late) => self.soon(200_000, 1_500_000),
            _ => self.soon(200, 6_000),
        };
        let answer = self.soon(100, 9_000);
        if fault == Some(CallFault::Late) {
            let reply = StorageReply::Unknown("no answer in time".to_owned());
            self.agenda.at(answer, Happening::Answer(process, request.asker, request.ticket, reply));
        }
        let early = self.setup.mutation == Some(Mutation::AckBeforeUpload) && call == Call::Finish && fault.is_none();
        if early {
            self.agenda.at(answer, Happening::Answer(process, request.asker, request.ticket, StorageReply::Done));
            effect = self.soon(20_000, 800_000);
        }
        if let StorageRequest::Append { path, .. }
        | StorageRequest::Finish { path }
        | StorageRequest::Discard { path } = &request.request
        {
            let last = self.busy.entry(path.clone()).or_default();
            effect = effect.max(Time(last.0 + 1));
            *last = effect;
        }
        self.agenda.at(effect, Happening::Effect(request, if early { Some(CallFault::Late) } else { fault }));
        Ok(())
    }

    /// A request takes effect, as far as it does, and is answered.
    pub(super) fn effect(&mut self, request: Request, fault: Option<CallFault>) -> Checked {
        let reply = match fault {
            Some(CallFault::Fails) => StorageReply::Failed("injected: it failed".to_owned()),
            Some(CallFault::NotDone) => StorageReply::Unknown("injected: not done".to_owned()),
            Some(CallFault::Torn) => {
                self.storage.tear(&request.request);
                StorageReply::Failed("injected: half of it was done".to_owned())
            }
            Some(CallFault::AnswerLost) => {
                self.apply(&request)?;
                let is_create = matches!(request.request, StorageRequest::Create { .. });
                let why = "injected: the answer was lost".to_owned();
                if is_create { StorageReply::Unknown(why) } else { StorageReply::Failed(why) }
            }
            Some(CallFault::Late) => {
                self.apply(&request)?;
                return Ok(());
            }
            Some(CallFault::Slow) | None => self.apply(&request)?,
        };
        let moment = self.soon(100, 3_000);
        let Request { process, asker, ticket, request } = request;
        let after = match (&reply, entry_of(&request)) {
            (StorageReply::Created, Some(LogEntry::Start(_))) => Some(Point::AfterStart),
            (StorageReply::Created, Some(LogEntry::Checkpoint(_))) => {
                self.die_ahead_of_an_end(process);
                Some(self.point_after_slot())
            }
            _ => None,
        };
        self.agenda.at(moment, Happening::Answer(process, asker, ticket, reply));
        let runs = self.processes.get(process).is_some_and(|it| it.life == Life::Runs);
        match after.filter(|_| runs).and_then(|point| self.incidents.pass(process, point)) {
            Some(act) => self.act(process, act),
            None => Ok(()),
        }
    }

    /// A checkpoint in which a receiver is ahead of the end of a sender is rare and worth being restored.
    fn die_ahead_of_an_end(&mut self, process: usize) {
        let is_ahead = self.ledger.chain(&self.storage).is_some_and(|chain| chain.is_ahead_of_an_end());
        if is_ahead && self.faults.active && !self.random.one_in(4) {
            let moment = self.soon(100, 15_000);
            self.agenda.at(moment, Happening::Death(process));
        }
    }

    fn point_after_slot(&self) -> Point {
        let is_final = self.ledger.chain(&self.storage).is_some_and(|chain| chain.top().kind == Kind::Final);
        if is_final { Point::AfterFinalSlot } else { Point::AfterLogSlot }
    }

    fn apply(&mut self, request: &Request) -> Result<StorageReply, crate::invariants::Violation> {
        if let StorageRequest::Delete { path } = &request.request {
            self.ledger.deleting(path)?;
        }
        let mut reply = self.storage.apply(&request.request);
        if let (StorageRequest::Create { path, .. }, StorageReply::Created) = (&request.request, &reply)
            && let Some(entry) = entry_of(&request.request)
        {
            self.ledger.slot_written(path, &self.storage)?;
            match entry {
                LogEntry::Start(start) => self.note_start(request.process, start.attempt),
                LogEntry::Checkpoint(entry) => self.check_stopped_world(request.process, &entry)?,
            }
        }
        if let StorageReply::Listed(objects) = &mut reply {
            self.hide_hole(request, objects);
        }
        Ok(reply)
    }

    fn check_stopped_world(&mut self, process: usize, entry: &flott_checkpoint::CheckpointEntry) -> Checked {
        let stopped = self.ledger.chain(&self.storage).is_some_and(|chain| chain.top().mode == Mode::StopTheWorld);
        let host = self.processes.get_mut(process).and_then(|it| it.host_of(entry.attempt));
        match host.filter(|_| stopped) {
            Some(host) => stopped_world(entry.id, host.carries_records()),
            None => Ok(()),
        }
    }

    fn note_start(&mut self, process: usize, attempt: AttemptId) {
        if let Some(it) = self.processes.get_mut(process) {
            it.attempt = Some(attempt);
            it.fresh_start = Some(attempt.0);
        }
    }

    /// Mutation `hole-start`: the second listing shows no slot above the Start, and the one below it.
    fn hide_hole(&mut self, request: &Request, objects: &mut Vec<(String, u64)>) {
        let is_log = matches!(&request.request, StorageRequest::List { prefix } if prefix == "log");
        let fresh = self.processes.get_mut(request.process).filter(|_| is_log && request.asker == Asker::Manager);
        let Some(slot) = fresh.and_then(|it| it.fresh_start.take()) else { return };
        if self.setup.mutation == Some(Mutation::HoleStart) {
            *objects = (1..=slot).map(|slot| (format!("log/{slot}.json"), 1)).collect();
        }
    }

    // ---- blocking calls ----

    pub(super) fn call(
        &mut self,
        process: usize,
        attempt: AttemptId,
        worker: u16,
        ticket: Ticket,
        call: BlockingCall,
    ) -> Checked {
        let between = self.incidents.lie_ahead(Point::BetweenLinkAndUnlink);
        self.disk.begin(None, between);
        let answer = (call.0)();
        let during = self.disk.end();
        self.check_output(Some(attempt))?;
        if during.died {
            let act = self.incidents.pass(process, Point::BetweenLinkAndUnlink);
            return self.act(process, act.unwrap_or(Act::Crash));
        }
        let moment = self.soon(20, 900);
        self.agenda.at(moment, Happening::CallDone(process, attempt, worker, ticket, answer));
        let passes = during.linked.then_some(Point::BetweenCommits);
        match passes.and_then(|point| self.incidents.pass(process, point)) {
            Some(act) => self.act(process, act),
            None => Ok(()),
        }
    }

    pub(super) fn call_done(
        &mut self,
        process: usize,
        attempt: AttemptId,
        worker: u16,
        ticket: Ticket,
        answer: Answer,
    ) -> Checked {
        self.mail(process, attempt, worker, Mail::Call(ticket, answer));
        Ok(())
    }

    pub(super) fn answer_worker(
        &mut self,
        process: usize,
        attempt: AttemptId,
        worker: u16,
        ticket: Ticket,
        reply: StorageReply,
    ) -> Checked {
        self.mail(process, attempt, worker, Mail::Storage(ticket, reply));
        Ok(())
    }

    fn mail(&mut self, process: usize, attempt: AttemptId, worker: u16, mail: Mail) {
        let Some(host) = self.processes.get_mut(process).and_then(|it| it.host_of(attempt)) else { return };
        host.mail(worker, mail);
        let moment = self.soon(1, 60);
        self.wake_workers(process, moment);
    }
}
