//! A subtask: one parallel instance of a chain, with its gate, its outputs, its state, and its part in every checkpoint.
//!
//! The step loop is the only place that obeys the checkpoint algorithms: it raises their events (a barrier entered a queue,
//! a barrier is next, a checkpoint is over) and does what they say (`subtask/obey.rs`). A subtask never blocks, owns no
//! thread, reads no clock but the one it is handed, and does no I/O: what it wants goes into the outbox.

mod builder;
mod capture;
mod gate;
mod obey;
mod output;
mod sinks;
mod snapshot;
mod source_chain;
mod standing;
mod step;
mod tally;
mod trail;
mod window;

pub use builder::{Partitioner, SubtaskBuilder};
pub(crate) use capture::split_first;
pub use output::KeyedOutlet;
pub(crate) use source_chain::Pulled;
pub(crate) use step::Surroundings;

use crate::attempt::{Attempt, Restore};
use crate::control::{Report, SplitPart, SubtaskPart};
use crate::error::{Error, Result};
use crate::io::{Answer, Ticket};
use crate::operator::{Chain, Context, Flow};
use crate::outbox::Outbox;
use crate::packet::{ChannelId, Packet, Payload};
use crate::sink::Token;
use crate::source::Waker;
use crate::state::SharedTable;
use crate::time::{Clock, Time, Watermark};
use flott_checkpoint::{Actions, Arrivals, Barrier, Channel, CheckpointId, Event, Kind, SubtaskId, lite_map};
use gate::{ChannelSite, Gate};
use litemap::LiteMap;
use output::OutputPort;
use sinks::SinkPort;
use snapshot::Part;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tally::Tally;

/// What the subtask does with a source, whatever its type.
pub trait SourcePort {
    /// The operator's name.
    fn operator(&self) -> &str;
    /// Opens the splits of this subtask: those that a checkpoint lists, or those that the source names.
    ///
    /// # Errors
    /// If the source cannot be reached or does not fit the stored positions.
    #[doc(hidden)]
    fn open(&mut self, restored: Option<Vec<(String, SplitPart)>>) -> Result<()>;
    /// Takes records until the context says stop.
    ///
    /// # Errors
    /// If reading or the chain fails.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "only the step loop calls it")]
    fn pull(&mut self, cx: &mut Context<'_>) -> Result<Pulled>;
    /// Where each split stands.
    ///
    /// # Errors
    /// If a position cannot be stored.
    #[doc(hidden)]
    fn parts(&self) -> Result<Vec<(String, SplitPart)>>;
}

/// Where the subtask stands in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// State is being restored, or restored tokens are being committed.
    Restoring,
    /// Restored; sources wait for `Open` (R1).
    Restored,
    /// At work.
    Open,
}

/// The first barrier of the newest checkpoint here.
#[derive(Clone, Copy)]
struct FirstSeen {
    id: CheckpointId,
    at: Time,
    triggered: Time,
}

/// See the head of this file.
pub(crate) struct Subtask {
    id: SubtaskId,
    name: Arc<str>,
    attempt: Arc<Attempt>,
    chain: Box<dyn Chain>,
    is_source: bool,
    gate: Gate,
    outputs: Vec<(u16, Rc<RefCell<dyn OutputPort>>)>,
    sinks: Vec<SinkPort>,
    tables: Vec<SharedTable>,
    timers: Vec<builder::NextTimer>,
    flow: Rc<Flow>,
    arrivals: Arrivals,
    paused: bool,
    /// The final checkpoint that holds what is in flight here: to process it now would be for nothing, unless that one is aborted.
    rests_at: Option<CheckpointId>,
    /// For a source: the outside world is blocked.
    held: bool,
    /// For a source: the barrier that lies in front of its next record.
    trigger: Option<Barrier>,
    /// The snapshots under way, oldest first.
    parts: Vec<Part>,
    /// Parts that were acked and whose checkpoints are not resolved.
    acked: Vec<(CheckpointId, Box<SubtaskPart>)>,
    phase: Phase,
    /// The splits that the restored checkpoint lists, until the source opens.
    restored_splits: Option<BTreeMap<String, SplitPart>>,
    restored_tokens: LiteMap<String, Vec<Token>>,
    /// No record comes in any more, but timers may be left that fire before the end of data goes on.
    ending: bool,
    /// No record follows: the end of data was handed on.
    ended: bool,
    /// A final barrier was forwarded: the source gives out nothing more (a stop).
    stopped: bool,
    /// A source that gives out nothing more, and ends as soon as it may.
    draining: bool,
    /// A source has nothing before this moment.
    source_wait: Option<Time>,
    watermark: Watermark,
    first_seen: Option<FirstSeen>,
    /// When the newest checkpoint goes on unaligned, if it has not been cut by then.
    alignment_ends: Option<(CheckpointId, Time)>,
    /// Checkpoints that are completed and whose commits are under way, oldest first.
    committing: Vec<CheckpointId>,
    /// Which sink a blocking call belongs to.
    calls: LiteMap<Ticket, usize>,
    records_in: Rc<Cell<u64>>,
    records_out: Rc<Cell<u64>>,
    tally: Tally,
}

impl Subtask {
    pub(crate) fn build(attempt: &Arc<Attempt>, id: SubtaskId, waker: Waker) -> Result<Subtask> {
        let vertex = attempt.plan.vertices.get(usize::from(id.vertex)).expect("a worker builds the plan's vertices");
        let mut builder = SubtaskBuilder::new(id, Arc::clone(attempt), waker)?;
        let chain = (vertex.build)(&mut builder).map_err(|error| error.at_subtask(id))?;
        let mut sites = Vec::new();
        for &edge in &vertex.inputs {
            let planned = attempt.plan.edges.get(usize::from(edge)).expect("the plan's vertices name the plan's edges");
            let channel = |from| ChannelId { edge, from, to: id.index };
            sites.extend(
                planned
                    .senders(id.index, attempt.workers)
                    .map(|from| ChannelSite { id: channel(from), input: planned.input }),
            );
        }
        let gate = Gate::new(attempt.id, attempt.options.credit_window, sites);
        let floor = attempt.restore.as_ref().map_or(CheckpointId(0), |restore| restore.checkpoint);
        let channels = if vertex.is_source { 1 } else { gate.len() };
        let arrivals = Arrivals::restored(channels, floor);
        let SubtaskBuilder { flow, outputs, sinks, backend, timers, records_in, records_out, .. } = builder;
        let tables = crate::state::StateBackend::tables(&backend).to_vec();
        Ok(Subtask {
            id,
            name: vertex.name.as_str().into(),
            attempt: Arc::clone(attempt),
            chain,
            is_source: vertex.is_source,
            gate,
            outputs,
            sinks,
            tables,
            timers,
            flow,
            arrivals,
            paused: false,
            rests_at: None,
            held: false,
            trigger: None,
            parts: Vec::new(),
            acked: Vec::new(),
            phase: Phase::Restoring,
            restored_splits: None,
            restored_tokens: LiteMap::new_vec(),
            ending: false,
            ended: false,
            stopped: false,
            draining: false,
            source_wait: None,
            watermark: Watermark::default(),
            first_seen: None,
            alignment_ends: None,
            committing: Vec::new(),
            calls: LiteMap::new_vec(),
            records_in,
            records_out,
            tally: Tally::new(attempt.world.heartbeats.of(id.index).meters().of(id.vertex)),
        })
    }

    pub(crate) fn id(&self) -> SubtaskId {
        self.id
    }

    pub(crate) fn records(&self) -> (u64, u64) {
        (self.records_in.get(), self.records_out.get())
    }

    /// A packet of one of its channels; for an output it is a credit.
    pub(crate) fn deliver(&mut self, packet: Packet, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        if let Payload::Credit { bytes } = packet.payload {
            let output = self.outputs.iter().find(|(edge, _)| *edge == packet.channel.edge);
            let (_, output) = output.expect("the plan of sender and receiver is the same");
            output.borrow_mut().on_credit(packet.channel.to, bytes);
            return Ok(());
        }
        self.tally.received(&packet);
        match self.gate.deliver(packet, clock.now()) {
            Some((from, barrier)) => self.barrier_arrived(from, barrier, clock, outbox),
            None => Ok(()),
        }
    }

    /// A trigger is the barrier on the one channel of a source, the outside world, in front of its next record.
    pub(crate) fn trigger(&mut self, barrier: Barrier, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        if !self.is_source
            || self.arrivals.is_past(barrier.id)
            || self.trigger.is_some_and(|known| known.id >= barrier.id)
        {
            return Ok(());
        }
        if self.arrivals.round_id().is_some_and(|id| id >= barrier.id) {
            return Ok(());
        }
        self.trigger = Some(barrier);
        self.barrier_arrived(Channel(0), barrier, clock, outbox)
    }

    fn barrier_arrived(
        &mut self,
        from: Channel,
        barrier: Barrier,
        clock: &dyn Clock,
        outbox: &mut Outbox,
    ) -> Result<()> {
        if barrier.mode.acts_on_arrival() && !self.arrivals.is_past(barrier.id) {
            self.see(barrier, clock.now());
        }
        let actions = self.arrivals.on(Event::Arrived { from, barrier });
        self.obey_apart(actions, clock, outbox)
    }

    /// Obeys outside a step.
    fn obey_apart(&mut self, actions: Actions, clock: &dyn Clock, outbox: &mut Outbox) -> Result<()> {
        if actions.is_empty() {
            return Ok(());
        }
        let flow = Rc::clone(&self.flow);
        self.obey(actions, &mut Context::new(&flow, clock, self.attempt.options.quantum, outbox))
    }

    /// The checkpoint is recorded, or will never be.
    pub(crate) fn resolved(
        &mut self,
        id: CheckpointId,
        completed: bool,
        clock: &dyn Clock,
        outbox: &mut Outbox,
    ) -> Result<()> {
        let actions = self.arrivals.on(Event::Resolved { id });
        self.obey_apart(actions, clock, outbox)?;
        #[cfg(feature = "mutations")]
        self.break_resolved(id, completed);
        if self.trigger.is_some_and(|barrier| barrier.id <= id) {
            self.trigger = None;
        }
        let over: Vec<CheckpointId> = self.parts.iter().map(|part| part.id()).filter(|part| *part <= id).collect();
        self.parts.retain(|part| part.id() > id);
        self.acked.retain(|(acked, _)| *acked > id);
        self.gate.drop_captures(id);
        self.alignment_ends.take_if(|(ending, _)| *ending <= id);
        self.rests_at.take_if(|rests| !completed && *rests <= id);
        for table in &self.tables {
            let mut table = table.borrow_mut();
            if completed {
                table.completed(id);
            }
            over.iter().filter(|part| !completed || **part < id).for_each(|part| table.abort(*part));
            if !completed {
                table.abort(id);
            }
        }
        // Also when it is asked again after everything was committed: the first answer may be lost.
        if completed && self.committing.last().is_none_or(|last| *last < id) {
            self.sinks.iter_mut().for_each(|sink| sink.completed(id));
            self.committing.push(id);
        }
        outbox.reports.push(Report::Resolved { id, subtask: self.id });
        Ok(())
    }

    #[cfg(feature = "mutations")]
    fn break_resolved(&mut self, id: CheckpointId, completed: bool) {
        use crate::mutation::{Mutation, is};
        if is(Mutation::StaleBarrier) && self.arrivals.round_id().is_none() {
            let channels = if self.is_source { 1 } else { self.gate.len() };
            self.arrivals = Arrivals::restored(channels, CheckpointId(0));
        }
        if is(Mutation::AbortDiscards) && !completed {
            self.sinks.iter_mut().for_each(|sink| sink.discard(id));
        }
    }

    /// All subtasks of the job hold the restored state: sources open, and one subtask of each sink cleans up.
    pub(crate) fn open(&mut self, outbox: &mut Outbox) -> Result<()> {
        if self.ended {
            // It had finished before the checkpoint, and emits nothing again (I11); or the first report was lost.
            outbox.reports.push(Report::Finished { subtask: self.id });
        }
        if self.phase != Phase::Restored {
            return Ok(());
        }
        self.phase = Phase::Open;
        let restored = self.restored_splits.take().map(|splits| splits.into_iter().collect());
        if let Some(source) = self.chain.source() {
            source.open(restored)?;
        }
        for sink in self.sinks.iter_mut().filter(|_| self.id.index == 0) {
            let tokens = self.restored_tokens.remove(sink.operator()).unwrap_or_default();
            sink.clean(tokens);
        }
        self.restored_tokens = LiteMap::new_vec();
        Ok(())
    }

    /// A source ends where it is; told again, one that has ended says so again.
    pub(crate) fn drain(&mut self, outbox: &mut Outbox) {
        self.draining = self.is_source;
        if self.is_source && self.ended {
            outbox.reports.push(Report::Finished { subtask: self.id });
        }
    }

    /// A blocking call came back; false if it was not this subtask's.
    pub(crate) fn answered(
        &mut self,
        ticket: Ticket,
        answer: Answer,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<Option<Answer>> {
        let Some(sink) = self.calls.remove(&ticket).and_then(|index| self.sinks.get_mut(index)) else {
            return Ok(Some(answer));
        };
        match sink.on_answer(answer, now)? {
            sinks::SinkNews::Nothing => {}
            sinks::SinkNews::NotPrepared(error) => self.decline_all(&error.to_string(), outbox),
            sinks::SinkNews::Hindered(error) => outbox.reports.push(Report::Hindered { subtask: self.id, error }),
        }
        Ok(None)
    }

    /// What a restore needs to know of the state and the sinks: who takes which part of a segment.
    pub(crate) fn tables(&self) -> &[SharedTable] {
        &self.tables
    }

    /// Its sinks, and whether the one that cleans has to know all tokens of them.
    pub(crate) fn sink_operators(&self) -> impl Iterator<Item = (&str, bool)> {
        self.sinks.iter().map(|sink| (sink.operator(), sink.cleans()))
    }

    /// The name under which the checkpoint holds the positions of this subtask's source, if it has one.
    pub(crate) fn stored_source(&mut self, restore: &Restore) -> Option<String> {
        let source = self.chain.source()?;
        Some(stored_operator(&self.attempt, restore, source.operator()).to_owned())
    }

    /// The vertex at the other end of an edge that comes in.
    pub(crate) fn sender_of(&self, edge: u16) -> Option<u16> {
        self.attempt.plan.edges.get(usize::from(edge)).map(|edge| edge.from)
    }

    /// Its input channels.
    pub(crate) fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.gate.parts().map(|(channel, ..)| channel)
    }

    /// Takes what the checkpoint says besides keyed state. `part` is this subtask's part, if the topology is the same.
    pub(crate) fn restore(&mut self, restored: RestoredPart) {
        let RestoredPart { checkpoint, splits, channels, finished, tokens } = restored;
        self.restored_splits = splits;
        for RestoredChannel { id, watermark, ended, captured } in channels {
            self.gate.restore(id, watermark, ended, captured);
        }
        self.watermark = self.gate.watermark();
        self.ended = finished;
        // Its last timers are among what is restored, or the cut was between two of them.
        self.ending = !self.is_source && self.gate.all_ended();
        for sink in &mut self.sinks {
            let owned = tokens.get(sink.operator()).into_iter().flatten().filter(|token| token.owned);
            sink.restore(checkpoint, owned.map(|token| Arc::clone(&token.token)).collect());
        }
        // One subtask of each sink that cleans up does so, and has to know all of them for it.
        let cleaning = self.sinks.iter().filter(|sink| self.id.index == 0 && sink.cleans());
        let all = |sink: &str| tokens.get(sink).into_iter().flatten().map(|token| Token::clone(&token.token)).collect();
        self.restored_tokens = lite_map(cleaning.map(|sink| (sink.operator().to_owned(), all(sink.operator()))));
    }

    /// All state is in: tables begin their first live epoch.
    pub(crate) fn start(&mut self) {
        for table in &self.tables {
            let mut table = table.borrow_mut();
            let operator = &table.declaration().name.operator;
            // Under another name, or on other workers, there is nothing to build an increment on: the first part is full.
            let same_name = |restore: &&Restore| stored_operator(&self.attempt, restore, operator) == operator;
            let restored =
                self.attempt.restore.as_ref().filter(same_name).filter(|_| self.attempt.rescaled_from().is_none());
            let restored = restored.map(|restore| restore.checkpoint);
            table.start(restored);
        }
        if let Some(claim) = self.attempt.claim.filter(|_| self.id.index == 0) {
            let is_restored = self.attempt.restore.as_ref().is_some_and(|restore| restore.own);
            self.sinks.iter_mut().for_each(|sink| sink.claim(claim, is_restored, &self.attempt.adopted));
        }
    }

    /// Restored tokens are committed and sinks have claimed their targets: true once, then the worker may report it.
    pub(crate) fn is_restored(&mut self) -> bool {
        if self.phase == Phase::Restoring && self.sinks.iter().all(|sink| sink.is_committed(CheckpointId(u64::MAX))) {
            self.phase = Phase::Restored;
        }
        self.phase != Phase::Restoring
    }

    /// Whether it has acked and not heard what became of it.
    pub(crate) fn waits_for_outcome(&self) -> bool {
        !self.acked.is_empty()
    }

    /// Acks again.
    pub(crate) fn repeat_acks(&self, outbox: &mut Outbox) {
        outbox.reports.extend(self.acked.iter().map(|(id, part)| Report::Acked { id: *id, part: part.clone() }));
    }

    pub(crate) fn holds_records(&self) -> bool {
        self.gate.holds_records()
    }

    fn fail_at(&self, error: Error) -> Error {
        error.at_operator(&self.name).at_subtask(self.id)
    }

    fn decline_all(&mut self, reason: &str, outbox: &mut Outbox) {
        for part in std::mem::take(&mut self.parts) {
            self.gate.drop_captures(part.id());
            self.tables.iter().for_each(|table| table.borrow_mut().abort(part.id()));
            outbox.reports.push(Report::Declined { id: part.id(), subtask: self.id, reason: reason.to_owned() });
        }
    }
}

/// What one subtask gets back of a checkpoint besides keyed state.
pub(crate) struct RestoredPart {
    pub(crate) checkpoint: CheckpointId,
    pub(crate) splits: Option<BTreeMap<String, SplitPart>>,
    pub(crate) channels: Vec<RestoredChannel>,
    pub(crate) finished: bool,
    /// By sink: the tokens that it owns and, for subtask 0, all others; those of one writer in the order of epochs.
    pub(crate) tokens: LiteMap<String, Vec<RestoredToken>>,
}

/// A token that the restored checkpoint lists.
#[derive(Clone)]
pub(crate) struct RestoredToken {
    pub(crate) token: Arc<Token>,
    /// This worker commits it.
    pub(crate) owned: bool,
}

/// What an input channel gets back.
pub(crate) struct RestoredChannel {
    pub(crate) id: ChannelId,
    pub(crate) watermark: Watermark,
    /// Its sender had finished.
    pub(crate) ended: bool,
    /// What was in flight.
    pub(crate) captured: Vec<Packet>,
}

/// The operator that blobs of channels are under: a channel belongs to none.
pub(crate) const NO_OPERATOR: &str = "";

/// The name of the blob in a segment that holds what was in flight on a channel.
pub(crate) fn channel_blob(edge: u16, from: u16) -> String {
    format!("channel-{edge}-{from}")
}

/// What the name of a sink's blob in a segment is.
pub(crate) const TOKENS: &str = "tokens";

/// The name under which a checkpoint knows an operator: its own, or the one it was renamed from.
pub(crate) fn stored_operator<'a>(attempt: &'a Attempt, restore: &Restore, operator: &'a str) -> &'a str {
    let newest = restore.manifests.get(&restore.checkpoint);
    if newest.is_some_and(|manifest| manifest.vertex_of.contains_key(operator)) {
        return operator;
    }
    let planned = attempt.plan.operators.iter().find(|planned| planned.name == operator);
    planned.and_then(|planned| planned.renamed_from.as_deref()).unwrap_or(operator)
}

/// Whether a barrier ends the job.
fn is_final(barrier: Barrier) -> bool {
    barrier.kind == Kind::Final
}
