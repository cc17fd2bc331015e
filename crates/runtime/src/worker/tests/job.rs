//! The job of these tests: numbers from four splits, counted by key behind a shuffle, the running counts into a sink.

use crate::attempt::{Attempt, Claim, WorkerOptions, World};
use crate::error::Result;
use crate::operator::{Context, Head, Next, Operator, Signal};
use crate::plan::{Edge, OperatorPlan, Partitioning, Plan, Role, Vertex};
use crate::record::{Keyed, TypedCodec};
use crate::sink::{Committer, Sealed, Sink, SinkContext, SinkWriter, Token};
use crate::source::{BoxedReader, Next as Read, Source, SourceContext, SplitReader};
use crate::state::AnyValue;
use crate::subtask::Partitioner;
use crate::testing::memory_files::MemoryFiles;
use crate::time::{Time, Timestamp};
use flott_checkpoint::{AttemptId, CheckpointId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(super) const SPLITS: u64 = 4;
pub(super) const RECORDS_PER_SPLIT: u64 = 40;
pub(super) const KEYS: u64 = 7;

/// What an undisturbed run counts.
pub(super) fn expected() -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for number in 0..SPLITS * RECORDS_PER_SPLIT {
        *counts.entry(number % KEYS).or_insert(0) += 1;
    }
    counts
}

pub(super) struct Numbers;

struct Range {
    next: u64,
    end: u64,
}

impl Source for Numbers {
    type Item = u64;
    type Position = u64;

    fn splits(&self, _: &SourceContext) -> Result<Vec<String>> {
        Ok((0..SPLITS).map(|split| split.to_string()).collect())
    }

    fn open(&self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<BoxedReader<u64, u64>> {
        let start = split.parse::<u64>().expect("splits are numbers") * RECORDS_PER_SPLIT;
        Ok(Box::new(Range { next: from.unwrap_or(start), end: start + RECORDS_PER_SPLIT }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

impl SplitReader for Range {
    type Item = u64;
    type Position = u64;

    fn next(&mut self, _: Time) -> Result<Read<u64>> {
        if self.next == self.end {
            return Ok(Read::End);
        }
        self.next += 1;
        Ok(Read::Record(self.next - 1, None))
    }

    fn position(&self) -> u64 {
        self.next
    }

    fn describe(&self) -> String {
        format!("number {}", self.next.saturating_sub(1))
    }
}

pub(super) struct KeyBy {
    pub(super) seed: u64,
    pub(super) next: Next<Keyed<u64, u64>>,
}

impl Operator<u64> for KeyBy {
    fn on_record(&mut self, value: u64, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let key = value % KEYS;
        let hash = crate::key::hash_key(self.seed, &key).expect("a number has an encoding");
        self.next.on_record(Keyed { hash, key, value }, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

struct Count {
    state: AnyValue<u64, u64>,
    next: Next<(u64, u64)>,
}

impl Operator<Keyed<u64, u64>> for Count {
    fn on_record(&mut self, record: Keyed<u64, u64>, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let count = self.state.fold(
            record.hash,
            &record.key,
            || 0,
            |count| {
                *count += 1;
                *count
            },
        );
        self.next.on_record((record.key, count), at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

/// Committed output, by token name.
pub(super) type Committed = Arc<Mutex<BTreeMap<String, Vec<(u64, u64)>>>>;

/// When the sink's output becomes visible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    Commits,
    AtOnce,
}

struct Collect(Committed, Shows);

struct Buffer {
    shown: Option<Committed>,
    subtask: u16,
    attempt: u64,
    records: Vec<(u64, u64)>,
}

impl Sink<(u64, u64)> for Collect {
    type Writer = Buffer;

    fn open(&self, cx: &SinkContext) -> Result<Buffer> {
        Ok(Buffer {
            shown: (self.1 == Shows::AtOnce).then(|| Arc::clone(&self.0)),
            subtask: cx.subtask,
            attempt: cx.attempt.0,
            records: Vec::new(),
        })
    }

    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        (self.1 == Shows::Commits).then(|| Arc::new(Collect(Arc::clone(&self.0), self.1)) as Arc<dyn Committer>)
    }

    fn is_transactional(&self) -> bool {
        self.1 == Shows::Commits
    }
}

impl SinkWriter<(u64, u64)> for Buffer {
    fn write(&mut self, record: (u64, u64), _: Time) -> Result<()> {
        match &self.shown {
            Some(shown) => shown.lock().unwrap().entry("shown".into()).or_default().push(record),
            None => self.records.push(record),
        }
        Ok(())
    }

    fn seal(&mut self, id: CheckpointId) -> Option<Sealed> {
        let records = std::mem::take(&mut self.records);
        let name = format!("{}-{}-{}", self.attempt, id, self.subtask);
        (!records.is_empty()).then(|| Box::new((name, records)) as Sealed)
    }
}

impl Committer for Collect {
    fn claim(&self, _: bool) -> Result<()> {
        Ok(())
    }

    fn overwrite_foreign(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
        let (name, records) = sealed.downcast_ref::<(String, Vec<(u64, u64)>)>().expect("sealed by its own writer");
        let payload = rmp_serde::to_vec(records).expect("numbers can be encoded");
        Ok(vec![Token { name: name.clone(), payload }])
    }

    fn commit(&self, token: &Token) -> Result<()> {
        let records = rmp_serde::from_slice(&token.payload).expect("as prepared");
        self.0.lock().unwrap().insert(token.name.clone(), records);
        Ok(())
    }

    fn clean(&self, _: &[Token]) -> Result<()> {
        Ok(())
    }
}

pub(super) fn plan(committed: &Committed, shows: Shows) -> Plan {
    let committed = Arc::clone(committed);
    let read = Vertex {
        name: "numbers".into(),
        is_source: true,
        inputs: vec![],
        outputs: vec![0],
        build: Arc::new(|builder| {
            let next = builder.outlet(0, Partitioner::Hash(|record: &Keyed<u64, u64>| record.hash));
            let seed = builder.key_seed();
            Ok(builder.source("numbers", Arc::new(Numbers), Box::new(KeyBy { seed, next })))
        }),
    };
    let count = Vertex {
        name: "count, out".into(),
        is_source: false,
        inputs: vec![0],
        outputs: vec![],
        build: Arc::new(move |builder| {
            let next = builder.sink("out", &Collect(Arc::clone(&committed), shows))?;
            let state = builder.value("count", "count")?;
            Ok(Box::new(Head::new(Box::new(Count { state, next }))))
        }),
    };
    let edge = Edge {
        from: 0,
        to: 1,
        input: 0,
        partitioning: Partitioning::Hash,
        codec: Arc::new(TypedCodec::<Keyed<u64, u64>>::default()),
    };
    let operator =
        |name: &str, vertex, role| OperatorPlan { name: name.into(), renamed_from: None, vertex, role, states: vec![] };
    let operators = vec![
        operator("numbers", 0, Role::Source { replayable: true, bounded: true }),
        operator("count", 1, Role::Stateful),
        operator("out", 1, Role::Sink { transactional: shows == Shows::Commits }),
    ];
    Plan { job: "count".into(), vertices: vec![read, count], edges: vec![edge], operators }
}

/// The first attempt of a job with one worker, which restores nothing.
pub(super) fn alone(plan: Plan, options: WorkerOptions) -> Arc<Attempt> {
    Arc::new(Attempt {
        id: AttemptId(1),
        plan: Arc::new(plan),
        workers: 1,
        incarnation: "i".into(),
        key_seed: 7,
        key_groups: 128,
        first_checkpoint: CheckpointId(1),
        restore: None,
        claim: Some(Claim { overwrite: false }),
        adopted: Vec::new(),
        options,
        world: World {
            files: Arc::new(MemoryFiles::new()),
            threads: Arc::new(super::script::Nothing),
            stdout: Arc::new(|_: &str| ()),
            heartbeats: Default::default(),
            stores: None,
        },
    })
}
