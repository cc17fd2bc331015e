//! Finds out where a pending checkpoint is: asks all workers, and puts together what they and the heartbeats say. It happens when
//! somebody wants to know, or by itself when a checkpoint takes long.
//!
//! It changes nothing: answers that are lost or late only make the picture poorer.

use super::desk::{Cx, earliest};
use super::running::{Running, Stage as Phase};
use super::{JobEvent, Located};
use crate::control::Order;
use crate::time::Time;
use crate::whereabouts::{Cause, Delay, MissingBarrier, SilentWorker, Stage, Standing, Whereabouts};
use flott_checkpoint::{CheckpointId, LiteSet, Outstanding, RequestId, SubtaskId};
use litemap::LiteMap;
use std::sync::Arc;
use std::time::Duration;

/// A step lasts about a millisecond: a worker that has not answered by then does not come to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A checkpoint that takes this long is spoken of …
const LONG: Duration = Duration::from_secs(10);
/// … or so many intervals, whatever is longer.
const LONG_IN_INTERVALS: u32 = 3;

/// Questions under way, and when to ask without being asked.
#[derive(Default)]
pub(super) struct Locating {
    asked: Option<Question>,
    /// The checkpoint that is pending, and when it will have taken long.
    long: Option<(CheckpointId, Time)>,
}

struct Question {
    id: CheckpointId,
    until: Time,
    silent: LiteSet<u16>,
    standings: LiteMap<SubtaskId, Standing>,
    requests: Vec<RequestId>,
    /// Everybody is to hear of it.
    aloud: bool,
}

impl Locating {
    pub(super) fn due(&self) -> Option<Time> {
        earliest(self.asked.as_ref().map(|asked| asked.until), self.long.map(|(_, moment)| moment))
    }
}

impl Running {
    fn outstanding(&self) -> Option<Outstanding> {
        match &self.stage {
            Phase::Open(open) => open.coordinator.outstanding(),
            Phase::Restoring | Phase::Closing { .. } => None,
        }
    }

    /// Somebody wants to know where the pending checkpoint is.
    pub(super) fn locate(&mut self, request: RequestId, cx: &mut Cx<'_>) {
        match self.outstanding() {
            Some(outstanding) => {
                let id = outstanding.barrier.id;
                self.question(id, cx).requests.push(request);
            }
            None => cx.out.located.push((request, None)),
        }
    }

    /// Begins to ask, if nobody has.
    fn question(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> &mut Question {
        let (attempt, workers) = (self.attempt.id, self.attempt.workers);
        let stale = self.locating.asked.take_if(|asked| asked.id != id);
        let requests = stale.map(|stale| stale.requests).unwrap_or_default();
        self.locating.asked.get_or_insert_with(|| {
            (0..workers).for_each(|worker| cx.mail(worker, attempt, Order::Locate(id)));
            Question {
                id,
                until: cx.now.after(PATIENCE),
                silent: (0..workers).collect(),
                standings: LiteMap::new_vec(),
                requests,
                aloud: false,
            }
        })
    }

    pub(super) fn on_located(&mut self, worker: u16, id: CheckpointId, standings: Vec<Standing>, cx: &mut Cx<'_>) {
        let Some(asked) = self.locating.asked.as_mut().filter(|asked| asked.id == id) else { return };
        asked.silent.remove(&worker);
        for standing in standings {
            asked.standings.insert(standing.subtask, standing);
        }
        if asked.silent.is_empty() {
            self.tell_where(cx);
        }
    }

    /// Looks whether it is time to answer, or to ask without being asked.
    pub(super) fn locate_on_time(&mut self, cx: &mut Cx<'_>) {
        if self.locating.asked.as_ref().is_some_and(|asked| asked.until <= cx.now) {
            self.tell_where(cx);
        }
        let Some(Outstanding { barrier, .. }) = self.outstanding() else {
            self.locating.long = None;
            return;
        };
        let options = &cx.desk.settings.coordinator;
        let long = LONG.max(options.interval.unwrap_or_default().saturating_mul(LONG_IN_INTERVALS));
        match self.locating.long {
            Some((id, moment)) if id == barrier.id && moment <= cx.now => {
                self.locating.long = Some((id, cx.now.after(long)));
                self.question(id, cx).aloud = true;
            }
            Some((id, _)) if id == barrier.id => {}
            _ => self.locating.long = Some((barrier.id, Time::of_millis(barrier.triggered_at).after(long))),
        }
    }

    /// Answers with what is known by now.
    fn tell_where(&mut self, cx: &mut Cx<'_>) {
        let Some(asked) = self.locating.asked.take() else { return };
        let outstanding = self.outstanding().filter(|outstanding| outstanding.barrier.id == asked.id);
        let found: Located = outstanding.map(|outstanding| Arc::new(self.put_together(&asked, &outstanding, cx)));
        if let Some(found) = found.as_ref().filter(|_| asked.aloud) {
            cx.tell(JobEvent::Delayed(Arc::clone(found)));
        }
        cx.out.located.extend(asked.requests.into_iter().map(|request| (request, found.clone())));
    }

    /// Nobody will know any more.
    pub(super) fn stop_locating(&mut self, cx: &mut Cx<'_>) {
        let requests = self.locating.asked.take().map(|asked| asked.requests).unwrap_or_default();
        cx.out.located.extend(requests.into_iter().map(|request| (request, None)));
        self.locating.long = None;
    }

    fn put_together(&self, asked: &Question, outstanding: &Outstanding, cx: &Cx<'_>) -> Whereabouts {
        let pulses = cx.desk.world.heartbeats.pulses();
        let silent = asked.silent.iter().map(|&worker| {
            let pulse = pulses.get(usize::from(worker)).filter(|pulse| pulse.stepping);
            let (operator, record) = pulse.map_or((None, 0), |pulse| (pulse.operator.clone(), pulse.record));
            SilentWorker { worker, operator, record }
        });
        let mut delays = Vec::new();
        for &subtask in &outstanding.missing {
            let chain = self.attempt.plan.vertices.get(usize::from(subtask.vertex));
            let chain = chain.map(|vertex| vertex.name.clone()).unwrap_or_default();
            let delay = |from, cause| Delay { subtask, chain: chain.clone(), from, cause };
            let Some(standing) = asked.standings.get(&subtask) else { continue };
            match &standing.stage {
                Stage::Arriving(missing) => delays.extend(missing.iter().map(|barrier| {
                    let told = !outstanding.untaken.contains(&subtask);
                    delay(barrier.from, why(barrier, standing, told, &asked.standings))
                })),
                Stage::Scanning => delays.push(delay(None, Cause::Scanning)),
                Stage::Preparing => delays.push(delay(None, Cause::Preparing)),
                Stage::Uploading => delays.push(delay(None, Cause::Uploading)),
                Stage::Acked => delays.push(delay(None, Cause::Acking)),
                // Its decline is on its way.
                Stage::Over => {}
            }
        }
        Whereabouts {
            id: asked.id,
            mode: outstanding.barrier.mode,
            age: cx.now.since(Time::of_millis(outstanding.barrier.triggered_at)),
            recording: outstanding.recording,
            silent: silent.collect(),
            delays,
        }
    }
}

/// Why a channel has not delivered its barrier.
fn why(barrier: &MissingBarrier, standing: &Standing, told: bool, standings: &LiteMap<SubtaskId, Standing>) -> Cause {
    if barrier.arrived {
        return Cause::Queued { batches: barrier.batches, held: standing.held };
    }
    match barrier.from {
        None if told => Cause::OnItsWay,
        None => Cause::Untold,
        Some(from) => match standings.get(&from).map(|sender| &sender.stage) {
            // A worker that is silent has not forwarded anything, as far as anybody knows.
            None | Some(Stage::Arriving(_)) => Cause::Upstream,
            Some(_) => Cause::OnItsWay,
        },
    }
}
