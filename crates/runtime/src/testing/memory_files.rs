//! A file system in memory with the crash semantics of a real one, for tests and the simulator.
//!
//! - Bytes are durable after a sync of their file, names after a sync of their directory, each for itself; [`MemoryFiles::crash`]
//!   keeps any part of the rest, and may tear the end of a file.
//! - Every call can be made to fail, to fail after it succeeded, or to stop half-way, by a [`Hook`].
//! - Hard links and identities work; a file lives on while somebody has it open.
//!
//! Deterministic: the outcome depends on the calls, the hook and the seeds alone. Relative paths begin at the root.

mod disk;
#[cfg(test)]
mod tests;

use crate::io::{FileInfo, Files, ReadFile, WriteFile};
use disk::Disk;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file system in memory. Clones are handles to the same one; [`MemoryFiles::fork`] makes another.
#[derive(Clone)]
pub struct MemoryFiles {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    disk: Disk,
    hook: Option<Hook>,
    calls: u64,
    /// How often the power failed; older handles are dead.
    crashes: u64,
}

/// Decides what becomes of a call. Runs with the file system locked: it must not call it.
pub type Hook = Box<dyn FnMut(&FileCall<'_>) -> Fault + Send>;

/// A call, as a [`Hook`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct FileCall<'a> {
    /// How many calls came before it.
    pub number: u64,
    /// What is asked.
    pub operation: Operation,
    /// On which path (the new one for a link).
    pub path: &'a Path,
}

/// The calls of [`Files`], [`ReadFile`] and [`WriteFile`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Operation {
    Open,
    CreateNew,
    Info,
    List,
    Glob,
    CreateDirAll,
    SyncDir,
    SyncFile,
    Link,
    Remove,
    ReadAt,
    WriteAll,
    Sync,
}

impl Operation {
    /// Whether it changes something on the disk, durable or not.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Operation::Open | Operation::Info | Operation::List | Operation::Glob | Operation::ReadAt)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is served.
    None,
    /// It does nothing and fails; a sync that fails dooms the bytes it was for, as Linux does.
    Fail(ErrorKind),
    /// It is served, and the answer is an error.
    FailAfter(ErrorKind),
    /// A write stops after so many bytes and fails; a read gives no more than so many; any other call is served.
    Short(usize),
}

impl Default for MemoryFiles {
    fn default() -> Self {
        MemoryFiles::new()
    }
}

impl MemoryFiles {
    /// An empty file system.
    #[must_use]
    pub fn new() -> MemoryFiles {
        MemoryFiles::with(Disk::new())
    }

    fn with(disk: Disk) -> MemoryFiles {
        MemoryFiles { shared: Arc::new(Mutex::new(Shared { disk, hook: None, calls: 0, crashes: 0 })) }
    }

    /// Another file system that looks like this one does now, without its hook and its open files.
    #[must_use]
    pub fn fork(&self) -> MemoryFiles {
        MemoryFiles::with(self.lock().disk.clone())
    }

    /// The power fails and comes back: of what is not durable some part is left, by the seed; open files are dead.
    pub fn crash(&self, seed: u64) {
        let mut shared = self.lock();
        shared.disk.crash(seed);
        shared.crashes += 1;
    }

    /// Sets or removes the hook.
    pub fn set_hook(&self, hook: Option<Hook>) {
        self.lock().hook = hook;
    }

    /// A call that is made elsewhere: it counts, and the hook says what becomes of it.
    #[must_use]
    pub fn meet(&self, operation: Operation, path: &Path) -> Fault {
        self.lock().fault(operation, path)
    }

    /// How many calls there were so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Puts a whole file in place, durably, making its directories, replacing its content: a test's own hand.
    pub fn put(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = path.as_ref();
        let mut shared = self.lock();
        let disk = &mut shared.disk;
        let directories: Vec<&Path> = path.ancestors().skip(1).collect();
        if let Some(parent) = directories.first() {
            disk.create_dir_all(parent).expect("no file stands in the way");
        }
        let node = disk.find(path).or_else(|_| disk.create_new(path)).expect("the directory is there");
        disk.replace(node, bytes.as_ref()).expect("no directory has that name");
        for directory in directories {
            disk.sync_dir(directory).expect("the directory is there");
        }
    }

    /// A whole file, past the hook: a test's own eye.
    #[must_use]
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let shared = self.lock();
        let node = shared.disk.find(path.as_ref()).ok()?;
        shared.disk.data(node).ok().map(<[u8]>::to_vec)
    }

    /// The paths of all files, sorted, past the hook.
    #[must_use]
    pub fn all_files(&self) -> Vec<String> {
        self.lock().disk.all_files()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve<T>(
        &self,
        operation: Operation,
        path: &Path,
        serve: impl FnOnce(&mut Disk) -> Result<T>,
    ) -> Result<(T, u64)> {
        let mut shared = self.lock();
        let fault = shared.fault(operation, path);
        if let Fault::Fail(kind) = fault {
            return Err(injected(kind));
        }
        let answer = serve(&mut shared.disk)?;
        match fault {
            Fault::FailAfter(kind) => Err(injected(kind)),
            _ => Ok((answer, shared.crashes)),
        }
    }

    fn handle(&self, path: &Path, node: u64, crashes: u64) -> Result<Handle> {
        self.lock().disk.opened(node)?;
        Ok(Handle { files: self.clone(), path: path.to_owned(), node, crashes })
    }
}

fn injected(kind: ErrorKind) -> Error {
    Error::new(kind, format!("injected: {kind}"))
}

impl Shared {
    fn fault(&mut self, operation: Operation, path: &Path) -> Fault {
        let number = self.calls;
        self.calls += 1;
        self.hook.as_mut().map_or(Fault::None, |hook| hook(&FileCall { number, operation, path }))
    }
}

impl Files for MemoryFiles {
    fn open(&self, path: &Path) -> Result<Box<dyn ReadFile>> {
        let (node, crashes) = self.serve(Operation::Open, path, |disk| {
            let node = disk.find(path)?;
            disk.data(node)?;
            Ok(node)
        })?;
        Ok(Box::new(self.handle(path, node, crashes)?))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let (node, crashes) = self.serve(Operation::CreateNew, path, |disk| disk.create_new(path))?;
        Ok(Box::new(self.handle(path, node, crashes)?))
    }

    fn info(&self, path: &Path) -> Result<FileInfo> {
        let info = self.serve(Operation::Info, path, |disk| {
            let node = disk.find(path)?;
            let length = disk.length(node)?;
            Ok(FileInfo {
                length: length.unwrap_or(0),
                is_dir: length.is_none(),
                is_file: length.is_some(),
                identity: (0, node),
            })
        });
        info.map(|(info, _)| info)
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>> {
        self.serve(Operation::List, directory, |disk| disk.list(directory)).map(|(names, _)| names)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>> {
        let trimmed = pattern.trim_start_matches("./");
        let relative = trimmed.trim_start_matches('/');
        let compiled = glob::Pattern::new(relative)
            .map_err(|error| Error::new(ErrorKind::InvalidInput, format!("not a glob pattern: {error}")))?;
        if !pattern.contains(['*', '?', '[']) {
            return Ok(vec![PathBuf::from(pattern)]);
        }
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        let root = if trimmed.starts_with('/') { "/" } else { "" };
        let found = self.serve(Operation::Glob, Path::new(pattern), |disk| {
            let files = disk.all_files().into_iter();
            Ok(files
                .filter(|file| compiled.matches_with(file, options))
                .map(|file| PathBuf::from(format!("{root}{file}")))
                .collect())
        });
        found.map(|(found, _)| found)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.serve(Operation::CreateDirAll, path, |disk| disk.create_dir_all(path)).map(drop)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.serve(Operation::SyncDir, path, |disk| disk.sync_dir(path)).map(drop)
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        let mut shared = self.lock();
        let fault = shared.fault(Operation::SyncFile, path);
        let node = shared.disk.find(path)?;
        shared.sync(node, fault)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.serve(Operation::Link, to, |disk| disk.link(from, to)).map(drop)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.serve(Operation::Remove, path, |disk| disk.remove(path)).map(drop)
    }
}

impl Shared {
    fn sync(&mut self, node: u64, fault: Fault) -> Result<()> {
        match fault {
            Fault::Fail(kind) => {
                self.disk.fail_sync_file(node)?;
                Err(injected(kind))
            }
            Fault::FailAfter(kind) => {
                self.disk.sync_file(node)?;
                Err(injected(kind))
            }
            Fault::None | Fault::Short(_) => self.disk.sync_file(node),
        }
    }
}

struct Handle {
    files: MemoryFiles,
    path: PathBuf,
    node: u64,
    crashes: u64,
}

impl Handle {
    fn alive(&self) -> Result<MutexGuard<'_, Shared>> {
        let shared = self.files.lock();
        if shared.crashes == self.crashes {
            Ok(shared)
        } else {
            Err(Error::other("the power failed since this file was opened"))
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Ok(mut shared) = self.alive() {
            shared.disk.closed(self.node);
        }
    }
}

impl ReadFile for Handle {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut shared = self.alive()?;
        let fault = shared.fault(Operation::ReadAt, &self.path);
        let most = match fault {
            Fault::Fail(kind) | Fault::FailAfter(kind) => return Err(injected(kind)),
            Fault::Short(most) => most.max(1),
            Fault::None => usize::MAX,
        };
        let data = shared.disk.data(self.node)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)).unwrap_or_default();
        let count = buffer.len().min(rest.len()).min(most);
        for (to, from) in buffer.get_mut(..count).into_iter().zip(rest.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }
}

impl WriteFile for Handle {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut shared = self.alive()?;
        match shared.fault(Operation::WriteAll, &self.path) {
            Fault::Fail(kind) => Err(injected(kind)),
            Fault::FailAfter(kind) => {
                shared.disk.append(self.node, bytes)?;
                Err(injected(kind))
            }
            Fault::Short(most) if most < bytes.len() => {
                shared.disk.append(self.node, bytes.get(..most).unwrap_or(bytes))?;
                Err(injected(ErrorKind::StorageFull))
            }
            Fault::Short(_) | Fault::None => shared.disk.append(self.node, bytes),
        }
    }

    fn sync(&mut self) -> Result<()> {
        let mut shared = self.alive()?;
        let fault = shared.fault(Operation::Sync, &self.path);
        shared.sync(self.node, fault)
    }
}
