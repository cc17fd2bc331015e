//! Many seeds: what they found, what they covered, and whether a broken rule is noticed.

use crate::faults::{Coverage, Pair};
use crate::invariants::Violation;
use crate::mutation::Mutation;
use crate::setup::{Era, Setup};
use crate::world::{Ran, World};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

/// A seed that found something.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub violation: Violation,
}

impl Failure {
    /// The command that shows it again.
    #[must_use]
    pub fn replay(&self, mutation: Option<Mutation>) -> String {
        let mutate = mutation.map_or(String::new(), |mutation| format!(" --mutate {mutation}"));
        format!("cargo run -p flott-sim -- --seed {}{mutate}", self.seed)
    }
}

/// Within so many seeds every broken rule is noticed. Most are within 40; a hole of the log needs a rival that is stopped before its
/// Start, and a retention that passes it.
pub const SEEDS_TO_NOTICE: u64 = 600;

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that found something.
    pub failures: Vec<Failure>,
    /// How often each pair was hit.
    pub coverage: Coverage,
    /// Checkpoints recorded in all runs.
    pub recorded: u64,
    /// Those of them with records in flight.
    pub in_flight: u64,
    /// Answers that said where a pending checkpoint was.
    pub told: u64,
    /// Processes started.
    pub processes: u64,
    /// Attempts started.
    pub attempts: u64,
    /// Those of them that restored a checkpoint of another number of workers.
    pub rescaled: u64,
    /// Processes that went on after another one had taken the job.
    pub zombies: u64,
    /// Simulated time.
    pub simulated: Duration,
}

impl Summary {
    /// Pairs of call or message and fault that no seed hit.
    #[must_use]
    pub fn never_hit(&self) -> Vec<Pair> {
        let all = crate::faults::all_pairs().into_iter().chain(crate::incidents::all_pairs());
        all.filter(|pair| self.coverage.get(pair).is_none_or(|hits| *hits == 0)).collect()
    }
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic of the code under test is a finding: its text is kept, not printed.
fn keep_panics() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let watched = PANIC.with_borrow_mut(|kept| match kept {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            });
            if !watched {
                before(info);
            }
        }));
    });
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64, mutation: Option<Mutation>, trace: bool) -> Ran {
    run_seed_of(Era::Current, seed, mutation, trace)
}

/// Runs one seed as it was meant in an era.
#[must_use]
pub fn run_seed_of(era: Era, seed: u64, mutation: Option<Mutation>, trace: bool) -> Ran {
    keep_panics();
    PANIC.set(Some(String::new()));
    flott_runtime::mutation::set(mutation.and_then(Mutation::inner));
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(Setup::of(era, seed, mutation), trace).run()));
    flott_runtime::mutation::set(None);
    let text = PANIC.take().unwrap_or_default();
    ran.unwrap_or_else(|_| Ran {
        violation: Some(Violation { invariant: "panic", text }),
        coverage: Coverage::new(),
        digest: 0,
        recorded: 0,
        in_flight: 0,
        told: 0,
        processes: 0,
        attempts: 0,
        rescaled: 0,
        zombies: 0,
        lasted: Duration::ZERO,
    })
}

/// Runs seeds from `first` on; `progress` is told after each one. A broken rule ends it at the first finding.
pub fn run_seeds(
    first: u64,
    count: u64,
    mutation: Option<Mutation>,
    mut progress: impl FnMut(u64, &Summary),
) -> Summary {
    let mut summary = Summary::default();
    for seed in first..first + count {
        let ran = run_seed(seed, mutation, false);
        summary.seeds += 1;
        summary.recorded += ran.recorded;
        summary.in_flight += ran.in_flight;
        summary.told += ran.told;
        summary.processes += ran.processes as u64;
        summary.attempts += ran.attempts;
        summary.rescaled += ran.rescaled;
        summary.zombies += ran.zombies;
        summary.simulated += ran.lasted;
        for (pair, hits) in ran.coverage {
            *summary.coverage.entry(pair).or_default() += hits;
        }
        summary.failures.extend(ran.violation.map(|violation| Failure { seed, violation }));
        progress(seed, &summary);
        if mutation.is_some() && !summary.failures.is_empty() {
            break;
        }
    }
    summary
}
