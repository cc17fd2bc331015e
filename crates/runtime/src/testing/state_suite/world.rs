//! Random schedules of a whole job against a plain model: writes, removals, timers, overlapping cuts, savepoints, slow
//! scans, aborts, crashes, and restores on another number of workers. Bytes on "disk" are real segments.

use super::{Random, Snapshot, footer, restore_share, start};
use crate::key::{KeySpace, hash_key, owner};
use crate::segment::{BlockKind, Footer};
use crate::state::{
    DueTimer, ListDeclaration, ListState, MapDeclaration, MapState, Share, StateBackend, StateName, TimerDeclaration,
    TimerState, ValueDeclaration, ValueState,
};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const GROUPS: u16 = 12;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Account {
    count: u64,
    owner: String,
    limit: Option<f64>,
}

#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    accounts: BTreeMap<String, Account>,
    timers: BTreeSet<(i64, u64)>,
    baskets: BTreeMap<(u64, String), u64>,
    diaries: BTreeMap<u64, Vec<String>>,
    /// By worker.
    queues: Vec<Vec<u64>>,
}

struct Worker<B: StateBackend> {
    backend: B,
    space: KeySpace,
    accounts: B::Value<String, Account>,
    timers: B::Timers<u64>,
    baskets: B::Map<u64, String, u64>,
    diaries: B::List<u64, String>,
    queue: B::List<u64, u64>,
    own: (u64, u64),
}

struct Pending {
    id: u64,
    base: Option<u64>,
    kind: Kind,
    at_cut: Model,
    /// Per worker: a scan under way, or its finished segment.
    parts: Vec<Result<Vec<u8>, Box<Snapshot>>>,
}

#[derive(Clone)]
struct Stored {
    base: Option<u64>,
    segments: Vec<Vec<u8>>,
    model: Model,
}

struct World<'a, B: StateBackend> {
    make: &'a dyn Fn(KeySpace) -> B,
    seed: u64,
    random: Random,
    workers: Vec<Worker<B>>,
    model: Model,
    pending: Vec<Pending>,
    stored: BTreeMap<u64, Stored>,
    /// The newest completed checkpoint that is no savepoint.
    newest: Option<u64>,
    next_id: u64,
    now: i64,
    met: BTreeMap<&'static str, u64>,
}

impl<'a, B: StateBackend> World<'a, B> {
    fn new(make: &'a dyn Fn(KeySpace) -> B, seed: u64) -> Self {
        let mut world = Self {
            make,
            seed,
            random: Random(seed),
            workers: Vec::new(),
            model: Model::default(),
            pending: Vec::new(),
            stored: BTreeMap::new(),
            newest: None,
            next_id: 1,
            now: 0,
            met: BTreeMap::new(),
        };
        world.workers = world.make_workers();
        world.model.queues.resize(world.workers.len(), Vec::new());
        world.workers.iter().for_each(|worker| start(&worker.backend, None));
        world
    }

    fn make_workers(&mut self) -> Vec<Worker<B>> {
        let count = 1 + self.random.below(3) as u32;
        let make = |index| {
            let space = KeySpace::of_worker(self.seed, GROUPS, count, index);
            let mut backend = (self.make)(space.clone());
            let name = |state: &str| StateName::new("bank", state);
            let accounts = backend.value(ValueDeclaration { name: name("accounts") }).expect("a new name");
            let timers = backend.timers(TimerDeclaration { name: name("timers") }).expect("a new name");
            let baskets = backend.map(MapDeclaration { name: name("baskets"), copies: false }).expect("a new name");
            let diaries = backend.list(ListDeclaration { name: name("diaries"), split: false }).expect("a new name");
            let queue = backend.list(ListDeclaration { name: name("queue"), split: true }).expect("a new name");
            let own = space.own_key().expect("every worker owns key groups");
            Worker { backend, space, accounts, timers, baskets, diaries, queue, own }
        };
        (0..count).map(make).collect()
    }

    fn meet(&mut self, what: &'static str, met: bool) {
        *self.met.entry(what).or_default() += u64::from(met);
    }

    fn worker(&mut self, hash: u64) -> &mut Worker<B> {
        let count = self.workers.len() as u32;
        let group = crate::key::key_group(hash, GROUPS);
        self.workers.get_mut(owner(group, GROUPS, count) as usize).expect("an owner is a worker")
    }

    fn account(&mut self, keys: u64) {
        let key = format!("account-{}", self.random.below(keys));
        let hash = hash_key(self.seed, &key).expect("a key");
        let amount = self.random.below(1000);
        let fresh = || Account { count: 0, owner: "ü".repeat((amount % 5) as usize), limit: None };
        match self.random.below(5) {
            0 => {
                let removed = self.worker(hash).accounts.remove(hash, &key);
                assert_eq!(removed, Ok(self.model.accounts.remove(&key)));
            }
            1 => {
                let account = Account { count: amount, owner: key.clone(), limit: Some(amount as f64 / 3.0) };
                self.model.accounts.insert(key.clone(), account.clone());
                self.worker(hash).accounts.put(hash, key, account).expect("a working backend");
            }
            _ => {
                self.model.accounts.entry(key.clone()).or_insert_with(fresh).count += amount;
                let change = |account: &mut Account| account.count += amount;
                self.worker(hash).accounts.update(hash, key, fresh, change).expect("a working backend");
            }
        }
    }

    fn basket(&mut self, keys: u64) {
        let (key, field) = (self.random.below(1 + keys / 40), format!("item-{}", self.random.below(keys)));
        let hash = hash_key(self.seed, &key).expect("a key");
        let amount = self.random.below(1000);
        match self.random.below(12) {
            0..3 => {
                let removed = self.worker(hash).baskets.remove(hash, &key, &field);
                assert_eq!(removed, Ok(self.model.baskets.remove(&(key, field))));
            }
            3..5 => {
                self.model.baskets.insert((key, field.clone()), amount);
                self.worker(hash).baskets.put(hash, &key, field, amount).expect("a working backend");
            }
            5 if self.random.below(10) == 0 => {
                self.model.baskets.retain(|(of, _), _| *of != key);
                self.worker(hash).baskets.clear(hash, &key).expect("a working backend");
                assert_eq!(self.worker(hash).baskets.is_empty(hash, &key), Ok(true));
            }
            _ => {
                *self.model.baskets.entry((key, field.clone())).or_default() += amount;
                let change = |count: &mut u64| *count += amount;
                self.worker(hash).baskets.update(hash, &key, field, || 0, change).expect("a working backend");
            }
        }
    }

    fn diary(&mut self, keys: u64) {
        let key = self.random.below(1 + keys / 4);
        let hash = hash_key(self.seed, &key).expect("a key");
        if self.random.below(14) == 0 {
            let cleared = self.worker(hash).diaries.clear(hash, &key);
            assert_eq!(cleared, Ok(self.model.diaries.remove(&key).unwrap_or_default()));
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let item = format!("day {}", self.random.below(1_000_000));
            self.model.diaries.entry(key).or_default().push(item.clone());
            self.worker(hash).diaries.append(hash, key, item).expect("a working backend");
        }
    }

    fn queue(&mut self) {
        let place = self.random.below(self.workers.len() as u64) as usize;
        let (worker, model) = (self.workers.get_mut(place), self.model.queues.get_mut(place));
        let (Some(Worker { queue, own: (hash, key), .. }), Some(model)) = (worker, model) else { return };
        if self.random.below(20) == 0 {
            assert_eq!(queue.clear(*hash, key), Ok(std::mem::take(model)));
            return;
        }
        let item = self.random.below(1_000_000);
        model.push(item);
        queue.append(*hash, *key, item).expect("a working backend");
    }

    fn timer(&mut self) {
        let (key, time) = (self.random.below(20), self.now + self.random.below(50) as i64);
        let hash = hash_key(self.seed, &key).expect("a key");
        match self.random.below(4) {
            0 => {
                let deleted = self.worker(hash).timers.delete(hash, &key, time);
                assert_eq!(deleted, Ok(self.model.timers.remove(&(time, key))));
            }
            1 => {
                self.now += self.random.below(4) as i64;
                self.fire();
            }
            _ => {
                let new = self.worker(hash).timers.register(hash, key, time);
                assert_eq!(new, Ok(self.model.timers.insert((time, key))));
            }
        }
    }

    fn fire(&mut self) {
        let now = self.now;
        let mut fired = BTreeSet::new();
        for worker in &mut self.workers {
            let mut last = i64::MIN;
            while let Some(DueTimer { time, key, .. }) = worker.timers.pop_due(now).expect("a working backend") {
                assert!(time >= last && time <= now, "out of order");
                last = time;
                assert!(fired.insert((time, key)), "fired twice");
            }
        }
        let later = self.model.timers.split_off(&(now + 1, 0));
        assert_eq!(fired, std::mem::replace(&mut self.model.timers, later));
    }

    fn cut(&mut self) {
        let kind = if self.random.below(5) == 0 { Kind::Savepoint } else { Kind::Checkpoint };
        let base = self.newest.filter(|_| self.random.below(6) > 0);
        let id = self.next_id;
        self.next_id += 1;
        let cut = |worker: &Worker<B>| Err(Box::new(Snapshot::cut(&worker.backend, id, base, kind)));
        let parts = self.workers.iter().map(cut).collect();
        let base = base.filter(|_| kind != Kind::Savepoint);
        self.pending.push(Pending { id, base, kind, at_cut: self.model.clone(), parts });
        self.meet("savepoint", kind == Kind::Savepoint);
    }

    fn scan(&mut self, index: usize) {
        let budget = self.random.below(40) as usize;
        let pending = self.pending.get_mut(index).expect("in range");
        for (part, worker) in pending.parts.iter_mut().zip(&self.workers) {
            let Err(snapshot) = part else { continue };
            if snapshot.scan(&worker.backend, budget).expect("all entries can be serialized") {
                let placeholder = Ok(Vec::new());
                if let Err(snapshot) = std::mem::replace(part, placeholder) {
                    *part = Ok(snapshot.finish(&worker.backend, &worker.space.owned));
                }
            }
        }
        if pending.parts.iter().all(Result::is_ok) {
            let done = self.pending.swap_remove(index);
            self.complete(done);
        }
    }

    fn complete(&mut self, Pending { id, base, kind, at_cut, parts }: Pending) {
        let segments = parts.into_iter().filter_map(Result::ok).collect();
        self.stored.insert(id, Stored { base, segments, model: at_cut });
        self.check_stored(id);
        // Acknowledged, but the job may learn of it late or never.
        if self.random.below(4) > 0 {
            self.tables(|table| table.completed(CheckpointId(id)));
            if kind != Kind::Savepoint {
                self.newest = Some(self.newest.map_or(id, |newest| newest.max(id)));
            }
        }
    }

    fn tables(&self, mut apply: impl FnMut(&mut dyn crate::state::Table)) {
        let tables = self.workers.iter().flat_map(|worker| worker.backend.tables());
        tables.for_each(|table| apply(&mut *table.borrow_mut()));
    }

    fn abort(&mut self) {
        let aborted = self.pending.swap_remove(0);
        self.tables(|table| table.abort(CheckpointId(aborted.id)));
        self.meet("abort", true);
    }

    fn chain(&self, id: u64) -> Vec<Vec<Vec<u8>>> {
        let ids = std::iter::successors(Some(id), |id| self.stored.get(id).and_then(|stored| stored.base));
        let mut chain: Vec<_> = ids.filter_map(|id| self.stored.get(&id)).map(|one| one.segments.clone()).collect();
        chain.reverse();
        chain
    }

    /// The puts of a full part, byte for byte: exactly the model at the cut, encoded.
    fn check_stored(&mut self, id: u64) {
        let stored = self.stored.get(&id).expect("stored above").clone();
        let footers: Vec<Footer> = stored.segments.iter().map(|segment| footer(segment)).collect();
        let sections = || footers.iter().filter_map(|footer| footer.state("bank", "accounts"));
        let full = sections().all(|section| section.base.is_none());
        self.meet("full", full);
        self.meet("increment", sections().all(|section| section.base.is_some()));
        self.meet("mixed", !full && sections().any(|section| section.base.is_none()));
        let mut found = BTreeSet::new();
        for (segment, section) in stored.segments.iter().zip(sections()) {
            for block in section.blocks.iter().filter(|block| block.kind == BlockKind::Puts) {
                let range = block.piece.range();
                let bytes = segment.get(range.start as usize..range.end as usize).expect("checked by the footer");
                let block = block.decode(Bytes::copy_from_slice(bytes)).expect("an undamaged block");
                for (group, mut entries) in block.runs().map(|run| run.expect("a whole run")) {
                    while !entries.is_empty() {
                        let (key, bytes) = take_entry(&mut entries);
                        let hash = hash_key(self.seed, &key).expect("a key");
                        assert_eq!(crate::key::key_group(hash, GROUPS), group);
                        assert_eq!(Some(&bytes), stored.model.accounts.get(&key).map(|v| entry(&key, v)).as_ref());
                        found.insert(key);
                    }
                }
            }
        }
        assert!(!full || found.iter().eq(stored.model.accounts.keys()), "a full part is not the whole state");
    }

    /// A crash, and a restore of what was stored last, on any number of workers.
    fn restore(&mut self) {
        let Some(id) = self.newest else { return };
        let chain = self.chain(id);
        let stored = self.stored.get(&id).expect("its newest").model.clone();
        let before = self.workers.len();
        let workers = self.make_workers();
        let taken_by = stored.queues.len() as u16;
        for (worker, index) in workers.iter().zip(0..) {
            let share = Share { before: taken_by, workers: workers.len() as u16, worker: index };
            restore_share(&worker.backend, &chain, &worker.space, share).expect("the same types");
            start(&worker.backend, Some(id));
        }
        self.meet("restored on another number of workers", workers.len() != before);
        self.meet("restored from a chain", chain.len() > 2);
        self.workers = workers;
        self.pending.clear();
        self.model = stored;
        self.model.queues = deal(&self.model.queues, self.workers.len());
        self.now = self.model.timers.first().map_or(self.now, |(time, _)| self.now.min(*time));
        self.check();
    }

    fn check(&mut self) {
        let mut sizes = [0; 5];
        for worker in &self.workers {
            let lengths = worker.backend.tables().iter().map(|table| table.borrow().len());
            sizes.iter_mut().zip(lengths).for_each(|(size, length)| *size += length);
        }
        let Model { accounts, timers, baskets, diaries, queues } = &self.model;
        let lists: usize = diaries.values().map(Vec::len).sum();
        let own_lists: usize = queues.iter().map(Vec::len).sum();
        assert_eq!(sizes, [accounts.len(), timers.len(), baskets.len(), lists, own_lists]);
        for (Worker { queue, own: (hash, key), .. }, expected) in self.workers.iter().zip(queues) {
            assert_eq!(
                queue.read(*hash, key, |items| items == expected),
                Ok(true),
                "a split list was dealt out wrongly"
            );
        }
        for (key, account) in self.model.accounts.clone() {
            let hash = hash_key(self.seed, &key).expect("a key");
            assert_eq!(self.worker(hash).accounts.get(hash, &key), Ok(Some(account)));
        }
        for key in 0..160 {
            let hash = hash_key(self.seed, &key).expect("a key");
            let model = self.model.diaries.get(&key).cloned().unwrap_or_default();
            assert_eq!(self.worker(hash).diaries.read(hash, &key, <[String]>::to_vec), Ok(model));
            let mut found = BTreeMap::new();
            let look = |field: &String, amount: &u64| assert!(found.insert(field.clone(), *amount).is_none(), "twice");
            self.worker(hash).baskets.for_each(hash, &key, look).expect("a working backend");
            let of_key = self.model.baskets.range((key, String::new())..(key + 1, String::new()));
            assert!(found.into_iter().eq(of_key.map(|((_, field), amount)| (field.clone(), *amount))));
        }
        for ((key, field), amount) in self.model.baskets.clone() {
            let hash = hash_key(self.seed, &key).expect("a key");
            let found = self.worker(hash).baskets.read(hash, &key, &field, |value| value.copied());
            assert_eq!(found, Ok(Some(amount)));
        }
        let next = self.workers.iter_mut().filter_map(|worker| worker.timers.next_time()).min();
        assert_eq!(next, self.model.timers.first().map(|(time, _)| *time));
    }

    fn run(&mut self) {
        let keys = 4 + self.random.below(600);
        for _ in 0..250 {
            (0..self.random.below(12)).for_each(|_| self.account(keys));
            (0..self.random.below(4)).for_each(|_| self.timer());
            (0..self.random.below(9)).for_each(|_| self.basket(keys));
            (0..self.random.below(5)).for_each(|_| self.diary(keys));
            (0..self.random.below(4)).for_each(|_| self.queue());
            if self.pending.len() < 2 && self.random.below(4) == 0 {
                self.cut();
            }
            (0..self.pending.len()).rev().for_each(|index| self.scan(index));
            match self.random.below(60) {
                0 if !self.pending.is_empty() => self.abort(),
                1 => self.restore(),
                2 => self.check(),
                _ => {}
            }
        }
        self.check();
        self.restore();
    }
}

/// What becomes of split lists on another number of workers: dealt out in turn, the list of each writer from another worker on.
fn deal(queues: &[Vec<u64>], workers: usize) -> Vec<Vec<u64>> {
    if queues.len() == workers {
        return queues.to_vec();
    }
    let mut dealt = vec![Vec::new(); workers];
    for (writer, queue) in queues.iter().enumerate() {
        for (position, item) in queue.iter().enumerate() {
            dealt.get_mut((writer + position) % workers).expect("below their number").push(*item);
        }
    }
    dealt
}

fn entry(key: &String, account: &Account) -> Vec<u8> {
    let mut bytes = rmp_serde::to_vec_named(key).expect("a string");
    bytes.extend(rmp_serde::to_vec_named(account).expect("an account"));
    bytes
}

/// Reads one entry; returns its key and all its bytes.
fn take_entry(entries: &mut &[u8]) -> (String, Vec<u8>) {
    let whole = *entries;
    let mut source = rmp_serde::Deserializer::new(whole);
    let key = String::deserialize(&mut source).expect("a key");
    serde::de::IgnoredAny::deserialize(&mut source).expect("a value");
    *entries = source.into_inner();
    (key, whole.get(..whole.len() - entries.len()).expect("a suffix is shorter").to_vec())
}

/// Many seeds; a failing one is named. `FLOTT_SEED` runs one, `FLOTT_SEEDS` so many.
pub fn random_schedules<B: StateBackend>(make: &dyn Fn(KeySpace) -> B) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match (number("FLOTT_SEED"), number("FLOTT_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(60),
    };
    let many = seeds.end - seeds.start >= 60;
    let mut met = BTreeMap::new();
    for seed in seeds {
        let mut world = World::new(make, seed);
        let run = std::panic::AssertUnwindSafe(|| world.run());
        assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}: again with FLOTT_SEED={seed}");
        world.met.into_iter().for_each(|(what, count)| *met.entry(what).or_insert(0) += count);
    }
    assert!(!many || met.values().all(|count| *count > 0), "a case was never met: {met:#?}");
}
