//! What a run has seen, and what follows from it: which objects are garbage. Pure.

use super::Memory;
use crate::layout::{self, Name};
use flott_checkpoint::{
    AttemptId, CheckpointId, InUse, LiteSet, LogEntry, Recorded, Retention, Slot, lite_map, retain,
};
use litemap::LiteMap;

/// What one run has seen of the directory.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) slots: LiteSet<Slot>,
    pub(super) manifests: LiteSet<(CheckpointId, AttemptId)>,
    /// Sorted, so that all segments of an attempt and checkpoint are together.
    pub(super) segments: LiteSet<(AttemptId, CheckpointId, u16)>,
    pub(super) pins: LiteSet<String>,
    /// Slots and pins that cannot be read, and why.
    pub(super) damaged_slots: LiteMap<Slot, String>,
    pub(super) damaged_pins: LiteMap<String, String>,
}

impl Sight {
    pub(super) fn add(&mut self, path: String) {
        match layout::parse(&path) {
            Some(Name::Slot(slot)) => drop(self.slots.insert(slot)),
            Some(Name::Manifest(id, attempt)) => drop(self.manifests.insert((id, attempt))),
            Some(Name::Segment { attempt, id, worker }) => drop(self.segments.insert((attempt, id, worker))),
            Some(Name::Pin(_)) => drop(self.pins.insert(path)),
            // The history has a pass of its own; what does not parse is not ours.
            Some(Name::History(..)) | None => {}
        }
    }

    /// The paths of all segments of a checkpoint.
    pub(super) fn segments_of(&self, id: CheckpointId, attempt: AttemptId) -> Vec<String> {
        let all = self.segments.iter().filter(|segment| (segment.0, segment.1) == (attempt, id));
        all.map(|&(attempt, id, worker)| layout::segment(attempt, id, worker)).collect()
    }
}

/// Which checkpoints go, and which objects belong to none.
#[derive(Debug)]
pub(super) struct Garbage {
    pub(super) retention: Retention,
    /// The highest slot seen: never deleted (L7).
    pub(super) highest: Slot,
    /// Manifests of nothing, and after them segments of nothing.
    pub(super) orphans: Vec<String>,
    /// Why more is kept than is needed.
    pub(super) held: Option<String>,
}

/// What is kept only because something cannot be read.
#[derive(Debug, Default)]
struct Held {
    /// Everything up to this checkpoint.
    up_to: Option<CheckpointId>,
    why: Vec<String>,
}

impl Held {
    fn hold(&mut self, up_to: CheckpointId, why: String) {
        self.up_to = self.up_to.max(Some(up_to));
        self.why.push(why);
    }

    fn holds(&self, id: CheckpointId) -> bool {
        self.up_to >= Some(id)
    }
}

/// Sorts what was seen.
pub(super) fn sort(sight: &Sight, memory: &mut Memory, in_use: &InUse) -> Garbage {
    let known = || sight.slots.iter().filter_map(|slot| memory.recorded.get(slot));
    let recorded: Vec<Recorded> = known().map(|(recorded, _)| recorded.clone()).collect();
    let mut retention = retain(&recorded, in_use);
    let mut held = Held::default();
    for (recorded, readable) in known() {
        let id = recorded.id;
        match readable {
            Err(unreadable) if retention.needed.contains(&id) => held
                .hold(id, format!("checkpoint {id} is needed and what it builds on is not known: {}", unreadable.why)),
            // It may be a savepoint, which builds on nothing and is its user's.
            Err(unreadable) if !unreadable.missing => {
                retention.needed.insert(id);
                held.why.push(format!("checkpoint {id} is kept, because nobody knows what it is: {}", unreadable.why));
            }
            _ => {}
        }
    }
    hold_for_damaged_slots(sight, &recorded, &mut held);
    hold_for_pins_of_the_unknown(&recorded, in_use, &mut held);
    hold_for_dubious_pins(sight, memory, &recorded, in_use, &mut held);
    retention.needed.extend(recorded.iter().map(|known| known.id).filter(|id| held.holds(*id)));
    retention.expendable.retain(|known| !retention.needed.contains(&known.id));
    // Recorded ids never repeat (L6): of an id that one attempt has recorded, what others wrote was never recorded.
    let owners = lite_map(recorded.iter().map(|known| (known.id, known.attempt)));
    // A listing is no snapshot: what was recorded while it ran may be missing beside something newer. What was recorded
    // before the run began is certain to be in it.
    let own = recorded.iter().filter(|known| known.attempt == in_use.attempt).map(|known| known.id).max();
    let own = own.zip(in_use.newest).map(|(listed, before)| listed.min(before));
    let is_orphan = |id: CheckpointId, attempt: AttemptId| {
        #[cfg(feature = "mutations")]
        if crate::mutation::is(crate::mutation::Mutation::OrphansStay) {
            return false;
        }
        // Of the own attempt, what is newer than the newest checkpoint recorded then may be recorded by now.
        let is_over = attempt < in_use.attempt || (attempt == in_use.attempt && own.is_some_and(|own| id < own));
        is_over
            && attempt <= memory.reach
            && match owners.get(&id) {
                Some(owner) => *owner != attempt,
                None => !retention.needed.contains(&id) && !held.holds(id),
            }
    };
    let manifests = sight.manifests.iter().filter(|(id, attempt)| is_orphan(*id, *attempt));
    let segments = sight.segments.iter().filter(|(attempt, id, _)| is_orphan(*id, *attempt));
    let orphans = manifests
        .map(|&(id, attempt)| layout::manifest(id, attempt))
        .chain(segments.map(|&(attempt, id, worker)| layout::segment(attempt, id, worker)))
        .collect();
    let highest = sight.slots.last().copied().unwrap_or(Slot(0));
    let held = (!held.why.is_empty()).then(|| held.why.join("; "));
    Garbage { retention, highest, orphans, held }
}

/// A slot that cannot be read records some checkpoint older than those above it, and what that one builds on is not known.
fn hold_for_damaged_slots(sight: &Sight, recorded: &[Recorded], held: &mut Held) {
    for (slot, why) in &sight.damaged_slots {
        let above = recorded.iter().filter(|known| known.slot > *slot).map(|known| known.id).min();
        let up_to = above.map_or(CheckpointId(u64::MAX), |id| CheckpointId(id.0.saturating_sub(1)));
        let which =
            above.map_or("every checkpoint is kept".to_owned(), |id| format!("all before checkpoint {id} are kept"));
        held.hold(up_to, format!("{which}, because {} is unusable: {why}", layout::slot(*slot)));
    }
}

/// A pin that came after the slot of its checkpoint was deleted: what that checkpoint builds on is not known any more, and its
/// reader may need it.
fn hold_for_pins_of_the_unknown(recorded: &[Recorded], in_use: &InUse, held: &mut Held) {
    let unknown = in_use.pins.iter().filter(|id| recorded.iter().all(|known| known.id != **id));
    for id in unknown {
        held.hold(*id, format!("all up to checkpoint {id} are kept, because a pin holds it, and its slot is gone"));
    }
}

/// A pin that cannot be read holds something that was recorded before anybody saw the pin.
fn hold_for_dubious_pins(sight: &Sight, memory: &mut Memory, recorded: &[Recorded], in_use: &InUse, held: &mut Held) {
    memory.dubious_pins.retain(|path, _| sight.damaged_pins.contains_key(path));
    let pending = in_use.pending.map(|(id, _)| id);
    let newest = recorded.iter().map(|known| known.id).max().max(in_use.newest).max(pending);
    for (path, why) in &sight.damaged_pins {
        let up_to = *memory.dubious_pins.entry(path.clone()).or_insert(newest.unwrap_or(CheckpointId(0)));
        held.hold(
            up_to,
            format!("all up to checkpoint {up_to} are kept, because {path} may hold any of them: {why}; delete it if nobody needs it"),
        );
    }
}

/// A checkpoint of the log, as far as its entry says; the manifest adds base and kind.
pub(super) fn recorded(slot: Slot, entry: &LogEntry) -> Option<Recorded> {
    match entry {
        LogEntry::Start(_) => None,
        LogEntry::Checkpoint(entry) => Some(Recorded {
            id: entry.id,
            slot,
            attempt: entry.attempt,
            parent: entry.parent,
            base: None,
            savepoint: false,
        }),
    }
}
