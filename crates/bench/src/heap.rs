//! A heap value state of one worker, filled, for the benches that measure it alone.

use flott_checkpoint::CheckpointId;
use flott_runtime::key::{KeySpace, hash_key};
use flott_runtime::segment::{EncodedBlock, SegmentOut, StateName};
use flott_runtime::state::{HeapBackend, HeapValue, Progress, StateBackend, ValueDeclaration};

/// A count by `u64`, with its erased face.
pub(crate) struct Counts {
    pub(crate) state: HeapValue<u64, u64>,
    seed: u64,
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

impl Counts {
    /// With the keys `0..keys` of one worker that owns all key groups.
    pub(crate) fn filled(keys: u64) -> Counts {
        let seed = 7;
        let mut backend = HeapBackend::new(KeySpace::of_worker(seed, 128, 1, 0));
        let declaration = ValueDeclaration { name: StateName::new("count", "count") };
        let state = backend.value(declaration).expect("the only state");
        let counts = Counts { state, seed };
        counts.state.table().borrow_mut().start(None);
        (0..keys).for_each(|key| counts.add(key));
        counts
    }

    #[inline]
    pub(crate) fn add(&self, key: u64) {
        let hash = hash_key(self.seed, &key).expect("a number has an encoding");
        self.state.fold(hash, key, || 0, |count| *count += 1);
    }

    /// Scans a cut to its end; the bytes that it hands over.
    pub(crate) fn scan(&self, id: CheckpointId) -> usize {
        let mut weigh = Weigh::default();
        let table = self.state.table();
        while table.borrow_mut().scan(id, 4_096, &mut weigh).expect("numbers can be stored") == Progress::More {}
        weigh.bytes
    }
}
