//! A job's directory with real state in its segments, written by the heap backend without running a job, and the model that
//! it must agree with: for tests of whatever reads or rewrites segments.

use super::sample_job::{INCARNATION, SampleJob, WORKERS, manifest};
use crate::control::BlobRef;
use crate::envelope::hex;
use crate::key::{KeySpace, Shape, hash_key};
use crate::layout;
use crate::manifest::{BaseEntry, Manifest};
use crate::plan::StatePlan;
use crate::segment::{SegmentAssembler, StateHeader, StateKind, StateName};
use crate::state::{
    HeapBackend, HeapList, HeapMap, HeapTimers, HeapValue, ListDeclaration, ListState, MapDeclaration, MapState,
    Progress, SegmentBuffer, StateBackend, TimerDeclaration, TimerState, ValueDeclaration, ValueState,
};
use crate::testing::Random;
use flott_checkpoint::{CheckpointEntry, CheckpointId, Kind, LogEntry, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The operator of all states.
pub const OPERATOR: &str = "count";

/// A value of the state `tallies`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// May be no number.
    pub mean: f64,
    /// May be absent.
    pub last: Option<String>,
}

struct Worker {
    space: KeySpace,
    backend: HeapBackend,
    tallies: HeapValue<String, Tally>,
    shares: HeapMap<u64, u32, f64>,
    lines: HeapList<u64, String>,
    alarms: HeapTimers<u64>,
}

impl Worker {
    fn new(index: u16) -> Worker {
        let space = KeySpace::of_worker(INCARNATION.key_seed, INCARNATION.key_groups, WORKERS.into(), index.into());
        let mut backend = HeapBackend::new(space.clone());
        let name = |state: &str| StateName::new(OPERATOR, state);
        let shares = MapDeclaration { name: name("shares"), copies: false };
        let worker = Worker {
            tallies: backend.value(ValueDeclaration { name: name("tallies") }).expect("a new name"),
            shares: backend.map(shares).expect("a new name"),
            lines: backend.list(ListDeclaration { name: name("lines"), split: false }).expect("a new name"),
            alarms: backend.timers(TimerDeclaration { name: name("alarms") }).expect("a new name"),
            space,
            backend,
        };
        worker.backend.tables().iter().for_each(|table| table.borrow_mut().start(None));
        worker
    }

    fn segment(&self, id: CheckpointId, base: Option<CheckpointId>, kind: Kind) -> Vec<u8> {
        let (mut assembler, header) = SegmentAssembler::begin();
        let (mut file, mut buffer) = (header.to_vec(), SegmentBuffer::default());
        let tables = self.backend.tables();
        let bases: Vec<_> = tables.iter().map(|table| table.borrow_mut().cut(id, base, kind)).collect();
        for table in tables {
            while table.borrow_mut().scan(id, 1_000, &mut buffer).expect("all can be written") == Progress::More {}
        }
        buffer.ship().into_iter().for_each(|block| file.extend(assembler.block(block)));
        for (table, base) in tables.iter().zip(bases) {
            let (declaration, owned) = (table.borrow().declaration(), self.space.owned.clone());
            assembler.declare(StateHeader { declaration, base, owned });
            table.borrow_mut().completed(id);
        }
        assembler.blob("out", "tokens", 0, b"some tokens").iter().for_each(|piece| file.extend(piece));
        file.extend(assembler.finish().expect("all are declared").0);
        file
    }
}

/// See the head of this file.
pub struct StatefulJob {
    /// The directory.
    pub job: SampleJob,
    workers: Vec<Worker>,
    /// What there must be of each state.
    pub tallies: BTreeMap<String, Tally>,
    /// By key and user key.
    pub shares: BTreeMap<(u64, u32), f64>,
    /// By key, never empty.
    pub lines: BTreeMap<u64, Vec<String>>,
    /// Key and time.
    pub alarms: BTreeSet<(u64, i64)>,
}

/// An entry of the model or of a checkpoint, as it is stored: state, key, what is below it, value.
pub type StoredEntry = (String, Vec<u8>, Vec<u8>, Vec<u8>);

impl StatefulJob {
    /// A job without state, in its first attempt.
    pub async fn new(job: SampleJob) -> StatefulJob {
        let mut job = StatefulJob {
            job,
            workers: (0..WORKERS).map(Worker::new).collect(),
            tallies: BTreeMap::new(),
            shares: BTreeMap::new(),
            lines: BTreeMap::new(),
            alarms: BTreeSet::new(),
        };
        job.job.start(None).await;
        job
    }

    /// Changes something in some of the states.
    pub fn change(&mut self, random: &mut Random, keys: u64) {
        let key = random.below(keys);
        match random.below(10) {
            0..3 => self.put_tally(&format!("key {key}"), tally(random)),
            3 => self.remove_tally(&format!("key {key}")),
            4 | 5 => self.put_share(key, random.below(5) as u32, random.below(100) as f64 / 7.0),
            6 => self.clear_shares(key),
            7 | 8 if random.below(8) > 0 => self.append_line(key, &format!("line {}", random.below(1_000))),
            7 | 8 => self.clear_lines(key),
            _ => self.toggle_alarm(key, random.below(4) as i64 * 1_000 - 1_500),
        }
    }

    fn of<K: crate::key::Key>(&mut self, key: &K) -> (u64, &mut Worker) {
        let hash = hash_key(INCARNATION.key_seed, key).expect("a key");
        let mut workers = self.workers.iter_mut();
        (hash, workers.find(|worker| worker.space.owns(worker.space.group(hash))).expect("each group has an owner"))
    }

    /// Sets a value.
    pub fn put_tally(&mut self, key: &str, tally: Tally) {
        self.tallies.insert(key.to_owned(), tally.clone());
        let (hash, worker) = self.of(&key.to_owned());
        worker.tallies.put(hash, key.to_owned(), tally).expect("the heap");
    }

    fn remove_tally(&mut self, key: &str) {
        self.tallies.remove(key);
        let (hash, worker) = self.of(&key.to_owned());
        worker.tallies.remove(hash, &key.to_owned()).expect("the heap");
    }

    fn put_share(&mut self, key: u64, field: u32, share: f64) {
        self.shares.insert((key, field), share);
        let (hash, worker) = self.of(&key);
        worker.shares.put(hash, &key, field, share).expect("the heap");
    }

    fn clear_shares(&mut self, key: u64) {
        self.shares.retain(|(of, _), _| *of != key);
        let (hash, worker) = self.of(&key);
        worker.shares.clear(hash, &key).expect("the heap");
    }

    fn append_line(&mut self, key: u64, line: &str) {
        self.lines.entry(key).or_default().push(line.to_owned());
        let (hash, worker) = self.of(&key);
        worker.lines.append(hash, key, line.to_owned()).expect("the heap");
    }

    fn clear_lines(&mut self, key: u64) {
        self.lines.remove(&key);
        let (hash, worker) = self.of(&key);
        worker.lines.clear(hash, &key).expect("the heap");
    }

    /// Registers a timer.
    pub fn put_alarm(&mut self, key: u64, time: i64) {
        if !self.alarms.contains(&(key, time)) {
            self.toggle_alarm(key, time);
        }
    }

    fn toggle_alarm(&mut self, key: u64, time: i64) {
        let there = !self.alarms.insert((key, time));
        if there {
            self.alarms.remove(&(key, time));
        }
        let (hash, worker) = self.of(&key);
        match there {
            true => worker.alarms.delete(hash, &key, time).expect("the heap"),
            false => worker.alarms.register(hash, key, time).expect("the heap"),
        };
    }

    /// Takes a checkpoint and records it.
    pub async fn checkpoint(&mut self, base: Option<CheckpointId>) -> CheckpointId {
        let job = &mut self.job;
        let id = CheckpointId(job.next_id);
        job.next_id += 1;
        let base_entry = base.and_then(|base| job.manifests.get(&base).copied());
        let mut manifest = manifest(id, job.attempt, base_entry);
        manifest.parent = job.parent;
        declare(&mut manifest);
        for (worker, index) in self.workers.iter().zip(0u16..) {
            let bytes = worker.segment(id, base, Kind::Checkpoint);
            let path = layout::segment(job.attempt, id, index);
            let checksum = hex(xxhash_rust::xxh3::xxh3_64(&bytes));
            let blob = BlobRef { path: path.clone(), length: bytes.len() as u64, checksum };
            job.put(&path, bytes.into()).await;
            for part in manifest.parts.iter_mut().filter(|part| part.subtask.index == index) {
                part.channels.iter_mut().for_each(|channel| channel.captured = Default::default());
                part.segment = (part.subtask.vertex == 1).then(|| blob.clone());
            }
        }
        let (bytes, slot) = (manifest.encode(), Slot(job.next_slot));
        let checksum = Manifest::checksum(&bytes);
        job.put(&manifest.path(), bytes).await;
        let (attempt, parent, manifest) = (job.attempt, job.parent, manifest.path());
        let entry = CheckpointEntry { slot, id, attempt, nonce: slot.0 * 7, parent, manifest, checksum };
        job.put(&layout::slot(slot), LogEntry::Checkpoint(entry).encode().into()).await;
        job.next_slot += 1;
        job.manifests.insert(id, BaseEntry { id, attempt, checksum });
        job.parent = Some(id);
        id
    }

    /// All that there must be, as it is stored.
    #[must_use]
    pub fn model(&self) -> BTreeSet<StoredEntry> {
        let stored = |value: &dyn erased::Stored| value.stored();
        let entry = |state: &str, key, below, value| (state.to_owned(), key, below, value);
        let mut all = BTreeSet::new();
        all.extend(self.tallies.iter().map(|(key, tally)| entry("tallies", stored(key), vec![], stored(tally))));
        let shares = self.shares.iter();
        all.extend(shares.map(|((key, field), share)| entry("shares", stored(key), stored(field), stored(share))));
        for (key, lines) in &self.lines {
            let elements = lines.iter().enumerate();
            all.extend(elements.map(|(at, line)| entry("lines", stored(key), stored(&at), stored(line))));
        }
        all.extend(self.alarms.iter().map(|(key, time)| entry("alarms", stored(key), stored(time), vec![])));
        all
    }
}

/// Some value; one in eight has no mean.
fn tally(random: &mut Random) -> Tally {
    let mean =
        if random.below(8) == 0 { f64::from_bits(0x7ff8_0000_0000_0001) } else { random.below(1_000) as f64 / 3.0 };
    let last = (random.below(3) > 0).then(|| format!("at {}", random.below(60)));
    Tally { count: random.below(1 << 40), mean, last }
}

fn declare(manifest: &mut Manifest) {
    let plan = |name: &str, kind: StateKind, key: Shape, value: Shape| {
        let kind = match kind {
            StateKind::Map => "map",
            StateKind::List => "list",
            StateKind::Timers => "timers",
            _ => "value",
        };
        StatePlan { name: name.to_owned(), kind: kind.to_owned(), key: key.to_string(), value: value.to_string() }
    };
    let (number, text) = (Shape::of_type::<u64>, Shape::of_type::<String>);
    let shares = Shape::Map(Box::new((Shape::of_type::<u32>(), Shape::of_type::<f64>())));
    let states = vec![
        plan("tallies", StateKind::Value, text(), Shape::of_type::<Tally>()),
        plan("shares", StateKind::Map, number(), shares),
        plan("lines", StateKind::List, number(), Shape::Sequence(Box::new(text()))),
        plan("alarms", StateKind::Timers, number(), Shape::of_type::<()>()),
    ];
    let operators = manifest.vertices.iter_mut().flat_map(|vertex| &mut vertex.operators);
    operators.filter(|operator| operator.name == OPERATOR).for_each(|operator| operator.states.clone_from(&states));
}

mod erased {
    use serde::Serialize;

    /// What can be stored.
    pub(super) trait Stored {
        fn stored(&self) -> Vec<u8>;
    }

    impl<T: Serialize> Stored for T {
        fn stored(&self) -> Vec<u8> {
            rmp_serde::to_vec_named(self).expect("it can be written")
        }
    }
}
