//! One job under observation: started, listened to, disturbed, and started again until it has finished.

use super::oracle::{Load, Reader};
use super::sample::{Counts, Sample, take};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A mode change waits no longer for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The last words of a process that failed.
const LAST_WORDS: usize = 4_000;

/// What is always the same of a job.
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) binary: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) load: Load,
    /// Arguments besides directories and records.
    pub(super) arguments: Vec<String>,
}

/// A process of the job.
struct Life {
    child: Child,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
    socket: Option<String>,
    /// What the last event about its end said.
    ended: Option<String>,
}

pub(super) struct Site {
    pub(super) setup: Setup,
    life: Option<Life>,
    /// It is being stopped.
    stopping: bool,
    pub(super) finished: bool,
    pub(super) reader: Reader,
    pub(super) counts: Counts,
    pub(super) samples: Vec<Sample>,
    /// Restarts of the current process.
    restarts: u64,
}

impl Site {
    pub(super) fn new(setup: Setup) -> Site {
        let reader = Reader::new(setup.load, &setup.directory.join("out"));
        let (counts, samples) = (Counts::default(), Vec::new());
        Site { setup, life: None, stopping: false, finished: false, reader, counts, samples, restarts: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.setup.directory.join(name)
    }

    /// Starts it, or starts it again.
    fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new(&self.setup.binary);
        command.args(["--json", "--workers", "2", "--checkpoint-interval", "200ms"]).args(&self.setup.arguments);
        command.arg("--checkpoint-dir").arg(self.path("checkpoints")).arg("--output").arg(self.path("out"));
        command.arg("--records").arg(self.setup.load.records.to_string());
        command.env("FLOTT_LOG", "off").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let binary = self.setup.binary.display();
        let mut child = command.spawn().map_err(|error| format!("cannot start {binary}: {error}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let stdout = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
            // Ends when nobody listens any more.
            for line in stdout {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || stderr.map(tail).unwrap_or_default());
        self.life = Some(Life { child, lines, errors, socket: None, ended: None });
        (self.stopping, self.restarts) = (false, 0);
        Ok(())
    }

    /// Hears what it says, and starts it if it does not run and has not finished.
    pub(super) fn tend(&mut self) -> Result<(), String> {
        if self.finished {
            return Ok(());
        }
        if self.life.is_none() {
            self.start()?;
        }
        loop {
            let Some(life) = &self.life else { return Ok(()) };
            match life.lines.try_recv() {
                Ok(line) => self.hear(&line),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.bury(false),
            }
        }
    }

    fn hear(&mut self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
        match text("event").unwrap_or_default().as_str() {
            "started" | "restored" => {
                if let Some(life) = &mut self.life {
                    life.socket = text("socket");
                }
            }
            "restart" => {
                self.restarts += 1;
                self.counts.restarts += 1;
            }
            "checkpoint" if text("status").as_deref() == Some("completed") => self.counts.completed += 1,
            "checkpoint" => self.counts.aborted += 1,
            "finished" => {
                if let Some(life) = &mut self.life {
                    life.ended = text("ended");
                }
            }
            _ => {}
        }
    }

    /// It has ended, or is ended now.
    fn bury(&mut self, by_us: bool) -> Result<(), String> {
        let Some(mut life) = self.life.take() else { return Ok(()) };
        let name = self.setup.name;
        let status = life.child.wait().map_err(|error| format!("cannot wait for the job `{name}`: {error}"))?;
        let words = life.errors.join().unwrap_or_default();
        match (status.code(), life.ended.as_deref()) {
            (Some(0), Some("finished" | "finished-before")) => self.finished = true,
            (Some(0), _) if self.stopping => {}
            (None, _) if by_us => {}
            _ => return Err(format!("the job `{name}` ended by itself ({status}); its last words: {words}")),
        }
        Ok(())
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let Some(life) = &mut self.life else { return Ok(()) };
        life.child.kill().map_err(|error| format!("cannot kill the job: {error}"))?;
        self.counts.deaths += 1;
        // What it has said counts.
        while let Some(line) = self.life.as_ref().and_then(|life| life.lines.recv().ok()) {
            self.hear(&line);
        }
        self.bury(true)
    }

    /// SIGTERM: it stops with a final checkpoint, and goes on from there.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let Some(life) = &self.life else { return Ok(()) };
        let pid = life.child.id().to_string();
        self.stopping = true;
        self.counts.deaths += 1;
        let status = Command::new("kill").args(["-TERM", &pid]).status();
        status.map(|_| ()).map_err(|error| format!("cannot run kill: {error}"))
    }

    /// Takes the next checkpoints in another way. A job that restarts or ends at this moment cannot be asked: no failure.
    pub(super) fn change(&self, mode: &str, interval: Duration) {
        let Some(socket) = self.life.as_ref().and_then(|life| life.socket.as_deref()) else { return };
        let request = serde_json::json!({
            "request": "set", "checkpoint_mode": mode, "checkpoint_interval": format!("{}ms", interval.as_millis()),
        });
        let _ = ask(Path::new(socket), &request);
    }

    /// Looks at everything once.
    pub(super) fn sample(&mut self, at: f64) -> Result<(), String> {
        self.reader.look(self.counts.completed, self.finished)?;
        self.counts.rows = self.reader.rows;
        if !self.finished {
            let pid = self.life.as_ref().map(|life| life.child.id());
            let (checkpoints, output) = (self.path("checkpoints"), self.path("out"));
            self.samples.push(take(at, pid, &checkpoints, &output, self.counts));
        }
        Ok(())
    }

    /// What the newest sample says, for the progress line.
    pub(super) fn line(&self) -> String {
        let c = self.counts;
        let rss = self.samples.last().and_then(|sample| *sample.figures.first()?).unwrap_or_default();
        format!(
            "{}: {rss:.1} MiB, {} checkpoints, {} restarts, {} deaths, {} rows right",
            self.setup.name, c.completed, c.restarts, c.deaths, c.rows
        )
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(life) = &mut self.life {
            let _ = life.child.kill();
            let _ = life.child.wait();
        }
    }
}

fn ask(socket: &Path, request: &Value) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    BufReader::new(stream).read_line(&mut String::new()).map(|_| ())
}

/// Reads to the end and keeps the last of it: a process that talks much must not fill our memory.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut piece) {
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
