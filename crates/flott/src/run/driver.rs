//! The driver: feeds the job manager and does what it wants done.
//!
//! It decides nothing about the job. What it alone knows is how to wait.

use super::dry_run::Foresight;
use super::task::{blocking, task};
use crate::console::delayed_lines;

use super::ports::Ports;
use super::printer::Printing;
use super::status::{LastWord, Report, Shared, Status};
use super::store::Store;
use super::teller::Teller;
use super::watch::Watch;
use flott_checkpoint::AttemptId;
use flott_runtime::error::Result;
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::host::{Host, HostPorts, RunningAttempt};
use flott_runtime::io::clock::SystemClock;
use flott_runtime::job_manager::{Command, JobEvent, JobManager, ManagerEvent, ManagerOutbox, Outcome};
use flott_runtime::time::{Clock, Time};
use flott_runtime::worker::Mail;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::Span;

/// What hears of a run.
pub(crate) trait Listen: Send {
    /// Something happened; `status` holds it already.
    fn on_event(&mut self, now: Time, event: &JobEvent, status: &Status);
    /// It is over.
    fn on_end(&mut self, result: &Result<Report>);
}

/// Hears of everything and says only what is wrong, to the program's own log. Holds the job's name.
pub(crate) struct Quiet(pub(crate) String);

impl Listen for Quiet {
    fn on_event(&mut self, _: Time, event: &JobEvent, _: &Status) {
        let job = self.0.as_str();
        match event {
            JobEvent::Warning(warning) => tracing::warn!(target: "flott", job, "{warning}"),
            JobEvent::Aborted { id, reason } => {
                tracing::warn!(target: "flott", job, checkpoint = id.0, "checkpoint {id} was given up: {reason}")
            }
            JobEvent::Delayed(whereabouts) => delayed_lines(whereabouts).iter().for_each(|line| {
                tracing::warn!(target: "flott", job, checkpoint = whereabouts.id.0, "{line}");
            }),
            JobEvent::Restart { error, restarts, .. } => {
                tracing::warn!(target: "flott", job, restarts, "the job restarts: {error}")
            }
            _ => {}
        }
    }

    fn on_end(&mut self, _: &Result<Report>) {}
}

/// What happens to a job, for whoever listens by `tracing`; the console has its own words for it.
fn trace(attempt: &Span, job: &str, event: &JobEvent) {
    match event {
        JobEvent::Completed { id, mode, bytes, duration, .. } => {
            let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(target: "flott", parent: attempt, job, checkpoint = id.0, %mode, bytes, millis, "completed");
        }
        JobEvent::Restart { restarts, delay, error } => {
            let restart = tracing::info_span!(target: "flott", "restart", job, restarts, ?delay);
            tracing::debug!(target: "flott", parent: &restart, "the attempt failed: {error}");
        }
        _ => {}
    }
}

/// How long the end of a job waits for its workers to close what their state lies in.
const CLOSING: Duration = Duration::from_secs(3);

/// What hears of a run, boxed.
pub(crate) type Listener = Box<dyn Listen>;

pub(super) struct Driver {
    pub(super) job: String,
    pub(super) manager: JobManager,
    /// The directory to begin from, and whether its output is claimed.
    pub(super) restore_from: Option<(String, bool)>,
    /// What to ask before the log is touched.
    pub(super) foresight: Option<Foresight>,
    pub(super) inbox: UnboundedReceiver<ManagerEvent>,
    pub(super) host: flott_timely::TimelyHost,
    pub(super) ports: Arc<Ports>,
    pub(super) store: Store,
    pub(super) clock: SystemClock,
    pub(super) running: Option<RunningAttempt>,
    /// Open as long as an attempt runs.
    pub(super) attempt: Span,
    pub(super) wake_at: Option<Time>,
    pub(super) watch: Watch,
    pub(super) heartbeats: Heartbeats,
    pub(super) shared: Arc<Shared>,
    pub(super) printing: Printing,
    pub(super) teller: Teller,
    /// How long an end that is no finish waits for readers.
    pub(super) patience: Duration,
    /// State lies in a library that must be closed before the process ends.
    pub(super) closes_stores: bool,
}

/// Waits for somebody who reads: for ever after a finish, which is to be complete, else as long as a stop may take.
async fn read_out<T>(outcome: &Outcome, patience: Duration, reading: impl Future<Output = T>) -> Option<T> {
    match outcome {
        Outcome::Finished { .. } => Some(reading.await),
        _ => tokio::time::timeout(patience, reading).await.ok(),
    }
}

impl Driver {
    /// Runs the job to its end.
    pub(super) async fn drive(mut self) {
        let _last_word = LastWord(Arc::clone(&self.shared));
        let outcome = match self.prepare().await {
            Ok(()) => self.run().await,
            Err(error) => Outcome::Failed(error),
        };
        if let Some(running) = self.running.take() {
            running.stop();
            if self.closes_stores {
                // A worker whose step never returns is not waited for.
                let _ = tokio::time::timeout(CLOSING, blocking(move || running.join())).await;
            }
        }
        self.last_savepoints(&outcome).await;
        if read_out(&outcome, self.patience, self.printing.end()).await.is_none() {
            let warning = "output that nobody has read is not printed any more".to_owned();
            self.teller.tell(self.clock.now(), JobEvent::Warning(warning), self.shared.status());
        }
        // The listener comes first: a program may end as soon as somebody who waits hears of the end.
        let told = self.teller.end(self.shared.preview(&outcome));
        let _ = read_out(&outcome, self.patience, told).await;
        let _ = self.shared.finish(outcome);
    }

    /// What may refuse the job before it begins.
    async fn prepare(&mut self) -> Result<()> {
        self.store.probe().await?;
        let mut savepoint = None;
        if let Some((location, claim)) = self.restore_from.take() {
            let (elsewhere, manifest) = super::savepoint::find(&location, claim).await?;
            self.manager.begin_with(elsewhere.clone());
            savepoint = Some((elsewhere, manifest));
        }
        match (self.foresight.take(), self.store.server()) {
            (Some(foresight), Some(own)) => foresight.look(own, savepoint).await,
            _ => Ok(()),
        }
    }

    /// Copies the final checkpoint for whoever stopped the job with a savepoint, and lets other copies come to their end.
    async fn last_savepoints(&mut self, outcome: &Outcome) {
        let last = match outcome {
            Outcome::Finished { checkpoint, .. } | Outcome::Stopped { checkpoint } => *checkpoint,
            Outcome::Cancelled | Outcome::Failed(_) => None,
        };
        for (target, asking) in self.shared.take_last() {
            let written = match last {
                Some(id) => target.write(&self.store, id).await,
                None => Err(target.give_back("the job ended without a final checkpoint").await),
            };
            if let Err(error) = &written {
                let warning = format!("the job has ended, and no savepoint was written: {error}");
                self.teller.tell(self.clock.now(), JobEvent::Warning(warning), self.shared.status());
            }
            // Whoever does not wait any more does not care.
            let _ = asking.send(written);
        }
        self.shared.refuse_all(outcome);
        let _ = read_out(outcome, self.patience, self.shared.at_rest()).await;
    }

    async fn run(&mut self) -> Outcome {
        let mut event = ManagerEvent::Begin;
        loop {
            if let Some(outcome) = self.handle(event).await {
                return outcome;
            }
            event = match self.next().await {
                Ok(event) => event,
                Err(error) => return Outcome::Failed(error),
            };
        }
    }

    /// Waits for mail or for the next moment that matters; an error if the job cannot stop.
    async fn next(&mut self) -> Result<ManagerEvent> {
        loop {
            let now = self.clock.now();
            if let Some(error) = self.watch.look(now, self.heartbeats.pulses()) {
                return Err(error);
            }
            if self.wake_at.is_some_and(|moment| moment <= now) {
                self.wake_at = None;
                return Ok(ManagerEvent::Tick);
            }
            let moment = [self.wake_at, self.watch.due()].into_iter().flatten().min();
            // Without a moment to wait for, an hour is as good as for ever.
            let pause = moment.map_or(Duration::from_secs(3_600), |moment| moment.since(now));
            tokio::select! {
                mail = self.inbox.recv() => {
                    // The handle holds a sender as long as anybody can want anything.
                    return Ok(mail.unwrap_or(ManagerEvent::Command(Command::Cancel)));
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn handle(&mut self, event: ManagerEvent) -> Option<Outcome> {
        let now = self.clock.now();
        match &event {
            ManagerEvent::Command(Command::EndWithSavepoint { drain: true }) => self.shared.on_stop(),
            ManagerEvent::Command(Command::Stop | Command::EndWithSavepoint { drain: false }) => {
                self.watch.on_stop(now);
                self.shared.on_stop();
            }
            ManagerEvent::AttemptEnded { attempt, .. } => {
                self.watch.on_attempt_ended();
                if let Some(running) = self.running.take() {
                    // Its threads are about to end: nothing of the old attempt may live when the next one starts.
                    let _ = blocking(move || running.join()).await;
                }
                self.forget(*attempt);
                self.attempt = Span::none();
            }
            _ => {}
        }
        let mut outbox = ManagerOutbox::default();
        self.manager.on(now, event, &mut outbox);
        self.shared.on_ignored(self.manager.dropped());
        self.obey(now, outbox)
    }

    /// Gives up the segments that an attempt did not come to the end of. Its threads are gone: no more of them is written.
    fn forget(&self, attempt: AttemptId) {
        let store = self.store.clone();
        tokio::spawn(task(async move { store.forget(attempt).await }));
    }

    /// Removes what writes of dead attempts left half done, beside the job; what cannot be removed now can be at the next start.
    fn sweep(&self, attempt: AttemptId) {
        let store = self.store.clone();
        tokio::spawn(task(async move {
            if let Err(error) = store.sweep_staged(attempt).await {
                tracing::warn!(target: "flott", "leftovers of older attempts stay for now: {error}");
            }
        }));
    }

    fn obey(&mut self, now: Time, outbox: ManagerOutbox) -> Option<Outcome> {
        self.wake_at = outbox.wake_at.or(self.wake_at);
        for event in outbox.events {
            trace(&self.attempt, &self.job, &event);
            let status = self.shared.on_event(&event);
            self.teller.tell(now, event, status);
        }
        for (request, answer) in outbox.answers {
            self.shared.answer(request, answer);
        }
        for (request, located) in outbox.located {
            self.shared.found(request, located);
        }
        for (ticket, request) in outbox.storage {
            let reply = self.store.serve(request);
            let ports = Arc::clone(&self.ports);
            tokio::spawn(task(async move { ports.tell(ManagerEvent::Storage(ticket, reply.await)) }));
        }
        if let Some(attempt) = outbox.start {
            self.ports.begin(attempt.id);
            let (job, workers) = (attempt.plan.job.as_str(), attempt.workers);
            self.attempt = tracing::info_span!(target: "flott", "attempt", job, attempt = attempt.id.0, workers);
            self.sweep(attempt.id);
            let ports: HostPorts = Arc::clone(&self.ports) as HostPorts;
            self.running = Some(self.host.start(attempt, ports));
        }
        if let Some(running) = &self.running {
            for (worker, order) in outbox.mail {
                if let Some(mailbox) = running.mailbox(worker) {
                    mailbox.push(Mail::Order(order));
                }
            }
            if outbox.stop_attempt == Some(running.attempt()) {
                self.watch.on_attempt_ending(now);
                running.stop();
            }
        }
        outbox.done
    }
}
