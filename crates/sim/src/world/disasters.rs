//! What goes wrong with whole processes: they die, the power fails, they are stopped and go on later, a second one is started.
//! And what users do to a running job. In the end everything heals.

use super::{Stage, World};
use crate::happening::Happening;
use crate::incidents::Act;
use crate::invariants::Checked;
use crate::process::Life;
use crate::setup::BEGIN;
use flott_checkpoint::RequestId;
use flott_runtime::error::Error;
use flott_runtime::io::StorageRequest;
use flott_runtime::job_manager::{Command, ManagerEvent};
use flott_runtime::time::Time;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl World {
    /// Decides when things go wrong that have no name.
    pub(super) fn plan_troubles(&mut self) {
        let span = self.setup.heal_at.since(BEGIN).min(Duration::from_secs(4));
        let span = u64::try_from(span.as_micros()).expect("a few seconds");
        if self.incidents.rival {
            let moment = Time(BEGIN.0 + 100_000 + self.random.below(400_000));
            self.agenda.at(moment, Happening::Launch);
            // Full checkpoints make retention forget those before.
            (1..5).for_each(|step| self.agenda.at(moment.after(Duration::from_millis(step * 150)), Happening::Full));
        }
        let bad_rows = if self.setup.has_bad_disk() { 8 } else { self.random.below(3) };
        for _ in 0..bad_rows {
            let moment = Time(BEGIN.0 + self.random.below(span));
            self.agenda.at(moment, Happening::BadRow);
        }
        for _ in 0..self.random.below(if self.incidents.rival { 3 } else { 9 }) {
            let moment = Time(BEGIN.0 + self.random.below(span));
            self.agenda.at(moment, Happening::Trouble);
        }
    }

    pub(super) fn trouble(&mut self) -> Checked {
        let running: Vec<usize> = (0..self.processes.len()).filter(|index| self.is_running(*index)).collect();
        if !self.faults.active || running.is_empty() {
            return Ok(());
        }
        let place = usize::try_from(self.random.below(running.len() as u64)).expect("a small number");
        let process = running.get(place).copied().unwrap_or(0);
        match self.random.below(16) {
            0 | 1 => self.act(process, Act::Crash),
            2 => self.act(process, Act::PowerLoss),
            3 => self.act(process, Act::Stop),
            4 | 5 => self.workers_die(process),
            6 | 7 => self.launch(),
            choice => {
                let command = self.draw_command(choice);
                self.command(process, command)
            }
        }
    }

    /// The user asks for a full checkpoint.
    pub(super) fn ask_for_full(&mut self) -> Checked {
        let running = (0..self.processes.len()).find(|index| self.is_running(*index));
        running
            .map_or(Ok(()), |process| self.command(process, Command::Checkpoint { full: true, request: RequestId(1) }))
    }

    pub(super) fn is_running(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|it| it.life == Life::Runs)
    }

    fn draw_command(&mut self, choice: u64) -> Command {
        let place = usize::try_from(self.random.below(self.setup.modes.len() as u64)).expect("a small number");
        match choice {
            8 | 9 => {
                Command::Set { mode: Some(self.setup.modes.get(place).copied().expect("in range")), interval: None }
            }
            10 => Command::Set { mode: None, interval: Some(Duration::from_millis(20 + self.random.below(300))) },
            11 | 12 => Command::Checkpoint { full: true, request: RequestId(1) },
            13 => Command::Checkpoint { full: false, request: RequestId(1) },
            14 => Command::Savepoint { request: RequestId(1) },
            _ if self.random.one_in(3) => Command::Cancel,
            _ if place == 1 => Command::EndWithSavepoint { drain: false },
            _ => Command::Stop,
        }
    }

    pub(super) fn command(&mut self, process: usize, command: Command) -> Checked {
        self.say(|| format!("process {process} is told: {command:?}"));
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        if matches!(command, Command::Stop | Command::Cancel | Command::EndWithSavepoint { .. }) {
            it.told_to_stop = true;
        }
        self.manage(process, ManagerEvent::Command(command))
    }

    /// The host notices that the workers are gone: a panic in user code, a lost thread.
    fn workers_die(&mut self, process: usize) -> Checked {
        let Some((attempt, _)) = self.processes.get_mut(process).and_then(|it| it.host.take()) else { return Ok(()) };
        self.say(|| format!("the workers of process {process} die"));
        let moment = self.soon(10, 5_000);
        let error = Some(Error::failed("injected: the workers died"));
        self.agenda.at(moment, Happening::AttemptEnded(process, attempt, error));
        Ok(())
    }

    /// Something happens to a process.
    pub(super) fn act(&mut self, process: usize, act: Act) -> Checked {
        self.say(|| format!("process {process}: {act:?}"));
        match act {
            Act::Crash => self.crash(process)?,
            Act::PowerLoss => {
                for index in 0..self.processes.len() {
                    self.crash(index)?;
                }
                let seed = self.random.draw();
                self.files.crash(seed);
                self.check_output(None)?;
            }
            Act::Stop => self.stop(process),
        }
        self.supervise();
        Ok(())
    }

    /// A process dies. Requests under way may still take effect; calls may be half done.
    fn crash(&mut self, process: usize) -> Checked {
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        if it.life == Life::Gone {
            return Ok(());
        }
        it.life = Life::Gone;
        it.host = None;
        it.deferred.clear();
        let mut random = self.random.fork();
        let mut lost: BTreeSet<String> = BTreeSet::new();
        self.agenda.retain(|happening| {
            let Happening::Effect(request, _) = happening else { return true };
            if request.process != process {
                return true;
            }
            let path = match &request.request {
                StorageRequest::Append { path, .. } | StorageRequest::Finish { path } => path.clone(),
                _ => return random.one_in(2),
            };
            // What follows a lost piece of a blob is lost as well.
            if lost.contains(&path) || random.one_in(2) {
                lost.insert(path);
                return false;
            }
            true
        });
        let calls =
            self.agenda.take_if(|happening| matches!(happening, Happening::Call(owner, ..) if *owner == process));
        for happening in calls {
            let Happening::Call(_, attempt, _, _, call) = happening else { continue };
            if random.one_in(2) {
                self.disk.begin(Some(random.below(9)), false);
                drop((call.0)());
                self.disk.end();
                self.check_output(Some(attempt))?;
            }
        }
        Ok(())
    }

    /// A process is stopped for a while; somebody may start another one meanwhile.
    fn stop(&mut self, process: usize) {
        let for_long = self.random.one_in(2) || (self.incidents.rival && process == 1);
        let moment = if for_long { self.soon(800_000, 4_000_000) } else { self.soon(1_000, 800_000) };
        let Some(it) = self.processes.get_mut(process) else { return };
        it.life = Life::Stopped;
        self.agenda.at(moment, Happening::Continue(process));
    }

    /// A stopped process is continued: all that came for it meanwhile comes now.
    pub(super) fn go_on(&mut self, process: usize) -> Checked {
        let now = self.now();
        let Some(it) = self.processes.get_mut(process) else { return Ok(()) };
        if it.life != Life::Stopped {
            return Ok(());
        }
        it.life = Life::Runs;
        self.zombies += u64::from(it.attempt.is_some_and(|attempt| self.ledger.is_superseded(attempt)));
        let deferred = std::mem::take(&mut it.deferred);
        deferred.into_iter().for_each(|happening| self.agenda.at(now, happening));
        Ok(())
    }

    /// Nothing fails any more.
    pub(super) fn heal(&mut self) -> Checked {
        self.faults.active = false;
        self.incidents.active = false;
        self.disk.heal();
        self.setup.job.fails_next.store(false, Ordering::Relaxed);
        for process in 0..self.processes.len() {
            self.go_on(process)?;
        }
        if self.stage == Stage::Going {
            self.supervise();
        }
        Ok(())
    }
}
