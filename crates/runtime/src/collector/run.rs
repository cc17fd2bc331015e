//! One run of the collector: look, read what is new, decide, delete batch by batch.
//!
//! Before each batch the log is listed and whatever is new above the attempt's Start is read (G2): a foreign entry ends the
//! run for good. A listing, because it always shows a newer attempt's Start, also when the slots between were deleted
//! meanwhile. Between a slot and its manifest the pins are listed again, for a reader may have pinned the checkpoint while
//! its slot was still there.

use super::plan::{self, Garbage, Sight};
use super::{Memory, Unreadable};
use crate::history::{self, HistoryEntry, HistoryKey, Seen};
use crate::io::{StorageReply, StorageRequest, Ticket};
use crate::layout::{self, Name};
use crate::manifest::Manifest;
use crate::pin::Pin;
use crate::time::Time;
use flott_checkpoint::{
    Batch, CheckpointId, CollectAction, CollectEvent, Collection, EntryError, InUse, Kind, LiteSet, LogEntry, Slot,
};
use litemap::LiteMap;
use std::collections::VecDeque;

/// Orphans and history entries that are deleted after one look at the log.
const BATCH: usize = 32;

/// How a run ends.
#[derive(Debug)]
pub(super) enum End {
    Done,
    Incomplete(String),
    Fenced,
}

/// What a request in flight is for.
#[derive(Clone, Debug)]
enum Ask {
    List(&'static str),
    Pin(String),
    Slot(Slot),
    Manifest(Slot, String),
    Probe,
    Above(Slot),
    PinsAgain,
    Delete(String),
    History,
    OldEntry(HistoryKey),
}

/// What happens when nothing is in flight.
#[derive(Debug)]
enum Phase {
    Looking,
    ReadingLog,
    ReadingManifests,
    /// The floor below says what comes next.
    Checkpoints(Box<Garbage>, Collection, CollectAction),
    /// Batches of paths; `true`: the log was looked at for the first of them.
    Paths(VecDeque<Vec<String>>, bool, After),
    ListingHistory,
    ReadingHistory,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    History,
    End,
}

#[derive(Debug)]
pub(super) struct Run {
    in_use: InUse,
    now: Time,
    with_history: bool,
    phase: Phase,
    queue: VecDeque<Ask>,
    in_flight: LiteMap<Ticket, Ask>,
    sight: Sight,
    history: Vec<HistoryKey>,
    foreign: bool,
    deleted: u64,
    failed: Option<String>,
    batch_failed: bool,
}

impl Run {
    pub(super) fn new(in_use: InUse, now: Time, with_history: bool) -> Run {
        let directories = [layout::DATA, layout::MANIFESTS, layout::LOG, layout::PINS];
        Run {
            in_use,
            now,
            with_history,
            phase: Phase::Looking,
            queue: directories.map(Ask::List).into(),
            in_flight: LiteMap::new_vec(),
            sight: Sight::default(),
            history: Vec::new(),
            foreign: false,
            deleted: 0,
            failed: None,
            batch_failed: false,
        }
    }

    pub(super) fn deleted(&self) -> u64 {
        self.deleted
    }

    /// The next request, to be sent under this ticket.
    pub(super) fn next_request(&mut self, ticket: Ticket, in_flight: usize) -> Option<StorageRequest> {
        if self.in_flight.len() >= in_flight {
            return None;
        }
        let ask = self.queue.pop_front()?;
        let read = |path| StorageRequest::Read { path, range: None };
        let list = |prefix: &str| StorageRequest::List { prefix: prefix.to_owned() };
        let request = match &ask {
            Ask::List(directory) => list(directory),
            Ask::PinsAgain => list(layout::PINS),
            Ask::History => list(layout::HISTORY),
            Ask::Pin(path) | Ask::Manifest(_, path) => read(path.clone()),
            Ask::Slot(slot) | Ask::Above(slot) => read(layout::slot(*slot)),
            Ask::Probe => list(layout::LOG),
            Ask::OldEntry((id, attempt)) => read(layout::history(*id, *attempt)),
            Ask::Delete(path) => StorageRequest::Delete { path: path.clone() },
        };
        self.in_flight.insert(ticket, ask);
        Some(request)
    }

    /// Takes one answer.
    pub(super) fn on(&mut self, ticket: Ticket, reply: StorageReply, memory: &mut Memory) -> Option<End> {
        let ask = self.in_flight.remove(&ticket)?;
        match (ask, reply) {
            (Ask::Delete(_), StorageReply::Done) => self.deleted += 1,
            (Ask::Delete(_), other) => {
                self.batch_failed = true;
                self.failed.get_or_insert(text(&other));
            }
            (Ask::List(_), StorageReply::Listed(objects)) => {
                objects.into_iter().for_each(|(path, _)| self.sight.add(path));
            }
            (Ask::PinsAgain, StorageReply::Listed(objects)) => {
                let pins: LiteSet<String> = objects.into_iter().map(|(path, _)| path).collect();
                if pins.iter().any(|pin| !self.sight.pins.contains(pin)) {
                    return Some(End::Incomplete("a checkpoint was pinned meanwhile".to_owned()));
                }
            }
            (Ask::History, StorageReply::Listed(objects)) => self.history = keys(objects),
            (Ask::Pin(path), StorageReply::Read(bytes)) => match Pin::decode(&path, &bytes) {
                Ok(pin) => drop(self.in_use.pins.insert(pin.checkpoint)),
                Err(error) => drop(self.sight.damaged_pins.insert(path, error.to_string())),
            },
            // Let go meanwhile.
            (Ask::Pin(_), StorageReply::NotFound) => {}
            (Ask::Pin(path), StorageReply::Failed(why) | StorageReply::Obstructed(why)) => {
                self.sight.damaged_pins.insert(path, why);
            }
            (Ask::Slot(slot), StorageReply::Read(bytes)) => match LogEntry::read(slot, &bytes) {
                Ok(entry) => drop(memory.entries.insert(slot, entry)),
                Err(error) => drop(self.sight.damaged_slots.insert(slot, error.to_string())),
            },
            (Ask::Slot(slot), StorageReply::Failed(why) | StorageReply::Obstructed(why)) => {
                self.sight.damaged_slots.insert(slot, why);
            }
            (Ask::Manifest(slot, path), StorageReply::Read(bytes)) => learn(slot, &path, &bytes, memory),
            (Ask::Manifest(slot, path), StorageReply::NotFound) => {
                know(slot, Err(Unreadable { missing: true, why: format!("{path} is missing") }), memory)
            }
            (Ask::Manifest(slot, _), StorageReply::Failed(why) | StorageReply::Obstructed(why)) => {
                know(slot, Err(Unreadable { missing: false, why }), memory);
            }
            (Ask::Probe, StorageReply::Listed(objects)) => self.probed(&objects, memory),
            (Ask::Above(slot), StorageReply::Read(bytes)) => match LogEntry::read(slot, &bytes) {
                Ok(entry) => {
                    self.foreign |= entry.attempt() != memory.attempt;
                    memory.entries.insert(slot, entry);
                }
                Err(EntryError::Newer { .. }) => self.foreign = true,
                Err(error) => return Some(End::Incomplete(unusable(slot, &error.to_string()))),
            },
            (Ask::Above(slot), StorageReply::Obstructed(what)) => return Some(End::Incomplete(unusable(slot, &what))),
            // A head is deleted only by a newer attempt, which has a higher one.
            (Ask::Above(_), StorageReply::NotFound) => self.foreign = true,
            (Ask::OldEntry(key), StorageReply::Read(bytes)) => {
                let entry = HistoryEntry::decode(&layout::history(key.0, key.1), &bytes);
                memory.history.insert(key, entry.ok().as_ref().map(Seen::from));
            }
            (Ask::OldEntry(key), StorageReply::NotFound) => drop(memory.history.insert(key, None)),
            (_, other) => return Some(End::Incomplete(text(&other))),
        }
        None
    }

    /// The head must be ours. Below it there may be Starts of others, in slots that were emptied: those are void (L2), for we
    /// could not have appended above a newer owner's.
    fn probed(&mut self, objects: &[(String, u64)], memory: &Memory) {
        let head = layout::slots(objects).into_iter().max();
        if let Some(slot) = head.filter(|slot| slot.0 > memory.attempt.0) {
            match memory.entries.get(&slot) {
                Some(entry) => self.foreign |= entry.attempt() != memory.attempt,
                None => self.queue.push_back(Ask::Above(slot)),
            }
        }
    }

    /// When nothing is in flight or waiting: what comes next.
    pub(super) fn go_on(&mut self, memory: &mut Memory) -> Option<End> {
        while self.queue.is_empty() && self.in_flight.is_empty() {
            if self.foreign {
                return Some(End::Fenced);
            }
            if let Some(end) = self.next_phase(memory) {
                return Some(end);
            }
        }
        None
    }

    fn next_phase(&mut self, memory: &mut Memory) -> Option<End> {
        match std::mem::replace(&mut self.phase, Phase::Looking) {
            Phase::Looking => {
                let new = self.sight.slots.iter().filter(|slot| !memory.entries.contains_key(slot));
                self.queue.extend(new.map(|slot| Ask::Slot(*slot)));
                self.queue.extend(self.sight.pins.iter().cloned().map(Ask::Pin));
                self.phase = Phase::ReadingLog;
            }
            Phase::ReadingLog => {
                self.ask_manifests(memory);
                self.phase = Phase::ReadingManifests;
            }
            Phase::ReadingManifests => {
                let mut garbage = plan::sort(&self.sight, memory, &self.in_use);
                self.failed = garbage.held.take();
                let mut collection = Collection::new(&garbage.retention, memory.reach, garbage.highest);
                let action = collection.begin();
                self.phase = Phase::Checkpoints(Box::new(garbage), collection, action);
                self.obey(action);
            }
            Phase::Checkpoints(garbage, collection, action) => {
                if let CollectAction::Delete(Batch::Slot(slot)) = action {
                    memory.forget(slot);
                }
                return self.collected(garbage, collection, action);
            }
            Phase::Paths(batches, looked, after) => return self.next_batch(batches, looked, after),
            Phase::ListingHistory => self.forget_history(memory),
            Phase::ReadingHistory => self.forget_history(memory),
        }
        None
    }

    fn ask_manifests(&mut self, memory: &mut Memory) {
        for slot in &self.sight.slots {
            let Some(LogEntry::Checkpoint(entry)) = memory.entries.get(slot) else { continue };
            // What could not be read is asked for again: an operator may have repaired it.
            if !matches!(memory.recorded.get(slot), Some((_, Ok(())))) {
                self.queue.push_back(Ask::Manifest(*slot, entry.manifest.clone()));
            }
        }
    }

    /// Turns what the floor below wants into requests.
    fn obey(&mut self, action: CollectAction) {
        self.batch_failed = false;
        match action {
            CollectAction::Probe => self.queue.push_back(Ask::Probe),
            CollectAction::Delete(Batch::Slot(slot)) => self.queue.push_back(Ask::Delete(layout::slot(slot))),
            CollectAction::Delete(Batch::Manifest(id, attempt)) => {
                self.queue.push_back(Ask::Delete(layout::manifest(id, attempt)));
            }
            CollectAction::Delete(Batch::Blobs(id, attempt)) => {
                self.queue.extend(self.sight.segments_of(id, attempt).into_iter().map(Ask::Delete));
            }
            CollectAction::Done | CollectAction::Stopped => {}
        }
    }

    fn collected(&mut self, garbage: Box<Garbage>, mut collection: Collection, done: CollectAction) -> Option<End> {
        let event = match done {
            CollectAction::Probe => CollectEvent::Probed { foreign: false },
            CollectAction::Delete(_) if self.batch_failed => CollectEvent::DeleteFailed,
            CollectAction::Delete(_) => CollectEvent::Deleted,
            CollectAction::Stopped => return Some(End::Fenced),
            CollectAction::Done => {
                let batches = garbage.orphans.chunks(BATCH).map(<[String]>::to_vec).collect();
                self.phase = Phase::Paths(batches, false, After::History);
                return None;
            }
        };
        if let CollectAction::Delete(Batch::Slot(slot)) = done
            && !self.batch_failed
        {
            // From now on nobody can find the checkpoint; whoever found it before has pinned it.
            self.sight.slots.remove(&slot);
            self.queue.push_back(Ask::PinsAgain);
        }
        let action = collection.on(event);
        self.obey(action);
        self.phase = Phase::Checkpoints(garbage, collection, action);
        None
    }

    fn next_batch(&mut self, mut batches: VecDeque<Vec<String>>, looked: bool, after: After) -> Option<End> {
        match (batches.front(), looked) {
            (Some(_), false) => {
                self.queue.push_back(Ask::Probe);
                self.phase = Phase::Paths(batches, true, after);
            }
            (Some(_), true) => {
                let batch = batches.pop_front().unwrap_or_default();
                self.queue.extend(batch.into_iter().map(Ask::Delete));
                self.phase = Phase::Paths(batches, false, after);
            }
            (None, _) if after == After::History && self.with_history => {
                self.queue.push_back(Ask::History);
                self.phase = Phase::ListingHistory;
            }
            (None, _) => return Some(self.failed.take().map_or(End::Done, End::Incomplete)),
        }
        None
    }

    /// Rule G3. Entries of newer attempts are not ours to touch; they are also the newest.
    fn forget_history(&mut self, memory: &mut Memory) {
        let listed: LiteSet<HistoryKey> = self.history.iter().copied().collect();
        memory.history.retain(|key, _| listed.contains(key));
        let expired = history::expired(listed, &memory.history, self.now.millis());
        let ours = |key: &HistoryKey| key.1 <= memory.reach;
        if expired.read.iter().any(ours) {
            self.queue.extend(expired.read.into_iter().filter(ours).map(Ask::OldEntry));
            self.phase = Phase::ReadingHistory;
            return;
        }
        let paths: Vec<String> =
            expired.delete.iter().filter(|key| ours(key)).map(|(id, attempt)| layout::history(*id, *attempt)).collect();
        let batches = paths.chunks(BATCH).map(<[String]>::to_vec).collect();
        self.phase = Phase::Paths(batches, false, After::End);
    }
}

/// What a manifest adds to the entry of its slot.
fn learn(slot: Slot, path: &str, bytes: &[u8], memory: &mut Memory) {
    let manifest = match memory.entries.get(&slot) {
        Some(LogEntry::Checkpoint(entry)) if entry.checksum != Manifest::checksum(bytes) => {
            Err(format!("{path} is not what the log says: it was changed after it was written"))
        }
        _ => Manifest::decode(path, bytes).map_err(|error| error.to_string()),
    };
    let manifest = manifest.map_err(|why| Unreadable { missing: false, why });
    know(slot, manifest.map(|manifest| (manifest.base.map(|base| base.id), manifest.kind == Kind::Savepoint)), memory);
}

fn know(slot: Slot, learnt: Result<(Option<CheckpointId>, bool), Unreadable>, memory: &mut Memory) {
    let Some(mut recorded) = memory.entries.get(&slot).and_then(|entry| plan::recorded(slot, entry)) else { return };
    let readable = learnt.map(|(base, savepoint)| {
        recorded.base = base;
        recorded.savepoint = savepoint;
    });
    memory.recorded.insert(slot, (recorded, readable));
}

fn unusable(slot: Slot, why: &str) -> String {
    format!("nothing more is collected, because {} is unusable: {why}", layout::slot(slot))
}

fn keys(objects: Vec<(String, u64)>) -> Vec<HistoryKey> {
    let names = objects.into_iter().filter_map(|(path, _)| layout::parse(&path));
    names.filter_map(|name| if let Name::History(id, attempt) = name { Some((id, attempt)) } else { None }).collect()
}

fn text(reply: &StorageReply) -> String {
    match reply {
        StorageReply::Failed(text) | StorageReply::Unknown(text) => text.clone(),
        StorageReply::NotFound => "an object went away while it was looked at".to_owned(),
        other => format!("the storage gave an answer to another question: {other:?}"),
    }
}
