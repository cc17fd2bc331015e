//! The invariants of the coordinator under random events: messages lost, doubled, late and of other attempts; declines,
//! expiry, failures, finishing, stopping. Afterwards everything is answered, and the job must come to its end.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
enum Move {
    Wait(u16),
    Trigger {
        full: bool,
    },
    Savepoint,
    Stop,
    /// A subtask acks an id relative to the newest one triggered; of this attempt or another.
    Ack {
        sink: bool,
        behind: u8,
        foreign: bool,
        full: bool,
        finished: bool,
    },
    Decline {
        sink: bool,
        behind: u8,
        foreign: bool,
    },
    Take {
        behind: u8,
    },
    Finish {
        sink: bool,
    },
    Record,
    FailRecord,
    Hear {
        sink: bool,
        behind: u8,
    },
    Commit {
        sink: bool,
        behind: u8,
    },
    Mode(u8),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (0u16..3000).prop_map(Move::Wait),
        1 => any::<bool>().prop_map(|full| Move::Trigger { full }),
        1 => Just(Move::Savepoint),
        1 => Just(Move::Stop),
        12 => (any::<bool>(), 0u8..3, prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(sink, behind, foreign, full, finished)| Move::Ack { sink, behind: behind / 2, foreign, full, finished }),
        1 => (any::<bool>(), 0u8..3, any::<bool>()).prop_map(|(sink, behind, foreign)| Move::Decline { sink, behind, foreign }),
        2 => (0u8..3).prop_map(|behind| Move::Take { behind }),
        1 => any::<bool>().prop_map(|sink| Move::Finish { sink }),
        6 => Just(Move::Record),
        1 => Just(Move::FailRecord),
        4 => (any::<bool>(), 0u8..4).prop_map(|(sink, behind)| Move::Hear { sink, behind }),
        4 => (any::<bool>(), 0u8..4).prop_map(|(sink, behind)| Move::Commit { sink, behind }),
        1 => (0u8..5).prop_map(Move::Mode),
    ]
}

/// What an observer of all actions knows.
#[derive(Default)]
struct Observer {
    newest: Option<CheckpointId>,
    /// Triggered, with who has acked in this attempt.
    open: Option<(Barrier, BTreeSet<SubtaskId>)>,
    recording: Option<CheckpointId>,
    recorded: BTreeSet<CheckpointId>,
    aborted: BTreeSet<CheckpointId>,
    finals: u32,
    over: bool,
}

struct Play {
    coordinator: Coordinator<u32>,
    now: u64,
    observer: Observer,
    committed: BTreeSet<SubtaskId>,
}

impl Play {
    fn new(tolerable_failures: u32) -> Play {
        let options = Options {
            interval: Some(Duration::from_secs(1)),
            timeout: Duration::from_secs(5),
            min_pause: Duration::from_millis(300),
            tolerable_failures,
            ..Options::default()
        };
        let coordinator = Coordinator::new(options, origin(), BOTH, [SOURCE], 0).expect("valid options");
        Play { coordinator, now: 0, observer: Observer::default(), committed: BTreeSet::new() }
    }

    fn id(&self, behind: u8) -> CheckpointId {
        CheckpointId(self.observer.newest.map_or(10, |id| id.0).saturating_sub(u64::from(behind)))
    }

    fn event(&mut self, m: Move) -> Event<u32> {
        let subtask = |sink: bool| if sink { SINK } else { SOURCE };
        let attempt = |foreign: bool| if foreign { AttemptId(3) } else { ATTEMPT };
        match m {
            Move::Wait(ms) => {
                self.now += u64::from(ms);
                Event::Tick
            }
            Move::Trigger { full } => Event::Trigger { request: RequestId(1), full },
            Move::Savepoint => Event::Savepoint { request: RequestId(2) },
            Move::Stop => Event::Stop,
            Move::Ack { sink, behind, foreign, full, finished } => {
                let (id, subtask, attempt) = (self.id(behind), subtask(sink), attempt(foreign));
                let named = self.coordinator.pending().and_then(|barrier| barrier.base);
                let base = if full { None } else { named };
                if let Some((barrier, acked)) = &mut self.observer.open
                    && barrier.id == id
                    && !foreign
                {
                    acked.insert(subtask);
                }
                Event::Acked(Ack { subtask, attempt, id, base, finished, bytes: 1, part: 0 })
            }
            Move::Decline { sink, behind, foreign } => {
                let (subtask, attempt) = (subtask(sink), attempt(foreign));
                Event::Declined { subtask, attempt, id: self.id(behind), reason: "no".to_owned() }
            }
            Move::Take { behind } => Event::TriggerTaken { subtask: SOURCE, attempt: ATTEMPT, id: self.id(behind) },
            Move::Finish { sink } => Event::Finished { subtask: subtask(sink), attempt: ATTEMPT },
            Move::Record => {
                let id = self.observer.recording.unwrap_or(self.id(0));
                if self.observer.recording.take().is_some() {
                    self.observer.recorded.insert(id);
                    self.observer.finals += u32::from(self.is_final(id));
                    self.observer.open = None;
                }
                Event::Recorded { id }
            }
            Move::FailRecord => {
                let id = self.observer.recording.take().unwrap_or(self.id(0));
                Event::RecordFailed { id, reason: "full".to_owned() }
            }
            Move::Hear { sink, behind } => {
                Event::ResolvedAcked { subtask: subtask(sink), attempt: ATTEMPT, id: self.id(behind) }
            }
            Move::Commit { sink, behind } => {
                let (subtask, id) = (subtask(sink), self.id(behind));
                if self.observer.finals > 0 && self.observer.recorded.last() <= Some(&id) {
                    self.committed.insert(subtask);
                }
                Event::CommitDone { subtask, attempt: ATTEMPT, id }
            }
            Move::Mode(n) => {
                self.coordinator.set_mode(*Mode::ALL.iter().cycle().nth(usize::from(n)).expect("a cycle"));
                Event::Tick
            }
        }
    }

    fn is_final(&self, id: CheckpointId) -> bool {
        self.observer.open.as_ref().is_some_and(|(barrier, _)| barrier.id == id && barrier.kind == Kind::Final)
    }

    fn play(&mut self, m: Move) -> Result<(), TestCaseError> {
        let event = self.event(m);
        let was_over = self.observer.over;
        let actions = self.coordinator.on(self.now, event);
        for action in actions {
            prop_assert!(!was_over || matches!(action, Action::Answer { .. }), "{action:?} after the end");
            self.observe(action)?;
        }
        Ok(())
    }

    fn observe(&mut self, action: Action<u32>) -> Result<(), TestCaseError> {
        let seen = &mut self.observer;
        match action {
            Action::SendTrigger { to, barrier } => {
                prop_assert_eq!(to, SOURCE);
                match &seen.open {
                    Some((open, _)) if open.id == barrier.id => prop_assert_eq!(open, &barrier),
                    Some((open, _)) => prop_assert!(false, "{} pending beside {}", barrier.id, open.id),
                    None => {
                        prop_assert!(Some(barrier.id) > seen.newest, "ids grow");
                        prop_assert_eq!(seen.finals, 0, "nothing after the final one");
                        prop_assert!(barrier.base.is_none_or(|base| base.0 == 9 || seen.recorded.contains(&base)));
                        seen.newest = Some(barrier.id);
                        seen.open = Some((barrier, BTreeSet::new()));
                    }
                }
            }
            Action::Record(completed) => {
                let Some((barrier, acked)) = &seen.open else { return Err(TestCaseError::fail("nothing is pending")) };
                prop_assert_eq!(&completed.barrier, barrier);
                prop_assert!(BOTH.iter().all(|subtask| acked.contains(subtask)), "a part is missing");
                prop_assert_eq!(completed.parts.iter().map(|part| part.subtask).collect::<Vec<_>>(), BOTH);
                prop_assert!(!completed.finished || barrier.kind == Kind::Final);
                prop_assert_eq!(seen.recording.replace(barrier.id), None, "recorded once");
            }
            Action::SendResolved { id, completed, .. } => {
                prop_assert_eq!(completed, seen.recorded.contains(&id), "{} resolved before it is in the log", id);
                prop_assert!(completed || seen.aborted.contains(&id));
            }
            Action::Note(tried) => {
                let id = tried.barrier.id;
                if !matches!(tried.outcome, Outcome::Completed { .. }) {
                    prop_assert!(seen.aborted.insert(id) && !seen.recorded.contains(&id), "one end for each");
                    prop_assert_ne!(seen.recording, Some(id), "aborted while it was being recorded");
                    seen.open = None;
                }
            }
            Action::FailJob(_) => seen.over = true,
            Action::Close { id, .. } => {
                prop_assert_eq!(seen.finals, 1);
                prop_assert_eq!(seen.recorded.last(), Some(&id));
                prop_assert_eq!(self.committed.len(), 2, "closed before every commit");
                seen.over = true;
            }
            Action::WakeAt(at) => prop_assert!(at > self.now, "a wake in the past spins"),
            Action::Answer { .. } => {}
        }
        Ok(())
    }

    /// From now on every message arrives and everything is answered.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.play(Move::Stop)?;
        for _ in 0..30 {
            if self.observer.over {
                break;
            }
            for sink in [false, true] {
                self.play(Move::Ack { sink, behind: 0, foreign: false, full: true, finished: false })?;
            }
            self.play(Move::Record)?;
            for sink in [false, true] {
                self.play(Move::Hear { sink, behind: 0 })?;
                self.play(Move::Commit { sink, behind: 0 })?;
            }
            self.play(Move::Wait(1500))?;
        }
        prop_assert!(self.observer.over, "the job never ends");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_coordinator_keeps_its_promises(moves in prop::collection::vec(any_move(), 1..120), tolerable in 0u32..6) {
        let mut play = Play::new(tolerable);
        for m in moves {
            play.play(m)?;
        }
        play.settle()?;
        let seen = &play.observer;
        let tried: BTreeSet<_> = seen.recorded.union(&seen.aborted).copied().collect();
        let all = seen.newest.map_or(0, |id| id.0 - 9);
        prop_assert_eq!(tried.len() as u64, all, "each checkpoint that was triggered is resolved");
    }
}
