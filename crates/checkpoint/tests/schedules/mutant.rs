//! Rules broken on purpose, to see that the properties notice. Nearly all are filters at the door of the seam: what goes
//! in is withheld, or what comes out is tampered with. The production rules themselves are never touched.

use crate::subtask::Subtask;
use flott_checkpoint::{Action, Actions, Arrivals, Channel, CheckpointId, Event, Mode};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    ChannelsStayOpen,
    ForwardAtFirstBarrier,
    SnapshotAtFirstBarrier,
    ResumeAtTheCut,
    ResolvedIsIgnored,
    ResolvedIsLostDownstream,
    StaleIsAccepted,
    NewerIsIgnored,
    AbandonKeepsHolding,
    ArrivalsResetAtModeSwitch,
    NothingIsCaptured,
    CaptureRunsPastTheBarrier,
    CaptureEndsAtTheCut,
    TimeoutCapturesAlignedChannels,
    FinishedIsSilent,
    // Of the step loop, the sink and the restore:
    CaptureSkipsTheQueue,
    CaptureSkipsTheEnd,
    TimersFireInPause,
    AbortDiscardsEpochs,
    RestoreTrustsTheReceiversEnd,
}

/// What the step loop gets to hear from the subtask's `Arrivals`, through the mutant if there is one.
pub fn on(mutant: Option<Mutant>, subtask: &mut Subtask, event: Event) -> Actions {
    let Some(mutant) = mutant else { return subtask.arrivals.on(event) };
    let before = subtask.arrivals.round_id();
    let is_first = barrier_id(event).is_some_and(|id| before != Some(id) && !subtask.arrivals.is_past(id));
    if forgets_arrivals(mutant, subtask, event) {
        subtask.arrivals = Arrivals::restored(subtask.inputs.len() as u16, CheckpointId(0));
    }
    if withholds(mutant, subtask, event, before) {
        return Actions::new();
    }
    let mut actions = subtask.arrivals.on(event);
    let is_over = subtask.arrivals.round_id().is_none();
    tamper(mutant, &mut actions, event, is_first, is_over, subtask.inputs.len());
    actions
}

fn barrier_id(event: Event) -> Option<CheckpointId> {
    match event {
        Event::Arrived { barrier, .. } | Event::AtHead { barrier, .. } => Some(barrier.id),
        _ => None,
    }
}

fn barrier_mode(event: Event) -> Option<Mode> {
    match event {
        Event::Arrived { barrier, .. } | Event::AtHead { barrier, .. } => Some(barrier.mode),
        _ => None,
    }
}

fn forgets_arrivals(mutant: Mutant, subtask: &mut Subtask, event: Event) -> bool {
    match mutant {
        Mutant::StaleIsAccepted => subtask.arrivals.round_id().is_none(),
        Mutant::ArrivalsResetAtModeSwitch => {
            let (last, mode) = (subtask.last_mode, barrier_mode(event));
            subtask.last_mode = mode.or(last);
            last.is_some() && mode.is_some() && mode != last
        }
        _ => false,
    }
}

fn withholds(mutant: Mutant, subtask: &Subtask, event: Event, round: Option<CheckpointId>) -> bool {
    let is_resolved = matches!(event, Event::Resolved { .. });
    match mutant {
        Mutant::ResolvedIsIgnored => is_resolved,
        Mutant::ResolvedIsLostDownstream => is_resolved && subtask.inputs.len() > 1,
        Mutant::NewerIsIgnored => round.is_some_and(|id| barrier_id(event).is_some_and(|newer| newer > id)),
        Mutant::FinishedIsSilent => subtask.state.is_finished && barrier_id(event).is_some(),
        _ => false,
    }
}

fn tamper(mutant: Mutant, actions: &mut Actions, event: Event, is_first: bool, is_over: bool, channels: usize) {
    match mutant {
        Mutant::ChannelsStayOpen => actions.retain(|action| !matches!(action, Action::Block(_))),
        Mutant::ForwardAtFirstBarrier => {
            if let Event::AtHead { barrier, .. } = event {
                do_at_first(actions, is_first, Action::Forward(barrier));
            }
        }
        Mutant::SnapshotAtFirstBarrier => {
            if let Event::AtHead { barrier, .. } = event {
                do_at_first(actions, is_first, Action::Snapshot { id: barrier.id });
            }
        }
        Mutant::ResumeAtTheCut if actions.contains(&Action::Pause) => {
            actions.push(Action::Resume);
            actions.extend(all(channels).map(Action::Unblock));
        }
        Mutant::AbandonKeepsHolding if matches!(actions.first(), Some(Action::Decline { .. })) => {
            actions.retain(|action| !matches!(action, Action::Unblock(_) | Action::Resume));
        }
        Mutant::NothingIsCaptured => actions.retain(|action| !matches!(action, Action::CaptureStart { .. })),
        Mutant::CaptureRunsPastTheBarrier => {
            actions.retain(|action| !matches!(action, Action::CaptureEnd { .. }));
            if let (true, Some(id)) = (is_over, barrier_id(event)) {
                actions.extend(all(channels).map(|channel| Action::CaptureEnd { id, channel }));
            }
        }
        Mutant::CaptureEndsAtTheCut => {
            let started = actions.iter().filter_map(|action| match *action {
                Action::CaptureStart { id, channel } => Some(Action::CaptureEnd { id, channel }),
                _ => None,
            });
            let ends: Actions = started.collect();
            actions.extend(ends);
        }
        Mutant::TimeoutCapturesAlignedChannels => {
            let Event::Timeout { id } = event else { return };
            let opened: Vec<_> = actions.iter().filter_map(unblocked).collect();
            for channel in opened {
                actions.extend([Action::CaptureStart { id, channel }, Action::CaptureEnd { id, channel }]);
            }
        }
        _ => {}
    }
}

/// Does at the first barrier of a round what belongs to the last.
fn do_at_first(actions: &mut Actions, is_first: bool, early: Action) {
    actions.retain(|action| std::mem::discriminant(action) != std::mem::discriminant(&early));
    if is_first {
        actions.insert(0, early);
    }
}

fn unblocked(action: &Action) -> Option<Channel> {
    if let Action::Unblock(channel) = action { Some(*channel) } else { None }
}

fn all(channels: usize) -> impl Iterator<Item = Channel> {
    (0..channels as u16).map(Channel)
}
