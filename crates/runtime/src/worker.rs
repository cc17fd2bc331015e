//! A worker: the subtasks that one thread runs, one per vertex, and what they share.
//!
//! Hosts see only this: they deliver packets and mail, call [`Worker::step`], serve its outbox, and sleep until the moment it
//! names. It owns no thread and no clock and never blocks.

mod look;
mod restore;
mod segments;
#[cfg(test)]
mod tests;

pub use look::Look;
pub(crate) use segments::{SegmentState, Segments};

use crate::attempt::Attempt;
use crate::control::{Order, Progress, Report, ToWorker};
use crate::error::{Error, Result};
use crate::heartbeat::{Heartbeat, Mark};
use crate::io::{Answer, StorageReply, Ticket};
use crate::outbox::Outbox;
use crate::packet::{Packet, Payload};
use crate::source::Waker;
use crate::subtask::{Subtask, Surroundings};
use crate::time::{Clock, Time};
use flott_checkpoint::SubtaskId;
use restore::Restoring;
use std::collections::VecDeque;
use std::sync::Arc;

/// Mail for a worker.
pub enum Mail {
    /// From the job manager.
    Order(ToWorker),
    /// An answer of the storage.
    Storage(Ticket, StorageReply),
    /// An answer of a blocking call.
    Call(Ticket, Answer),
}

/// When a worker wants to be stepped again. Packets, mail and its waker always come before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// There is more to do.
    Now,
    /// Nothing to do before this moment.
    At(Time),
    /// Nothing to do until something arrives.
    Idle,
    /// The worker obeyed `Close`; it will never want anything again.
    Done,
}

/// Tickets of segments are counted from here, so that they never meet those of a restore.
const SEGMENT_TICKETS: u64 = 1 << 48;
/// Tickets of blocking calls.
const CALL_TICKETS: u64 = 1 << 52;

/// See the head of this file.
pub struct Worker {
    attempt: Arc<Attempt>,
    heartbeat: Arc<Heartbeat>,
    /// The marks of the vertices, for panics outside of any operator that names itself.
    marks: Vec<Mark>,
    index: u16,
    subtasks: Vec<Subtask>,
    segments: Segments,
    restoring: Option<Restoring>,
    arrived: VecDeque<Packet>,
    mail: VecDeque<Mail>,
    next_call: u64,
    reported: Progress,
    report_at: Time,
    life: Life,
    /// `Open` has come.
    opened: bool,
    /// When to say again what has not been answered (C2).
    remind_at: Time,
    /// Why the worker failed.
    failure: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Restoring,
    /// Said `Restored`.
    Running,
    /// Said `Failed`: does nothing but say it again.
    Failed,
    Closed,
}

impl Worker {
    /// Builds the subtasks of one worker. Nothing runs yet: the first step begins the restore.
    ///
    /// # Errors
    /// If a chain cannot be built: a sink that cannot be opened.
    pub fn new(attempt: Arc<Attempt>, index: u16, waker: Waker) -> Result<Worker> {
        let build = |vertex| Subtask::build(&attempt, SubtaskId { vertex, index }, Arc::clone(&waker));
        let vertices = u16::try_from(attempt.plan.vertices.len()).expect("a plan has fewer vertices than u16 holds");
        let subtasks: Vec<Subtask> = (0..vertices).map(build).collect::<Result<_>>()?;
        let limit = attempt.options.segment_buffer;
        let segments = Segments::new(attempt.id, index, subtasks.len(), SEGMENT_TICKETS, limit);
        let restoring = Some(Restoring::new(&attempt, index));
        let heartbeat = attempt.world.heartbeats.of(index);
        let marks = attempt.plan.vertices.iter().map(|vertex| heartbeat.mark(&vertex.name)).collect();
        Ok(Worker {
            attempt,
            heartbeat,
            marks,
            index,
            subtasks,
            segments,
            restoring,
            arrived: VecDeque::new(),
            mail: VecDeque::new(),
            next_call: CALL_TICKETS,
            reported: Progress::default(),
            report_at: Time(0),
            life: Life::Restoring,
            opened: false,
            remind_at: Time(0),
            failure: None,
        })
    }

    /// A packet for one of its subtasks, in the order of its channel.
    pub fn deliver(&mut self, packet: Packet) {
        if packet.attempt == self.attempt.id {
            self.arrived.push_back(packet);
        }
    }

    /// Mail, in any order.
    pub fn mail(&mut self, mail: Mail) {
        self.mail.push_back(mail);
    }

    /// Does a bounded amount of work. A failure leaves as `Report::Failed`, again and again until the worker is
    /// dropped.
    pub fn step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Next {
        match self.life {
            Life::Failed => return self.fail(None, clock.now(), outbox),
            Life::Closed => return Next::Done,
            Life::Restoring | Life::Running => {}
        }
        let heartbeat = Arc::clone(&self.heartbeat);
        let _step = heartbeat.step();
        match self.try_step(clock, outbox) {
            Ok(next) => next,
            Err(error) => self.fail(Some(error), clock.now(), outbox),
        }
    }

    /// Says that the attempt is over, and why, again and again: the report may be lost (C2).
    fn fail(&mut self, error: Option<Error>, now: Time, outbox: &mut Outbox) -> Next {
        if let Some(error) = error {
            self.life = Life::Failed;
            self.remind_at = now;
            self.failure = Some(error);
        }
        if self.remind_at <= now {
            outbox.reports.extend(self.failure.clone().map(Report::Failed));
            self.remind_at = now.after(self.attempt.options.progress_interval);
        }
        Next::At(self.remind_at)
    }

    fn try_step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Result<Next> {
        while let Some(packet) = self.arrived.pop_front() {
            self.route(packet, clock, outbox)?;
        }
        while let Some(mail) = self.mail.pop_front() {
            self.open_mail(mail, clock, outbox)?;
        }
        if self.life == Life::Closed {
            return Ok(Next::Done);
        }
        if let Some(restoring) = &mut self.restoring {
            if !restoring.advance(&mut self.subtasks, outbox)? {
                return Ok(Next::Idle);
            }
            self.restoring = None;
            self.subtasks.iter_mut().for_each(Subtask::start);
        }
        let mut next = self.step_subtasks(clock, outbox)?;
        self.segments.pump(outbox);
        if self.life == Life::Restoring && self.subtasks.iter_mut().all(|subtask| subtask.is_restored()) {
            self.life = Life::Running;
            next = Next::Now;
        }
        let next = self.remind(clock.now(), next, outbox);
        Ok(self.report_progress(clock.now(), next, outbox))
    }

    /// Says again what the job manager has not answered: mail may be lost.
    fn remind(&mut self, now: Time, next: Next, outbox: &mut Outbox) -> Next {
        let waits_for_open = self.life == Life::Running && !self.opened;
        if !waits_for_open && !self.subtasks.iter().any(Subtask::waits_for_outcome) {
            self.remind_at = Time(0);
            return next;
        }
        if self.remind_at <= now {
            // The first acks of a checkpoint have just gone out by themselves; `Restored` is said here alone.
            let is_reminder = self.remind_at > Time(0);
            self.remind_at = now.after(self.attempt.options.progress_interval);
            if waits_for_open {
                outbox.reports.push(Report::Restored);
            }
            self.subtasks.iter().filter(|_| is_reminder).for_each(|subtask| subtask.repeat_acks(outbox));
        }
        earlier(next, self.remind_at)
    }

    fn step_subtasks(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Result<Next> {
        let (mut now, mut at): (bool, Option<Time>) = (false, None);
        let Worker { subtasks, segments, next_call, heartbeat, marks, .. } = self;
        let mut tickets = || {
            *next_call += 1;
            Ticket(*next_call)
        };
        for (subtask, mark) in subtasks.iter_mut().zip(marks) {
            heartbeat.enter(*mark);
            let mut around =
                Surroundings { clock, segments: &mut *segments, tickets: &mut tickets, outbox: &mut *outbox };
            match subtask.step(&mut around)? {
                Next::Now => now = true,
                Next::At(moment) => at = Some(at.map_or(moment, |at| at.min(moment))),
                Next::Idle | Next::Done => {}
            }
        }
        Ok(if now { Next::Now } else { at.map_or(Next::Idle, Next::At) })
    }

    fn route(&mut self, packet: Packet, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        let edge = self.attempt.plan.edges.get(usize::from(packet.channel.edge));
        let edge = edge.expect("every worker runs the same plan");
        let vertex = if matches!(packet.payload, Payload::Credit { .. }) { edge.from } else { edge.to };
        let subtask = self.subtasks.get_mut(usize::from(vertex)).expect("every worker runs every vertex");
        subtask.deliver(packet, clock, outbox)
    }

    fn open_mail(&mut self, mail: Mail, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        match mail {
            Mail::Order(ToWorker { attempt, order }) if attempt == self.attempt.id => self.obey(order, clock, outbox),
            Mail::Order(_) => Ok(()),
            Mail::Storage(ticket, reply) => {
                if !self.segments.on_reply(ticket, &reply)
                    && let Some(restoring) = &mut self.restoring
                {
                    restoring.on_reply(ticket, reply)?;
                }
                Ok(())
            }
            Mail::Call(ticket, answer) => {
                let mut answer = Some(answer);
                for subtask in &mut self.subtasks {
                    let Some(given) = answer.take() else { break };
                    answer = subtask.answered(ticket, given, clock.now(), outbox)?;
                }
                Ok(())
            }
        }
    }

    fn obey(&mut self, order: Order, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        match order {
            Order::Open if self.life == Life::Running => {
                self.opened = true;
                self.subtasks.iter_mut().try_for_each(|subtask| subtask.open(outbox))
            }
            Order::Open => Ok(()),
            // Not before the sources stand where they are to go on: the order comes again.
            Order::Trigger(barrier) if self.opened => {
                self.subtasks.iter_mut().try_for_each(|subtask| subtask.trigger(barrier, clock, outbox))?;
                outbox.reports.push(Report::Triggered { id: barrier.id });
                Ok(())
            }
            Order::Trigger(_) => Ok(()),
            Order::Resolved { id, completed } => {
                self.segments.resolved(id, outbox);
                self.subtasks.iter_mut().try_for_each(|subtask| subtask.resolved(id, completed, clock, outbox))
            }
            // Not before the sources stand where they are to end: the order comes again.
            Order::Drain if self.opened => {
                self.subtasks.iter_mut().for_each(|subtask| subtask.drain(outbox));
                Ok(())
            }
            Order::Drain => Ok(()),
            Order::Locate(id) => {
                let standings = self.subtasks.iter().map(|subtask| subtask.standing(id, clock.now())).collect();
                outbox.reports.push(Report::Located { id, standings });
                Ok(())
            }
            Order::Close => {
                self.life = Life::Closed;
                outbox.reports.push(Report::Progress(self.progress()));
                outbox.reports.push(Report::Closed);
                Ok(())
            }
        }
    }

    fn report_progress(&mut self, now: Time, next: Next, outbox: &mut Outbox) -> Next {
        let progress = self.progress();
        if progress == self.reported {
            return next;
        }
        if self.report_at <= now {
            self.reported = progress;
            self.report_at = now.after(self.attempt.options.progress_interval);
            outbox.reports.push(Report::Progress(progress));
            return next;
        }
        earlier(next, self.report_at)
    }

    fn progress(&self) -> Progress {
        let counts = self.subtasks.iter().map(Subtask::records);
        let (records_in, records_out) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        Progress { records_in, records_out }
    }

    /// Whether records wait in some gate: invariant I3 of a stopped world.
    #[must_use]
    pub fn holds_records(&self) -> bool {
        self.subtasks.iter().any(Subtask::holds_records)
    }

    /// The worker's index.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }
}

/// Not later than a moment.
fn earlier(next: Next, moment: Time) -> Next {
    match next {
        Next::At(other) => Next::At(other.min(moment)),
        Next::Idle => Next::At(moment),
        Next::Now | Next::Done => next,
    }
}

/// An error of reading a checkpoint, with what to do about it.
pub(crate) fn unreadable(path: &str, cause: &str) -> Error {
    Error::unusable(format!("cannot restore from {path}: {cause}"))
        .hint("check the directory with `flott checkpoints verify`, or name an older checkpoint with --restore ID")
}
