//! Serves what leaves the workers: reports go to the job manager, requests and blocking calls to the I/O runtime, answers
//! back by mail. Called on the workers' threads; never blocks them.

use super::store::Store;
use super::task::task;
use flott_checkpoint::AttemptId;
use flott_runtime::control::{Report, ToManager};
use flott_runtime::error::Error;
use flott_runtime::host::{Io, Mailbox};
use flott_runtime::io::{BlockingCall, StorageRequest, Ticket, calls};
use flott_runtime::job_manager::ManagerEvent;
use flott_runtime::worker::Mail;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

pub(super) struct Ports {
    events: UnboundedSender<ManagerEvent>,
    store: Store,
    runtime: Handle,
    /// The attempt that runs; for calls that panic.
    attempt: AtomicU64,
}

impl Ports {
    pub(super) fn new(events: UnboundedSender<ManagerEvent>, store: Store, runtime: Handle) -> Arc<Ports> {
        Arc::new(Ports { events, store, runtime, attempt: AtomicU64::new(0) })
    }

    pub(super) fn begin(&self, attempt: AttemptId) {
        self.attempt.store(attempt.0, Ordering::Relaxed);
    }

    /// To the job manager. If it is gone, so is the job: nobody is left to tell.
    pub(super) fn tell(&self, event: ManagerEvent) {
        let _ = self.events.send(event);
    }
}

impl Io for Ports {
    fn report(&self, report: ToManager) {
        self.store.before_report(&report.report);
        self.tell(ManagerEvent::Worker(report));
    }

    fn storage(&self, reply_to: Mailbox, ticket: Ticket, request: StorageRequest) {
        let _inside = self.runtime.enter();
        let reply = self.store.serve(request);
        self.runtime.spawn(task(async move { reply_to.push(Mail::Storage(ticket, reply.await)) }));
    }

    fn call(&self, reply_to: Mailbox, ticket: Ticket, call: BlockingCall) {
        let _inside = self.runtime.enter();
        let answer = calls::make(call);
        let attempt = AttemptId(self.attempt.load(Ordering::Relaxed));
        let events = self.events.clone();
        self.runtime.spawn(task(async move {
            match answer.await {
                Ok(answer) => reply_to.push(Mail::Call(ticket, answer)),
                Err(error) => {
                    let report = Report::Failed(error);
                    let _ = events.send(ManagerEvent::Worker(ToManager { attempt, worker: 0, report }));
                }
            }
        }));
    }

    fn ended(&self, attempt: AttemptId, error: Option<Error>) {
        self.tell(ManagerEvent::AttemptEnded { attempt, error });
    }
}
