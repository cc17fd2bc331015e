//! Crash points: where a test lets the process kill or stop itself, to hit moments that are too short to hit from outside.
//!
//! Only with the feature `testing`. `FLOTT_CRASH_AT=POINT` raises SIGKILL, `FLOTT_STOP_AT=POINT` raises SIGSTOP, once, the
//! first time the point is reached. The points are found by looking at what passes by, so nothing else knows of them.

use flott_checkpoint::{CheckpointId, Kind, LogEntry};
use flott_runtime::control::Report;
use flott_runtime::error::{Error, Result};
use flott_runtime::io::files::OsFiles;
use flott_runtime::io::{FileInfo, Files, ReadFile, StorageReply, StorageRequest, WriteFile, is_elsewhere};
use flott_runtime::layout::{Name, SAVEPOINT, UNFINISHED, parse};
use flott_runtime::manifest::Manifest;
use flott_runtime::testing::CrashPoint as Point;
use rustix::process::{Signal, getpid, kill_process};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the environment asks to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    At(Point),
    /// Before the n-th request to the storage, counted from 1.
    Step(u64),
    /// While a savepoint is being copied.
    Savepoint(Copying),
}

/// The moments of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copying {
    /// Its first segment is about to become visible.
    BeforeBlob,
    /// All segments are there.
    BeforeManifest,
    /// The manifest is.
    BeforeEntry,
    /// It is complete; nobody was told.
    AfterEntry,
}

impl Copying {
    const ALL: [(&'static str, Copying); 4] = [
        ("BeforeSavepointBlob", Copying::BeforeBlob),
        ("BeforeSavepointManifest", Copying::BeforeManifest),
        ("BeforeSavepointEntry", Copying::BeforeEntry),
        ("AfterSavepointEntry", Copying::AfterEntry),
    ];
}

impl FromStr for Wish {
    type Err = Error;

    fn from_str(text: &str) -> Result<Wish> {
        if let Some(point) = Point::ALL.iter().find(|point| point.name() == text) {
            return Ok(Wish::At(*point));
        }
        if let Some((_, copying)) = Copying::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(Wish::Savepoint(*copying));
        }
        let step =
            text.strip_prefix("Step(").and_then(|rest| rest.strip_suffix(')')).and_then(|step| step.parse().ok());
        step.map(Wish::Step).ok_or_else(|| {
            let copying = Copying::ALL.iter().map(|(name, _)| *name);
            let known: Vec<&str> = Point::ALL.iter().map(|point| point.name()).chain(copying).collect();
            Error::refused(format!("`{text}` is no crash point; known are {} and Step(n)", known.join(", ")))
        })
    }
}

/// Watches what passes by, and does what the environment asked for.
pub(super) struct Crash {
    wish: Wish,
    signal: Signal,
    done: AtomicBool,
    requests: AtomicU64,
    final_checkpoint: Mutex<Option<CheckpointId>>,
}

impl Crash {
    /// What the environment asks for, if anything.
    ///
    /// # Errors
    /// `Refused` for a point that there is none of.
    pub(super) fn from_environment() -> Result<Option<Arc<Crash>>> {
        let wish = |name: &str, signal| std::env::var(name).ok().map(|text| (text, signal));
        let Some((text, signal)) = wish("FLOTT_CRASH_AT", Signal::KILL).or_else(|| wish("FLOTT_STOP_AT", Signal::STOP))
        else {
            return Ok(None);
        };
        let (done, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Some(Arc::new(Crash { wish: text.parse()?, signal, done, requests, final_checkpoint: Mutex::new(None) })))
    }

    fn reached(&self, point: Point) {
        self.come_to(Wish::At(point));
    }

    fn come_to(&self, here: Wish) {
        if self.wish == here && !self.done.swap(true, Ordering::SeqCst) {
            let _ = kill_process(getpid(), self.signal);
            // Any thread may be the one that takes the signal and stops all; until it has, this one would run on.
            while is_pending(self.signal) {
                std::thread::yield_now();
            }
            // A stopped process goes on here when it is continued.
        }
    }

    pub(super) fn before_request(&self, request: &StorageRequest) {
        self.come_to(Wish::Step(self.requests.fetch_add(1, Ordering::SeqCst) + 1));
        match request {
            StorageRequest::Create { path, bytes } => match parse(path) {
                Some(Name::Slot(_)) if is_start(bytes) => self.reached(Point::BeforeStart),
                Some(Name::Manifest(..)) => {
                    let last = Manifest::decode(path, bytes).ok().filter(|manifest| manifest.kind == Kind::Final);
                    if let Some(manifest) = last {
                        *self.final_checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(manifest.id);
                    }
                    self.reached(Point::AfterLastAck);
                }
                _ => {}
            },
            StorageRequest::Read { path, .. } if is_segment(path) => {
                self.reached(Point::DuringRestore);
            }
            StorageRequest::Delete { path } if !matches!(parse(path), Some(Name::History(..)) | None) => {
                self.reached(Point::DuringCollection);
            }
            _ => {}
        }
    }

    pub(super) fn after_request(&self, request: &StorageRequest, reply: &StorageReply) {
        let StorageRequest::Create { path, bytes } = request else { return };
        if !matches!(reply, StorageReply::Created) {
            return;
        }
        match parse(path) {
            Some(Name::Manifest(..)) => self.reached(Point::AfterManifest),
            Some(Name::Slot(_)) if is_start(bytes) => self.reached(Point::AfterStart),
            Some(Name::Slot(_)) => {
                let ended = *self.final_checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
                if let Ok(LogEntry::Checkpoint(entry)) = LogEntry::decode(bytes)
                    && Some(entry.id) == ended
                {
                    self.reached(Point::AfterFinalSlot);
                }
                self.reached(Point::AfterLogSlot);
            }
            _ => {}
        }
    }

    /// A request to the storage of a savepoint.
    pub(super) fn before_copying(&self, request: &StorageRequest) {
        match request {
            StorageRequest::Finish { .. } => self.come_to(Wish::Savepoint(Copying::BeforeBlob)),
            StorageRequest::Create { path, .. } if path == SAVEPOINT => {
                self.come_to(Wish::Savepoint(Copying::BeforeEntry));
            }
            StorageRequest::Create { path, .. } if path != UNFINISHED => {
                self.come_to(Wish::Savepoint(Copying::BeforeManifest));
            }
            _ => {}
        }
    }

    /// The storage of a savepoint has answered.
    pub(super) fn after_copying(&self, request: &StorageRequest) {
        if matches!(request, StorageRequest::Create { path, .. } if path == SAVEPOINT) {
            self.come_to(Wish::Savepoint(Copying::AfterEntry));
        }
    }

    pub(super) fn before_report(&self, report: &Report) {
        if matches!(report, Report::Acked { .. }) {
            self.reached(Point::BeforeAck);
        }
    }

    /// Files that know the moments of a commit: a part is published by a link, and its pending name removed.
    pub(super) fn watch(self: &Arc<Crash>, files: Arc<dyn Files>) -> Arc<dyn Files> {
        Arc::new(Watched { files, crash: Arc::clone(self) })
    }
}

/// Whether this process has such a signal before it that no thread has taken yet, as far as the system says.
fn is_pending(signal: Signal) -> bool {
    let mut status = [0; 4_096];
    let read = OsFiles.open(Path::new("/proc/self/status")).and_then(|mut file| file.read_at(0, &mut status));
    let status = String::from_utf8_lossy(status.get(..read.unwrap_or(0)).unwrap_or_default());
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal.as_raw() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 != 0)
}

fn is_segment(path: &str) -> bool {
    let path = is_elsewhere(path).map_or(path, |(_, path)| path);
    matches!(parse(path), Some(Name::Segment { .. }))
}

fn is_start(bytes: &[u8]) -> bool {
    matches!(LogEntry::decode(bytes), Ok(LogEntry::Start(_)))
}

struct Watched {
    files: Arc<dyn Files>,
    crash: Arc<Crash>,
}

impl Files for Watched {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        self.files.open(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.files.create_new(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.files.info(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.files.list(directory)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.files.glob(pattern)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.files.create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.files.sync_dir(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.files.sync_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.link(from, to)?;
        self.crash.reached(Point::BetweenLinkAndUnlink);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)?;
        self.crash.reached(Point::BetweenCommits);
        Ok(())
    }

    fn give_up(&self, path: &Path) {
        self.files.give_up(path);
    }

    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        self.files.is_directory(path)
    }

    fn ask(&self, path: &Path, question: Box<dyn FnOnce() + Send>) {
        self.files.ask(path, question);
    }
}
