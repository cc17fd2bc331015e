//! All steps, in all orders. Depth first, so that a run which never ends is seen as a circle.

use crate::job::Job;
use crate::properties::{self, Violation};
use crate::shared::Fingerprint;
use crate::world::{Observed, Step, World};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

pub struct Report {
    pub states: usize,
    pub ends: usize,
    pub longest: usize,
    pub observed: Observed,
    /// What went wrong, and the schedule that led there.
    pub violation: Option<(Violation, Vec<String>)>,
    pub is_complete: bool,
}

struct Frame {
    world: World,
    print: u64,
    steps: Vec<Step>,
    next: usize,
}

type Prints = HashSet<u64, BuildHasherDefault<AsIs>>;

/// Stops at the first violation, or when there are more states than `limit`.
pub fn explore(job: &Job, limit: usize) -> Report {
    let mut report =
        Report { states: 0, ends: 0, longest: 0, observed: Observed::default(), violation: None, is_complete: true };
    let (mut seen, mut on_path) = (Prints::default(), Prints::default());
    let start = Frame::new(World::new(job), job);
    seen.insert(start.print);
    on_path.insert(start.print);
    let mut path = vec![start];
    while let Some(top) = path.last_mut() {
        let Some(&step) = top.steps.get(top.next) else {
            on_path.remove(&top.print);
            path.pop();
            continue;
        };
        top.next += 1;
        match follow(job, &top.world, step, &mut seen, &on_path, &mut report) {
            Ok(Some(next)) => {
                on_path.insert(next.print);
                path.push(next);
                report.longest = report.longest.max(path.len());
            }
            Ok(None) => {}
            Err(violation) => {
                report.violation = Some((violation, schedule(job, &path)));
                break;
            }
        }
        if seen.len() >= limit {
            report.is_complete = false;
            break;
        }
    }
    report.states = seen.len();
    report
}

/// The state behind the step, if it is new.
fn follow(
    job: &Job,
    from: &World,
    step: Step,
    seen: &mut Prints,
    on_path: &Prints,
    report: &mut Report,
) -> Result<Option<Frame>, Violation> {
    let world = from.after(job, step, &mut report.observed)?;
    let print = fingerprint(&world);
    if on_path.contains(&print) {
        return Err("a circle: this run need not end".into());
    }
    if !seen.insert(print) {
        return Ok(None);
    }
    let mut steps = world.steps(job);
    if steps.is_empty() {
        report.ends += 1;
        properties::check_end(job, &world, &mut report.observed)?;
    }
    steps.extend(world.faults());
    Ok(Some(Frame { world, print, steps, next: 0 }))
}

impl Frame {
    fn new(world: World, job: &Job) -> Frame {
        let mut steps = world.steps(job);
        steps.extend(world.faults());
        Frame { print: fingerprint(&world), world, steps, next: 0 }
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = Fingerprint::default();
    world.hash(&mut hasher);
    hasher.finish()
}

/// The steps of the current path, each with the checkpoints that are pending after it.
fn schedule(job: &Job, path: &[Frame]) -> Vec<String> {
    let line = |frame: &Frame| {
        let step = frame.steps[frame.next - 1];
        match frame.world.after(job, step, &mut Observed::default()) {
            Err(_) => format!("{step:?}: here it goes wrong"),
            Ok(world) => {
                let pending = world.coordinator.pending.iter().map(|pending| pending.barrier);
                let pending: Vec<_> = pending.map(|barrier| format!("{} {}", barrier.id, barrier.mode)).collect();
                format!("{step:?}; pending: {pending:?}")
            }
        }
    };
    path.iter().map(line).collect()
}

/// The keys are fingerprints already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
