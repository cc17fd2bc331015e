//! Seeded random schedules against a plain map: every chain of snapshots must give the map as it was at the cut, and
//! hold nothing but what changed after its base.

use super::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

const GROUPS: u16 = 4;
/// The table owns the groups from here up, so that a mix-up of index and number shows.
const FIRST: u16 = 9;

thread_local! {
    static HASHED: Cell<u64> = const { Cell::new(0) };
    static SEQUENTIAL: Cell<bool> = const { Cell::new(false) };
}

/// Counts its hashes, which shows a rehash. Sequential hashes fill whole runs of buckets; only removals from such runs
/// leave tombstones, and only tombstones lead to a rehash in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TestKey(u64);

impl TestKey {
    fn group(self) -> u16 {
        FIRST + (self.0 % u64::from(GROUPS)) as u16
    }

    fn place(self, seed: u64) -> Place {
        Place { group: self.group(), bucket_hash: self.bucket_hash(seed) }
    }
}

impl TableKey for TestKey {
    fn bucket_hash(&self, seed: u64) -> u64 {
        HASHED.set(HASHED.get() + 1);
        if SEQUENTIAL.get() {
            (self.0 / u64::from(GROUPS)) | (self.0 << 57)
        } else {
            xxhash_rust::xxh3::xxh3_64_with_seed(&self.0.to_le_bytes(), seed)
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Recorded {
    puts: Vec<(TestKey, u64)>,
    early: usize,
    deletes: Vec<TestKey>,
}

impl EntrySink<TestKey, u64> for Recorded {
    fn put(&mut self, group: u16, key: &TestKey, value: &u64, early: bool) {
        assert_eq!(group, key.group(), "an entry under a foreign group");
        self.puts.push((*key, *value));
        self.early += usize::from(early);
    }

    fn delete(&mut self, group: u16, key: &TestKey) {
        assert_eq!(group, key.group(), "a removal under a foreign group");
        self.deletes.push(*key);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) % end
    }
}

type Content = BTreeMap<TestKey, u64>;

/// The truth: what is there, and in which epoch each key was last written and last removed.
#[derive(Clone, Default)]
struct Model {
    content: Content,
    written: BTreeMap<TestKey, Epoch>,
    removed: BTreeMap<TestKey, Epoch>,
}

struct Pending {
    cut: Cut,
    base: Option<usize>,
    at_cut: Model,
    restarted: bool,
}

struct Stored {
    base: Option<usize>,
    part: Recorded,
    content: Content,
}

/// None, a few, some, or all old values may wait for a scan.
fn room(seed: u64) -> usize {
    [0, 500, 2_000, ROOM][(seed / 2 % 4) as usize]
}

struct World {
    random: Random,
    seed: u64,
    table: Versioned<TestKey, u64, Recorded>,
    model: Model,
    pending: Vec<Pending>,
    stored: Vec<Stored>,
    /// Stored parts that can be a base in this life of the table, and their cut epochs.
    known: BTreeMap<usize, Epoch>,
    met: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        SEQUENTIAL.set(seed.is_multiple_of(2));
        let mut table = Versioned::new(FIRST..FIRST + GROUPS, seed);
        table.room = room(seed);
        table.start();
        let (pending, stored, known, met) = (Vec::new(), Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { random: Random(seed), seed, table, model: Model::default(), pending, stored, known, met }
    }

    fn meet(&mut self, what: &'static str, met: bool) {
        *self.met.entry(what).or_default() += u64::from(met);
    }

    fn group(&self, key: TestKey) -> (usize, &Group<TestKey, u64>) {
        let index = self.table.index(key.group());
        (index, &self.table.groups[index])
    }

    fn write(&mut self, key: TestKey) {
        let value = self.random.below(1 << 20);
        let place = key.place(self.seed);
        let new = !self.model.content.contains_key(&key);
        let (index, group) = self.group(key);
        let (buckets, full) = (group.table.num_buckets(), group.table.len() == group.table.capacity());
        let scanned = self.table.handles.iter().any(|handle| handle.group == index && handle.bucket > 0);
        let early = |world: &Self| world.table.handles.iter().map(|handle| handle.sink.early).sum::<usize>();
        let saved = |world: &Self| world.table.handles.iter().filter(|handle| !handle.saved.is_empty()).count();
        let (early_before, saved_before) = (early(self), saved(self));
        HASHED.set(0);
        match self.random.below(3) {
            0 => *self.table.slot(place, key, || value).0 = value,
            1 => {
                let (slot, made) = self.table.slot(place, key, || value);
                assert_eq!(made, new);
                *slot = value;
            }
            _ if new => *self.table.slot(place, key, || value).0 = value,
            _ => *self.table.guard(place, |entry| entry.key == key).expect("it is in the model") = value,
        }
        let moved = HASHED.get() > 0;
        let grew = self.group(key).1.table.num_buckets() > buckets;
        assert!(full || !moved && !grew, "a rehash that the guard did not see");
        self.pending.iter_mut().for_each(|pending| pending.restarted |= new && full && scanned);
        self.meet("grown under a scan", moved && grew && scanned);
        self.meet("rehashed in place", moved && !grew);
        self.meet("rehashed in place under a scan", moved && !grew && scanned);
        self.meet("guard without a move", full && new && !moved && !grew);
        self.meet("pre-image", saved(self) > saved_before);
        self.meet("pre-images of two cuts", saved(self) > 1);
        self.meet("pre-image at once", early(self) > early_before);
        self.meet("pre-image at once, others wait", early(self) > early_before && saved_before > 0);
        self.model.content.insert(key, value);
        self.model.written.insert(key, self.table.epoch);
    }

    fn remove(&mut self, key: TestKey) {
        let removed = self.table.remove(key.place(self.seed), |entry| entry.key == key);
        assert_eq!(removed.map(|(_, value)| value), self.model.content.remove(&key));
        self.model.removed.insert(key, self.table.epoch);
    }

    /// Some of the entries with a certain value go, wherever the sweep is.
    fn sweep(&mut self, cursor: &mut (usize, usize)) {
        let gone = |value: &u64| value.is_multiple_of(8);
        let budget = self.random.below(40) as usize;
        self.table.sweep(cursor, budget, gone);
        let there = |key: &TestKey| self.table.find(key.place(self.seed), |entry| entry.key == *key).is_some();
        let swept: Vec<TestKey> = self.model.content.keys().filter(|key| !there(key)).copied().collect();
        for key in &swept {
            assert!(self.model.content.remove(key).is_some_and(|value| gone(&value)), "a wrong entry was swept");
            self.model.removed.insert(*key, self.table.epoch);
        }
        self.meet("swept", !swept.is_empty());
    }

    fn cut(&mut self) {
        let wanted = match self.random.below(6) {
            0 => None,
            1 => self.known.first_key_value(),
            _ => self.known.last_key_value(),
        };
        let (base_id, base) = wanted.map(|(id, epoch)| (*id, *epoch)).unzip();
        let cut = self.table.cut(base, Recorded::default());
        assert!(cut.base.is_none() || cut.base == base);
        self.meet("increment", cut.base.is_some());
        self.meet("full because the log was dropped", cut.base != base);
        let base = cut.base.and(base_id);
        self.pending.push(Pending { cut, base, at_cut: self.model.clone(), restarted: false });
    }

    fn scan(&mut self, index: usize, budget: u64) {
        let cut = self.pending[index].cut;
        if self.table.scan(cut.epoch, budget as usize) == Progress::More {
            assert!(self.table.finish(cut.epoch).is_none(), "taken before its end");
            return;
        }
        let Pending { base, at_cut, restarted, .. } = self.pending.swap_remove(index);
        let part = self.table.finish(cut.epoch).expect("it is done");
        self.check_exact(cut, &at_cut, restarted, &part);
        let id = self.stored.len();
        self.stored.push(Stored { base, part, content: at_cut.content });
        assert_eq!(self.materialise(id), self.stored[id].content, "the chain is not the state at the cut");
        self.known.insert(id, cut.epoch);
        if self.random.below(2) == 0 {
            self.table.completed(cut.epoch);
        }
    }

    /// Nothing but what changed after the base, and nothing twice unless a rehash made the scan start over.
    fn check_exact(&mut self, cut: Cut, at_cut: &Model, restarted: bool, part: &Recorded) {
        let changed = |epoch: &Epoch| cut.base.is_none_or(|base| *epoch > base);
        for (key, value) in &part.puts {
            assert_eq!(at_cut.content.get(key), Some(value), "not the value at the cut");
            assert!(changed(&at_cut.written[key]), "not written after the base");
        }
        for key in &part.deletes {
            assert!(changed(&at_cut.removed[key]), "not removed after the base");
        }
        assert!(cut.base.is_some() || part.deletes.is_empty(), "deletes in a full part");
        let distinct: BTreeSet<_> = part.puts.iter().map(|(key, _)| key).collect();
        let duplicates = part.puts.len() - distinct.len();
        assert!(duplicates == 0 || restarted, "duplicates without a restart");
        assert!(duplicates <= distinct.len(), "more than one restart of a group");
        self.meet("duplicates", duplicates > 0);
    }

    fn chain(&self, id: usize) -> impl Iterator<Item = &Recorded> {
        let chain: Vec<_> = std::iter::successors(Some(id), |id| self.stored[*id].base).collect();
        chain.into_iter().rev().map(|id| &self.stored[id].part)
    }

    fn materialise(&self, id: usize) -> Content {
        let mut content = Content::new();
        for Recorded { puts, deletes, .. } in self.chain(id) {
            content.retain(|key, _| !deletes.contains(key));
            content.extend(puts.iter().copied());
        }
        content
    }

    /// A crash: a new table from a stored chain, which then takes increments on top of it.
    fn restore(&mut self) {
        let Some((&id, _)) = self.known.last_key_value() else { return };
        let mut table = Versioned::new(FIRST..FIRST + GROUPS, self.seed);
        table.room = room(self.seed);
        for Recorded { puts, deletes, .. } in self.chain(id) {
            for key in deletes {
                table.remove(key.place(self.seed), |entry| entry.key == *key);
            }
            for (key, value) in puts {
                *table.slot(key.place(self.seed), *key, || *value).0 = *value;
            }
        }
        table.start();
        let content = self.stored[id].content.clone();
        let written = content.keys().map(|key| (*key, RESTORED)).collect();
        (self.table, self.model) = (table, Model { content, written, removed: BTreeMap::new() });
        self.pending.clear();
        self.known = BTreeMap::from([(id, RESTORED)]);
        self.check_content();
        match self.random.below(3) {
            0 => self.cut_whole(None),
            1 => self.cut_whole(Some((id, RESTORED))),
            _ => {}
        }
    }

    /// Right after a restore: a full part holds everything, an increment nothing.
    fn cut_whole(&mut self, base: Option<(usize, Epoch)>) {
        let cut = self.table.cut(base.map(|(_, epoch)| epoch), Recorded::default());
        assert_eq!(cut.base, base.map(|(_, epoch)| epoch));
        assert_eq!(self.table.scan(cut.epoch, usize::MAX), Progress::Done);
        let part = self.table.finish(cut.epoch).expect("it is done");
        let expected = if base.is_some() { 0 } else { self.model.content.len() };
        assert_eq!(part.puts.len(), expected);
        assert!(part.deletes.is_empty());
        self.meet("full right after a restore", base.is_none() && expected > 0);
        let (base, id) = (base.map(|(id, _)| id), self.stored.len());
        self.stored.push(Stored { base, part, content: self.model.content.clone() });
        self.known.insert(id, cut.epoch);
    }

    fn check_content(&mut self) {
        let entries = self.table.entries();
        assert_eq!(entries.map(|entry| (entry.key, entry.value)).collect::<Content>(), self.model.content);
        assert_eq!(self.table.len(), self.model.content.len());
        for (key, value) in &self.model.content {
            let place = key.place(self.seed);
            let found = self.table.find(place, |entry| entry.key == *key).map(|entry| entry.value);
            assert_eq!(found, Some(*value));
            // Looking is no write.
            let guard = self.table.guard(place, |entry| entry.key == *key);
            assert_eq!(guard.map(|guard| *guard), Some(*value));
        }
    }

    fn run(&mut self, steps: u64) {
        let keys = [8, 60, 400, 2000][self.random.below(4) as usize];
        let (mut window, mut cursor) = (0, (0, 0));
        for step in 0..steps {
            let phase = (step / 97 + self.random.below(2)) % 5;
            for _ in 0..[8, 24, 20, 12, 0][phase as usize] {
                self.operation(phase, keys, &mut window);
            }
            if self.random.below(5) == 0 {
                self.sweep(&mut cursor);
            }
            if self.pending.len() < 3 && self.random.below(9) == 0 {
                self.cut();
            }
            for index in (0..self.pending.len()).rev() {
                let budget = self.random.below(if step % 200 < 100 { 12 } else { 300 });
                self.scan(index, budget);
            }
            if !self.pending.is_empty() && self.random.below(60) == 0 {
                let before = self.table.saved();
                self.table.abort(self.pending.swap_remove(0).cut.epoch);
                self.meet("abort", true);
                self.meet("abort with pre-images", self.table.saved() < before);
            }
            match self.random.below(300) {
                0..2 => self.restore(),
                2..5 => self.check_content(),
                _ => {}
            }
        }
        self.check_content();
    }

    fn operation(&mut self, phase: u64, keys: u64, window: &mut u64) {
        let any = TestKey(self.random.below(keys.max(*window)));
        *window += u64::from(phase == 1 || phase == 3);
        let from = if phase == 2 { any } else { TestKey(0) };
        let first = self.model.content.range(from..).next().map(|(key, _)| *key);
        let first = first.filter(|_| phase == 2 || self.model.content.len() > 24);
        match (phase, first) {
            (0, _) => self.write(TestKey(any.0 % keys)), // update
            (1, _) => self.write(TestKey(*window)),      // grow
            (2, Some(key)) => self.remove(key),          // shrink
            (3, Some(key)) => {
                // slide
                self.write(TestKey(*window));
                self.remove(key);
            }
            _ => {}
        }
    }
}

/// The seeds from `FLOTT_SEED` (one) or the first `FLOTT_SEEDS`; half of them hash sequentially.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    match (number("FLOTT_SEED"), number("FLOTT_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(default),
    }
}

#[test]
fn every_chain_gives_the_state_at_its_cut() {
    let seeds = seeds(200);
    let many = seeds.end - seeds.start >= 100;
    let mut met = BTreeMap::new();
    for seed in seeds {
        let mut world = World::new(seed);
        let run = std::panic::AssertUnwindSafe(|| world.run(600));
        assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}: again with FLOTT_SEED={seed}");
        world.met.into_iter().for_each(|(what, count)| *met.entry(what).or_insert(0) += count);
    }
    println!("{met:#?}");
    assert!(!many || met.values().all(|count| *count > 0), "a case was never met: {met:#?}");
}

/// The seeds in which entries move in place under a scan, by their number.
#[test]
fn a_rehash_in_place_under_a_scan_loses_nothing() {
    let mut moved = 0;
    for seed in (0..400).step_by(2).filter(|_| std::env::var("FLOTT_SEED").is_err()) {
        let mut world = World::new(seed);
        let run = std::panic::AssertUnwindSafe(|| world.run(150));
        assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}, 150 steps");
        moved += world.met.get("rehashed in place under a scan").copied().unwrap_or(0);
    }
    assert!(moved > 0 || std::env::var("FLOTT_SEED").is_ok(), "no seed moves entries in place under a scan any more");
}

fn started(groups: u16) -> Versioned<TestKey, u64, Recorded> {
    let mut table = Versioned::new(FIRST..FIRST + groups, 0);
    table.start();
    table
}

fn place(key: u64) -> Place {
    Place { group: FIRST, bucket_hash: TestKey(key).bucket_hash(0) }
}

/// Keys inserted ahead and removed behind, in one group, beside a scan slower than the rehashes: it ends all the same.
#[test]
fn churn_cannot_starve_a_scan() {
    SEQUENTIAL.set(true);
    let mut table = started(1);
    let key = |number: u64| TestKey(number * u64::from(GROUPS)); // all in group FIRST
    let place = |number: u64| key(number).place(0);
    let put = |table: &mut Versioned<_, _, Recorded>, number| {
        table.slot(place(number), key(number), || number);
    };
    (0..1500).for_each(|number| put(&mut table, number));
    let cut = table.cut(None, Recorded::default());
    let unfinished = (1500..200_000).take_while(|number| {
        put(&mut table, *number);
        table.remove(place(number - 1500), |entry| entry.key == key(number - 1500));
        number % 40 != 0 || table.scan(cut.epoch, 1) == Progress::More
    });
    assert!(unfinished.count() < 50_000, "the scan is starved");
    let puts = table.finish(cut.epoch).expect("it is done").puts;
    assert!(puts.len() <= 3000, "more than twice the state: {}", puts.len());
    assert_eq!(puts.into_iter().collect::<Content>(), (0..1500).map(|number| (key(number), number)).collect());
}

#[test]
fn an_entry_removed_between_its_cut_and_its_scan_is_in_the_snapshot() {
    SEQUENTIAL.set(false);
    let mut table = started(1);
    table.slot(place(4), TestKey(4), || 7);
    let cut = table.cut(None, Recorded::default());
    table.remove(place(4), |entry| entry.key == TestKey(4));
    assert_eq!(table.scan(cut.epoch, 1000), Progress::Done);
    assert_eq!(table.finish(cut.epoch).expect("it is done").puts, [(TestKey(4), 7)]);
}

#[test]
fn a_key_removed_and_written_again_is_a_delete_and_a_put() {
    SEQUENTIAL.set(false);
    let mut table = started(1);
    for key in (0..40).step_by(4) {
        table.slot(place(key), TestKey(key), || 1);
    }
    let base = table.cut(None, Recorded::default());
    table.scan(base.epoch, 1000);
    table.finish(base.epoch).expect("it is done");
    table.remove(place(4), |entry| entry.key == TestKey(4));
    table.slot(place(4), TestKey(4), || 2);
    let cut = table.cut(Some(base.epoch), Recorded::default());
    table.scan(cut.epoch, 1000);
    let part = table.finish(cut.epoch).expect("it is done");
    assert_eq!((part.puts, part.deletes), (vec![(TestKey(4), 2)], vec![TestKey(4)]));
}

/// Work, not time: a scan with a budget of one visits each group once and emits nothing.
#[test]
fn an_idle_table_scans_nothing() {
    SEQUENTIAL.set(false);
    let mut table = started(1);
    for key in (0..40_000).step_by(4) {
        table.slot(place(key), TestKey(key), || 1);
    }
    let base = table.cut(None, Recorded::default());
    while table.scan(base.epoch, 1000) == Progress::More {}
    table.finish(base.epoch).expect("it is done");
    let cut = table.cut(Some(base.epoch), Recorded::default());
    assert_eq!(table.scan(cut.epoch, 1), Progress::Done);
    assert!(table.finish(cut.epoch).expect("it is done").puts.is_empty());
}

#[test]
fn a_sweep_comes_to_every_entry_and_begins_again() {
    SEQUENTIAL.set(false);
    let mut table = started(GROUPS);
    let place = |key: u64| TestKey(key).place(0);
    for round in 0..3 {
        (0..1_000).for_each(|key| *table.slot(place(key), TestKey(key), || 0).0 = key % 2);
        let mut cursor = (0, 0);
        let calls = (0..10_000).take_while(|_| {
            table.sweep(&mut cursor, 7, |value| *value == 1);
            table.len() > 500
        });
        assert!(calls.count() < 1_000, "round {round}");
        assert!((0..1_000).all(|key| table.find(place(key), |_| true).is_none_or(|entry| entry.value == 0)));
    }
}

#[test]
#[should_panic(expected = "owns its key group")]
fn a_record_of_a_foreign_key_group_is_a_bug() {
    let mut table = started(1);
    table.slot(Place { group: FIRST - 1, bucket_hash: 0 }, TestKey(3), || 0);
}
