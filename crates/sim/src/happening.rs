//! What can happen next in a simulated world, and when.

use crate::faults::CallFault;
use flott_checkpoint::AttemptId;
use flott_runtime::control::{ToManager, ToWorker};
use flott_runtime::error::Error;
use flott_runtime::io::{Answer, BlockingCall, StorageReply, StorageRequest, Ticket};
use flott_runtime::time::Time;
use std::collections::BTreeMap;

/// Who asked for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// The job manager.
    Manager,
    /// A worker of an attempt.
    Worker(AttemptId, u16),
}

/// A request on its way through the storage.
#[derive(Clone, Debug)]
pub struct Request {
    /// The process that asked.
    pub process: usize,
    /// Who in it.
    pub asker: Asker,
    /// Its name for the request.
    pub ticket: Ticket,
    /// What it asked for.
    pub request: StorageRequest,
}

/// What happens.
pub enum Happening {
    /// The workers of a process have their turn.
    Turn(usize, u64),
    /// The job manager of a process is woken.
    Tick(usize),
    /// A request leaves a process.
    Send(Request),
    /// A request takes effect; nothing that happens to the process can undo that.
    Effect(Request, Option<CallFault>),
    /// The storage answers.
    Answer(usize, Asker, Ticket, StorageReply),
    /// An order reaches a worker.
    Order(usize, u16, ToWorker),
    /// A report reaches the job manager.
    Report(usize, ToManager),
    /// A call that may block is made.
    Call(usize, AttemptId, u16, Ticket, BlockingCall),
    /// It comes back.
    CallDone(usize, AttemptId, u16, Ticket, Answer),
    /// All workers of an attempt are gone.
    AttemptEnded(usize, AttemptId, Option<Error>),
    /// A process is started.
    Launch,
    /// A process is continued.
    Continue(usize),
    /// Something goes wrong that has no name.
    Trouble,
    /// The user asks for a full checkpoint.
    Full,
    /// The next row cannot be read.
    BadRow,
    /// The file of a split comes into the watched directory.
    FileComes(u32),
    /// Somebody asks where the pending checkpoint is.
    Ask,
    /// A process dies.
    Death(usize),
    /// From now on all goes well.
    Heal,
}

impl Happening {
    /// The process in which it happens; none for what happens outside.
    #[must_use]
    pub fn process(&self) -> Option<usize> {
        match self {
            Happening::Send(request) => Some(request.process),
            Happening::Turn(process, _)
            | Happening::Tick(process)
            | Happening::Answer(process, ..)
            | Happening::Order(process, ..)
            | Happening::Report(process, ..)
            | Happening::Call(process, ..)
            | Happening::CallDone(process, ..)
            | Happening::AttemptEnded(process, ..) => Some(*process),
            Happening::Effect(..)
            | Happening::Launch
            | Happening::Continue(_)
            | Happening::Trouble
            | Happening::Full
            | Happening::BadRow
            | Happening::FileComes(_)
            | Happening::Ask
            | Happening::Death(_)
            | Happening::Heal => None,
        }
    }

    /// One word and a few numbers, for traces.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Happening::Turn(process, _) => format!("{process} turn"),
            Happening::Tick(process) => format!("{process} tick"),
            Happening::Send(Request { process, asker, request, .. }) => {
                format!("{process} {asker:?} asks {}", words(request))
            }
            Happening::Effect(Request { process, request, .. }, fault) => {
                format!(
                    "{process} effect {} {}",
                    words(request),
                    fault.map_or(String::new(), |fault| format!("({fault:?})"))
                )
            }
            Happening::Answer(process, asker, ticket, reply) => {
                let reply = match reply {
                    StorageReply::Read(bytes) => format!("{} bytes", bytes.len()),
                    StorageReply::Listed(objects) => {
                        format!("{:?}", objects.iter().map(|(path, _)| path).collect::<Vec<_>>())
                    }
                    other => format!("{other:?}"),
                };
                format!("{process} {asker:?} answer {} {reply}", ticket.0)
            }
            Happening::Order(process, worker, mail) => format!("{process} to {worker}: {:?}", mail.order),
            Happening::Report(process, mail) => {
                let mut report = format!("{:?}", mail.report);
                report.truncate(160);
                format!("{process} from {} (attempt {}): {report}", mail.worker, mail.attempt)
            }
            Happening::Call(process, attempt, worker, ticket, _) => {
                format!("{process} call {attempt}/{worker} {}", ticket.0)
            }
            Happening::CallDone(process, attempt, worker, ticket, _) => {
                format!("{process} call {attempt}/{worker} {} is back", ticket.0)
            }
            Happening::AttemptEnded(process, attempt, error) => {
                format!(
                    "{process} attempt {attempt} ended: {}",
                    error.as_ref().map_or(String::new(), ToString::to_string)
                )
            }
            Happening::Launch => "launch".to_owned(),
            Happening::Continue(process) => format!("{process} continue"),
            Happening::Trouble => "trouble".to_owned(),
            Happening::Full => "full".to_owned(),
            Happening::BadRow => "the next row cannot be read".to_owned(),
            Happening::FileComes(origin) => format!("the file of split {origin} comes"),
            Happening::Ask => "ask where the checkpoint is".to_owned(),
            Happening::Death(process) => format!("{process} dies"),
            Happening::Heal => "heal".to_owned(),
        }
    }
}

/// A request in a few words.
#[must_use]
pub fn words(request: &StorageRequest) -> String {
    match request {
        StorageRequest::Create { path, .. } => format!("create {path}"),
        StorageRequest::Read { path, range } => format!("read {path} {range:?}"),
        StorageRequest::List { prefix } => format!("list {prefix}"),
        StorageRequest::Delete { path } => format!("delete {path}"),
        StorageRequest::Append { path, bytes } => format!("append {path} {}", bytes.len()),
        StorageRequest::Finish { path } => format!("finish {path}"),
        StorageRequest::Discard { path } => format!("discard {path}"),
    }
}

/// All that is going to happen, in its order.
#[derive(Default)]
pub struct Agenda {
    items: BTreeMap<(Time, u64), Happening>,
    next: u64,
}

impl Agenda {
    /// Something will happen at a moment.
    pub fn at(&mut self, moment: Time, happening: Happening) {
        self.next += 1;
        self.items.insert((moment, self.next), happening);
    }

    /// The next thing to happen.
    pub fn pop(&mut self) -> Option<(Time, Happening)> {
        self.items.pop_first().map(|((moment, _), happening)| (moment, happening))
    }

    /// When that is.
    #[must_use]
    pub fn next_moment(&self) -> Option<Time> {
        self.items.keys().next().map(|(moment, _)| *moment)
    }

    /// Takes out what the function says, in order.
    pub fn take_if(&mut self, mut is: impl FnMut(&Happening) -> bool) -> Vec<Happening> {
        let keys: Vec<(Time, u64)> = self.items.iter().filter(|(_, item)| is(item)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.items.remove(&key)).collect()
    }

    /// Lets only that happen which the function says; it is asked in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Happening) -> bool) {
        self.items.retain(|_, item| keep(item));
    }

    /// Whether something of a kind will happen.
    #[must_use]
    pub fn has(&self, is: impl Fn(&Happening) -> bool) -> bool {
        self.items.values().any(is)
    }
}
