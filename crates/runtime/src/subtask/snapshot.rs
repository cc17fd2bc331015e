//! One subtask's part of a checkpoint, from the cut to the ack: scan the tables, wait for the sinks, wait for the segment.

use super::gate::Gate;
use super::sinks::SinkPort;
use super::trail::Trail;
use super::{NO_OPERATOR, Subtask, TOKENS, channel_blob};
use crate::attempt::WorkerOptions;
use crate::control::{Captured, ChannelPart, PartTimings, Report, SplitPart, SubtaskPart};
use crate::error::Result;
use crate::key::KeySpace;
use crate::outbox::Outbox;
use crate::segment::{EncodedBlock, SegmentOut, StateHeader, TARGET_BLOCK};
use crate::state::Progress;
use crate::time::Time;
use crate::whereabouts::Stage as Shown;
use crate::worker::{SegmentState, Segments};
use flott_checkpoint::{Barrier, CheckpointId, Mode, SubtaskId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// For so many records a step scans one entry while records go first, or for so much time: some four times of what it takes.
const RECORDS_EACH: u64 = 4;
const TIME_EACH: Duration = Duration::from_nanos(200);
/// So long after a cut a step that takes records scans less.
const RECORDS_FIRST: Duration = Duration::from_millis(200);

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
    /// Something in flight is not in the segment yet, or has not come yet.
    captures: bool,
    trail: Trail,
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
        trail: Trail,
    ) -> Part {
        let base = bases.iter().flatten().min().copied();
        let timings = PartTimings::default();
        let ack = SubtaskPart { subtask, base, finished, channels, splits, segment: None, timings };
        let scanned = vec![false; bases.len()];
        let (cut_ended, scan_ended) = (Time(0), Time(0));
        Part { barrier, bases, stage: Stage::Scan(0), scanned, cut_ended, scan_ended, captures: false, trail, ack }
    }

    /// What is in flight belongs to it.
    pub(super) fn begin_capture(&mut self) {
        self.captures = true;
    }

    /// All that was in flight is in the segment: so much on each channel.
    fn end_capture(&mut self, captured: Vec<Captured>) {
        self.captures = false;
        self.ack.channels.iter_mut().zip(captured).for_each(|(channel, captured)| channel.captured = captured);
    }

    pub(super) fn times(&mut self, first_seen: Time, cut_began: Time, cut_ended: Time) {
        let micros = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let triggered = Time::of_millis(self.barrier.triggered_at);
        self.ack.timings.start_delay = micros(first_seen.since(triggered));
        self.ack.timings.alignment = micros(cut_began.since(first_seen));
        self.ack.timings.cut = micros(cut_ended.since(cut_began));
        self.cut_ended = cut_ended;
        self.trail.scan();
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

/// What a step has done before it scans.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) records: u64,
    pub(super) time: Duration,
}

/// How much of the scan is done in one step that did such work, so long after the cut. Its records have others waiting behind
/// them, and right after the cut they cost the most: the step scans in proportion to them, so that a worker whose steps are
/// short does not spend them on the scan, or to its time if records are slow. That ends, so the scan of a job that never rests
/// takes little longer. Whoever takes unaligned checkpoints wants them to be short although steps are long under back-pressure:
/// it scans more.
fn share(whole: usize, mode: Mode, work: Work, since_cut: Duration) -> usize {
    if mode.acts_on_arrival() {
        whole * 4
    } else if work.records > 0 && since_cut < RECORDS_FIRST {
        let by_time = work.time.as_nanos() / TIME_EACH.as_nanos();
        let earned = u128::from(work.records.div_ceil(RECORDS_EACH)).max(by_time);
        usize::try_from(earned).unwrap_or(usize::MAX).min(whole.div_ceil(4))
    } else {
        whole
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
    /// Goes on with the snapshots under way, after a step that did such work; true if there is more to do at once.
    pub(super) fn advance_parts(
        &mut self,
        work: Work,
        segments: &mut Segments,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<bool> {
        let mut more = false;
        let mut index = 0;
        let owned = KeySpace::of_attempt(&self.attempt, self.id.index).owned;
        while let Some(part) = self.parts.get_mut(index) {
            let captured = capture(part, &mut self.gate, &self.attempt.options, segments);
            more |= matches!(captured, Ok(true));
            let step = match captured {
                Err(error) => Advance::Failed(format!("records in flight cannot be stored: {error}")),
                Ok(_) => {
                    let (whole, since_cut) = (self.attempt.options.scan_budget, now.since(part.cut_ended));
                    let budget = share(whole, part.barrier.mode, work, since_cut);
                    advance(part, &self.tables, &self.sinks, budget, &owned, segments, now)?
                }
            };
            match step {
                Advance::More => more = true,
                Advance::Wait => {}
                Advance::Done => {
                    let mut part = self.parts.remove(index);
                    part.trail.ack();
                    let (id, part) = (part.id(), Box::new(part.ack));
                    self.acked.push((id, part.clone()));
                    outbox.reports.push(Report::Acked { id, part });
                    continue;
                }
                Advance::Failed(reason) => {
                    let id = part.id();
                    part.trail.decline(&reason);
                    self.parts.remove(index);
                    self.gate.drop_captures(id);
                    self.tables.iter().for_each(|table| table.borrow_mut().abort(id));
                    outbox.reports.push(Report::Declined { id, subtask: self.id, reason });
                    continue;
                }
            }
            index += 1;
        }
        Ok(more)
    }

    /// What open cuts hold in memory: saved old values that no scan has handed over yet, and records that were in flight.
    pub(super) fn buffered(&self) -> usize {
        if self.parts.is_empty() {
            return 0;
        }
        self.gate.buffered() + self.tables.iter().map(|table| table.borrow().buffered()).sum::<usize>()
    }
}

/// So many pieces of what was in flight are encoded in one step.
const CHUNKS_A_STEP: u32 = 8;

/// Hands some of what was in flight to the segment; true if there may be more at once.
fn capture(part: &mut Part, gate: &mut Gate, options: &WorkerOptions, segments: &mut Segments) -> Result<bool> {
    if !part.captures || segments.is_full() {
        return Ok(false);
    }
    let id = part.id();
    for _ in 0..CHUNKS_A_STEP {
        let Some((channel, bytes)) = gate.captured(id, TARGET_BLOCK.min(options.segment_buffer / 4))? else {
            if let Some(captured) = gate.take_captured(id) {
                part.end_capture(captured);
            }
            return Ok(false);
        };
        segments.blob(id, NO_OPERATOR, &channel_blob(channel.edge, channel.from), &bytes);
        if segments.is_full() {
            return Ok(false);
        }
    }
    Ok(true)
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
                part.trail.prepare();
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
        Stage::Prepare if part.captures => Ok(Advance::Wait),
        Stage::Prepare => {
            let tokens: Option<Vec<_>> = sinks.iter().map(|sink| Some((sink.operator(), sink.tokens(id)?))).collect();
            let Some(tokens) = tokens else { return Ok(Advance::Wait) };
            for (operator, tokens) in tokens.into_iter().filter(|(_, tokens)| !tokens.is_empty()) {
                let bytes = rmp_serde::to_vec_named(&tokens).expect("tokens are text and bytes");
                segments.blob(id, operator, TOKENS, &bytes);
            }
            segments.part_done(id);
            part.stage = Stage::Upload;
            part.trail.upload();
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
