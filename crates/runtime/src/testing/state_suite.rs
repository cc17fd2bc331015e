//! The conformance suite of [`StateBackend`]: every backend runs it and passes all of it.
//!
//! ```ignore
//! flott_runtime::state_suite!(heap, flott_runtime::state::HeapBackend::new);
//! ```

mod cases;
mod kinds;
mod world;

pub use cases::{
    base_and_increments_equal_a_full_part, buffered_bytes_are_visible_and_handed_over, entry_removed_after_the_cut,
    equal_times_fire_in_the_order_of_hashes, idle_state_writes_nothing, increments_hold_single_entries,
    key_types_cannot_change, maps_keep_their_order_through_a_restore, maps_keep_what_was_put, names_are_unique,
    overlapping_cuts_see_a_list_as_it_was, savepoints_are_full_and_no_base, state_of_another_kind_is_refused,
    timers_fire_once_in_order, unknown_bases_make_a_full_part, unserializable_values_decline,
    user_keys_must_be_hashable, values_keep_what_was_put,
};
pub use kinds::{
    a_failed_checkpoint_leaves_its_base_usable, a_look_decodes_everything_and_keeps_nothing,
    chain_and_full_part_have_one_canonical_dump, copies_are_those_of_the_first_worker,
    fields_may_come_go_and_be_renamed, other_types_are_refused_with_key_and_types,
    split_lists_are_dealt_out_whole_and_in_order, what_is_uploaded_is_the_state_at_the_cut,
};
pub use world::random_schedules;

/// Writes a module of tests, one per promise, for a backend made by `$make`, a `Fn(KeySpace) -> impl StateBackend`. With `mixed`
/// in front it is for backends of different kinds in turn: each has an order of its own for the entries of a map.
#[macro_export]
macro_rules! state_suite {
    (mixed $module:ident, $make:expr) => {
        $crate::state_suite!(@and $module, $make,);
    };
    ($module:ident, $make:expr) => {
        $crate::state_suite!(@and $module, $make, maps_keep_their_order_through_a_restore);
    };
    (@and $module:ident, $make:expr, $($more:ident)?) => {
        $crate::state_suite!(@tests $module, $make, $($more,)?
            names_are_unique, values_keep_what_was_put, timers_fire_once_in_order,
            equal_times_fire_in_the_order_of_hashes, savepoints_are_full_and_no_base, unknown_bases_make_a_full_part,
            idle_state_writes_nothing, entry_removed_after_the_cut, base_and_increments_equal_a_full_part,
            buffered_bytes_are_visible_and_handed_over, unserializable_values_decline, key_types_cannot_change,
            state_of_another_kind_is_refused, maps_keep_what_was_put,
            increments_hold_single_entries, overlapping_cuts_see_a_list_as_it_was, user_keys_must_be_hashable,
            split_lists_are_dealt_out_whole_and_in_order, copies_are_those_of_the_first_worker,
            chain_and_full_part_have_one_canonical_dump, what_is_uploaded_is_the_state_at_the_cut,
            fields_may_come_go_and_be_renamed, other_types_are_refused_with_key_and_types,
            a_look_decodes_everything_and_keeps_nothing, a_failed_checkpoint_leaves_its_base_usable, random_schedules);
    };
    (@tests $module:ident, $make:expr, $($case:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    $crate::testing::state_suite::$case(&$make);
                }
            )*
        }
    };
}

use crate::key::{KeySpace, group_range};
use crate::segment::{Block, Footer, SegmentAssembler, StateHeader, StateKind, restore_plan};
use crate::state::{Progress, SegmentBuffer, Share, StateBackend, StateError, Table};
use bytes::Bytes;
use flott_checkpoint::{CheckpointId, Kind};
use std::ops::Range;

/// A seeded generator (splitmix64): the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) % end
    }
}

/// A snapshot of all states of a backend in progress: what a subtask does, without its I/O.
pub(super) struct Snapshot {
    pub(super) id: CheckpointId,
    bases: Vec<Option<CheckpointId>>,
    assembler: SegmentAssembler,
    file: Vec<u8>,
    buffer: SegmentBuffer,
}

impl Snapshot {
    /// Cuts all states in one step.
    pub(super) fn cut<B: StateBackend>(backend: &B, id: u64, base: Option<u64>, kind: Kind) -> Self {
        let (id, base) = (CheckpointId(id), base.map(CheckpointId));
        let bases = backend.tables().iter().map(|table| table.borrow_mut().cut(id, base, kind)).collect();
        let (assembler, header) = SegmentAssembler::begin();
        Self { id, bases, assembler, file: header.to_vec(), buffer: SegmentBuffer::default() }
    }

    /// Gives each state a budget; whether all are done.
    pub(super) fn scan<B: StateBackend>(&mut self, backend: &B, budget: usize) -> Result<bool, StateError> {
        let mut done = true;
        for table in backend.tables() {
            done &= table.borrow_mut().scan(self.id, budget, &mut self.buffer)? == Progress::Done;
        }
        for block in self.buffer.ship() {
            let bytes = self.assembler.block(block);
            self.buffer.written(bytes.len());
            self.file.extend_from_slice(&bytes);
        }
        Ok(done)
    }

    /// The finished segment.
    pub(super) fn finish<B: StateBackend>(mut self, backend: &B, owned: &Range<u16>) -> Vec<u8> {
        for (table, base) in backend.tables().iter().zip(self.bases) {
            let declaration = table.borrow().declaration();
            self.assembler.declare(StateHeader { declaration, base, owned: owned.clone() });
        }
        let (end, summary) = self.assembler.finish().expect("each state is declared");
        self.file.extend_from_slice(&end);
        assert_eq!(summary.length, self.file.len() as u64);
        assert_eq!(summary.checksum, xxhash_rust::xxh3::xxh3_64(&self.file));
        self.file
    }

    /// The whole snapshot at once.
    pub(super) fn take<B: StateBackend>(
        backend: &B,
        (id, base): (u64, Option<u64>),
        kind: Kind,
        owned: &Range<u16>,
    ) -> Vec<u8> {
        let mut snapshot = Self::cut(backend, id, base, kind);
        while !snapshot.scan(backend, 1000).expect("all entries can be serialized") {}
        snapshot.finish(backend, owned)
    }
}

pub(super) fn footer(segment: &[u8]) -> Footer {
    Footer::of(segment).expect("a whole segment")
}

/// Restores all states of a backend from a chain of checkpoints, oldest first, each with the segments of its workers.
pub(super) fn restore<B: StateBackend>(
    backend: &B,
    chain: &[Vec<Vec<u8>>],
    owned: &Range<u16>,
) -> Result<(), StateError> {
    visit(backend, chain, |_| (owned.clone(), None), |table, block, groups, _| table.restore(block, groups))
}

/// The same for one worker of any number, split lists and copies included.
pub(super) fn restore_share<B: StateBackend>(
    backend: &B,
    chain: &[Vec<Vec<u8>>],
    space: &KeySpace,
    share: Share,
) -> Result<(), StateError> {
    let wanted = |kind| match kind {
        StateKind::SplitList if share.before != share.workers => (0..space.groups, Some(share)),
        StateKind::Broadcast if share.before != share.workers => {
            (group_range(space.groups, share.before.into(), 0), Some(share))
        }
        _ => (space.owned.clone(), None),
    };
    visit(backend, chain, wanted, |table, block, groups, share| match share {
        None => table.restore(block, groups),
        Some(share) => table.restore_foreign(block, &share),
    })
}

/// Hands over all blocks that a restore needs, in their order.
pub(super) fn visit<B: StateBackend>(
    backend: &B,
    chain: &[Vec<Vec<u8>>],
    wanted: impl Fn(StateKind) -> (Range<u16>, Option<Share>),
    apply: impl Fn(&mut dyn Table, &Block, &Range<u16>, Option<Share>) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let footers: Vec<Vec<Footer>> =
        chain.iter().map(|segments| segments.iter().map(|segment| footer(segment)).collect()).collect();
    for table in backend.tables() {
        let name = table.borrow().declaration().name;
        for section in footers.iter().flatten().filter_map(|footer| footer.state(&name.operator, &name.state)) {
            table.borrow_mut().expect(&section.declaration)?;
        }
        let kind = table.borrow().declaration().kind;
        let (groups, share) = wanted(kind);
        for found in restore_plan(&footers, &name, groups).expect("the chain begins with a full part") {
            let file = chain.get(found.link).and_then(|segments| segments.get(found.segment)).expect("in the chain");
            let range = found.block.piece.range();
            let stored = file.get(range.start as usize..range.end as usize).expect("checked by the footer");
            let block = found.block.decode(Bytes::copy_from_slice(stored)).expect("an undamaged block");
            table.borrow_mut().restoring(found.full);
            apply(&mut *table.borrow_mut(), &block, &found.groups, share)?;
        }
    }
    Ok(())
}

/// Ends the restore of all states.
pub(super) fn start<B: StateBackend>(backend: &B, restored: Option<u64>) {
    backend.tables().iter().for_each(|table| table.borrow_mut().start(restored.map(CheckpointId)));
}
