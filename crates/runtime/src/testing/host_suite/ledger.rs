//! Serves the workers of the suite, and writes down what happens.

use crate::control::{Report, ToManager};
use crate::error::Error;
use crate::host::{Io, Mailbox};
use crate::io::{BlockingCall, StorageReply, StorageRequest, Ticket};
use crate::worker::Mail;
use flott_checkpoint::AttemptId;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What has happened.
#[derive(Default, Debug)]
pub struct Book {
    /// Reports that the director has not read yet.
    pub reports: VecDeque<ToManager>,
    /// Errors that workers reported.
    pub failures: Vec<Error>,
    /// Rows that arrived at the last vertex, counted when its inputs ended.
    pub rows: u64,
    /// A source wants a barrier.
    pub due: bool,
    /// Ends that were told.
    pub ended: Vec<(AttemptId, Option<Error>)>,
}

/// The book, and whoever waits for an entry. Its storage takes everything and holds nothing.
#[derive(Default)]
pub struct Ledger {
    book: Mutex<Book>,
    changed: Condvar,
}

impl Ledger {
    /// Reads or writes the book.
    pub fn note<R>(&self, entry: impl FnOnce(&mut Book) -> R) -> R {
        let result = entry(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// For hosts with threads: waits until the condition holds, which is asked after each entry; false if it takes too long.
    pub fn wait(&self, patience: Duration, condition: &mut dyn FnMut(&mut Book) -> bool) -> bool {
        let book = self.lock();
        let waited = self.changed.wait_timeout_while(book, patience, |book| !condition(book));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// The book itself, at the end.
    #[must_use]
    pub fn take(&self) -> Book {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Io for Ledger {
    fn report(&self, report: ToManager) {
        if let Report::Progress(_) = report.report {
            return;
        }
        self.note(|book| book.reports.push_back(report));
    }

    fn storage(&self, reply_to: Mailbox, ticket: Ticket, request: StorageRequest) {
        let reply = match request {
            StorageRequest::Create { .. } => StorageReply::Created,
            StorageRequest::Read { .. } => StorageReply::NotFound,
            StorageRequest::List { .. } => StorageReply::Listed(Vec::new()),
            StorageRequest::Delete { .. }
            | StorageRequest::Append { .. }
            | StorageRequest::Finish { .. }
            | StorageRequest::Discard { .. } => StorageReply::Done,
        };
        reply_to.push(Mail::Storage(ticket, reply));
    }

    fn call(&self, reply_to: Mailbox, ticket: Ticket, call: BlockingCall) {
        reply_to.push(Mail::Call(ticket, (call.0)()));
    }

    fn ended(&self, attempt: AttemptId, error: Option<Error>) {
        self.note(|book| book.ended.push((attempt, error)));
    }
}
