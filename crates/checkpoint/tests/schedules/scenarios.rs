//! What is explored: every mode alone, every ordered pair of modes, every kind of trouble, and every mutant.
//!
//! Where a barrier's way to the queue matters, each schedule has more moments; those jobs have a record less. The reduced
//! set has every scenario group in every mode, with smaller jobs where the full ones are long.

use crate::job::Job;
use crate::mutant::Mutant;
use flott_checkpoint::Mode;

pub struct Scenario {
    pub group: &'static str,
    pub name: String,
    pub job: Job,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Reduced,
    All,
}

/// The production rules, undisturbed.
pub fn rules(size: Size) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Mode::ALL.into_iter().flat_map(|mode| one_mode(mode, size)).collect();
    for first in Mode::ALL {
        for second in Mode::ALL.into_iter().filter(|&second| second != first) {
            all.extend(switch(first, second, size));
        }
    }
    all
}

fn one_mode(mode: Mode, size: Size) -> Vec<Scenario> {
    let at_head = !mode.acts_on_arrival();
    let is_long = !at_head && size == Size::Reduced;
    let once = |job| Job { script: vec![mode], ..job };
    let twice = |job| Job { script: vec![mode, mode], ..job };
    // How many records each source has; the full and the reduced number where barriers are obeyed on arrival.
    let sources = |if_at_head: &'static [u8], full: &'static [u8], reduced: &'static [u8]| match (at_head, is_long) {
        (true, _) => if_at_head,
        (false, false) => full,
        (false, true) => reduced,
    };
    let fan_in = || Job::fan_in(sources(&[2, 1], &[1, 1], &[1, 0]));
    let small_fan_in = || Job::fan_in(sources(&[1, 1], &[1, 1], &[1, 0]));
    let early = Job::shuffle(sources(&[0, 2], &[0, 2], &[0, 1]), if at_head { 2 } else { 1 });
    let cases = [
        ("3 channels, 2 checkpoints", twice(Job::fan_in(sources(&[2, 1, 1], &[1, 1, 0], &[1, 0, 0])))),
        ("2 x 2 x 1, 1 checkpoint", once(Job::shuffle(sources(&[2, 2], &[1, 1], &[0, 1]), 2))),
        ("n x 2 x 1, 2 checkpoints", twice(Job::shuffle(sources(&[2, 1], &[0, 1], &[1]), 2))),
        ("diamond, 2 checkpoints", twice(Job::diamond(2))),
        ("abort any time", Job { aborts: 1, ..twice(fan_in()) }),
        ("abort any time, 2 x n x 1", Job { aborts: 1, ..once(Job::shuffle(&[1, 1], if at_head { 2 } else { 1 })) }),
        ("mail late, twice, in any order; abort", Job { repeats: 1, aborts: 1, ..once(fan_in()) }),
        ("a source ends early", twice(early)),
        ("timers", Job { timers: true, ..once(Job::shuffle(sources(&[1, 1], &[0, 1], &[1]), 2)) }),
        ("timers, abort", Job { timers: true, aborts: 1, ..twice(Job::shuffle(&[1], 1)) }),
        ("crash any time", Job { crashes: 1, ..once(Job::shuffle(sources(&[1, 1], &[0, 1], &[1]), 2)) }),
        ("crash any time, diamond", Job { crashes: 1, ..twice(Job::diamond(if at_head { 2 } else { 1 })) }),
        ("two crashes, timers", Job { crashes: 2, timers: true, ..once(Job::shuffle(&[2], 1)) }),
        ("crash and abort", Job { crashes: 1, aborts: 1, ..once(fan_in()) }),
        ("crash, mail twice", Job { crashes: 1, repeats: 1, ..once(small_fan_in()) }),
        ("two pending", Job { max_pending: 2, ..twice(fan_in()) }),
        ("two pending, crash", Job { max_pending: 2, crashes: 1, ..twice(small_fan_in()) }),
    ];
    cases.into_iter().map(|(group, job)| Scenario { group, name: mode.to_string(), job }).collect()
}

fn switch(first: Mode, second: Mode, size: Size) -> Vec<Scenario> {
    let pair = |job| Job { script: vec![first, second], ..job };
    let sources: &[u8] = if size == Size::Reduced { &[1, 0] } else { &[1, 1] };
    let cases = [
        ("live switch, abort, crash", Job { aborts: 1, crashes: 1, ..pair(Job::fan_in(sources)) }),
        ("live switch, abort, 2 x 1 x 1", Job { aborts: 1, ..pair(Job::shuffle(sources, 1)) }),
        ("live switch, mail twice", Job { repeats: 1, ..pair(Job::fan_in(sources)) }),
        ("live switch, two pending", Job { max_pending: 2, ..pair(Job::fan_in(sources)) }),
    ];
    cases.into_iter().map(|(group, job)| Scenario { group, name: format!("{first}, {second}"), job }).collect()
}

/// Every mutant, in the smallest job that shows its fault.
pub fn mutants() -> Vec<Scenario> {
    use Mode::{Aligned, AlignedThenUnaligned, AtLeastOnce, StopTheWorld, Unaligned};
    let two = || Job::fan_in(&[2, 1]);
    let small = || Job::shuffle(&[1, 1], 2);
    let abort = |job| Job { aborts: 1, ..job };
    let cases = [
        (Mutant::ChannelsStayOpen, vec![Aligned], two()),
        (Mutant::ForwardAtFirstBarrier, vec![Aligned], small()),
        (Mutant::SnapshotAtFirstBarrier, vec![Aligned], two()),
        (Mutant::SnapshotAtFirstBarrier, vec![AtLeastOnce], two()),
        (Mutant::ResumeAtTheCut, vec![StopTheWorld], two()),
        (Mutant::ResolvedIsIgnored, vec![StopTheWorld], two()),
        (Mutant::ResolvedIsLostDownstream, vec![Aligned], Job { repeats: 1, ..abort(two()) }),
        (Mutant::StaleIsAccepted, vec![StopTheWorld], abort(two())),
        (Mutant::StaleIsAccepted, vec![Aligned], abort(two())),
        (Mutant::StaleIsAccepted, vec![Unaligned], two()),
        (Mutant::NewerIsIgnored, vec![Aligned; 2], abort(two())),
        (Mutant::AbandonKeepsHolding, vec![Aligned; 2], abort(two())),
        (Mutant::ArrivalsResetAtModeSwitch, vec![Aligned, StopTheWorld], abort(two())),
        (Mutant::NothingIsCaptured, vec![Unaligned], two()),
        (Mutant::CaptureRunsPastTheBarrier, vec![Unaligned], two()),
        (Mutant::CaptureEndsAtTheCut, vec![Unaligned], two()),
        (Mutant::CaptureSkipsTheQueue, vec![Unaligned], two()),
        (Mutant::CaptureSkipsTheEnd, vec![Unaligned], two()),
        (Mutant::TimeoutCapturesAlignedChannels, vec![AlignedThenUnaligned], two()),
        (Mutant::FinishedIsSilent, vec![Aligned], two()),
        (Mutant::TimersFireInPause, vec![StopTheWorld], Job { timers: true, ..small() }),
        (Mutant::AbortDiscardsEpochs, vec![Aligned; 2], abort(two())),
        (Mutant::RestoreTrustsTheReceiversEnd, vec![AtLeastOnce], Job { crashes: 1, ..two() }),
    ];
    let scenario = |(mutant, script, job): (Mutant, Vec<Mode>, Job)| {
        let modes: Vec<String> = script.iter().map(Mode::to_string).collect();
        let name = format!("{mutant:?} in {}", modes.join(", "));
        Scenario { group: "mutant", name, job: Job { script, mutant: Some(mutant), ..job } }
    };
    cases.into_iter().map(scenario).collect()
}
