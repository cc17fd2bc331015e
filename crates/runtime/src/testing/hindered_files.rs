//! Other files with the faults of a file system in memory: each call first meets its hook, then the files.
//!
//! For a target that is no directory, so that one suite can break each of its calls as well. It keeps nothing: a loss of power
//! does nothing to what the files hold.

use super::memory_files::{Fault, MemoryFiles, Operation};
use crate::io::{FileInfo, Files, ReadFile, WriteFile};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the head of this file.
pub struct HinderedFiles {
    hook: MemoryFiles,
    files: Arc<dyn Files>,
}

impl HinderedFiles {
    /// These files, with the hook of those.
    #[must_use]
    pub fn new(hook: &MemoryFiles, files: Arc<dyn Files>) -> HinderedFiles {
        HinderedFiles { hook: hook.clone(), files }
    }
}

fn injected(kind: ErrorKind) -> Error {
    Error::new(kind, format!("injected: {kind}"))
}

fn meet<T>(hook: &MemoryFiles, operation: Operation, path: &Path, serve: impl FnOnce() -> Result<T>) -> Result<T> {
    match hook.meet(operation, path) {
        Fault::Fail(kind) => Err(injected(kind)),
        Fault::FailAfter(kind) => serve().and(Err(injected(kind))),
        Fault::None | Fault::Short(_) => serve(),
    }
}

impl Files for HinderedFiles {
    fn open(&self, path: &Path) -> Result<Box<dyn ReadFile>> {
        let file = meet(&self.hook, Operation::Open, path, || self.files.open(path))?;
        Ok(Box::new(Reading(Handle { hook: self.hook.clone(), path: path.to_owned(), file })))
    }

    fn create_new(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = meet(&self.hook, Operation::CreateNew, path, || self.files.create_new(path))?;
        Ok(Box::new(Writing(Handle { hook: self.hook.clone(), path: path.to_owned(), file })))
    }

    fn info(&self, path: &Path) -> Result<FileInfo> {
        meet(&self.hook, Operation::Info, path, || self.files.info(path))
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>> {
        meet(&self.hook, Operation::List, directory, || self.files.list(directory))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>> {
        meet(&self.hook, Operation::Glob, Path::new(pattern), || self.files.glob(pattern))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        meet(&self.hook, Operation::CreateDirAll, path, || self.files.create_dir_all(path))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        meet(&self.hook, Operation::SyncDir, path, || self.files.sync_dir(path))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        meet(&self.hook, Operation::SyncFile, path, || self.files.sync_file(path))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        meet(&self.hook, Operation::Link, to, || self.files.link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        meet(&self.hook, Operation::Remove, path, || self.files.remove(path))
    }

    fn give_up(&self, path: &Path) {
        self.files.give_up(path);
    }

    fn is_directory(&self, path: &Path) -> Result<bool> {
        meet(&self.hook, Operation::Info, path, || self.files.is_directory(path))
    }

    fn ask(&self, path: &Path, question: Box<dyn FnOnce() + Send>) {
        self.files.ask(path, question);
    }
}

struct Handle<F> {
    hook: MemoryFiles,
    path: PathBuf,
    file: F,
}

struct Reading(Handle<Box<dyn ReadFile>>);

impl ReadFile for Reading {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Handle { hook, path, file } = &mut self.0;
        meet(hook, Operation::ReadAt, path, || file.read_at(offset, buffer))
    }
}

struct Writing(Handle<Box<dyn WriteFile>>);

impl WriteFile for Writing {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let Handle { hook, path, file } = &mut self.0;
        match hook.meet(Operation::WriteAll, path) {
            Fault::Fail(kind) => Err(injected(kind)),
            Fault::FailAfter(kind) => file.write_all(bytes).and(Err(injected(kind))),
            Fault::Short(most) if most < bytes.len() => {
                file.write_all(bytes.get(..most).unwrap_or(bytes))?;
                Err(injected(ErrorKind::StorageFull))
            }
            Fault::Short(_) | Fault::None => file.write_all(bytes),
        }
    }

    fn sync(&mut self) -> Result<()> {
        let Handle { hook, path, file } = &mut self.0;
        meet(hook, Operation::Sync, path, || file.sync())
    }
}
