//! The disk below [`super::MemoryFiles`]: files and directories, what of them is durable, and what a power loss leaves.
//!
//! As bad as POSIX allows: a name is durable only after a sync of its directory, each name of a directory for itself; bytes
//! are durable only after a sync of their file; after a failed sync they may be gone although a later one succeeds.

use crate::connector::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Result};
use std::ops::Range;
use std::path::{Component, Path};

/// The number of the root directory.
const ROOT: u64 = 0;

/// Everything on the disk, and what is still in the caches of the system.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    /// How many nodes were left when garbage was last collected.
    kept: usize,
}

#[derive(Clone, Debug)]
enum Node {
    File(File),
    Directory(Directory),
}

#[derive(Clone, Debug, Default)]
struct File {
    data: Vec<u8>,
    /// So many bytes are durable.
    synced: usize,
    /// Bytes whose sync failed: no later sync makes them durable.
    doomed: Option<Range<usize>>,
    /// Open handles: the file outlives its names.
    handles: u32,
}

#[derive(Clone, Debug, Default)]
struct Directory {
    names: BTreeMap<String, u64>,
    /// For each name that changed since the last sync: what it stood for, from the durable state to the present one.
    unsynced: BTreeMap<String, Vec<Option<u64>>>,
}

impl Directory {
    fn set(&mut self, name: &str, node: Option<u64>) {
        let before = match node {
            Some(node) => self.names.insert(name.to_owned(), node),
            None => self.names.remove(name),
        };
        self.unsynced.entry(name.to_owned()).or_insert_with(|| vec![before]).push(node);
    }
}

impl Disk {
    pub(super) fn new() -> Disk {
        Disk { nodes: BTreeMap::from([(ROOT, Node::Directory(Directory::default()))]), next: ROOT + 1, kept: 1 }
    }

    /// The names on the way from the root; a relative path begins at the root too.
    fn names(path: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
                Component::ParentDir => drop(names.pop()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        names
    }

    fn directory(&self, node: u64) -> Result<&Directory> {
        match self.nodes.get(&node) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn directory_mut(&mut self, node: u64) -> Result<&mut Directory> {
        match self.nodes.get_mut(&node) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn file(&self, node: u64) -> Result<&File> {
        match self.nodes.get(&node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn file_mut(&mut self, node: u64) -> Result<&mut File> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// The node at a path.
    pub(super) fn find(&self, path: &Path) -> Result<u64> {
        let mut node = ROOT;
        for name in Disk::names(path) {
            node = *self.directory(node)?.names.get(&name).ok_or(ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The directory that holds, or would hold, a path, and the path's last name.
    fn parent(&self, path: &Path) -> Result<(u64, String)> {
        let mut names = Disk::names(path);
        let last = names.pop().ok_or(ErrorKind::InvalidInput)?;
        let mut node = ROOT;
        for name in names {
            node = *self.directory(node)?.names.get(&name).ok_or(ErrorKind::NotFound)?;
        }
        self.directory(node)?;
        Ok((node, last))
    }

    fn add(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    /// Gives a node a name that must be free.
    fn name(&mut self, path: &Path, make: impl FnOnce(&mut Disk) -> u64) -> Result<u64> {
        let (parent, name) = self.parent(path)?;
        if self.directory(parent)?.names.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = make(self);
        self.directory_mut(parent)?.set(&name, Some(node));
        Ok(node)
    }

    pub(super) fn create_new(&mut self, path: &Path) -> Result<u64> {
        self.name(path, |disk| disk.add(Node::File(File::default())))
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> Result<()> {
        let mut node = ROOT;
        for name in Disk::names(path) {
            node = match self.directory(node)?.names.get(&name) {
                Some(child) => *child,
                None => {
                    let child = self.add(Node::Directory(Directory::default()));
                    self.directory_mut(node)?.set(&name, Some(child));
                    child
                }
            };
        }
        self.directory(node).map(drop)
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        let node = self.find(from)?;
        self.file(node)?;
        self.name(to, |_| node).map(drop)
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let node = *self.directory(parent)?.names.get(&name).ok_or(ErrorKind::NotFound)?;
        self.file(node)?;
        self.directory_mut(parent)?.set(&name, None);
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> Result<Vec<String>> {
        Ok(self.directory(self.find(path)?)?.names.keys().cloned().collect())
    }

    /// All files below the root, with the names on the way joined by `/`.
    pub(super) fn all_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), ROOT)];
        while let Some((path, node)) = open.pop() {
            match self.nodes.get(&node) {
                Some(Node::Directory(directory)) => {
                    for (name, child) in &directory.names {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                        open.push((path, *child));
                    }
                }
                Some(Node::File(_)) => found.push(path),
                None => {}
            }
        }
        found.sort();
        found
    }

    /// Length of a file, or `None` for a directory.
    pub(super) fn length(&self, node: u64) -> Result<Option<u64>> {
        match self.nodes.get(&node) {
            Some(Node::File(file)) => Ok(Some(file.data.len() as u64)),
            Some(Node::Directory(_)) => Ok(None),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn data(&self, node: u64) -> Result<&[u8]> {
        Ok(&self.file(node)?.data)
    }

    pub(super) fn append(&mut self, node: u64, bytes: &[u8]) -> Result<()> {
        self.file_mut(node)?.data.extend_from_slice(bytes);
        Ok(())
    }

    /// Replaces a file's content, durably: what a test does to damage or change a file behind the engine's back.
    pub(super) fn replace(&mut self, node: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file_mut(node)?;
        *file = File { data: bytes.to_vec(), synced: bytes.len(), doomed: None, handles: file.handles };
        Ok(())
    }

    pub(super) fn sync_file(&mut self, node: u64) -> Result<()> {
        let file = self.file_mut(node)?;
        file.synced = file.data.len();
        Ok(())
    }

    /// A sync that failed: the system forgets that these bytes were never written.
    pub(super) fn fail_sync_file(&mut self, node: u64) -> Result<()> {
        let file = self.file_mut(node)?;
        let from = file.doomed.as_ref().map_or(file.synced, |doomed| doomed.start);
        if from < file.data.len() {
            file.doomed = Some(from..file.data.len());
        }
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<()> {
        let node = self.find(path)?;
        self.directory_mut(node)?.unsynced.clear();
        if self.nodes.len() > 2 * self.kept + 64 {
            self.collect_garbage();
        }
        Ok(())
    }

    pub(super) fn opened(&mut self, node: u64) -> Result<()> {
        self.file_mut(node)?.handles += 1;
        Ok(())
    }

    pub(super) fn closed(&mut self, node: u64) {
        if let Ok(file) = self.file_mut(node) {
            file.handles = file.handles.saturating_sub(1);
        }
    }

    /// The power fails: of all that is not durable any part may be left.
    pub(super) fn crash(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        let luck = match random.below(4) {
            0 => Luck::LosesAll,
            1 => Luck::KeepsAll,
            _ => Luck::Varies,
        };
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => luck.crash_file(file, &mut random),
                Node::Directory(directory) => luck.crash_directory(directory, &mut random),
            }
        }
        self.collect_garbage();
    }

    /// Forgets what no name, durable or not, and no handle leads to.
    fn collect_garbage(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut open = vec![ROOT];
        for (number, node) in &self.nodes {
            if matches!(node, Node::File(file) if file.handles > 0) {
                reached.insert(*number);
            }
        }
        while let Some(number) = open.pop() {
            let Some(Node::Directory(directory)) = self.nodes.get(&number) else { continue };
            let earlier = directory.unsynced.values().flatten().flatten();
            for child in directory.names.values().chain(earlier) {
                if reached.insert(*child) {
                    open.push(*child);
                }
            }
        }
        self.nodes.retain(|number, _| reached.contains(number));
        self.kept = self.nodes.len();
    }
}

/// How much of what is not durable survives.
#[derive(Clone, Copy)]
enum Luck {
    LosesAll,
    KeepsAll,
    Varies,
}

impl Luck {
    fn crash_directory(self, directory: &mut Directory, random: &mut Random) {
        for (name, states) in std::mem::take(&mut directory.unsynced) {
            let newest = states.len().saturating_sub(1);
            let kept = match self {
                Luck::LosesAll => 0,
                Luck::KeepsAll => newest,
                Luck::Varies => usize::try_from(random.below(states.len() as u64)).unwrap_or(newest),
            };
            match states.get(kept).copied().flatten() {
                Some(node) => directory.names.insert(name, node),
                None => directory.names.remove(&name),
            };
        }
    }

    fn crash_file(self, file: &mut File, random: &mut Random) {
        file.handles = 0;
        let unsynced = (file.data.len() - file.synced) as u64;
        let kept = match self {
            Luck::LosesAll => 0,
            Luck::KeepsAll => unsynced,
            Luck::Varies => random.below(unsynced + 1),
        };
        file.data.truncate(file.synced + usize::try_from(kept).unwrap_or(0));
        if matches!(self, Luck::Varies) && random.below(2) == 0 {
            // The new length reached the disk before the last bytes did.
            let torn = usize::try_from(random.below(kept + 1)).unwrap_or(0);
            file.data.iter_mut().rev().take(torn).for_each(|byte| *byte = 0);
        }
        if let Some(doomed) = file.doomed.take()
            && !matches!(self, Luck::KeepsAll)
        {
            let end = doomed.end.min(file.data.len());
            file.data.get_mut(doomed.start..end).into_iter().flatten().for_each(|byte| *byte = 0);
        }
        file.synced = file.data.len();
    }
}
