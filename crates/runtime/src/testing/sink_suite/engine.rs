//! The least engine that drives a sink by the rules: seal, prepare, record, commit, restore.

use super::SinkCase;
use crate::error::{Error, Result};
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Token};
use crate::testing::connector_contexts::sink_context;
use crate::testing::memory_files::MemoryFiles;
use crate::time::Time;
use flott_checkpoint::{AttemptId, CheckpointId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The numbers of each subtask's visible records, in the order of epochs.
pub type Visible = BTreeMap<u16, Vec<u64>>;

/// So much virtual time lies between two records.
pub const BETWEEN_RECORDS: Duration = Duration::from_secs(1);

/// How many subtasks the sink has.
pub(super) const SUBTASKS: u16 = 2;

/// So many checkpoints are recorded, then the job is done.
const CHECKPOINTS: u32 = 6;

/// What the log says.
#[derive(Clone, Default)]
struct Recorded {
    checkpoints: u32,
    /// How many records of each subtask are in it.
    positions: BTreeMap<u16, u64>,
    /// All that is not known to be committed.
    tokens: Vec<Token>,
}

pub(super) struct Engine<C: SinkCase> {
    case: Arc<C>,
    pub(super) files: MemoryFiles,
    /// For messages.
    title: String,
    incarnation: String,
    /// The host's clock: moves with each record.
    now: Time,
    attempt: u64,
    next_id: u64,
    recorded: Recorded,
    /// By subtask: what was committed with success.
    committed: BTreeMap<u16, u64>,
    /// By subtask: where epochs ended.
    epochs: BTreeMap<u16, Vec<u64>>,
    /// Take over foreign output.
    pub(super) overwrite: bool,
    /// The attempt stops when so many checkpoints are recorded, before it commits the last.
    pub(super) stop_after_record: Option<u32>,
}

/// One attempt's half of the engine.
struct Attempt<W> {
    writers: Vec<W>,
    committers: Vec<Arc<dyn Committer>>,
    /// How many records of each subtask were written.
    positions: BTreeMap<u16, u64>,
    /// Sealed, not prepared.
    sealed: Vec<(u16, Sealed)>,
    /// Prepared, not known to be committed.
    tokens: Vec<Token>,
    /// A write failed: the attempt is over.
    broken: bool,
}

impl<C: SinkCase> Engine<C> {
    pub(super) fn new(title: &str, incarnation: &str) -> Engine<C> {
        let files = MemoryFiles::new();
        Engine {
            case: Arc::new(C::on(&files)),
            files,
            title: title.to_owned(),
            incarnation: incarnation.to_owned(),
            now: Time(0),
            attempt: 0,
            next_id: 1,
            recorded: Recorded::default(),
            committed: BTreeMap::new(),
            epochs: BTreeMap::new(),
            overwrite: false,
            stop_after_record: None,
        }
    }

    /// A new life of the job, on the same target.
    pub(super) fn next_incarnation(&self, incarnation: &str) -> Engine<C> {
        let (case, files) = (self.case.clone(), self.files.clone());
        Engine { case, files, ..Engine::new(&self.title, incarnation) }
    }

    fn context(&self, subtask: u16) -> SinkContext {
        SinkContext {
            subtask,
            parallelism: SUBTASKS,
            incarnation: self.incarnation.clone(),
            attempt: AttemptId(self.attempt),
            first_checkpoint: CheckpointId(self.next_id),
            ..sink_context(self.case.files(&self.files, self.attempt))
        }
    }

    pub(super) fn committers(&self) -> Vec<Arc<dyn Committer>> {
        let sink = self.case.sink();
        let committer = |subtask| sink.committer(&self.context(subtask)).expect("a transactional sink has a committer");
        (0..SUBTASKS).map(committer).collect()
    }

    pub(super) fn recorded_tokens(&self) -> Vec<Token> {
        self.recorded.tokens.clone()
    }

    pub(super) fn is_done(&self) -> bool {
        self.recorded.checkpoints >= CHECKPOINTS
    }

    pub(super) fn visible(&self) -> Visible {
        self.case.visible(&self.files)
    }

    /// Restores what is recorded, and goes on until the job is done or something fails.
    pub(super) fn run_attempt(&mut self) -> Result<()> {
        self.attempt += 1;
        let committers = self.committers();
        let chief = committers.first().cloned().expect("there is a subtask 0");
        if self.recorded.checkpoints == 0 {
            chief.claim(self.overwrite)?;
        }
        let restored = self.recorded.tokens.clone();
        for (token, committer) in restored.iter().zip(committers.iter().cycle()) {
            committer.commit(token)?;
            self.check();
        }
        self.committed = self.recorded.positions.clone();
        chief.clean(&restored)?;
        self.check();
        let sink = self.case.sink();
        let writers = (0..SUBTASKS).map(|subtask| sink.open(&self.context(subtask))).collect::<Result<Vec<_>>>()?;
        let (positions, sealed) = (self.recorded.positions.clone(), Vec::new());
        let mut attempt = Attempt { writers, committers, positions, sealed, tokens: Vec::new(), broken: false };
        let mut failures = 0;
        while !self.is_done() {
            if let Err(error) = self.epoch(&mut attempt) {
                failures += 1;
                if attempt.broken
                    || failures > 2
                    || self.stop_after_record.is_some_and(|stop| stop <= self.recorded.checkpoints)
                {
                    return Err(error);
                }
            }
        }
        // What a failed commit left over is committed before the job ends.
        self.commit(&mut attempt).or_else(|_| self.commit(&mut attempt))
    }

    /// Writes, seals, prepares, records and commits one epoch.
    fn epoch(&mut self, attempt: &mut Attempt<<C::Sink as Sink<C::Record>>::Writer>) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        for (subtask, writer) in (0..SUBTASKS).zip(&mut attempt.writers) {
            let position = attempt.positions.entry(subtask).or_default();
            // One subtask has an empty epoch now and then.
            let count = if subtask == 1 && id.is_multiple_of(4) { 0 } else { 2 + id % 3 };
            for _ in 0..count {
                self.now = self.now.after(BETWEEN_RECORDS);
                if let Err(error) = writer.write(self.case.record(subtask, *position), self.now) {
                    attempt.broken = true;
                    return Err(error);
                }
                *position += 1;
            }
            if let Some(sealed) = writer.seal(CheckpointId(id)) {
                attempt.sealed.push((subtask, sealed));
            } else {
                assert_eq!(count, 0, "{}: an epoch with records is sealed", self.title);
            }
            self.epochs.entry(subtask).or_default().push(*position);
        }
        self.check();
        while let Some((subtask, sealed)) = attempt.sealed.first_mut() {
            let committer = attempt.committers.get(usize::from(*subtask)).expect("one for each subtask");
            attempt.tokens.extend(committer.prepare(sealed)?);
            attempt.sealed.remove(0);
            self.check();
        }
        if id % 5 == 2 {
            // Aborted: nothing is thrown away, the tokens go into the next checkpoint (S2).
            return Ok(());
        }
        let checkpoints = self.recorded.checkpoints + 1;
        self.recorded = Recorded { checkpoints, positions: attempt.positions.clone(), tokens: attempt.tokens.clone() };
        if self.stop_after_record == Some(checkpoints) {
            return Err(Error::failed("stopped"));
        }
        self.commit(attempt)
    }

    fn commit(&mut self, attempt: &mut Attempt<<C::Sink as Sink<C::Record>>::Writer>) -> Result<()> {
        for (token, committer) in attempt.tokens.iter().zip(attempt.committers.iter().cycle()) {
            committer.commit(token)?;
            self.check();
        }
        attempt.tokens.clear();
        self.committed = self.recorded.positions.clone();
        if self.overwrite {
            attempt.committers.first().expect("there is a subtask 0").overwrite_foreign()?;
            self.overwrite = false;
        }
        self.check();
        Ok(())
    }

    /// What a reader sees is, per subtask, the records of a prefix of the recorded epochs, and at least of those whose commit
    /// succeeded.
    pub(super) fn check(&self) {
        if self.overwrite {
            // Foreign output is still there.
            return;
        }
        let visible = self.visible();
        for (subtask, seen) in &visible {
            let title = &self.title;
            let count = seen.len() as u64;
            assert!(
                seen.iter().copied().eq(0..count),
                "{title}: subtask {subtask} shows {seen:?}, not each record once"
            );
            let recorded = self.recorded.positions.get(subtask).copied().unwrap_or(0);
            assert!(
                count <= recorded,
                "{title}: subtask {subtask} shows {count} records, only {recorded} are recorded"
            );
            let epochs = self.epochs.get(subtask).map(Vec::as_slice).unwrap_or_default();
            let whole = count == 0 || C::SEVERAL_TOKENS || epochs.contains(&count);
            assert!(whole, "{title}: subtask {subtask} shows {count} records, epochs end at {epochs:?}");
        }
        for (subtask, committed) in &self.committed {
            let count = visible.get(subtask).map_or(0, Vec::len) as u64;
            assert!(count >= *committed, "{}: subtask {subtask} lost output: {count} of {committed}", self.title);
        }
    }

    /// All is there.
    pub(super) fn check_complete(&self) {
        assert!(self.is_done(), "{}: the job comes to its end", self.title);
        self.check();
        let visible = self.visible();
        for (subtask, position) in &self.recorded.positions {
            let count = visible.get(subtask).map_or(0, Vec::len) as u64;
            assert_eq!(count, *position, "{}: subtask {subtask} shows all its output", self.title);
        }
        assert_eq!(self.committed, self.recorded.positions, "{}: all commits succeeded", self.title);
    }
}
