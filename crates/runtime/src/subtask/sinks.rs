//! The epochs of one sink in one subtask, from the seal in the cut to the commit (rules S1-S3).
//!
//! Everything that may block happens in calls made off the worker, one at a time. An aborted checkpoint throws nothing away:
//! its epoch stays, is prepared with the next checkpoint if that had failed, and is committed with the next one recorded.

use super::trail::Whose;
use crate::attempt::Claim;
use crate::error::{Error, ErrorKind, Result};
use crate::heartbeat::Mark;
use crate::io::{Answer, BlockingCall, answer};
use crate::manifest::AdoptedLife;
use crate::operator::{Context, Operator, Signal};
use crate::record::Record;
use crate::sink::{Committer, Sealed, SinkWriter, Token};
use crate::time::{Time, Timestamp};
use flott_checkpoint::CheckpointId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A commit is tried so often before the attempt ends (as Flink's `sink.committer.retries`).
const COMMIT_TRIES: u32 = 10;
/// The failure of so many tries is told: until then it may be a hiccup.
const TRIES_BEFORE_TELLING: u32 = 3;
/// The pause before a commit is tried again; doubles each time.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);

/// The part of a writer that the cut needs.
pub(super) trait Seal {
    fn seal(&mut self, id: CheckpointId) -> Option<Sealed>;
    fn ready(&mut self) -> bool;
}

/// The last operator of a chain: hands its records to a sink's writer.
pub(super) struct SinkOperator<W> {
    pub(super) operator: String,
    pub(super) writer: Rc<RefCell<WriterCell<W>>>,
    pub(super) written: Rc<Cell<u64>>,
    pub(super) mark: Mark,
}

/// A writer, shared by the chain, which writes, and the subtask, which seals.
pub(super) struct WriterCell<W>(
    pub(super) W,
    pub(super) fn(&mut W, CheckpointId) -> Option<Sealed>,
    pub(super) fn(&mut W) -> bool,
);

impl<W> Seal for WriterCell<W> {
    fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
        (self.1)(&mut self.0, id)
    }

    fn ready(&mut self) -> bool {
        (self.2)(&mut self.0)
    }
}

impl<T: Record, W: SinkWriter<T>> Operator<T> for SinkOperator<W> {
    fn on_record(&mut self, record: T, _: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        cx.enter(self.mark);
        let mut writer = self.writer.borrow_mut();
        writer.0.write(record, cx.now).map_err(|error| error.at_operator(&self.operator))?;
        self.written.set(self.written.get() + 1);
        if !writer.0.ready() {
            cx.sink_not_ready();
        }
        Ok(())
    }

    fn on_signal(&mut self, _: Signal, _: &mut Context<'_>) -> Result<()> {
        Ok(())
    }
}

/// One epoch that is not known to be committed.
struct Epoch {
    id: CheckpointId,
    state: EpochState,
}

enum EpochState {
    Sealed(Sealed),
    /// A call has it.
    Preparing,
    Prepared(Vec<Arc<Token>>),
}

/// What a call gave back.
enum Done {
    Claimed(Result<()>),
    Prepared(CheckpointId, Result<Vec<Token>>, Sealed),
    Committed(Result<()>),
    Cleaned(Result<()>),
    Overwritten(Result<()>),
}

/// What the subtask has to know about a sink after a call came back.
#[derive(Debug)]
pub(super) enum SinkNews {
    Nothing,
    /// The checkpoint cannot be acked: its epoch, or an older one, could not be prepared.
    NotPrepared(Error),
    /// What is owed to the outside has failed some times, and is tried again. Told once, until nothing is owed.
    Hindered(Error),
}

/// See the head of this file.
pub(super) struct SinkPort {
    operator: String,
    whose: Whose,
    committer: Option<Arc<dyn Committer>>,
    writer: Rc<RefCell<dyn Seal>>,
    epochs: VecDeque<Epoch>,
    /// Tokens to commit, oldest first; the first one is being committed while `busy`.
    to_commit: VecDeque<(CheckpointId, Arc<Token>)>,
    /// Calls to make before anything else.
    duties: VecDeque<Duty>,
    overwrite_after_commit: bool,
    busy: bool,
    tries: u32,
    retry_at: Option<Time>,
    /// It was told that commits fail.
    is_told: bool,
    /// A prepare failed: the next one waits for the next checkpoint.
    prepare_failed: bool,
}

enum Duty {
    Claim { overwrite: bool, adopted: Vec<AdoptedLife> },
    Clean(Vec<Token>),
    Overwrite,
}

impl SinkPort {
    pub(super) fn new(
        operator: &str,
        whose: Whose,
        committer: Option<Arc<dyn Committer>>,
        writer: Rc<RefCell<dyn Seal>>,
    ) -> SinkPort {
        SinkPort {
            operator: operator.to_owned(),
            whose,
            committer,
            writer,
            epochs: VecDeque::new(),
            to_commit: VecDeque::new(),
            duties: VecDeque::new(),
            overwrite_after_commit: false,
            busy: false,
            tries: 0,
            retry_at: None,
            is_told: false,
            prepare_failed: false,
        }
    }

    pub(super) fn operator(&self) -> &str {
        &self.operator
    }

    pub(super) fn ready(&self) -> bool {
        self.writer.borrow_mut().ready()
    }

    /// A new incarnation begins, or one goes on that took over foreign output; subtask 0 alone. The foreign output goes after
    /// the first commit: after that of the restored tokens, if there is a checkpoint already.
    pub(super) fn claim(&mut self, claim: Claim, is_restored: bool, adopted: &[AdoptedLife]) {
        self.owe(Duty::Claim { overwrite: claim.overwrite, adopted: adopted.to_vec() });
        self.overwrite_after_commit = claim.overwrite && !is_restored;
        if claim.overwrite && is_restored {
            self.owe(Duty::Overwrite);
        }
    }

    /// The tokens that the restored checkpoint lists and that this subtask owns.
    pub(super) fn restore(&mut self, id: CheckpointId, tokens: Vec<Arc<Token>>) {
        self.to_commit.extend(tokens.into_iter().map(|token| (id, token)));
    }

    /// All restored tokens of the job are committed; subtask 0 alone.
    pub(super) fn clean(&mut self, restored: Vec<Token>) {
        if self.cleans() {
            self.owe(Duty::Clean(restored));
        }
    }

    /// Whether it has to know the tokens of others.
    pub(super) fn cleans(&self) -> bool {
        self.committer.as_ref().is_some_and(|committer| committer.cleans())
    }

    /// A sink that shows its output at once has nobody who could do it, and nothing to be done.
    fn owe(&mut self, duty: Duty) {
        if self.committer.is_some() {
            self.duties.push_back(duty);
        }
    }

    /// In the cut. What could not be prepared before is tried again from here on.
    pub(super) fn seal(&mut self, id: CheckpointId) {
        self.prepare_failed = false;
        if let Some(sealed) = self.writer.borrow_mut().seal(id).filter(|_| self.committer.is_some()) {
            self.epochs.push_back(Epoch { id, state: EpochState::Sealed(sealed) });
        }
    }

    /// All tokens of epochs up to a checkpoint, if all of those are prepared: what its snapshot carries (S2).
    pub(super) fn tokens(&self, id: CheckpointId) -> Option<Vec<Arc<Token>>> {
        let waiting = self.to_commit.iter().filter(|(epoch, _)| *epoch <= id).map(|(_, token)| Arc::clone(token));
        let mut tokens: Vec<Arc<Token>> = waiting.collect();
        for epoch in self.epochs.iter().filter(|epoch| epoch.id <= id) {
            match &epoch.state {
                EpochState::Prepared(prepared) => tokens.extend(prepared.iter().cloned()),
                EpochState::Sealed(_) | EpochState::Preparing => return None,
            }
        }
        Some(tokens)
    }

    /// A checkpoint is recorded: everything up to it is to be committed.
    pub(super) fn completed(&mut self, id: CheckpointId) {
        while self.epochs.front().is_some_and(|epoch| epoch.id <= id) {
            let epoch = self.epochs.pop_front().expect("just seen");
            let EpochState::Prepared(tokens) = epoch.state else {
                unreachable!("checkpoint {id} was acked, so epoch {} is prepared", epoch.id)
            };
            self.to_commit.extend(tokens.into_iter().map(|token| (epoch.id, token)));
        }
        if std::mem::take(&mut self.overwrite_after_commit) {
            self.owe(Duty::Overwrite);
        }
    }

    /// What an abort must never do (S2).
    #[cfg(feature = "mutations")]
    pub(super) fn discard(&mut self, id: CheckpointId) {
        self.epochs.retain(|epoch| epoch.id > id || matches!(epoch.state, EpochState::Preparing));
    }

    /// Whether everything up to a checkpoint is committed.
    pub(super) fn is_committed(&self, id: CheckpointId) -> bool {
        self.duties.is_empty()
            && !self.busy_with_duty()
            && self.to_commit.iter().all(|(epoch, _)| *epoch > id)
            && self.epochs.iter().all(|epoch| epoch.id > id)
    }

    fn busy_with_duty(&self) -> bool {
        self.busy
            && self.to_commit.is_empty()
            && self.epochs.iter().all(|epoch| !matches!(epoch.state, EpochState::Preparing))
    }

    /// The next call to make, if there is one and none is under way.
    pub(super) fn next_call(&mut self, now: Time) -> Option<BlockingCall> {
        let committer = self.committer.clone()?;
        if self.busy || self.retry_at.is_some_and(|moment| moment > now) {
            return None;
        }
        self.retry_at = None;
        let call = self.choose(committer)?;
        self.busy = true;
        Some(call)
    }

    fn choose(&mut self, committer: Arc<dyn Committer>) -> Option<BlockingCall> {
        // A claim comes before everything; other duties follow the commits that they wait for.
        if let Some(Duty::Claim { overwrite, adopted }) = self.duties.front() {
            let (overwrite, adopted) = (*overwrite, adopted.clone());
            return Some(call(move || {
                let adopts = !overwrite && !adopted.is_empty();
                Done::Claimed(if adopts { committer.adopt(&adopted) } else { committer.claim(overwrite) })
            }));
        }
        if let Some((id, token)) = self.to_commit.front() {
            let (token, span) = (Arc::clone(token), self.whose.commit(&self.operator, *id));
            return Some(call(move || span.in_scope(|| Done::Committed(committer.commit(&token)))));
        }
        match self.duties.front() {
            Some(Duty::Clean(restored)) => {
                let restored = restored.clone();
                return Some(call(move || Done::Cleaned(committer.clean(&restored))));
            }
            Some(Duty::Overwrite) => return Some(call(move || Done::Overwritten(committer.overwrite_foreign()))),
            Some(Duty::Claim { .. }) | None => {}
        }
        let is_sealed = |epoch: &&mut Epoch| matches!(epoch.state, EpochState::Sealed(_));
        let epoch = self.epochs.iter_mut().find(is_sealed).filter(|_| !self.prepare_failed)?;
        let id = epoch.id;
        let EpochState::Sealed(mut sealed) = std::mem::replace(&mut epoch.state, EpochState::Preparing) else {
            unreachable!("just found as sealed")
        };
        let span = self.whose.prepare(&self.operator, id);
        Some(call(move || {
            let result = span.in_scope(|| committer.prepare(&mut sealed));
            Done::Prepared(id, result, sealed)
        }))
    }

    /// When to ask for the next call again, if that is a matter of time.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.retry_at
    }

    /// A call came back.
    pub(super) fn on_answer(&mut self, given: Answer, now: Time) -> Result<SinkNews> {
        self.busy = false;
        match answer::<Done>(given) {
            Done::Prepared(id, result, sealed) => return self.on_prepared(id, result, sealed),
            Done::Committed(Ok(())) => {
                self.to_commit.pop_front();
                self.has_worked();
            }
            Done::Claimed(result) | Done::Cleaned(result) => {
                result.map_err(|error| error.at_operator(&self.operator))?;
                self.duties.pop_front();
            }
            Done::Overwritten(Ok(())) => {
                self.duties.pop_front();
                self.has_worked();
            }
            Done::Committed(Err(error)) | Done::Overwritten(Err(error)) => return self.try_later(error, now),
        }
        Ok(SinkNews::Nothing)
    }

    fn on_prepared(&mut self, id: CheckpointId, result: Result<Vec<Token>>, sealed: Sealed) -> Result<SinkNews> {
        let epoch =
            self.epochs.iter_mut().find(|epoch| epoch.id == id).expect("an epoch leaves only when it is prepared");
        match result {
            Ok(tokens) => {
                epoch.state = EpochState::Prepared(tokens.into_iter().map(Arc::new).collect());
                Ok(SinkNews::Nothing)
            }
            // What cannot be made whole cannot be made so by the next checkpoint either.
            Err(error) if error.kind() == ErrorKind::OutputDamaged => Err(error.at_operator(&self.operator)),
            Err(error) => {
                epoch.state = EpochState::Sealed(sealed);
                self.prepare_failed = true;
                Ok(SinkNews::NotPrepared(error.at_operator(&self.operator)))
            }
        }
    }

    fn has_worked(&mut self) {
        self.tries = 0;
        self.is_told &= !self.to_commit.is_empty();
    }

    fn try_later(&mut self, error: Error, now: Time) -> Result<SinkNews> {
        self.tries += 1;
        let error = error.at_operator(&self.operator);
        if error.kind() != ErrorKind::Failed || self.tries >= COMMIT_TRIES {
            return Err(error);
        }
        self.retry_at = Some(now.after(COMMIT_PAUSE * 2u32.pow(self.tries - 1)));
        if self.tries < TRIES_BEFORE_TELLING || std::mem::replace(&mut self.is_told, true) {
            return Ok(SinkNews::Nothing);
        }
        Ok(SinkNews::Hindered(error))
    }
}

fn call(body: impl FnOnce() -> Done + Send + 'static) -> BlockingCall {
    BlockingCall(Box::new(move || Box::new(body())))
}
