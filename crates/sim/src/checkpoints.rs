//! Reads recorded checkpoints back, with a reader of its own: manifests along their bases, segments block by block.

use crate::jobs::input::rows_read;
use crate::jobs::process::tally_of;
use crate::jobs::{Job, Row, Shape, Tally};
use crate::oracle::{Prefix, State};
use crate::storage::Storage;
use flott_checkpoint::{CheckpointEntry, CheckpointId, SubtaskId};
use flott_runtime::key::Key;
use flott_runtime::manifest::Manifest;
use flott_runtime::segment::{BlockKind, Footer, StateSection};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A checkpoint and all that its increments lean on, newest first.
pub struct Chain(Vec<Manifest>);

impl Chain {
    /// Reads the manifests from the one that a log entry names.
    ///
    /// # Errors
    /// What is missing or damaged.
    pub fn read(storage: &Storage, entry: &CheckpointEntry) -> Result<Chain, String> {
        let mut manifests = Vec::new();
        let mut next = Some((entry.manifest.clone(), entry.checksum));
        while let Some((path, checksum)) = next {
            let bytes = storage.get(&path).ok_or_else(|| format!("{path} is missing"))?;
            if Manifest::checksum(bytes) != checksum {
                return Err(format!("{path} is not what was recorded"));
            }
            let manifest = Manifest::decode(&path, bytes).map_err(|error| format!("{path}: {error}"))?;
            next = manifest.base.map(|base| (base.path(), base.checksum));
            manifests.push(manifest);
        }
        Ok(Chain(manifests))
    }

    /// The checkpoint itself.
    #[must_use]
    pub fn top(&self) -> &Manifest {
        self.0.first().expect("a chain begins with the checkpoint itself")
    }

    /// Every object that a restore needs.
    pub fn paths(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().flat_map(|manifest| {
            let blobs = manifest.blobs().keys().map(|path| (*path).to_owned()).collect::<Vec<_>>();
            std::iter::once(manifest.path()).chain(blobs)
        })
    }

    /// Whether every blob is there, with the right length and content.
    ///
    /// # Errors
    /// What is not.
    pub fn verify(&self, storage: &Storage) -> Result<(), String> {
        for (path, blob) in self.0.iter().flat_map(Manifest::blobs) {
            let bytes = storage.get(path).ok_or_else(|| format!("{path} is missing"))?;
            if bytes.len() as u64 != blob.length {
                return Err(format!("{path} has {} bytes instead of {}", bytes.len(), blob.length));
            }
            if format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes)) != blob.checksum {
                return Err(format!("{path} has another checksum"));
            }
        }
        Ok(())
    }

    /// Whether some subtask had seen the end of a channel whose sender was not at its end: only without alignment.
    #[must_use]
    pub fn is_ahead_of_an_end(&self) -> bool {
        let top = self.top();
        let finished = |edge: u16, index: u16| {
            let vertex = top.edges.get(usize::from(edge)).map(|edge| edge.from);
            vertex.and_then(|vertex| top.part(SubtaskId { vertex, index })).is_some_and(|part| part.finished)
        };
        let mut channels = top.parts.iter().flat_map(|part| &part.channels);
        channels.any(|channel| channel.end_of_data && !finished(channel.edge, channel.from))
    }

    /// How far each split was read.
    #[must_use]
    pub fn prefix(&self, job: &Job) -> Prefix {
        let mut prefix: Prefix = crate::oracle::whole(job).into_keys().map(|origin| (origin, 0)).collect();
        for (name, split) in self.top().parts.iter().flat_map(|part| part.splits.values()).flatten() {
            prefix.extend(rows_read(job, name, &split.position));
        }
        prefix
    }

    /// All tallies of the job.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn state(&self, storage: &Storage, job: &Job) -> Result<State, String> {
        let mut state = State::new();
        let mut keep = |operator: &'static str, kept: BTreeMap<String, Tally>| {
            if !kept.is_empty() {
                state.insert(operator, kept);
            }
        };
        match job.shape {
            Shape::Timers | Shape::Expiring => {}
            Shape::Broadcast => keep("tally", self.replicas(storage, job)?),
            Shape::TwoShuffles => {
                keep(
                    "first",
                    self.read_state::<(u64, u32), Tally>(storage, "first", "tally", |_, key| format!("{key:?}"))?,
                );
                keep(
                    "tally",
                    self.read_state::<String, Tally>(storage, "tally", "tally", |_, key| format!("{key:?}"))?,
                );
            }
            Shape::Maps => keep("tally", self.read_maps(storage)?),
            Shape::Rules => {
                let name = |_: u16, key: &(u64, u32)| format!("{key:?}");
                keep("tally", self.read_state(storage, "tally", "tally", name)?);
                keep("rules", self.read_copies(storage)?);
            }
            Shape::Lists => keep("tally", self.read_lists(storage, job)?),
            Shape::Count
            | Shape::Union
            | Shape::Rebalance
            | Shape::TwoInputs
            | Shape::Gather
            | Shape::Folds
            | Shape::Waiting => {
                keep(
                    "tally",
                    self.read_state::<(u64, u32), Tally>(storage, "tally", "tally", |_, key| format!("{key:?}"))?,
                );
            }
        }
        Ok(state)
    }

    /// The rows that were in flight at the cuts: later hops first, and of each channel in order. With them, which subtask was
    /// to get them.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn in_flight(&self, storage: &Storage) -> Result<Vec<InFlight>, String> {
        let mut rows = Vec::new();
        for part in &self.top().parts {
            for channel in part.channels.iter().filter(|channel| channel.captured.bytes > 0) {
                let blob = part.segment.as_ref().ok_or("what was in flight is in no segment")?;
                let bytes = storage.get(&blob.path).ok_or_else(|| format!("{} is missing", blob.path))?;
                let name = format!("channel-{}-{}", channel.edge, channel.from);
                let packets = read_blob(bytes, &name, part.subtask.index)?;
                let (edge, to) = (channel.edge, part.subtask.index);
                let found = read_packets(&packets, |row| rows.push(InFlight { edge, to, row }))?;
                if (found, packets.len() as u64) != (channel.captured.records, channel.captured.bytes) {
                    return Err(format!("{name} of {} holds {found} records, not {:?}", blob.path, channel.captured));
                }
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.edge));
        Ok(rows)
    }

    /// The rows that wait in the lists of all workers.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn waiting(&self, storage: &Storage, job: &Job) -> Result<Vec<InFlight>, String> {
        let mut rows = Vec::new();
        let workers = if job.shape == Shape::Waiting { self.top().workers } else { 0 };
        for to in 0..workers {
            let mut kept: BTreeMap<usize, Row> = BTreeMap::new();
            for (bytes, section) in self.sections(storage, "wait", "waiting", to)?.into_iter().rev() {
                each_entry(&bytes, &section, |kind, entries| {
                    let _own: u64 = decode(entries)?;
                    if kind == BlockKind::Deletes {
                        kept.clear();
                    } else {
                        kept.insert(decode(entries)?, decode(entries)?);
                    }
                    Ok(())
                })?;
            }
            if !kept.keys().copied().eq(0..kept.len()) {
                return Err(format!("the list of worker {to} has holes"));
            }
            rows.extend(kept.into_values().map(|row| InFlight { edge: 0, to, row }));
        }
        Ok(rows)
    }

    fn replicas(&self, storage: &Storage, job: &Job) -> Result<BTreeMap<String, Tally>, String> {
        let name = |worker: u16, &(key, origin): &(u64, u32)| format!("{worker}: {:?}", (key % job.keys, origin));
        self.read_state::<(u64, u32), Tally>(storage, "tally", "tally", name)
    }

    /// One state of all workers, with keys as `name` has them.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read_state<K: Key + Debug, V: DeserializeOwned>(
        &self,
        storage: &Storage,
        operator: &str,
        state: &str,
        name: impl Fn(u16, &K) -> String,
    ) -> Result<BTreeMap<String, V>, String> {
        let mut all = BTreeMap::new();
        for worker in 0..self.top().workers {
            let mut kept: BTreeMap<String, V> = BTreeMap::new();
            for (bytes, section) in self.sections(storage, operator, state, worker)?.into_iter().rev() {
                apply(&bytes, &section, &mut kept, |entries| Ok(name(worker, &decode(entries)?)), decode)?;
            }
            all.extend(kept);
        }
        Ok(all)
    }

    /// The tallies in the maps of all workers, by key and origin.
    fn read_maps(&self, storage: &Storage) -> Result<BTreeMap<String, Tally>, String> {
        let mut all = BTreeMap::new();
        for worker in 0..self.top().workers {
            let mut kept = BTreeMap::new();
            for (bytes, section) in self.sections(storage, "tally", "tally", worker)?.into_iter().rev() {
                let key = |entries: &mut &[u8]| {
                    let (key, origin): (u64, u32) = (decode(entries)?, decode(entries)?);
                    Ok(format!("{:?}", (key, origin)))
                };
                apply(&bytes, &section, &mut kept, key, decode)?;
            }
            all.extend(kept);
        }
        Ok(all)
    }

    /// What the copies of all workers hold, by worker, key and origin.
    fn read_copies(&self, storage: &Storage) -> Result<BTreeMap<String, Tally>, String> {
        let mut all = BTreeMap::new();
        for worker in 0..self.top().workers {
            let mut kept = BTreeMap::new();
            for (bytes, section) in self.sections(storage, "tally", "rules", worker)?.into_iter().rev() {
                let key = |entries: &mut &[u8]| {
                    let _own: u64 = decode(entries)?;
                    let key: (u64, u32) = decode(entries)?;
                    Ok(format!("{worker}: {key:?}"))
                };
                apply(&bytes, &section, &mut kept, key, decode)?;
            }
            all.extend(kept);
        }
        Ok(all)
    }

    /// The tallies of the rows in the lists of all workers, by key and origin.
    fn read_lists(&self, storage: &Storage, job: &Job) -> Result<BTreeMap<String, Tally>, String> {
        let mut all = BTreeMap::new();
        for worker in 0..self.top().workers {
            let mut kept: BTreeMap<(u64, u32), BTreeMap<usize, u64>> = BTreeMap::new();
            for (bytes, section) in self.sections(storage, "tally", "tally", worker)?.into_iter().rev() {
                each_entry(&bytes, &section, |kind, entries| {
                    let key = decode(entries)?;
                    if kind == BlockKind::Deletes {
                        kept.remove(&key);
                    } else {
                        kept.entry(key).or_default().insert(decode(entries)?, decode(entries)?);
                    }
                    Ok(())
                })?;
            }
            for ((key, origin), serials) in kept {
                if !serials.keys().copied().eq(0..serials.len()) {
                    return Err(format!("the list of {:?} has holes", (key, origin)));
                }
                let like = Row { key, ..job.row(origin, 0) };
                all.extend(
                    tally_of(job, &like, serials.into_values()).map(|tally| (format!("{:?}", (key, origin)), tally)),
                );
            }
        }
        Ok(all)
    }

    /// The timers of all workers, by key.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read_timers<K: Key + Debug>(
        &self,
        storage: &Storage,
        operator: &str,
        state: &str,
        name: impl Fn(u16, &K) -> String,
    ) -> Result<BTreeSet<String>, String> {
        let mut all = BTreeSet::new();
        for worker in 0..self.top().workers {
            let mut kept: BTreeMap<String, ()> = BTreeMap::new();
            for (bytes, section) in self.sections(storage, operator, state, worker)?.into_iter().rev() {
                let key = |entries: &mut &[u8]| {
                    let key = name(worker, &decode(entries)?);
                    decode::<i64>(entries).map(|time| format!("{key} at {time}"))
                };
                apply(&bytes, &section, &mut kept, key, |_| Ok(()))?;
            }
            let key = |text: String| text.split(" at ").next().unwrap_or_default().to_owned();
            all.extend(kept.into_keys().map(key));
        }
        Ok(all)
    }

    /// The sections of one state of one worker, newest first, down to a full one.
    fn sections(
        &self,
        storage: &Storage,
        operator: &str,
        state: &str,
        worker: u16,
    ) -> Result<Vec<(bytes::Bytes, StateSection)>, String> {
        let by_id: BTreeMap<CheckpointId, &Manifest> = self.0.iter().map(|manifest| (manifest.id, manifest)).collect();
        let mut sections = Vec::new();
        let mut next = Some(self.top().id);
        while let Some(id) = next {
            let manifest = by_id.get(&id).ok_or_else(|| format!("checkpoint {id} is leant on and not in the chain"))?;
            let restored = manifest.restored();
            let Some(&vertex) = restored.vertex_of.get(operator) else { break };
            let part = manifest.part(SubtaskId { vertex, index: worker });
            let Some(blob) = part.and_then(|part| part.segment.as_ref()) else { break };
            let bytes = storage.get(&blob.path).ok_or_else(|| format!("{} is missing", blob.path))?;
            let footer = Footer::of(bytes).map_err(|error| format!("{}: {error}", blob.path))?;
            let Some(section) = footer.state(operator, state) else { break };
            next = section.base;
            sections.push((bytes.clone(), section.clone()));
        }
        Ok(sections)
    }
}

/// A row that was in flight.
pub struct InFlight {
    /// Its edge.
    pub edge: u16,
    /// The subtask that was to get it.
    pub to: u16,
    /// The row.
    pub row: Row,
}

/// What crosses an edge: a row with a key beside it, several, or a row alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Crossing {
    Keyed { value: Row },
    Gathered { value: Vec<Row> },
    Alone(Row),
}

fn read_blob(segment: &bytes::Bytes, name: &str, subtask: u16) -> Result<Vec<u8>, String> {
    let footer = Footer::of(segment).map_err(|error| error.to_string())?;
    let section = footer.blob("", name, subtask.into()).ok_or_else(|| format!("there is no {name}"))?;
    let mut all = Vec::new();
    for piece in &section.pieces {
        let range = piece.range();
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let (Ok(start), Ok(end)) = (start, end) else { return Err("a piece lies nowhere".to_owned()) };
        all.extend(piece.decode(segment.slice(start..end)).map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// Packets, each behind its length, as `docs/formats.md` has them. Says how many records they hold.
fn read_packets(mut bytes: &[u8], mut on_row: impl FnMut(Row)) -> Result<u64, String> {
    const HEADER: usize = 24;
    let mut records = 0;
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let torn = || "a packet in flight is cut short".to_owned();
        let (packet, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(torn)?;
        bytes = rest;
        let (header, body) = packet.split_at_checked(HEADER).ok_or_else(torn)?;
        let (is_data, flags) = (header.get(1) == Some(&1), body.first().copied().unwrap_or(0));
        if !is_data || flags & 1 == 0 {
            continue;
        }
        let before = if flags & 4 == 0 { 9 } else { 17 };
        let batch = body.get(before..).ok_or_else(torn)?;
        let (rows, _): (Vec<Crossing>, Option<Vec<i64>>) =
            rmp_serde::from_slice(batch).map_err(|error| error.to_string())?;
        records += rows.len() as u64;
        for row in rows {
            match row {
                Crossing::Keyed { value } | Crossing::Alone(value) => on_row(value),
                Crossing::Gathered { value } => value.into_iter().for_each(&mut on_row),
            }
        }
    }
    if bytes.is_empty() { Ok(records) } else { Err("what was in flight ends within a length".to_owned()) }
}

fn apply<V>(
    bytes: &bytes::Bytes,
    section: &StateSection,
    kept: &mut BTreeMap<String, V>,
    key: impl Fn(&mut &[u8]) -> Result<String, String>,
    value: impl Fn(&mut &[u8]) -> Result<V, String>,
) -> Result<(), String> {
    each_entry(bytes, section, |kind, entries| {
        let key = key(entries)?;
        match kind {
            BlockKind::Deletes => drop(kept.remove(&key)),
            BlockKind::Puts => drop(kept.insert(key, value(entries)?)),
        }
        Ok(())
    })
}

/// Hands over all entries of a section, one after the other; `take` reads one of them.
fn each_entry(
    bytes: &bytes::Bytes,
    section: &StateSection,
    mut take: impl FnMut(BlockKind, &mut &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    for entry in &section.blocks {
        let range = entry.piece.range();
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let (Ok(start), Ok(end)) = (start, end) else { return Err("a block lies nowhere".to_owned()) };
        let block = entry.decode(bytes.slice(start..end)).map_err(|error| error.to_string())?;
        for run in block.runs() {
            let (_, mut entries) = run.map_err(|error| error.to_string())?;
            while !entries.is_empty() {
                take(block.kind, &mut entries)?;
            }
        }
    }
    Ok(())
}

fn decode<T: DeserializeOwned>(entries: &mut &[u8]) -> Result<T, String> {
    rmp_serde::decode::from_read(entries).map_err(|error| error.to_string())
}
