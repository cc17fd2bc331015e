//! The blocking half of the file sink: makes parts durable, gives them their names, cleans up (rules S1-S4, R4).
//!
//! Never replaces a file, and never removes one that is not this sink's.

use super::file_sink::SealedParts;
use super::part_name::{Owner, PartName};
use crate::error::{Error, Result};
use crate::io::{Files, failed_at};
use crate::manifest::AdoptedLife;
use crate::sink::{Committer, Sealed, Token};
use flott_checkpoint::{AttemptId, LiteSet};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::Xxh3;

/// See the head of this file.
pub(super) struct FileCommitter {
    directory: PathBuf,
    files: Arc<dyn Files>,
    owner: Owner,
    attempt: AttemptId,
    /// The directory's own name is durable.
    rooted: AtomicBool,
}

/// The content of a token, as JSON. Names are relative to the sink's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartToken {
    pub(super) pending: String,
    #[serde(rename = "final")]
    pub(super) committed: String,
    pub(super) length: u64,
    /// xxh3-64 of all bytes, 16 hex digits.
    pub(super) xxh3: String,
}

impl PartToken {
    pub(super) fn decode(token: &Token) -> Result<PartToken> {
        let damaged = |cause: String| {
            Error::unusable(format!("token `{}` of a file sink cannot be read: {cause}", token.name))
                .hint("choose an older checkpoint with `--restore ID`")
        };
        let part: PartToken = serde_json::from_slice(&token.payload).map_err(|error| damaged(error.to_string()))?;
        for (name, pending) in [(&part.pending, true), (&part.committed, false)] {
            let plain = !name.contains('/') && PartName::parse(name).is_some_and(|parsed| parsed.pending == pending);
            if !plain {
                return Err(damaged(format!("`{name}` is not the name of a part")));
            }
        }
        Ok(part)
    }
}

impl FileCommitter {
    pub(super) fn new(directory: PathBuf, files: Arc<dyn Files>, owner: Owner, attempt: AttemptId) -> FileCommitter {
        FileCommitter { directory, files, owner, attempt, rooted: AtomicBool::new(false) }
    }

    /// Committed parts of other lives of the job, those that count, for people.
    fn foreign(&self, counts: impl Fn(&PartName) -> bool) -> Result<Option<String>> {
        let parts = self.parts()?;
        let is_foreign = |parsed: &PartName| !parsed.pending && parsed.is_foreign_to(&self.owner) && counts(parsed);
        let foreign: Vec<&str> =
            parts.iter().filter(|(_, parsed)| is_foreign(parsed)).map(|(name, _)| name.as_str()).collect();
        let shown = foreign.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if foreign.len() > 3 { format!(" and {} more", foreign.len() - 3) } else { String::new() };
        Ok((!foreign.is_empty()).then(|| format!("{shown}{more}")))
    }

    fn sync_directory(&self) -> Result<()> {
        self.files.sync_dir(&self.directory).map_err(|error| failed_at(&self.directory, "sync", &error))
    }

    /// Makes the names on the way to the directory durable, once: somebody, perhaps we, made it not long ago.
    fn sync_ancestors(&self) -> Result<()> {
        if self.rooted.load(Ordering::Acquire) {
            return Ok(());
        }
        for ancestor in self.directory.ancestors().skip(1) {
            let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
            match self.files.sync_dir(ancestor) {
                Ok(()) => {}
                // A directory that we may not read, or cannot sync, is older than the job.
                Err(error) if is_beyond_us(&error) => {}
                Err(error) => return Err(failed_at(ancestor, "sync", &error)),
            }
        }
        self.rooted.store(true, Ordering::Release);
        Ok(())
    }

    /// This sink's parts in the directory.
    fn parts(&self) -> Result<Vec<(String, PartName)>> {
        match self.files.list(&self.directory) {
            Ok(names) => Ok(names
                .into_iter()
                .filter_map(|name| PartName::parse(&name).map(|parsed| (name, parsed)))
                .filter(|(_, parsed)| parsed.owner.sink == self.owner.sink)
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed_at(&self.directory, "list", &error)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        match self.files.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed_at(&path, "remove", &error)),
            _ => Ok(()),
        }
    }

    /// Links the final name, or finds that it is there and right.
    fn publish(&self, part: &PartToken) -> Result<()> {
        let (pending, committed) = (self.directory.join(&part.pending), self.directory.join(&part.committed));
        let staged = match self.files.info(&pending) {
            Ok(info) if info.is_file => info,
            Ok(_) => {
                return Err(Error::output_damaged(format!("staged output {} is no file", pending.display()))
                    .hint("restore the file, or start over with `--restore none --overwrite`"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.check_committed(part, true),
            Err(error) => return Err(failed_at(&pending, "look at", &error)),
        };
        if staged.length != part.length {
            return Err(Error::output_damaged(format!(
                "staged output {} of a completed checkpoint has {} bytes instead of {}",
                pending.display(),
                staged.length,
                part.length
            ))
            .hint("restore the file, or start over with `--restore none --overwrite`"));
        }
        match self.files.link(&pending, &committed) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check_committed(part, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.files.info(&committed) {
                Ok(info) if info.identity == staged.identity => Ok(()),
                Ok(_) => self.check_committed(part, false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.check_committed(part, false),
                Err(error) => Err(failed_at(&committed, "look at", &error)),
            },
            Err(error) => Err(failed_at(&committed, "link", &error)),
        }
    }

    /// Compares the final file with the token. `missing`: the pending file is not there.
    fn check_committed(&self, part: &PartToken, missing: bool) -> Result<()> {
        let committed = self.directory.join(&part.committed);
        match fingerprint(&*self.files, &committed) {
            Ok((length, xxh3)) if length == part.length && xxh3 == part.xxh3 => Ok(()),
            Ok((length, xxh3)) => Err(Error::output_damaged(format!(
                "output file {} is not what checkpoint and job wrote: it has {length} bytes with xxh3 {xxh3}, \
                 expected are {} bytes with {}",
                committed.display(),
                part.length,
                part.xxh3
            ))
            .hint(
                "somebody else wrote it. If this checkpoint directory is a copy, or was copied: only one of the two may go on \
                 with this output directory, give the other one its own (`--restore none` and another directory) and start \
                 this one again. Else move the file away and start the job again",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing => Err(Error::output_damaged(format!(
                "output of a completed checkpoint is gone: neither {} nor {} is there",
                committed.display(),
                self.directory.join(&part.pending).display()
            ))
            .hint("put one of them back, or start over with `--restore none --overwrite`")),
            // A link that leads nowhere is there and cannot be read; nor can what is no file. Neither heals.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                Err(Error::output_damaged(format!(
                    "something that is no file stands in the place of output file {}",
                    committed.display()
                ))
                .hint("move it away and start the job again"))
            }
            Err(error) => Err(failed_at(&committed, "read", &error)),
        }
    }
}

/// Whether a system says that this directory is none of our business.
fn is_beyond_us(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Length and xxh3-64 of a file, as a token has them.
fn fingerprint(files: &dyn Files, path: &Path) -> io::Result<(u64, String)> {
    let mut file = files.open(path)?;
    let mut chunk = vec![0; 64 << 10];
    let (mut length, mut hash) = (0, Xxh3::new());
    loop {
        let read = file.read_at(length, &mut chunk)?;
        if read == 0 {
            return Ok((length, format!("{:016x}", hash.digest())));
        }
        hash.update(chunk.get(..read).unwrap_or_default());
        length += read as u64;
    }
}

impl Committer for FileCommitter {
    fn claim(&self, overwrite: bool) -> Result<()> {
        match self.foreign(|_| true)? {
            Some(foreign) if !overwrite => Err(Error::refused(format!(
                "output directory {} holds output of an earlier job: {foreign}",
                self.directory.display()
            ))
            .hint(
                "choose another directory; or go on with it by `--claim`, if it is the output of the savepoint that is restored; \
                 or have it removed by `--overwrite`",
            )),
            _ => Ok(()),
        }
    }

    fn adopt(&self, lives: &[AdoptedLife]) -> Result<()> {
        let is_adopted = |parsed: &PartName| {
            let owner =
                |life: &AdoptedLife| Owner { sink: self.owner.sink.clone(), ..Owner::new("", &life.incarnation) };
            lives.iter().any(|life| owner(life) == parsed.owner && parsed.number <= life.up_to.0)
        };
        match self.foreign(|parsed| !is_adopted(parsed))? {
            Some(foreign) => Err(Error::refused(format!(
                "output directory {} holds output that is later than what is restored, or of another job: {foreign}",
                self.directory.display()
            ))
            .hint("restore a later savepoint, or leave out --claim and choose another directory")),
            None => Ok(()),
        }
    }

    fn claims_by_looking(&self) -> bool {
        true
    }

    fn overwrite_foreign(&self) -> Result<()> {
        for (name, parsed) in self.parts()? {
            if parsed.is_foreign_to(&self.owner) {
                self.remove(&name)?;
            }
        }
        self.sync_directory()
    }

    fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
        let sealed = sealed.downcast_mut::<SealedParts>().expect("a file sink gets back what its writer sealed");
        for part in &mut sealed.parts {
            part.finish(&self.files)?;
        }
        self.sync_directory()?;
        self.sync_ancestors()?;
        let (checkpoint, subtask, extension) = (sealed.checkpoint, sealed.subtask, sealed.extension);
        let mut tokens = Vec::with_capacity(sealed.parts.len());
        for (part, n) in sealed.parts.iter().zip(0..) {
            let pending = part.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let committed = self.owner.committed(checkpoint, subtask, n, extension);
            let xxh3 = format!("{:016x}", part.hash());
            let content = PartToken { pending, committed: committed.clone(), length: part.length(), xxh3 };
            let payload = serde_json::to_vec(&content)
                .map_err(|error| Error::failed(format!("cannot encode a token: {error}")))?;
            tokens.push(Token { name: committed, payload });
        }
        Ok(tokens)
    }

    fn commit(&self, token: &Token) -> Result<()> {
        let part = PartToken::decode(token)?;
        self.publish(&part)?;
        // Not before the final name is durable may the pending one go.
        self.sync_directory()?;
        self.remove(&part.pending)
    }

    fn clean(&self, restored: &[Token]) -> Result<()> {
        let kept: LiteSet<String> =
            restored.iter().map(|token| PartToken::decode(token).map(|part| part.pending)).collect::<Result<_>>()?;
        for (name, parsed) in self.parts()? {
            let ours = parsed.pending && parsed.owner == self.owner && parsed.number < self.attempt.0;
            if ours && !kept.contains(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }
}
