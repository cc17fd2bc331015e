//! Restores one worker: reads the segments of its subtasks, oldest first, and hands every block to its table.
//!
//! Every byte that is used is checked before it is used. What the segments of a checkpoint lean on (an increment on its base)
//! is said per state by the segments themselves, so the newest is read first and the chain followed back, and then blocks are
//! applied from the oldest on: inside a segment deletes before puts.

mod in_flight;
mod rescale;
#[cfg(test)]
mod tests;

use super::unreadable;
use crate::attempt::{Attempt, Restore, RestoredManifest};
use crate::control::{BlobRef, SubtaskPart};
use crate::error::{Error, Result};
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::key::{KeySpace, owner_of_name, owners, writer_name};
use crate::messagepack;
use crate::outbox::Outbox;
use crate::packet::ChannelId;
use crate::segment::{Apply, BlockEntry, Footer, StateKind, StateName, TRAILER_LENGTH, footer_range, restore_plan};
use crate::sink::Token;
use crate::state::{Share, SharedTable, StateError};
use crate::subtask::{RestoredChannel, RestoredPart, RestoredToken, Subtask, TOKENS, stored_operator};
use bytes::Bytes;
use flott_checkpoint::{LiteSet, SubtaskId};
use in_flight::InFlight;
use litemap::LiteMap;
use rescale::{Wanted, Writers};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tracing::Span;

/// Most footers fit into what is asked for first; no footer has more than `MAX_FOOTER`.
const FIRST_TAIL: u64 = 16 << 10;
/// So many footers or blocks may be on their way at once.
const IN_FLIGHT: usize = 4;

/// What to do about a checkpoint whose types are not those of the job.
const OTHER_TYPES: &str = "restore with the types that wrote it, or start over with --restore none --overwrite";

/// See the head of this file.
pub(super) struct Restoring {
    attempt: Arc<Attempt>,
    /// Open as long as it lasts; none if there is nothing to restore.
    span: Span,
    worker: u16,
    next_ticket: u64,
    begun: bool,
    /// Footers by path, once read.
    footers: LiteMap<String, Footer>,
    /// Footers to read: the file, and the bytes from its end that are being asked for.
    asked_footers: LiteMap<Ticket, (BlobRef, u64)>,
    /// Footers to ask for when there is room: not yet asked for, or longer than the first read.
    waiting_footers: VecDeque<(BlobRef, u64)>,
    /// Set once all footers are in.
    plan: Option<Blocks>,
}

/// What is left to read, in the order in which it must be applied.
#[derive(Default)]
struct Blocks {
    waiting: VecDeque<Piece>,
    asked: VecDeque<(Ticket, Piece, Option<Bytes>)>,
    tokens: LiteMap<String, Vec<RestoredToken>>,
    /// Pieces of a blob, until its last one is in.
    blob: Vec<u8>,
    in_flight: InFlight,
}

/// The segments that hold the key groups of one worker, oldest checkpoint first, and where they are.
#[derive(Default)]
struct Chain {
    paths: Vec<Vec<String>>,
    footers: Vec<Vec<Footer>>,
}

enum Piece {
    Block {
        path: String,
        entry: BlockEntry,
        groups: Range<u16>,
        /// Of what is not divided by keys, if others wrote it.
        share: Option<Share>,
        /// Nothing that was applied before has one of its entries.
        full: bool,
        table: SharedTable,
    },
    Blob {
        path: String,
        operator: String,
        piece: crate::segment::Piece,
        last: bool,
        owned: bool,
    },
    InFlight {
        path: String,
        channel: ChannelId,
        piece: crate::segment::Piece,
    },
}

impl Restoring {
    pub(super) fn new(attempt: &Arc<Attempt>, worker: u16) -> Restoring {
        let span = attempt.restore.as_ref().map_or_else(Span::none, |restore| {
            let (job, attempt, checkpoint) = (attempt.plan.job.as_str(), attempt.id.0, restore.checkpoint.0);
            tracing::info_span!(target: "flott", "restore", job, attempt, subtask = worker, checkpoint)
        });
        Restoring {
            attempt: Arc::clone(attempt),
            span,
            worker,
            next_ticket: 0,
            begun: false,
            footers: LiteMap::new_vec(),
            asked_footers: LiteMap::new_vec(),
            waiting_footers: VecDeque::new(),
            plan: None,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// Goes on; true when everything is restored.
    pub(super) fn advance(&mut self, subtasks: &mut [Subtask], outbox: &mut Outbox) -> Result<bool> {
        let attempt = Arc::clone(&self.attempt);
        let Some(restore) = &attempt.restore else { return Ok(true) };
        let _in = self.span.clone().entered();
        if !self.begun {
            self.begun = true;
            self.list_footers(restore, subtasks);
        }
        self.ask_footers(outbox);
        if !self.asked_footers.is_empty() {
            return Ok(false);
        }
        if self.plan.is_none() {
            let blocks = self.plan_blocks(restore, subtasks)?;
            self.plan = Some(blocks);
        }
        self.ask_blocks(outbox);
        let blocks = self.plan.as_mut().expect("just made");
        if !blocks.asked.is_empty() {
            return Ok(false);
        }
        #[allow(unused_mut, reason = "only a mutation changes it")]
        let mut tokens = std::mem::take(&mut blocks.tokens);
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::TokensScattered) {
            for token in tokens.iter_mut().flat_map(|(_, tokens)| tokens) {
                token.owned = owner_of_name(&token.token.name, attempt.workers) == self.worker;
            }
        }
        let mut in_flight = std::mem::take(&mut blocks.in_flight);
        let finished = finished(&attempt, restore);
        for subtask in subtasks {
            restore_rest(&attempt, restore, subtask, &tokens, &finished, &mut in_flight, self.worker)?;
        }
        Ok(true)
    }

    /// The segments that this worker needs: along the chain those that hold its key groups, and of the newest checkpoint those
    /// with tokens for it.
    fn list_footers(&mut self, restore: &Restore, subtasks: &[Subtask]) {
        let mut blobs: LiteMap<String, BlobRef> = LiteMap::new_vec();
        let tables = || subtasks.iter().flat_map(Subtask::tables);
        let foreign = |kind| self.attempt.rescaled_from().is_some() && tables().any(|table| kind_of(table) == kind);
        let (copies, split) = (foreign(StateKind::Broadcast), foreign(StateKind::SplitList));
        for manifest in restore.manifests.values() {
            let owners = self.holders(manifest);
            let owned = |index: u16| owners.contains(&index) && tables().next().is_some();
            let needed = |index: u16| owned(index) || split || copies && index == 0;
            let in_flight = |index: u16| self.attempt.same_channels() && index == self.worker;
            let parts = manifest.parts.values();
            let parts = parts.filter(|part| needed(part.subtask.index) || in_flight(part.subtask.index));
            let segments = parts.filter_map(|part| part.segment.clone());
            segments.for_each(|blob| drop(blobs.insert(blob.path.clone(), blob)));
        }
        let sinks = subtasks.iter().flat_map(Subtask::sink_operators).filter(|_| restore.commits);
        for (operator, cleans) in sinks {
            let with_tokens = self.writers(restore, operator, cleans).filter_map(|(part, _)| part.segment.clone());
            with_tokens.for_each(|blob| drop(blobs.insert(blob.path.clone(), blob)));
        }
        self.waiting_footers.extend(blobs.into_iter().map(|(_, blob)| (blob, FIRST_TAIL)));
    }

    /// The workers of a checkpoint that held the key groups of this one.
    fn holders(&self, manifest: &RestoredManifest) -> Range<u16> {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::GroupsLeftBehind) {
            return self.worker..self.worker + 1;
        }
        owners(&KeySpace::of_attempt(&self.attempt, self.worker).owned, self.attempt.key_groups, manifest.workers())
    }

    fn ask_footers(&mut self, outbox: &mut Outbox) {
        while self.asked_footers.len() < IN_FLIGHT
            && let Some((blob, tail)) = self.waiting_footers.pop_front()
        {
            let ticket = self.ticket();
            let range = blob.length.saturating_sub(tail)..blob.length;
            outbox.storage.push((ticket, StorageRequest::Read { path: blob.path.clone(), range: Some(range) }));
            self.asked_footers.insert(ticket, (blob, tail));
        }
    }

    /// The parts of the newest checkpoint whose tokens of a sink this worker has to know, and whether it commits them. The
    /// subtask whose part holds a token is the one that wrote it: what was restored is committed before anything is snapshotted.
    fn writers<'a>(
        &self,
        restore: &'a Restore,
        operator: &str,
        cleans: bool,
    ) -> impl Iterator<Item = (&'a SubtaskPart, bool)> + use<'a> {
        let stored = stored_operator(&self.attempt, restore, operator).to_owned();
        let manifest = restore.manifests.get(&restore.checkpoint);
        let vertex = manifest.and_then(|manifest| manifest.vertex_of.get(&stored)).copied();
        let (workers, worker) = (self.attempt.workers, self.worker);
        let parts = manifest.into_iter().flat_map(|manifest| manifest.parts.values());
        parts.filter(move |part| Some(part.subtask.vertex) == vertex).filter_map(move |part| {
            let owned = owner_of_name(&writer_name(&stored, part.subtask.index), workers) == worker;
            #[cfg(feature = "mutations")]
            if crate::mutation::is(crate::mutation::Mutation::TokensScattered) {
                return Some((part, owned));
            }
            // The first worker cleans, and has to know all of them for it.
            (owned || worker == 0 && cleans).then_some((part, owned))
        })
    }

    /// An answer of the storage.
    pub(super) fn on_reply(&mut self, ticket: Ticket, reply: StorageReply) -> Result<()> {
        if let Some((blob, tail)) = self.asked_footers.remove(&ticket) {
            let bytes = content(&blob.path, reply).map_err(|error| self.located(error))?;
            return self.on_footer(blob, tail, &bytes).map_err(|error| self.located(error));
        }
        let Some(blocks) = &mut self.plan else { return Ok(()) };
        let Some((_, piece, place)) = blocks.asked.iter_mut().find(|(asked, ..)| *asked == ticket) else {
            return Ok(());
        };
        let read = content(piece.path(), reply);
        *place = Some(read.map_err(|error| located(&self.attempt, error))?);
        while blocks.asked.front().is_some_and(|(_, _, bytes)| bytes.is_some()) {
            let (_, piece, bytes) = blocks.asked.pop_front().expect("just seen");
            let applied = blocks.apply(&piece, bytes.expect("just seen"), &self.attempt);
            applied.map_err(|error| located(&self.attempt, error))?;
        }
        Ok(())
    }

    fn located(&self, error: Error) -> Error {
        located(&self.attempt, error)
    }

    fn on_footer(&mut self, blob: BlobRef, tail: u64, bytes: &[u8]) -> Result<()> {
        let damaged = |error: crate::segment::SegmentError| unreadable(&blob.path, &error.to_string());
        if (bytes.len() as u64) < tail.min(blob.length) {
            return Err(unreadable(&blob.path, "it is shorter than its manifest says"));
        }
        let needed = footer_range(bytes, blob.length).map_err(damaged)?;
        if needed.end - needed.start > bytes.len() as u64 {
            let tail = needed.end - needed.start + TRAILER_LENGTH as u64;
            self.waiting_footers.push_front((blob, tail));
            return Ok(());
        }
        let footer = Footer::read(bytes, blob.length).map_err(damaged)?;
        self.footers.insert(blob.path.clone(), footer);
        Ok(())
    }

    fn plan_blocks(&mut self, restore: &Restore, subtasks: &[Subtask]) -> Result<Blocks> {
        let mut blocks = Blocks::default();
        let chain = self.chain(restore, |manifest| self.holders(manifest));
        // Copies are alike, so that of the first worker is as good as any.
        let copies = self.chain(restore, |_| 0..1);
        let all = self.chain(restore, |manifest| 0..manifest.workers());
        for subtask in subtasks {
            for table in subtask.tables() {
                let wanted = Wanted::of(kind_of(table), &self.attempt, self.worker);
                let chain = match wanted.by {
                    Writers::Owners => &chain,
                    Writers::First => &copies,
                    Writers::All => &all,
                };
                plan_table(restore, chain, &wanted, &self.attempt, table, &mut blocks)?;
            }
            for (operator, cleans) in subtask.sink_operators().filter(|_| restore.commits) {
                self.plan_tokens(restore, operator, cleans, &mut blocks);
            }
            if self.attempt.same_channels() {
                in_flight::plan(restore, subtask.id(), &self.footers, &mut blocks.waiting)
                    .map_err(|error| self.located(error))?;
            }
        }
        Ok(blocks)
    }

    /// The segments of some workers, as far as they were read, oldest checkpoint first.
    fn chain(&self, restore: &Restore, workers: impl Fn(&RestoredManifest) -> Range<u16>) -> Chain {
        let mut chain = Chain::default();
        for manifest in restore.manifests.values() {
            let workers = workers(manifest);
            let parts = manifest.parts.values().filter(|part| workers.contains(&part.subtask.index));
            let paths: LiteSet<&String> =
                parts.filter_map(|part| part.segment.as_ref()).map(|blob| &blob.path).collect();
            let read = paths.into_iter().filter_map(|path| Some((path.clone(), self.footers.get(path)?.clone())));
            let (paths, footers) = read.unzip();
            chain.paths.push(paths);
            chain.footers.push(footers);
        }
        chain
    }

    fn plan_tokens(&self, restore: &Restore, operator: &str, cleans: bool, blocks: &mut Blocks) {
        let stored = stored_operator(&self.attempt, restore, operator);
        for (part, owned) in self.writers(restore, operator, cleans) {
            let Some(blob) = &part.segment else { continue };
            let footer = self.footers.get(&blob.path).expect("the footers of the newest checkpoint were read");
            let Some(section) = footer.blob(stored, TOKENS, u32::from(part.subtask.index)) else { continue };
            let count = section.pieces.len();
            for (index, piece) in section.pieces.iter().enumerate() {
                blocks.waiting.push_back(Piece::Blob {
                    path: blob.path.clone(),
                    operator: operator.to_owned(),
                    piece: piece.clone(),
                    last: index + 1 == count,
                    owned,
                });
            }
        }
    }

    fn ask_blocks(&mut self, outbox: &mut Outbox) {
        let blocks = self.plan.as_mut().expect("planned before");
        while blocks.asked.len() < IN_FLIGHT
            && let Some(piece) = blocks.waiting.pop_front()
        {
            self.next_ticket += 1;
            let ticket = Ticket(self.next_ticket);
            let request = StorageRequest::Read { path: piece.path().to_owned(), range: Some(piece.range()) };
            outbox.storage.push((ticket, request));
            blocks.asked.push_back((ticket, piece, None));
        }
    }
}

impl Piece {
    fn path(&self) -> &str {
        match self {
            Piece::Block { path, .. } | Piece::Blob { path, .. } | Piece::InFlight { path, .. } => path,
        }
    }

    fn range(&self) -> std::ops::Range<u64> {
        match self {
            Piece::Block { entry, .. } => entry.piece.range(),
            Piece::Blob { piece, .. } | Piece::InFlight { piece, .. } => piece.range(),
        }
    }
}

impl Blocks {
    fn apply(&mut self, piece: &Piece, bytes: Bytes, attempt: &Attempt) -> Result<()> {
        match piece {
            Piece::Block { path, entry, groups, full, share, table } => {
                let block = entry.decode(bytes).map_err(|error| unreadable(path, &error.to_string()))?;
                let mut table = table.borrow_mut();
                let operator = table.declaration().name.operator.clone();
                table.restoring(*full);
                let restored = match share {
                    _ if attempt.looks_only() => table.check(&block, groups),
                    None => table.restore(&block, groups),
                    Some(share) => table.restore_foreign(&block, share),
                };
                restored.map_err(|error| unrestored(path, &error).at_operator(&operator))
            }
            Piece::Blob { path, operator, piece, last, owned } => {
                let bytes = piece.decode(bytes).map_err(|error| unreadable(path, &error.to_string()))?;
                self.blob.extend_from_slice(&bytes);
                if !last {
                    return Ok(());
                }
                let tokens: Vec<Token> = messagepack::from_slice(&std::mem::take(&mut self.blob)).map_err(|error| {
                    unreadable(path, &format!("its sink tokens are malformed: {error}")).at_operator(operator)
                })?;
                let tokens = tokens.into_iter().map(|token| RestoredToken { token: Arc::new(token), owned: *owned });
                self.tokens.entry(operator.clone()).or_default().extend(tokens);
                Ok(())
            }
            Piece::InFlight { path, channel, piece } => {
                let bytes = piece.decode(bytes).map_err(|error| unreadable(path, &error.to_string()))?;
                self.in_flight.take(path, *channel, &bytes, attempt)
            }
        }
    }
}

fn kind_of(table: &SharedTable) -> StateKind {
    table.borrow().declaration().kind
}

/// A whole checkpoint of other types is no damage; and what a worker's own store fails at says nothing about the checkpoint.
fn unrestored(path: &str, error: &StateError) -> Error {
    match error {
        StateError::Misfit(_) | StateError::KeyShape { .. } | StateError::OtherKind { .. } => {
            Error::misfit(error.to_string()).hint(OTHER_TYPES)
        }
        StateError::Backend(..) => Error::failed(error.to_string()),
        _ => unreadable(path, &error.to_string()),
    }
}

/// The blocks of one state, in the order in which they are to be applied.
fn plan_table(
    restore: &Restore,
    chain: &Chain,
    wanted: &Wanted,
    attempt: &Attempt,
    table: &SharedTable,
    blocks: &mut Blocks,
) -> Result<()> {
    let declared = table.borrow().declaration();
    let operator = &declared.name.operator;
    let stored = StateName::new(stored_operator(attempt, restore, operator), declared.name.state.clone());
    let unusable = |error: String| {
        Error::unusable(error).at_operator(operator).at_checkpoint(restore.checkpoint).hint(OTHER_TYPES)
    };
    let newest = chain.footers.last().into_iter().flatten();
    for section in newest.filter_map(|footer| footer.state(&stored.operator, &stored.state)) {
        let misfit = |error| unrestored("", &error).at_operator(operator).at_checkpoint(restore.checkpoint);
        table.borrow_mut().expect(&section.declaration).map_err(misfit)?;
    }
    let plan =
        restore_plan(&chain.footers, &stored, wanted.groups.clone()).map_err(|error| unusable(error.to_string()))?;
    for Apply { link, segment, block, groups, full } in plan {
        let path = chain.paths.get(link).and_then(|paths| paths.get(segment));
        let path = path.expect("a plan names segments of its chain").clone();
        let (entry, share, table) = (block.clone(), wanted.share, SharedTable::clone(table));
        blocks.waiting.push_back(Piece::Block { path, entry, groups, full, share, table });
    }
    Ok(())
}

/// Positions, watermarks, ends of data and tokens of one subtask.
fn restore_rest(
    attempt: &Attempt,
    restore: &Restore,
    subtask: &mut Subtask,
    tokens: &LiteMap<String, Vec<RestoredToken>>,
    finished: &LiteSet<SubtaskId>,
    in_flight: &mut InFlight,
    worker: u16,
) -> Result<()> {
    let manifest =
        restore.manifests.get(&restore.checkpoint).expect("the manifest of the restored checkpoint is at hand");
    let parts = &manifest.parts;
    let splits = subtask.stored_source(restore).and_then(|stored| {
        let all = parts.values().filter_map(|part| part.splits.get(&stored));
        let mut union = all.peekable();
        union.peek().is_some().then(|| {
            union.fold(BTreeMap::new(), |mut all, splits| {
                all.extend(splits.clone());
                all
            })
        })
    });
    let own = parts.get(&subtask.id()).filter(|_| attempt.same_channels());
    let merged = rescale::merged(parts, subtask, finished).filter(|_| restore.same_topology && own.is_none());
    let channels = own.map(|part| {
        let ended = |edge: u16, from: u16| {
            // The sender's part decides (D11): without alignment a receiver's part can be ahead of it.
            let sender = subtask.sender_of(edge).map(|vertex| SubtaskId { vertex, index: from });
            #[cfg(feature = "mutations")]
            if crate::mutation::is(crate::mutation::Mutation::RestoreTrustsReceiversEnd) {
                let channel = |part: &&crate::control::ChannelPart| part.edge == edge && part.from == from;
                return part.channels.iter().find(channel).is_some_and(|part| part.end_of_data);
            }
            sender.is_some_and(|sender| finished.contains(&sender))
        };
        let channel = |edge, from| ChannelId { edge, from, to: worker };
        let restored = part.channels.iter().map(|part| {
            let id = channel(part.edge, part.from);
            let (captured, ended) = (in_flight.of(id, &part.captured)?, ended(part.edge, part.from));
            Ok(RestoredChannel { id, watermark: part.watermark, ended, captured })
        });
        restored.collect::<Result<_>>()
    });
    let channels: Option<Vec<RestoredChannel>> = channels.transpose()?;
    subtask.restore(RestoredPart {
        checkpoint: restore.checkpoint,
        splits,
        finished: match &merged {
            Some(merged) => merged.finished,
            None => own.is_some_and(|part| finished.contains(&part.subtask)),
        },
        channels: channels.or(merged.map(|merged| merged.channels)).unwrap_or_default(),
        tokens: tokens.clone(),
    });
    Ok(())
}

/// The subtasks that emit nothing any more: those that had finished before the cut, and so had all that they hear of. Without
/// alignment a part can be ahead of its senders: what they send again still goes through it, and so does their end.
fn finished(attempt: &Attempt, restore: &Restore) -> LiteSet<SubtaskId> {
    let mut finished = LiteSet::new();
    let parts = restore.manifests.get(&restore.checkpoint).map(|manifest| &manifest.parts);
    // Upstream before downstream, as in the plan.
    for (id, part) in parts.into_iter().flatten().filter(|(_, part)| part.finished) {
        let mut senders = part.channels.iter().map(|channel| {
            let edge = attempt.plan.edges.get(usize::from(channel.edge));
            edge.map(|edge| SubtaskId { vertex: edge.from, index: channel.from })
        });
        if senders.all(|sender| sender.is_some_and(|sender| finished.contains(&sender))) {
            finished.insert(*id);
        }
    }
    finished
}

fn located(attempt: &Attempt, error: Error) -> Error {
    match &attempt.restore {
        Some(restore) => error.at_checkpoint(restore.checkpoint),
        None => error,
    }
}

fn content(path: &str, reply: StorageReply) -> Result<Bytes> {
    match reply {
        StorageReply::Read(bytes) => Ok(bytes),
        StorageReply::NotFound => Err(unreadable(path, "there is no such file")),
        StorageReply::Obstructed(what) => Err(unreadable(path, &what)),
        // Nothing is known of the file: it may be read by the next attempt.
        StorageReply::Failed(reason) => Err(Error::failed(format!("cannot read {path}: {reason}"))),
        other => Err(unreadable(path, &format!("the storage answered {other:?} to a read"))),
    }
}
