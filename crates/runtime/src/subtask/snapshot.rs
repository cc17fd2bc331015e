//! One subtask's part of a checkpoint, from the cut to the ack: scan the tables, wait for the sinks, wait for the segment.

use super::sinks::SinkPort;
use super::{Subtask, TOKENS};
use crate::control::{ChannelPart, PartTimings, Report, SplitPart, SubtaskPart};
use crate::error::Result;
use crate::key::KeySpace;
use crate::outbox::Outbox;
use crate::segment::{EncodedBlock, SegmentOut, StateHeader};
use crate::state::Progress;
use crate::time::Time;
use crate::whereabouts::Stage as Shown;
use crate::worker::{SegmentState, Segments};
use flott_checkpoint::{Barrier, CheckpointId, SubtaskId};
use std::collections::BTreeMap;
use std::ops::Range;

/// See the head of this file.
pub(super) struct Part {
    barrier: Barrier,
    /// What each table's cut builds on, in the order of the tables.
    bases: Vec<Option<CheckpointId>>,
    stage: Stage,
    /// The tables whose scan is done.
    scanned: Vec<bool>,
    cut_ended: Time,
    scan_ended: Time,
    ack: SubtaskPart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The tables are being scanned in turn, so that what a write saved of any of them gets out soon; this one is next.
    Scan(usize),
    /// The sinks prepare their epochs.
    Prepare,
    /// Everything is in the segment, which is not durable yet.
    Upload,
}

impl Part {
    pub(super) fn new(
        barrier: Barrier,
        subtask: SubtaskId,
        bases: Vec<Option<CheckpointId>>,
        finished: bool,
        channels: Vec<ChannelPart>,
        splits: BTreeMap<String, BTreeMap<String, SplitPart>>,
    ) -> Part {
        let base = bases.iter().flatten().min().copied();
        let timings = PartTimings::default();
        let ack = SubtaskPart { subtask, base, finished, channels, splits, segment: None, timings };
        let scanned = vec![false; bases.len()];
        Part { barrier, bases, stage: Stage::Scan(0), scanned, cut_ended: Time(0), scan_ended: Time(0), ack }
    }

    pub(super) fn times(&mut self, first_seen: Time, cut_began: Time, cut_ended: Time) {
        let micros = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let triggered = Time::of_millis(self.barrier.triggered_at);
        self.ack.timings.start_delay = micros(first_seen.since(triggered));
        self.ack.timings.alignment = micros(cut_began.since(first_seen));
        self.ack.timings.cut = micros(cut_ended.since(cut_began));
        self.cut_ended = cut_ended;
    }

    /// The next table in turn that is not scanned; their number if all are.
    fn next_to_scan(&self, index: usize) -> usize {
        let count = self.scanned.len();
        let in_turn = (index + 1..count).chain(0..count.min(index + 1));
        in_turn.into_iter().find(|table| self.scanned.get(*table) == Some(&false)).unwrap_or(count)
    }

    pub(super) fn id(&self) -> CheckpointId {
        self.barrier.id
    }

    /// How far it is, for people.
    pub(super) fn shown(&self) -> Shown {
        match self.stage {
            Stage::Scan(_) => Shown::Scanning,
            Stage::Prepare => Shown::Preparing,
            Stage::Upload => Shown::Uploading,
        }
    }
}

/// Hands a table's blocks to the worker's segment of one checkpoint.
struct IntoSegment<'a> {
    segments: &'a mut Segments,
    id: CheckpointId,
}

impl SegmentOut for IntoSegment<'_> {
    fn block(&mut self, block: EncodedBlock) {
        self.segments.block(self.id, block);
    }

    fn buffered(&self) -> usize {
        self.segments.buffered()
    }
}

impl Subtask {
    /// Goes on with the snapshots under way; true if there is more to do at once.
    pub(super) fn advance_parts(&mut self, segments: &mut Segments, now: Time, outbox: &mut Outbox) -> Result<bool> {
        let mut more = false;
        let mut index = 0;
        let owned = KeySpace::of_attempt(&self.attempt, self.id.index).owned;
        while let Some(part) = self.parts.get_mut(index) {
            match advance(part, &self.tables, &self.sinks, self.attempt.options.scan_budget, &owned, segments, now)? {
                Advance::More => more = true,
                Advance::Wait => {}
                Advance::Done => {
                    let part = self.parts.remove(index);
                    let (id, part) = (part.id(), Box::new(part.ack));
                    self.acked.push((id, part.clone()));
                    outbox.reports.push(Report::Acked { id, part });
                    continue;
                }
                Advance::Failed(reason) => {
                    let id = part.id();
                    self.parts.remove(index);
                    self.tables.iter().for_each(|table| table.borrow_mut().abort(id));
                    outbox.reports.push(Report::Declined { id, subtask: self.id, reason });
                    continue;
                }
            }
            index += 1;
        }
        Ok(more)
    }

    /// What open cuts hold in memory: saved old values that no scan has handed over yet.
    pub(super) fn buffered(&self) -> usize {
        if self.parts.is_empty() { 0 } else { self.tables.iter().map(|table| table.borrow().buffered()).sum() }
    }
}

enum Advance {
    More,
    Wait,
    Done,
    Failed(String),
}

fn advance(
    part: &mut Part,
    tables: &[crate::state::SharedTable],
    sinks: &[SinkPort],
    budget: usize,
    owned: &Range<u16>,
    segments: &mut Segments,
    now: Time,
) -> Result<Advance> {
    let id = part.id();
    if let SegmentState::Failed(reason) = segments.state(id) {
        return Ok(Advance::Failed(format!("its segment cannot be written: {reason}")));
    }
    match part.stage {
        Stage::Scan(index) => {
            let Some(table) = tables.get(index) else {
                part.scan_ended = now;
                part.stage = Stage::Prepare;
                return Ok(Advance::More);
            };
            if segments.is_full() {
                return Ok(Advance::Wait);
            }
            let mut table = table.borrow_mut();
            match table.scan(id, budget, &mut IntoSegment { segments, id }) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => {
                    let base = part.bases.get(index).copied().flatten();
                    segments.declare(id, StateHeader { declaration: table.declaration(), base, owned: owned.clone() });
                    if let Some(done) = part.scanned.get_mut(index) {
                        *done = true;
                    }
                }
                Err(error) => return Ok(Advance::Failed(format!("a state cannot be stored: {error}"))),
            }
            part.stage = Stage::Scan(part.next_to_scan(index));
            Ok(Advance::More)
        }
        Stage::Prepare => {
            let tokens: Option<Vec<_>> = sinks.iter().map(|sink| Some((sink.operator(), sink.tokens(id)?))).collect();
            let Some(tokens) = tokens else { return Ok(Advance::Wait) };
            for (operator, tokens) in tokens.into_iter().filter(|(_, tokens)| !tokens.is_empty()) {
                let bytes = rmp_serde::to_vec_named(&tokens).expect("tokens are text and bytes");
                segments.blob(id, operator, TOKENS, &bytes);
            }
            segments.part_done(id);
            part.stage = Stage::Upload;
            Ok(Advance::More)
        }
        Stage::Upload => match segments.state(id) {
            SegmentState::Open => Ok(Advance::Wait),
            SegmentState::Failed(reason) => Ok(Advance::Failed(reason)),
            SegmentState::Durable(blob) => {
                let micros = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
                part.ack.timings.scan = micros(part.scan_ended.since(part.cut_ended));
                part.ack.timings.upload = micros(now.since(part.scan_ended));
                part.ack.segment = blob;
                Ok(Advance::Done)
            }
        },
    }
}
