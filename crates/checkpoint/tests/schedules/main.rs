//! Runs the production rules through every schedule of small jobs: all atomic steps, in all orders.
//!
//! Read in this order: `scenarios` (what is tried), `world` (what one step does), `properties` (what must hold), `mutant`
//! (how the rules are broken to see that the properties notice). The rules are those of the crate, behind their one door
//! `Arrivals::on`; this is a model of everything around them: step loop, channels with credit, coordinator, a sink with
//! epochs, crash and restore.
//!
//! States are merged by fingerprint. Left out because it commutes with everything: acks other than the last, messages
//! that are ignored (that they are is asserted), and the travel of records: one that arrives late is one taken late.
//! Mutants run without the second reduction.
//!
//! The default is a reduced set, 15 million states; `FLOTT_SCHEDULES=all` takes the full one, 59 million.
//! Nothing is drawn at random: the same code explores the same states. A violation prints the schedule that led to it.

#![allow(unreachable_pub, reason = "a test binary has no public face")]
#![allow(
    clippy::indexing_slicing,
    reason = "subtasks and channels are numbers of a fixed job; a wrong one shall panic"
)]

mod coordinator;
mod counts;
mod explore;
mod job;
mod mutant;
mod properties;
mod scenarios;
mod shared;
mod subtask;
mod world;

use explore::{Report, explore};
use flott_checkpoint::Mode;
use scenarios::{Scenario, Size};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Far above what any scenario needs: a run that reaches it proves nothing and fails.
const MOST_STATES: usize = 20_000_000;

fn size() -> Size {
    if std::env::var("FLOTT_SCHEDULES").is_ok_and(|size| size == "all") { Size::All } else { Size::Reduced }
}

/// Explores all scenarios on all cores, the reports in the order of the scenarios.
fn explore_all(scenarios: &[Scenario]) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, scenario)) = take_next(&next, scenarios) {
                    let report = explore(&scenario.job, MOST_STATES);
                    println!("{:>9} states  {}: {}", report.states, scenario.group, scenario.name);
                    reports.lock().expect("no explorer panicked").push((index, report));
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("no explorer panicked");
    reports.sort_by_key(|&(index, _)| index);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn take_next<'a>(next: &AtomicUsize, scenarios: &'a [Scenario]) -> Option<(usize, &'a Scenario)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    scenarios.get(index).map(|scenario| (index, scenario))
}

fn complaint(scenario: &Scenario, report: &Report) -> Option<String> {
    let wrong = match &report.violation {
        Some((violation, schedule)) => {
            format!("{violation}, after {} steps:\n    {}", schedule.len(), schedule.join("\n    "))
        }
        None if !report.is_complete => "not explored to the end".into(),
        None if report.ends == 0 => "no run came to its end".into(),
        None => missing_witness(scenario, report)?.into(),
    };
    Some(format!("{}: {}: {wrong}", scenario.group, scenario.name))
}

/// A property that no run put to the test would be empty: the runs must have done what their scenario is about.
fn missing_witness(scenario: &Scenario, report: &Report) -> Option<&'static str> {
    let (job, seen) = (&scenario.job, report.observed);
    let at_least_once = job.script.contains(&Mode::AtLeastOnce);
    let takes_in_flight = job.script.iter().all(|mode| mode.acts_on_arrival());
    let may_turn = job.script.contains(&Mode::AlignedThenUnaligned);
    let alone = job.script.iter().all(|&mode| mode == Mode::AtLeastOnce);
    let wrong = [
        (job.crashes > 0 && !seen.restored, "no run was restored"),
        (takes_in_flight && !seen.captured, "no run captured records in flight"),
        (may_turn != seen.turned_unaligned, "alignment times out exactly where it may"),
        (!at_least_once && seen.above_the_cut, "an exact mode counted a record behind the barrier"),
        (!at_least_once && seen.doubled, "an exact mode doubled output"),
        (
            alone && job.crashes == 0 && !seen.above_the_cut && job.channels.iter().max() > Some(&1),
            "nothing over-counts",
        ),
    ];
    wrong.into_iter().find(|&(is_wrong, _)| is_wrong).map(|(_, witness)| witness)
}

#[test]
fn no_schedule_of_any_mode_or_switch_of_modes_breaks_a_promise() {
    let scenarios = scenarios::rules(size());
    let reports = explore_all(&scenarios);
    let (states, longest) =
        (reports.iter().map(|report| report.states).sum::<usize>(), reports.iter().map(|r| r.longest));
    println!("{} explorations, {states} states, longest run {:?} steps", reports.len(), longest.max());
    let mut complaints: Vec<String> =
        scenarios.iter().zip(&reports).filter_map(|(scenario, report)| complaint(scenario, report)).collect();
    complaints.sort_by_key(String::len);
    let shortest: Vec<&str> = complaints.iter().take(3).map(String::as_str).collect();
    assert!(complaints.is_empty(), "{} scenarios failed; the shortest:\n{}", complaints.len(), shortest.join("\n"));
    let doubled = scenarios.iter().zip(&reports).any(|(_, report)| report.observed.doubled);
    assert!(doubled, "at least once must be seen to count twice after some restore");
}

#[test]
fn every_mutant_of_the_rules_is_caught() {
    let scenarios = scenarios::mutants();
    let reports = explore_all(&scenarios);
    for (scenario, report) in scenarios.iter().zip(&reports) {
        let (violation, schedule) = report.violation.as_ref().unwrap_or_else(|| panic!("{} survived", scenario.name));
        println!("{}: caught after {} steps: {violation}", scenario.name, schedule.len());
    }
}
