//! Moments at which a process dies or is stopped, named after what it was just doing.

use crate::faults::{Coverage, Pair};
use flott_runtime::testing::Random;
use std::collections::BTreeMap;

/// A moment in the life of a process; the same as those of real processes.
pub use flott_runtime::testing::CrashPoint as Point;

/// What happens to the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Act {
    /// It is killed.
    Crash,
    /// The power fails: everything is gone, and what files were not synced for.
    PowerLoss,
    /// It is stopped and continued later.
    Stop,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Act::Crash => "crash",
            Act::PowerLoss => "power-loss",
            Act::Stop => "stop",
        }
    }
}

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
struct Incident {
    point: Point,
    /// How often the point is passed before.
    passes: u64,
    act: Act,
    /// Only this process, counted from 0.
    process: Option<usize>,
}

/// All that is going to happen at named moments.
#[derive(Clone, Debug)]
pub struct Incidents {
    /// Off in the heal phase.
    pub active: bool,
    list: Vec<Incident>,
    /// A second process is to be started while the first one runs, and stopped before its Start.
    pub rival: bool,
    passed: BTreeMap<(usize, Point), u64>,
    /// What happened so far.
    pub hit: Coverage,
}

/// Every pair of moment and act that must happen: a link without its unlink is a matter of a crash inside a call.
#[must_use]
pub fn all_pairs() -> Vec<Pair> {
    let acts = |point: Point| match point {
        Point::BetweenLinkAndUnlink => vec![Act::Crash],
        _ => vec![Act::Crash, Act::Stop],
    };
    Point::ALL.iter().flat_map(|&point| acts(point).into_iter().map(move |act| (point.label(), act.name()))).collect()
}

impl Incidents {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64, random: &mut Random) -> Incidents {
        let pick = |place: u64| Point::ALL.iter().copied().cycle().nth(usize::try_from(place % 11).unwrap_or(0));
        let mut list = Vec::new();
        let point = pick(seed).expect("a cycle");
        let favourite = Incident {
            point,
            // The end comes once.
            passes: if point == Point::AfterFinalSlot { 0 } else { random.below(3) },
            act: if (seed / 11).is_multiple_of(2) { Act::Crash } else { Act::Stop },
            process: None,
        };
        list.push(favourite);
        for _ in 0..random.below(4) {
            let act = match random.below(6) {
                0..=2 => Act::Crash,
                3 => Act::PowerLoss,
                _ => Act::Stop,
            };
            let (point, passes) = (pick(random.draw()).expect("a cycle"), random.below(6));
            list.push(Incident { point, passes, act, process: None });
        }
        // A second process that is stopped before its Start, while the first goes on: its slot may become a hole.
        let rival = random.one_in(3);
        if rival {
            list.push(Incident { point: Point::BeforeStart, passes: 0, act: Act::Stop, process: Some(1) });
        }
        Incidents { active: true, list, rival, passed: BTreeMap::new(), hit: Coverage::new() }
    }

    /// Whether a file sink is needed for them to happen.
    #[must_use]
    pub fn need_files(&self) -> bool {
        let of_files =
            |incident: &Incident| matches!(incident.point, Point::BetweenCommits | Point::BetweenLinkAndUnlink);
        self.list.first().is_some_and(of_files)
    }

    /// Whether the job must come to its end for them to happen.
    #[must_use]
    pub fn need_the_end(&self) -> bool {
        self.list.first().is_some_and(|incident| incident.point == Point::AfterFinalSlot)
    }

    /// Whether something may still happen at this moment.
    #[must_use]
    pub fn lie_ahead(&self, point: Point) -> bool {
        self.active && self.list.iter().any(|incident| incident.point == point)
    }

    /// A process passes a moment: what happens to it?
    pub fn pass(&mut self, process: usize, point: Point) -> Option<Act> {
        if !self.active {
            return None;
        }
        let passed = self.passed.entry((process, point)).or_default();
        let now = *passed;
        *passed += 1;
        let here = |incident: &Incident| {
            let meant = incident.process.is_none_or(|meant| meant == process);
            incident.point == point && meant && now >= incident.passes
        };
        let place = self.list.iter().position(here)?;
        let act = self.list.remove(place).act;
        let act = if point == Point::BetweenLinkAndUnlink && act == Act::Stop { Act::Crash } else { act };
        *self.hit.entry((point.label(), act.name())).or_default() += 1;
        Some(act)
    }
}
