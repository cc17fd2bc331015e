//! The job of the suite: sources of numbered rows, and a last vertex that checks their order.

use super::ledger::Ledger;
use crate::attempt::{Attempt, WorkerOptions, World};
use crate::error::{Error, Result};
use crate::io::{FileInfo, Files, ReadFile, WriteFile};
use crate::operator::{Chain, Context, Head, Next, Operator, Signal};
use crate::plan::{BuildChain, Edge, OperatorPlan, Partitioning, Plan, Role, Vertex};
use crate::record::TypedCodec;
use crate::source::{BoxedReader, Next as Read, Source, SourceContext, SplitReader, Threads, Waker};
use crate::subtask::{Partitioner, SubtaskBuilder};
use crate::time::{Time, Timestamp};
use flott_checkpoint::{AttemptId, CheckpointId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What runs.
#[derive(Clone)]
pub struct Job {
    /// Its number.
    pub attempt: u64,
    /// How many workers.
    pub workers: u16,
    /// Which vertices and edges.
    pub shape: Shape,
    /// Rows of each split.
    pub rows: u64,
    /// Time between two rows of a split, in microseconds.
    pub pause_micros: Option<u64>,
    /// Splits wait here before their first row …
    pub gate: Option<Arc<Gate>>,
    /// … but only so many of them.
    pub gated_splits: usize,
    /// As in [`WorkerOptions`].
    pub credit_window: usize,
    /// As in [`WorkerOptions`].
    pub batch_records: usize,
    /// Each split asks for a barrier after so many rows.
    pub rows_between_barriers: Option<u64>,
    /// What goes wrong.
    pub trouble: Option<Trouble>,
}

/// The graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Sources, then the check.
    Straight(Partitioning),
    /// Sources, then the check, directly and by way of a third vertex.
    Diamond,
}

/// What goes wrong, on the worker that meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The check panics at this row of some split.
    PanicAtRow(u64),
    /// The check's factory panics on the last worker.
    PanicInBuild,
    /// The check's factory fails on the last worker.
    ErrorInBuild,
    /// The check panics when it is dropped.
    PanicInDrop,
}

impl Trouble {
    /// The text of all trouble.
    pub const TEXT: &str = "trouble in user code";
}

impl Default for Job {
    fn default() -> Job {
        let options = WorkerOptions::default();
        Job {
            attempt: 1,
            workers: 3,
            shape: Shape::Straight(Partitioning::Hash),
            rows: 500,
            pause_micros: None,
            gate: None,
            gated_splits: Job::SPLITS,
            credit_window: options.credit_window,
            batch_records: 16,
            rows_between_barriers: None,
            trouble: None,
        }
    }
}

impl Job {
    /// The number of splits; some workers may own several, some none.
    pub const SPLITS: usize = 5;

    /// How many rows arrive at the last vertex.
    #[must_use]
    pub fn expected_rows(&self) -> u64 {
        let copies = match self.shape {
            Shape::Straight(Partitioning::Broadcast) => u64::from(self.workers),
            Shape::Straight(_) => 1,
            Shape::Diamond => 2,
        };
        self.rows * Job::SPLITS as u64 * copies
    }

    /// The attempt to start.
    #[must_use]
    pub fn attempt(&self, ledger: &Arc<Ledger>) -> Arc<Attempt> {
        let options = WorkerOptions {
            credit_window: self.credit_window,
            batch_records: self.batch_records,
            ..WorkerOptions::default()
        };
        Arc::new(Attempt {
            id: AttemptId(self.attempt),
            plan: Arc::new(self.plan(ledger)),
            workers: self.workers,
            incarnation: "incarnation".into(),
            key_seed: 1,
            key_groups: 128,
            first_checkpoint: CheckpointId(1),
            restore: None,
            claim: None,
            adopted: Vec::new(),
            options,
            world: World {
                files: Arc::new(Nothing),
                threads: Arc::new(Nothing),
                stdout: Arc::new(|_: &str| ()),
                heartbeats: Default::default(),
                stores: None,
            },
        })
    }

    fn plan(&self, ledger: &Arc<Ledger>) -> Plan {
        let edge = |from, to, input, partitioning| Edge {
            from,
            to,
            input,
            partitioning,
            codec: Arc::new(TypedCodec::<Row>::default()),
        };
        let vertex = |name: &str, inputs: &[u16], outputs: &[u16], build: BuildChain| Vertex {
            name: name.into(),
            is_source: inputs.is_empty(),
            inputs: inputs.into(),
            outputs: outputs.into(),
            build,
        };
        let check = self.check(ledger);
        let (vertices, edges) = match self.shape {
            Shape::Straight(partitioning) => (
                vec![vertex("rows", &[], &[0], self.source(ledger)), vertex("check", &[0], &[], check)],
                vec![edge(0, 1, 0, partitioning)],
            ),
            Shape::Diamond => (
                vec![
                    vertex("rows", &[], &[0, 1], self.source(ledger)),
                    vertex("hop", &[0], &[2], hop()),
                    vertex("check", &[1, 2], &[], check),
                ],
                vec![
                    edge(0, 1, 0, Partitioning::Hash),
                    edge(0, 2, 0, Partitioning::Rebalance),
                    edge(1, 2, 1, Partitioning::Forward),
                ],
            ),
        };
        let role = Role::Source { replayable: true, bounded: self.gate.is_none() };
        let rows = OperatorPlan { name: "rows".into(), renamed_from: None, vertex: 0, role, states: vec![] };
        Plan { job: "suite".into(), vertices, edges, operators: vec![rows] }
    }

    fn source(&self, ledger: &Arc<Ledger>) -> BuildChain {
        let (job, ledger) = (self.clone(), ledger.clone());
        Arc::new(move |builder| {
            let next: Next<Row> = match job.shape {
                Shape::Straight(partitioning) => builder.outlet(0, partitioner(partitioning)),
                Shape::Diamond => {
                    let hashed = builder.outlet(0, partitioner(Partitioning::Hash));
                    Box::new(Fork(hashed, builder.outlet(1, partitioner(Partitioning::Rebalance))))
                }
            };
            let rows = Rows { job: job.clone(), ledger: ledger.clone() };
            Ok(builder.source("rows", Arc::new(rows), next))
        })
    }

    fn check(&self, ledger: &Arc<Ledger>) -> BuildChain {
        let (trouble, last, ledger) = (self.trouble, self.workers - 1, ledger.clone());
        Arc::new(move |builder: &mut SubtaskBuilder| -> Result<Box<dyn Chain>> {
            match trouble {
                Some(Trouble::PanicInBuild) if builder.id().index == last => panic!("{}", Trouble::TEXT),
                Some(Trouble::ErrorInBuild) if builder.id().index == last => return Err(Error::refused(Trouble::TEXT)),
                _ => {}
            }
            Ok(Box::new(Head::new(Box::new(Check { trouble, ledger: ledger.clone(), last: BTreeMap::new(), rows: 0 }))))
        })
    }
}

fn hop() -> BuildChain {
    Arc::new(|builder| {
        let next = builder.outlet(2, partitioner(Partitioning::Forward));
        Ok(Box::new(Head::new(Box::new(Hop(next)))))
    })
}

fn partitioner(partitioning: Partitioning) -> Partitioner<Row> {
    match partitioning {
        Partitioning::Forward => Partitioner::Forward,
        Partitioning::Hash => Partitioner::Hash(|row| row.number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        Partitioning::Rebalance => Partitioner::Rebalance,
        Partitioning::Broadcast => Partitioner::Broadcast,
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    split: u16,
    number: u64,
    has_hopped: bool,
    /// Some heap memory, so that rows have a weight.
    text: String,
}

/// Where splits wait, and what wakes them.
#[derive(Default)]
pub struct Gate(Mutex<GateState>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    /// By split.
    waiting: BTreeMap<u16, Waker>,
}

impl Gate {
    /// How many splits have come to the gate.
    pub fn waiting(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.len()
    }

    /// Lets all through, now and later.
    pub fn open(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_open = true;
        state.waiting.values().for_each(|wake| wake());
    }

    /// Whether it is open; true only the first time that this split is turned away.
    fn pass(&self, split: u16, waker: &Waker) -> (bool, bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = state.is_open;
        let is_new = !is_open && state.waiting.insert(split, waker.clone()).is_none();
        (is_open, is_new)
    }
}

struct Rows {
    job: Job,
    ledger: Arc<Ledger>,
}

impl Source for Rows {
    type Item = Row;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok((0..Job::SPLITS).map(|split| split.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, cx: &SourceContext) -> Result<BoxedReader<Row, u64>> {
        let split = split.parse().map_err(|_| Error::failed(format!("no split {split}")))?;
        let Rows { job, ledger } = self;
        let gate = job.gate.clone().filter(|_| usize::from(split) < job.gated_splits);
        let (ledger, waker) = (ledger.clone(), cx.waker.clone());
        Ok(Box::new(RowReader { split, next: from.unwrap_or(0), due: Time(0), job: job.clone(), gate, ledger, waker }))
    }

    /// Splits of a bounded source are read one by one; those at a gate shall all come to it.
    fn is_bounded(&self) -> bool {
        self.job.gate.is_none()
    }
}

struct RowReader {
    split: u16,
    next: u64,
    due: Time,
    job: Job,
    gate: Option<Arc<Gate>>,
    ledger: Arc<Ledger>,
    waker: Waker,
}

impl SplitReader for RowReader {
    type Item = Row;
    type Position = u64;

    fn next(&mut self, now: Time) -> Result<Read<Row>> {
        if let Some(gate) = &self.gate {
            let (is_open, is_new) = gate.pass(self.split, &self.waker);
            if is_new {
                self.ledger.note(|_| ());
            }
            if !is_open {
                return Ok(Read::Pending);
            }
        }
        if self.next == self.job.rows {
            return Ok(Read::End);
        }
        if let Some(pause) = self.job.pause_micros {
            if now < self.due {
                return Ok(Read::At(self.due));
            }
            self.due = now.after(Duration::from_micros(pause));
        }
        let number = self.next;
        self.next += 1;
        if self.job.rows_between_barriers.is_some_and(|rows| self.next.is_multiple_of(rows)) {
            self.ledger.note(|book| book.due = true);
        }
        let text = format!("row {number} of split {}", self.split);
        Ok(Read::Record(Row { split: self.split, number, has_hopped: false, text }, None))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("split {}, row {}", self.split, self.next.saturating_sub(1))
    }
}

struct Fork(Next<Row>, Next<Row>);

impl Operator<Row> for Fork {
    fn on_record(&mut self, row: Row, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_record(row.clone(), at, cx)?;
        self.1.on_record(row, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_signal(signal, cx)?;
        self.1.on_signal(signal, cx)
    }
}

struct Hop(Next<Row>);

impl Operator<Row> for Hop {
    fn on_record(&mut self, row: Row, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_record(Row { has_hopped: true, ..row }, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_signal(signal, cx)
    }
}

/// The last vertex: all rows of a split that came one way are in order. (A way has one channel into each subtask.)
struct Check {
    trouble: Option<Trouble>,
    ledger: Arc<Ledger>,
    last: BTreeMap<(u16, bool), u64>,
    rows: u64,
}

impl Operator<Row> for Check {
    fn on_record(&mut self, row: Row, _: Option<Timestamp>, _: &mut Context<'_>) -> Result<()> {
        self.rows += 1;
        assert!(self.trouble != Some(Trouble::PanicAtRow(row.number)), "{}", Trouble::TEXT);
        match self.last.insert((row.split, row.has_hopped), row.number) {
            Some(before) if before >= row.number => {
                Err(Error::failed(format!("row {} of split {} came after row {before}", row.number, row.split)))
            }
            _ => Ok(()),
        }
    }

    fn on_signal(&mut self, signal: Signal, _: &mut Context<'_>) -> Result<()> {
        if signal == Signal::End {
            self.ledger.note(|book| book.rows += self.rows);
        }
        Ok(())
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        assert!(self.trouble != Some(Trouble::PanicInDrop) || std::thread::panicking(), "{}", Trouble::TEXT);
    }
}

/// A world without files and threads.
struct Nothing;

fn nothing<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::NotFound))
}

impl Files for Nothing {
    fn open(&self, _: &Path) -> io::Result<Box<dyn ReadFile>> {
        nothing()
    }
    fn create_new(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        nothing()
    }
    fn info(&self, _: &Path) -> io::Result<FileInfo> {
        nothing()
    }
    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        nothing()
    }
    fn glob(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        nothing()
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        nothing()
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        nothing()
    }
    fn sync_file(&self, _: &Path) -> io::Result<()> {
        nothing()
    }
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        nothing()
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        nothing()
    }
}

impl Threads for Nothing {
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Result<()> {
        Err(Error::failed("no threads here"))
    }
}
