//! A worker: the subtasks that one thread runs, one per vertex, and what they share.
//!
//! Hosts see only this: they deliver packets and mail, call [`Worker::step`], serve its outbox, and sleep until the moment it
//! names. It owns no thread and no clock and never blocks.

use crate::attempt::Attempt;
use crate::control::ToWorker;
use crate::error::Result;
use crate::io::{Answer, StorageReply, Ticket};
use crate::outbox::Outbox;
use crate::packet::Packet;
use crate::source::Waker;
use crate::time::{Clock, Time};
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

/// See the head of this file.
pub struct Worker {}

impl Worker {
    /// Builds the subtasks of one worker. Nothing runs yet: the first step begins the restore.
    ///
    /// # Errors
    /// If a chain cannot be built: a sink that cannot be opened.
    pub fn new(attempt: Arc<Attempt>, index: u16, waker: Waker) -> Result<Worker> {
        let _ = (attempt, index, waker);
        todo!()
    }

    /// A packet for one of its subtasks, in the order of its channel.
    pub fn deliver(&mut self, packet: Packet) {
        let _ = packet;
        todo!()
    }

    /// Mail, in any order.
    pub fn mail(&mut self, mail: Mail) {
        let _ = mail;
        todo!()
    }

    /// Does a bounded amount of work. Failures leave as `Report::Failed` through the outbox, once.
    pub fn step(&mut self, clock: &dyn Clock, outbox: &mut Outbox) -> Next {
        let _ = (clock, outbox);
        todo!()
    }
}
