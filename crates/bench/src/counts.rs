//! A value state of one worker, filled, for the benches that measure it alone.

use crate::backend::Backend;
use flott_checkpoint::CheckpointId;
use flott_runtime::key::{KeySpace, hash_key};
use flott_runtime::segment::{EncodedBlock, SegmentOut, StateName};
use flott_runtime::state::{AnyBackend, AnyValue, HeapBackend, Progress, SharedTable, StateBackend, ValueDeclaration};

/// A count by `u64`, with its erased face.
pub(crate) struct Counts {
    state: AnyValue<u64, u64>,
    table: SharedTable,
    seed: u64,
    /// Held as long as the state is; dropped after it.
    #[cfg(feature = "rocksdb")]
    _directory: Option<tempfile::TempDir>,
}

/// Counts what a snapshot hands over.
#[derive(Default)]
pub(crate) struct Weigh {
    pub(crate) bytes: usize,
}

impl SegmentOut for Weigh {
    fn block(&mut self, block: EncodedBlock) {
        self.bytes += block.bytes.len();
    }

    fn buffered(&self) -> usize {
        0
    }
}

const SEED: u64 = 7;

impl Counts {
    /// With the keys `0..keys` of one worker that owns all key groups.
    pub(crate) fn filled(backend: Backend, keys: u64) -> Counts {
        let counts = match backend {
            Backend::Heap => Counts::heap(),
            Backend::Rocksdb => Counts::rocksdb(),
        };
        counts.table.borrow_mut().start(None);
        (0..keys).for_each(|key| counts.add(key));
        counts
    }

    fn space() -> KeySpace {
        KeySpace::of_worker(SEED, 128, 1, 0)
    }

    fn declared(mut backend: AnyBackend) -> (AnyValue<u64, u64>, SharedTable) {
        let declaration = ValueDeclaration { name: StateName::new("count", "count") };
        let state = backend.value(declaration).expect("the only state");
        (state, SharedTable::clone(&backend.tables()[0]))
    }

    fn heap() -> Counts {
        let (state, table) = Counts::declared(AnyBackend::Heap(HeapBackend::new(Counts::space())));
        #[cfg(feature = "rocksdb")]
        return Counts { state, table, seed: SEED, _directory: None };
        #[cfg(not(feature = "rocksdb"))]
        Counts { state, table, seed: SEED }
    }

    #[cfg(feature = "rocksdb")]
    fn rocksdb() -> Counts {
        use flott_checkpoint::{AttemptId, SubtaskId};
        use flott_rocksdb::{RocksOptions, RocksStores};
        use flott_runtime::state::StoredBackend;
        use flott_runtime::state::store::Stores;

        let directory = tempfile::tempdir().expect("a directory for a database");
        let stores = RocksStores::new(directory.path(), RocksOptions::default());
        let store = stores.open(AttemptId(1), SubtaskId { vertex: 0, index: 0 }).expect("a database");
        let (state, table) = Counts::declared(AnyBackend::Stored(StoredBackend::new(store, Counts::space())));
        Counts { state, table, seed: SEED, _directory: Some(directory) }
    }

    #[cfg(not(feature = "rocksdb"))]
    fn rocksdb() -> Counts {
        unreachable!("{}", crate::backend::NOT_BUILT)
    }

    pub(crate) fn table(&self) -> &SharedTable {
        &self.table
    }

    #[inline]
    pub(crate) fn add(&self, key: u64) {
        let hash = hash_key(self.seed, &key).expect("a number has an encoding");
        self.state.fold(hash, &key, || 0, |count| *count += 1);
    }

    /// Scans a cut to its end; the bytes that it hands over.
    pub(crate) fn scan(&self, id: CheckpointId) -> usize {
        let mut weigh = Weigh::default();
        while self.table.borrow_mut().scan(id, 4_096, &mut weigh).expect("numbers can be stored") == Progress::More {}
        weigh.bytes
    }
}
