//! The door of the seam, event by event. That the modes take right cuts is shown in `tests/schedules`.

use super::{Action, Actions, Arrivals, Event};
use crate::barrier::{Barrier, Kind, Mode};
use crate::ids::{AttemptId, Channel, CheckpointId};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn barrier(id: u64, mode: Mode) -> Barrier {
    let (id, base) = (CheckpointId(id), Some(CheckpointId(0)));
    Barrier { id, attempt: AttemptId(7), mode, kind: Kind::Savepoint, base, triggered_at: 123 }
}

fn arrived(from: u16, barrier: Barrier) -> Event {
    Event::Arrived { from: Channel(from), barrier }
}

fn at_head(from: u16, barrier: Barrier) -> Event {
    Event::AtHead { from: Channel(from), barrier }
}

fn resolved(id: u64) -> Event {
    Event::Resolved { id: CheckpointId(id) }
}

fn timeout(id: u64) -> Event {
    Event::Timeout { id: CheckpointId(id) }
}

fn block(channel: u16) -> Action {
    Action::Block(Channel(channel))
}

fn unblock(channel: u16) -> Action {
    Action::Unblock(Channel(channel))
}

fn fresh(channels: u16) -> Arrivals {
    Arrivals::restored(channels, CheckpointId(0))
}

/// Both moments of a barrier that waits for nothing.
fn through(arrivals: &mut Arrivals, from: u16, barrier: Barrier) -> Actions {
    let mut actions = arrivals.on(arrived(from, barrier));
    actions.extend(arrivals.on(at_head(from, barrier)));
    actions
}

fn cut(barrier: Barrier) -> [Action; 2] {
    [Action::Forward(barrier), Action::Snapshot { id: barrier.id }]
}

#[test]
fn a_source_needs_no_special_case_in_any_mode() {
    for mode in Mode::ALL {
        let barrier = barrier(1, mode);
        let mut arrivals = fresh(1);
        let mut actions = through(&mut arrivals, 0, barrier);
        assert_eq!(arrivals.round_id().is_some(), mode == Mode::StopTheWorld, "only a stopped world waits: {mode}");
        actions.extend(arrivals.on(resolved(1)));
        let cuts = actions.iter().filter(|&action| cut(barrier).contains(action)).count();
        assert_eq!(cuts, 2, "{mode}: {actions:?}");
        assert!(arrivals.is_past(barrier.id) && arrivals.round_id().is_none(), "{mode}");
    }
}

#[test]
fn a_newer_barrier_abandons_the_older_round_and_gives_back_what_it_held() {
    let (old, new) = (barrier(1, Mode::StopTheWorld), barrier(2, Mode::Aligned));
    let mut arrivals = fresh(2);
    assert_eq!(arrivals.on(at_head(0, old)), [block(0)]);
    let end_of_old = [block(1), Action::Forward(old), Action::Snapshot { id: old.id }, Action::Pause];
    assert_eq!(arrivals.on(at_head(1, old)), end_of_old);
    let actions = arrivals.on(at_head(1, new));
    let given_back = [Action::Decline { id: old.id }, unblock(0), unblock(1), Action::Resume];
    assert_eq!(actions, [&given_back[..], &[block(1)]].concat());
    assert_eq!(arrivals.round_id(), Some(new.id));
    assert!(arrivals.is_past(old.id) && !arrivals.is_past(new.id));
}

#[test]
fn a_newer_barrier_that_only_arrives_abandons_the_round_if_its_mode_acts_on_arrival() {
    for mode in Mode::ALL {
        let mut arrivals = fresh(2);
        let old = barrier(1, Mode::Aligned);
        assert_eq!(arrivals.on(at_head(0, old)), [block(0)]);
        let abandons = arrivals.on(arrived(1, barrier(2, mode))).contains(&Action::Decline { id: old.id });
        assert_eq!(abandons, mode.acts_on_arrival(), "{mode}");
    }
}

#[test]
fn an_older_barrier_is_stale_and_leaves_no_trace() {
    for mode in Mode::ALL {
        let mut arrivals = fresh(2);
        let _ = arrivals.on(at_head(0, barrier(5, Mode::Aligned)));
        let before = arrivals.clone();
        assert_eq!(through(&mut arrivals, 1, barrier(4, mode)), []);
        assert_eq!(arrivals, before, "{mode}");
    }
}

#[test]
fn a_barrier_up_to_the_restored_checkpoint_is_stale() {
    for mode in Mode::ALL {
        let mut arrivals = Arrivals::restored(1, CheckpointId(9));
        assert!(arrivals.is_past(CheckpointId(9)) && !arrivals.is_past(CheckpointId(10)));
        assert_eq!(through(&mut arrivals, 0, barrier(9, mode)), []);
        assert_ne!(through(&mut arrivals, 0, barrier(10, mode)), []);
    }
}

#[test]
fn a_checkpoint_resolved_before_its_barrier_opens_no_round() {
    for mode in Mode::ALL {
        let mut arrivals = fresh(2);
        assert_eq!(arrivals.on(resolved(3)), []);
        assert_eq!(through(&mut arrivals, 0, barrier(3, mode)), []);
        assert_eq!(through(&mut arrivals, 1, barrier(2, mode)), []);
        assert_eq!(arrivals.round_id(), None, "{mode}");
    }
}

#[test]
fn resolved_ends_the_round_once_and_only_up_to_its_id() {
    let mut arrivals = fresh(2);
    let _ = arrivals.on(at_head(0, barrier(4, Mode::Aligned)));
    assert_eq!(arrivals.on(resolved(3)), []);
    assert_eq!(arrivals.round_id(), Some(CheckpointId(4)));
    assert_eq!(arrivals.on(resolved(6)), [unblock(0)]);
    assert_eq!(arrivals.on(resolved(6)), []);
    assert_eq!(arrivals.on(resolved(4)), []);
    assert!(arrivals.is_past(CheckpointId(6)) && !arrivals.is_past(CheckpointId(7)));
}

#[test]
fn stop_the_world_stands_still_until_resolved() {
    let mut arrivals = fresh(1);
    let barrier = barrier(1, Mode::StopTheWorld);
    assert_eq!(through(&mut arrivals, 0, barrier).last(), Some(&Action::Pause));
    assert_eq!(arrivals.on(timeout(1)), []);
    assert_eq!(arrivals.round_id(), Some(barrier.id));
    assert_eq!(arrivals.on(resolved(1)), [unblock(0), Action::Resume]);
}

#[test]
fn at_least_once_holds_nothing_and_cuts_at_the_last_barrier() {
    let mut arrivals = fresh(2);
    let barrier = barrier(1, Mode::AtLeastOnce);
    assert_eq!(through(&mut arrivals, 1, barrier), []);
    assert_eq!(through(&mut arrivals, 0, barrier), cut(barrier));
    assert!(arrivals.is_past(barrier.id), "the cut ends the round");
}

#[test]
fn unaligned_cuts_at_the_first_arrival_and_captures_each_channel_up_to_its_barrier() {
    let barrier = barrier(1, Mode::Unaligned);
    let id = barrier.id;
    let start = |channel| Action::CaptureStart { id, channel: Channel(channel) };
    let end = |channel| Action::CaptureEnd { id, channel: Channel(channel) };
    let mut arrivals = fresh(3);
    let first = [start(0), start(1), end(1), start(2)];
    assert_eq!(arrivals.on(arrived(1, barrier)), [&cut(barrier)[..], &first].concat());
    assert_eq!(arrivals.on(at_head(1, barrier)), []);
    assert_eq!(arrivals.on(arrived(0, barrier)), [end(0)]);
    assert_eq!(arrivals.round_id(), Some(id));
    assert_eq!(arrivals.on(arrived(2, barrier)), [end(2)]);
    assert!(arrivals.is_past(id), "the last capture ends the round");
}

#[test]
fn a_timeout_turns_an_alignment_and_captures_only_channels_that_still_owe_records() {
    let barrier = barrier(1, Mode::AlignedThenUnaligned);
    let id = barrier.id;
    let mut arrivals = fresh(3);
    assert_eq!(arrivals.on(arrived(0, barrier)), [Action::ArmTimeout { id }]);
    assert_eq!(arrivals.on(arrived(1, barrier)), []);
    assert_eq!(arrivals.on(at_head(0, barrier)), [block(0)]);
    let turned = Barrier { mode: Mode::Unaligned, ..barrier };
    let captures = [
        Action::CaptureStart { id, channel: Channel(1) },
        Action::CaptureEnd { id, channel: Channel(1) },
        Action::CaptureStart { id, channel: Channel(2) },
    ];
    assert_eq!(arrivals.on(timeout(1)), [&[unblock(0)], &cut(turned)[..], &captures].concat());
    assert_eq!(arrivals.on(timeout(1)), [], "a second timeout says nothing new");
    assert_eq!(arrivals.on(arrived(2, barrier)), [Action::CaptureEnd { id, channel: Channel(2) }]);
    assert!(arrivals.is_past(id));
}

#[test]
fn within_one_id_the_mode_only_rises() {
    let aligned = barrier(1, Mode::AlignedThenUnaligned);
    let turned = Barrier { mode: Mode::Unaligned, ..aligned };
    let mut arrivals = fresh(3);
    let _ = through(&mut arrivals, 0, aligned);
    let actions = arrivals.on(arrived(1, turned));
    assert!(actions.starts_with(&[unblock(0), Action::Forward(turned)]), "turns at the sight: {actions:?}");
    assert_eq!(arrivals.on(at_head(1, turned)), [], "no channel is blocked any more");
    assert_eq!(arrivals.on(arrived(2, aligned)), [Action::CaptureEnd { id: aligned.id, channel: Channel(2) }]);
}

#[test]
fn a_timeout_without_its_round_is_ignored() {
    for mode in Mode::ALL {
        let mut arrivals = fresh(2);
        let _ = through(&mut arrivals, 0, barrier(2, mode));
        let before = arrivals.clone();
        assert_eq!(arrivals.on(timeout(1)), []);
        assert_eq!(arrivals.on(timeout(3)), []);
        assert_eq!(arrivals, before, "{mode}");
    }
}

#[test]
fn a_trigger_that_comes_twice_changes_nothing() {
    for mode in Mode::ALL {
        for channels in [1, 2] {
            let (mut once, mut twice) = (fresh(channels), fresh(channels));
            let barrier = barrier(1, mode);
            let expected = through(&mut once, 0, barrier);
            let mut actions = through(&mut twice, 0, barrier);
            actions.extend(through(&mut twice, 0, barrier));
            assert_eq!(actions, expected, "{mode}");
            assert_eq!(once, twice, "{mode}");
        }
    }
}

#[test]
fn hundreds_of_channels_align_like_two() {
    const CHANNELS: u16 = 700;
    let barrier = barrier(1, Mode::Aligned);
    let mut arrivals = fresh(CHANNELS);
    for channel in (1..CHANNELS).rev() {
        assert_eq!(through(&mut arrivals, channel, barrier), [block(channel)]);
    }
    let expected: Actions = [block(0)].into_iter().chain(cut(barrier)).chain((0..CHANNELS).map(unblock)).collect();
    assert_eq!(through(&mut arrivals, 0, barrier), expected);
}

/// What a step loop would hold after executing the actions; complains of an action that does not fit.
#[derive(Default)]
struct Held {
    blocked: BTreeSet<Channel>,
    is_paused: bool,
    capturing: BTreeSet<(CheckpointId, Channel)>,
    /// The newest id that was cut, 0 for none.
    last_cut: u64,
}

impl Held {
    fn execute(&mut self, action: Action) {
        let fits = match action {
            Action::Block(channel) => self.blocked.insert(channel),
            Action::Unblock(channel) => self.blocked.remove(&channel),
            Action::Pause => !std::mem::replace(&mut self.is_paused, true),
            Action::Resume => std::mem::replace(&mut self.is_paused, false),
            Action::Snapshot { id } => id.0 > std::mem::replace(&mut self.last_cut, id.0),
            Action::Forward(barrier) => barrier.id.0 > self.last_cut,
            Action::CaptureStart { id, channel } => id.0 == self.last_cut && self.capturing.insert((id, channel)),
            Action::CaptureEnd { id, channel } => self.capturing.remove(&(id, channel)),
            Action::Decline { id } => {
                self.capturing.retain(|capture| capture.0 != id);
                true
            }
            Action::ArmTimeout { .. } => true,
        };
        assert!(fits, "{action:?} does not fit");
    }

    fn holds_nothing(&self) -> bool {
        self.blocked.is_empty() && !self.is_paused && self.capturing.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Arrive(u16),
    Head(u16),
    Resolve(u64),
    Timeout(u64),
}

const CHANNELS: u16 = 4;

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..CHANNELS).prop_map(Move::Arrive),
        4 => (0..CHANNELS).prop_map(Move::Head),
        1 => (1..6_u64).prop_map(Move::Resolve),
        1 => (1..6_u64).prop_map(Move::Timeout),
    ];
    prop::collection::vec(one, 0..120)
}

proptest! {
    /// Each channel brings barriers 1 to 5 in order, with any lag between channels.
    #[test]
    fn no_round_ends_with_something_held(modes in prop::collection::vec(prop::sample::select(&Mode::ALL[..]), 5), moves in moves()) {
        let mut arrivals = fresh(CHANNELS);
        let mut held = Held::default();
        let mut counts = vec![(0_usize, 0_usize); usize::from(CHANNELS)];
        for step in moves {
            let event = match step {
                Move::Arrive(channel) => {
                    let (entered, _) = &mut counts[usize::from(channel)];
                    let Some(&mode) = modes.get(*entered) else { continue };
                    *entered += 1;
                    arrived(channel, barrier(*entered as u64, mode))
                }
                Move::Head(channel) => {
                    let (entered, taken) = &mut counts[usize::from(channel)];
                    if taken == entered || held.is_paused || held.blocked.contains(&Channel(channel)) {
                        continue;
                    }
                    *taken += 1;
                    at_head(channel, barrier(*taken as u64, modes[*taken - 1]))
                }
                Move::Resolve(id) => {
                    held.capturing.retain(|capture| capture.0.0 > id);
                    resolved(id)
                }
                Move::Timeout(id) => timeout(id),
            };
            let past: Vec<bool> = (0..7).map(|id| arrivals.is_past(CheckpointId(id))).collect();
            arrivals.on(event).into_iter().for_each(|action| held.execute(action));
            prop_assert!(arrivals.round_id().is_some() || held.holds_nothing(), "{:?}", event);
            for (id, was_past) in (0..7).map(CheckpointId).zip(past) {
                prop_assert!(arrivals.is_past(id) || !was_past, "what is past stays past");
            }
        }
        arrivals.on(resolved(5)).into_iter().for_each(|action| held.execute(action));
        held.capturing.clear();
        prop_assert!(held.holds_nothing());
        prop_assert_eq!(arrivals.round_id(), None);
    }
}
