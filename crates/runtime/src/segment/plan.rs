//! Which blocks a restore applies, and in which order, to get a state back from a chain of increments.
//!
//! Fullness belongs to a section, not to a checkpoint: one table may have had to write everything in a checkpoint that
//! is an increment for the others, and then nothing older may be read for its key groups, or removed keys come back.

use super::index::{BlockEntry, Footer, StateSection};
use super::{SegmentError, StateName};
use std::ops::Range;

/// One block to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply<'a> {
    /// Which checkpoint of the chain, the oldest is 0.
    pub link: usize,
    /// Which segment of that checkpoint.
    pub segment: usize,
    /// Which block of that segment.
    pub block: &'a BlockEntry,
    /// The key groups of which to apply entries.
    pub groups: Range<u16>,
    /// It is of a full section: nothing that was applied before has one of its entries.
    pub full: bool,
}

/// The blocks that restore the key groups `wanted` of a state, in the order in which to apply them.
///
/// `chain` holds the checkpoints, oldest first, the one to restore last; each with its segments, one per worker that
/// wrote it. The numbers of workers may differ between checkpoints.
///
/// # Errors
/// [`SegmentError::NoFullSection`] if for some key group the oldest section is an increment.
pub fn restore_plan<'a>(
    chain: &'a [Vec<Footer>],
    name: &StateName,
    wanted: Range<u16>,
) -> Result<Vec<Apply<'a>>, SegmentError> {
    let mut links = Vec::new();
    let mut needed = vec![wanted];
    let mut floating = Vec::new();
    for (link, segments) in chain.iter().enumerate().rev() {
        let mut blocks = Vec::new();
        for (segment, footer) in segments.iter().enumerate() {
            let Some(section) = footer.state(&name.operator, &name.state) else { continue };
            let overlaps = needed.iter().map(|range| intersection(range, &section.owned));
            for groups in overlaps.filter(|range| !range.is_empty()) {
                let of_groups = section.blocks_of(groups.clone());
                let full = section.base.is_none();
                blocks.extend(of_groups.map(|block| Apply { link, segment, block, groups: groups.clone(), full }));
            }
        }
        // Segments of one checkpoint have no key group in common, so what is full there ends no neighbour's search.
        for section in segments.iter().filter_map(|footer| footer.state(&name.operator, &name.state)) {
            settle(section, &mut needed, &mut floating);
        }
        links.push(blocks);
    }
    if floating.iter().any(|open| needed.iter().any(|range| !intersection(range, open).is_empty())) {
        return Err(SegmentError::NoFullSection(name.clone()));
    }
    Ok(links.into_iter().rev().flatten().collect())
}

/// After a full section nothing older is needed of its groups; after an increment something must be.
fn settle(section: &StateSection, needed: &mut Vec<Range<u16>>, floating: &mut Vec<Range<u16>>) {
    if section.base.is_some() {
        floating.push(section.owned.clone());
        return;
    }
    let before = |range: &Range<u16>| range.start..range.end.min(section.owned.start);
    let after = |range: &Range<u16>| range.start.max(section.owned.end)..range.end;
    let rest = needed.iter().flat_map(|range| [before(range), after(range)]);
    *needed = rest.filter(|range| !range.is_empty()).collect();
}

fn intersection(a: &Range<u16>, b: &Range<u16>) -> Range<u16> {
    a.start.max(b.start)..a.end.min(b.end)
}
