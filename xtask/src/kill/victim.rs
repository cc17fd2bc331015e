//! A job in a process of its own: started, listened to, killed.

use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SIGKILL: i32 = 9;

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Death {
    /// By our hand.
    Killed,
    /// At a crash point.
    KilledItself,
    /// By itself, with this code.
    Exit(i32),
}

/// When it is to be killed.
pub(super) struct Moment {
    /// So long after its start at the latest.
    pub(super) patience: Duration,
    /// When it has completed so many checkpoints, and so long after.
    pub(super) checkpoints: Option<(u32, Duration)>,
}

/// What it said before.
#[derive(Default, Debug)]
pub(super) struct Life {
    pub(super) restored: Option<u64>,
    pub(super) completed: u32,
    pub(super) last_words: String,
}

pub(super) struct Victim {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    life: Life,
}

impl Victim {
    pub(super) fn start(
        binary: &Path,
        arguments: &[String],
        variables: &[(String, String)],
        crash_at: Option<&str>,
    ) -> Result<Victim, String> {
        let mut command = Command::new(binary);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(point) = crash_at {
            command.env("FLOTT_CRASH_AT", point);
        }
        let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().ok_or("no standard error")?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            let lines: VecDeque<&str> = text.lines().rev().take(5).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
        });
        Ok(Victim { child, lines, errors: Some(errors), life: Life::default() })
    }

    /// Waits until it ends.
    pub(super) fn wait(mut self) -> Result<(Death, Life), String> {
        while let Ok(line) = self.lines.recv() {
            self.listen(&line);
        }
        self.bury(false)
    }

    /// Kills it at that moment, unless it ends before.
    pub(super) fn kill_at(&mut self, Moment { patience, mut checkpoints }: Moment) -> Result<(Death, Life), String> {
        let mut deadline = Instant::now() + patience;
        loop {
            if let Some((_, after)) = checkpoints.take_if(|(wanted, _)| self.life.completed >= *wanted) {
                deadline = deadline.min(Instant::now() + after);
            }
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.listen(&line),
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill().map_err(|error| format!("cannot kill the job: {error}"))?;
                    while let Ok(line) = self.lines.recv() {
                        self.listen(&line);
                    }
                    return self.bury(true);
                }
                Err(RecvTimeoutError::Disconnected) => return self.bury(false),
            }
        }
    }

    fn listen(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        match event.get("event").and_then(Value::as_str) {
            Some("restored") => self.life.restored = number("checkpoint"),
            // The other status is `aborted`.
            Some("checkpoint") if event.get("status").and_then(Value::as_str) == Some("completed") => {
                self.life.completed += 1;
            }
            _ => {}
        }
    }

    fn bury(&mut self, by_us: bool) -> Result<(Death, Life), String> {
        let status = self.child.wait().map_err(|error| format!("cannot wait for the job: {error}"))?;
        let mut life = std::mem::take(&mut self.life);
        life.last_words = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let death = match (status.code(), status.signal()) {
            (Some(code), _) => Death::Exit(code),
            (None, Some(SIGKILL)) if by_us => Death::Killed,
            (None, Some(SIGKILL)) => Death::KilledItself,
            (None, signal) => {
                return Err(format!("the job died of signal {signal:?}; last words: {}", life.last_words));
            }
        };
        Ok((death, life))
    }
}
