//! What is known about a run while it goes on, and when it is over.

use super::outlook::Outlook;
use super::savepoint::{Taken, Target};
use flott_checkpoint::{AttemptId, CheckpointId, Dropped, Guarantee, Mode, RequestId};
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::history::Phases;
use flott_runtime::job_manager::{JobEvent, Located, Outcome};
use flott_runtime::meter::Hot;
use flott_runtime::operator::try_map::Skipped;
use litemap::LiteMap;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, oneshot};

/// How a job stands.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// What it is doing.
    pub phase: Phase,
    /// The attempt that runs or ran last.
    pub attempt: Option<AttemptId>,
    /// Workers of that attempt.
    pub workers: u16,
    /// How many workers took the checkpoint that it restored, if that was another number.
    pub rescaled_from: Option<u16>,
    /// The checkpoint it was restored from.
    pub restored: Option<CheckpointId>,
    /// Restarts in this process.
    pub restarts: u64,
    /// Records that `OnError::Skip` has left out in this process so far, by operator; as [`Report::skipped`].
    pub skipped: BTreeMap<String, u64>,
    /// Dead letters of this process so far, by operator; as [`Report::dead_letters`].
    pub dead_letters: BTreeMap<String, u64>,
    /// The newest completed checkpoint of this process.
    pub last_checkpoint: Option<CheckpointStatus>,
    /// Completed checkpoints of this process.
    pub completed_checkpoints: u64,
    /// Checkpoints of this process that were given up.
    pub aborted_checkpoints: u64,
    /// Records that sources gave out, in this attempt.
    pub records_in: u64,
    /// Records that sinks took, in this attempt.
    pub records_out: u64,
    /// How the next checkpoint is taken; `None` with checkpoints off.
    pub checkpoint_mode: Option<Mode>,
    /// The time between two checkpoints.
    pub checkpoint_interval: Option<Duration>,
    /// What the job promises now: what is left if it crashes at this moment. Less than its mode would give, if it was
    /// restored from less, or if there was a lesser mode since the last exact checkpoint.
    pub guarantee: Option<Guarantee>,
    /// With `hot_keys`: the heaviest keys of each subtask with keys: those that have at least a hundredth of its records, heaviest first, by
    /// samples of the last million or so. Not of operators with two inputs, and not of folds in parts.
    pub hot_keys: Vec<HotKey>,
}

/// A key that has many of the records of its subtask.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HotKey {
    /// The operator.
    pub operator: String,
    /// The worker whose subtask has the key.
    pub subtask: u16,
    /// The key: text as it is, anything else as JSON; cut after 100 characters.
    pub key: String,
    /// The share of the subtask's records that it has at least, 0 to 1.
    pub share: f64,
}

/// What a job is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// It wins its log and restores.
    #[default]
    Starting,
    /// Records flow.
    Running,
    /// It failed and waits for its next attempt.
    Restarting,
    /// It was told to stop.
    Stopping,
    /// It is over.
    Ended,
}

/// A completed checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointStatus {
    /// Its number.
    pub id: CheckpointId,
    /// How it was taken.
    pub mode: Mode,
    /// From trigger to record.
    pub duration: Duration,
    /// Bytes written for it.
    pub bytes: u64,
    /// Where the time went: of each phase the subtask where it took longest.
    pub phases: Phases,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// What ended it.
    pub ended: Ended,
    /// The final checkpoint; `None` with checkpoints off.
    pub checkpoint: Option<CheckpointId>,
    /// Records that sources gave out, in the last attempt.
    pub records_in: u64,
    /// Records that sinks took, in the last attempt.
    pub records_out: u64,
    /// Restarts in this process.
    pub restarts: u64,
    /// Records that `OnError::Skip` left out, by operator; only operators that skipped any. Counts the records that were
    /// seen again after a restart twice.
    pub skipped: BTreeMap<String, u64>,
    /// Records that became dead letters, by operator; only operators that had any. Counts the records that were seen again after
    /// a restart twice, also where their stream is exact.
    pub dead_letters: BTreeMap<String, u64>,
    /// Messages about checkpoints that were ignored, in this process. They are harmless; many late or foreign ones show that
    /// something delays or repeats mail.
    pub ignored: Dropped,
}

/// What ended a job without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All input is processed, all output committed.
    Finished,
    /// It had finished before this process began.
    FinishedBefore,
    /// It was told to stop, and took its final checkpoint; with checkpoints off it committed nothing.
    Stopped,
    /// It was told to stop at once.
    Cancelled,
}

/// What driver and handle share.
pub(crate) struct Shared {
    state: Mutex<State>,
    over: Condvar,
    skipped: Vec<Skipped>,
    dead_letters: Vec<Skipped>,
    /// Held by those who copy a savepoint: the end waits for them.
    busy: Arc<RwLock<()>>,
    /// Whoever knows the heaviest keys, once there is somebody.
    heartbeats: OnceLock<Heartbeats>,
}

struct State {
    status: Status,
    outlook: Outlook,
    result: Option<Result<Report>>,
    ignored: Dropped,
    /// Who waits for a checkpoint.
    asking: LiteMap<RequestId, Asking>,
    /// Who wants to know where one is.
    seeking: LiteMap<RequestId, oneshot::Sender<Located>>,
    /// Who waits for a copy of the final checkpoint.
    last: Vec<(Target, oneshot::Sender<Result<Taken>>)>,
    requests: u64,
    /// Nobody gets a checkpoint any more.
    closing: bool,
}

/// Where the answer to a request for a checkpoint goes.
pub(crate) type Asking = Box<dyn FnOnce(Result<CheckpointId>) + Send>;

impl State {
    /// Why nobody gets a checkpoint any more.
    fn refusal(&self) -> Option<Error> {
        match &self.result {
            Some(result) => Some(over(result)),
            None => self.closing.then(|| Error::failed("no checkpoint was taken: the job is ending")),
        }
    }
}

impl Shared {
    pub(crate) fn new(skipped: Vec<Skipped>, dead_letters: Vec<Skipped>, outlook: Outlook) -> Shared {
        let mut status = Status::default();
        status.look(&outlook);
        let state = State {
            status,
            outlook,
            result: None,
            ignored: Dropped::default(),
            asking: LiteMap::new_vec(),
            seeking: LiteMap::new_vec(),
            last: Vec::new(),
            requests: 0,
            closing: false,
        };
        let heartbeats = OnceLock::new();
        Shared {
            state: Mutex::new(state),
            over: Condvar::new(),
            skipped,
            dead_letters,
            busy: Arc::default(),
            heartbeats,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = self.lock().status.clone();
        status.hot_keys = self.heartbeats.get().map(hot_keys).unwrap_or_default();
        status
    }

    /// Where the heaviest keys are known.
    pub(crate) fn watch(&self, heartbeats: Heartbeats) {
        // There is one run, and so one set of them.
        let _ = self.heartbeats.set(heartbeats);
    }

    /// Refuses what the job cannot do, before it is asked to.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn check(&self, mode: Option<Mode>, interval: Option<Duration>) -> Result<()> {
        let state = self.lock();
        match &state.result {
            Some(result) => Err(Error::refused(format!("the job {}", how_it_ended(result)))),
            None => state.outlook.check(mode, interval),
        }
    }

    /// Refuses savepoints of a job that takes no checkpoints.
    ///
    /// # Errors
    /// If it takes none, or is over.
    pub(crate) fn check_savepoints(&self) -> Result<()> {
        self.check(None, None)?;
        if self.lock().outlook.mode().is_none() {
            let error = Error::refused("checkpoints are off, so there are no savepoints either");
            return Err(error.hint("start the job with --checkpoint-dir"));
        }
        Ok(())
    }

    /// Waits for the end.
    pub(crate) fn wait(&self) -> Result<Report> {
        let mut state = self.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the end, but not longer than this.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<Result<Report>> {
        let state = self.lock();
        let waited = self.over.wait_timeout_while(state, time, |state| state.result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.result.clone()
    }

    /// Somebody asks for a checkpoint, and is told how it ended: the number of the request.
    ///
    /// # Errors
    /// If the job is over.
    pub(crate) fn ask(&self, asking: Asking) -> Result<RequestId> {
        let mut state = self.lock();
        if let Some(error) = state.refusal() {
            return Err(error);
        }
        state.requests += 1;
        let request = RequestId(state.requests);
        state.asking.insert(request, asking);
        Ok(request)
    }

    /// Somebody wants a copy of the final checkpoint.
    ///
    /// # Errors
    /// If the job is over; gives the target back.
    pub(crate) fn ask_last(&self, target: Target) -> Result<oneshot::Receiver<Result<Taken>>, (Target, Error)> {
        let mut state = self.lock();
        if let Some(error) = state.refusal() {
            return Err((target, error));
        }
        let (asking, answer) = oneshot::channel();
        state.last.push((target, asking));
        Ok(answer)
    }

    /// Who wants a copy of the final checkpoint.
    pub(super) fn take_last(&self) -> Vec<(Target, oneshot::Sender<Result<Taken>>)> {
        let mut state = self.lock();
        state.closing = true;
        std::mem::take(&mut state.last)
    }

    /// While this lives the end of the job waits: something is being copied, or an answer is on its way.
    pub(crate) async fn busy(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.busy).read_owned().await
    }

    /// Nothing is being copied.
    pub(super) async fn at_rest(&self) {
        drop(self.busy.write().await);
    }

    /// Nobody gets a checkpoint any more.
    pub(super) fn refuse_all(&self, outcome: &Outcome) {
        let result = self.preview(outcome);
        for (_, asking) in std::mem::take(&mut self.lock().asking) {
            asking(Err(over(&result)));
        }
    }

    /// Somebody wants to know where the pending checkpoint is. Nothing comes if the job is over.
    pub(crate) fn seek(&self) -> (RequestId, oneshot::Receiver<Located>) {
        let mut state = self.lock();
        state.requests += 1;
        let request = RequestId(state.requests);
        let (seeking, found) = oneshot::channel();
        if state.result.is_none() {
            state.seeking.insert(request, seeking);
        }
        (request, found)
    }

    /// Where the pending checkpoint is.
    pub(crate) fn found(&self, request: RequestId, located: Located) {
        if let Some(seeking) = self.lock().seeking.remove(&request) {
            // Whoever does not wait any more does not care.
            let _ = seeking.send(located);
        }
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, request: RequestId, answer: Result<CheckpointId>) {
        if let Some(asking) = self.lock().asking.remove(&request) {
            // Whoever does not wait any more does not care.
            asking(answer);
        }
    }

    /// Messages that were ignored so far.
    pub(crate) fn on_ignored(&self, ignored: Dropped) {
        self.lock().ignored = ignored;
    }

    pub(crate) fn on_stop(&self) {
        self.lock().status.phase = Phase::Stopping;
    }

    /// Takes an event into the status.
    pub(crate) fn on_event(&self, event: &JobEvent) -> Status {
        let mut state = self.lock();
        let State { status, outlook, .. } = &mut *state;
        status.skipped = counts(&self.skipped);
        status.dead_letters = counts(&self.dead_letters);
        match event {
            JobEvent::Started { attempt, workers } => {
                outlook.begun(Guarantee::ExactlyOnce);
                status.begin(*attempt, *workers, None);
            }
            JobEvent::Restored { attempt, checkpoint, guarantee, workers, rescaled_from } => {
                outlook.begun(*guarantee);
                status.begin(*attempt, *workers, Some(*checkpoint));
                status.rescaled_from = *rescaled_from;
            }
            JobEvent::Changed { mode, interval } => outlook.changed(*mode, *interval),
            JobEvent::Completed { id, mode, duration, bytes, phases } => {
                outlook.completed(*mode);
                status.completed_checkpoints += 1;
                let (id, mode, duration, bytes, phases) = (*id, *mode, *duration, *bytes, *phases);
                status.last_checkpoint = Some(CheckpointStatus { id, mode, duration, bytes, phases });
            }
            JobEvent::Aborted { .. } => status.aborted_checkpoints += 1,
            JobEvent::Restart { restarts, .. } => {
                status.restarts = *restarts;
                if status.phase != Phase::Stopping {
                    status.phase = Phase::Restarting;
                }
            }
            JobEvent::Warning(_) | JobEvent::Delayed(_) => {}
            JobEvent::Progress { records_in, records_out } => {
                status.records_in = *records_in;
                status.records_out = *records_out;
            }
        }
        status.look(outlook);
        status.clone()
    }

    /// What the end would be.
    pub(crate) fn preview(&self, outcome: &Outcome) -> Result<Report> {
        self.report(&self.lock(), outcome.clone())
    }

    /// The end; the first one counts.
    pub(crate) fn finish(&self, outcome: Outcome) -> Result<Report> {
        let mut state = self.lock();
        if let Some(result) = &state.result {
            return result.clone();
        }
        let result = self.report(&state, outcome);
        state.status.phase = Phase::Ended;
        for (_, asking) in std::mem::take(&mut state.asking) {
            asking(Err(over(&result)));
        }
        state.seeking.clear();
        state.last.clear();
        state.result = Some(result.clone());
        self.over.notify_all();
        result
    }

    fn report(&self, state: &State, outcome: Outcome) -> Result<Report> {
        let (ended, checkpoint) = match outcome {
            Outcome::Finished { checkpoint, before: false } => (Ended::Finished, checkpoint),
            Outcome::Finished { checkpoint, before: true } => (Ended::FinishedBefore, checkpoint),
            Outcome::Stopped { checkpoint } => (Ended::Stopped, checkpoint),
            Outcome::Cancelled => (Ended::Cancelled, None),
            Outcome::Failed(error) => return Err(error),
        };
        let Status { records_in, records_out, restarts, .. } = state.status;
        let (skipped, dead_letters, ignored) = (counts(&self.skipped), counts(&self.dead_letters), state.ignored);
        Ok(Report { ended, checkpoint, records_in, records_out, restarts, skipped, dead_letters, ignored })
    }
}

fn counts(counters: &[Skipped]) -> BTreeMap<String, u64> {
    let counts = counters.iter().map(|counter| (&counter.operator, counter.count.load(Ordering::Relaxed)));
    let mut some = BTreeMap::new();
    some.extend(counts.filter(|(_, count)| *count > 0).map(|(operator, count)| (operator.clone(), count)));
    some
}

fn hot_keys(heartbeats: &Heartbeats) -> Vec<HotKey> {
    let subtasks = (0u16..).zip(heartbeats.hot());
    let all = subtasks.flat_map(|(subtask, vertices)| vertices.into_iter().map(move |(_, hot)| (subtask, hot)));
    let keys = all.flat_map(|(subtask, Hot { operator, keys, .. })| {
        keys.into_iter().map(move |(key, share)| HotKey { operator: operator.clone(), subtask, key, share })
    });
    let mut keys: Vec<HotKey> = keys.collect();
    keys.sort_by(|one, other| one.operator.cmp(&other.operator).then(other.share.total_cmp(&one.share)));
    keys
}

/// Why a job that is over takes no checkpoint.
fn over(result: &Result<Report>) -> Error {
    Error::failed(format!("no checkpoint was taken: the job {}", how_it_ended(result)))
}

fn how_it_ended(result: &Result<Report>) -> String {
    match result {
        Ok(Report { ended: Ended::Finished | Ended::FinishedBefore, .. }) => "has finished".to_owned(),
        Ok(Report { ended: Ended::Stopped, .. }) => "was stopped".to_owned(),
        Ok(Report { ended: Ended::Cancelled, .. }) => "was cancelled".to_owned(),
        Err(error) => format!("has failed: {error}"),
    }
}

impl Status {
    fn look(&mut self, outlook: &Outlook) {
        (self.checkpoint_mode, self.checkpoint_interval) = (outlook.mode(), outlook.interval());
        self.guarantee = Some(outlook.guarantee());
    }

    fn begin(&mut self, attempt: AttemptId, workers: u16, restored: Option<CheckpointId>) {
        if self.phase != Phase::Stopping {
            self.phase = Phase::Running;
        }
        (self.attempt, self.workers, self.restored) = (Some(attempt), workers, restored);
        self.rescaled_from = None;
        (self.records_in, self.records_out) = (0, 0);
    }
}

/// Ends the run with an error if its driver is gone without having done so: a bug must not let anybody wait for ever.
pub(super) struct LastWord(pub(super) std::sync::Arc<Shared>);

impl Drop for LastWord {
    fn drop(&mut self) {
        // Does nothing if there is an outcome already; what it gives back was told before.
        let _ = self.0.finish(Outcome::Failed(Error::failed("the job's driver died; this is a bug in flott")));
    }
}
