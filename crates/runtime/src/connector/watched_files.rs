//! Reads files as they appear, for ever.
//!
//! The list of a source's splits never changes, and files come; so the splits are a fixed number of shares, and a file belongs to
//! one of them by its name. A share reads one file after the other and remembers which it has read, so that each is read once.
//! All readers of a process look at the directory together, once a second; in a bucket on a thread of its own, and they wait to be
//! woken.
//!
//! A file must not change once it was seen: it is written elsewhere and moved in. What was read and grew since is an error; what
//! was read and is gone is forgotten. A directory that is not there is an error of the attempt, so the job is restarted with
//! growing pauses, and goes on where it was when the directory is back. A prefix of a bucket is there as long as the bucket is.

use super::file_source::{
    self, FilePosition, FileSource, Fingerprint, ParsedFormat, ReadFormat, fixed_directory, matching,
};
use crate::error::{Error, Result};
use crate::io::Files;
use crate::key::owner_of_name;
use crate::source::{BoxedReader, DeadLetters, Next, Source, SourceContext, SplitReader, Waker};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Into how many shares files are divided. It stands in every checkpoint, so it never changes.
const SHARES: u16 = 64;
/// How often the directory is looked at.
const LOOK_EACH: Duration = Duration::from_secs(1);

/// A source that reads all files that match a pattern, those that are there and those that come. Made by
/// [`FileSource::watch`]. Replayable and unbounded: the job ends when it is stopped.
///
/// Each file is read once, whole, by one worker; in which order is not said. It must not change once it was seen: write it
/// elsewhere, or under a name that does not match, and move it in. A file that was read may be deleted; one that comes later
/// under its name is another file.
pub struct WatchedFiles<F> {
    files: Arc<FileSource<F>>,
    seen: Arc<Mutex<Seen>>,
}

impl<F> WatchedFiles<F> {
    pub(super) fn new(files: FileSource<F>) -> WatchedFiles<F> {
        WatchedFiles { files: Arc::new(files), seen: Arc::default() }
    }
}

/// Names and lengths.
type Listing = Vec<(String, u64)>;

/// What somebody saw in the directory.
#[derive(Default)]
struct Seen {
    at: Option<Time>,
    files: Arc<Listing>,
    /// The next look, and its number.
    look: Look,
    number: u64,
    /// Whom to wake when it is done.
    waiting: Vec<Waker>,
}

/// A look takes its time if the directory is far away, so no worker waits for it.
#[derive(Default)]
enum Look {
    #[default]
    NotBegun,
    UnderWay,
    /// Nobody has made use of it yet. When it was begun, and what was found.
    Done(Time, Result<Listing>),
}

impl Seen {
    fn is_fresh(&self, now: Time) -> bool {
        // A clock that went back is looked at anew.
        self.at.is_some_and(|at| at <= now && now.since(at) < LOOK_EACH)
    }

    /// What was begun before that moment is not of now: whoever asked for it may have died a while ago.
    fn forget_before(&mut self, moment: Time) {
        if matches!(self.look, Look::Done(begun, _) if begun < moment) {
            self.look = Look::NotBegun;
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a share was read. Stored in checkpoints; `docs/formats.md` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchPosition {
    /// Files that were read to their end, and what they looked like.
    pub read: BTreeMap<String, Fingerprint>,
    /// The file that is being read.
    pub reading: Option<(String, FilePosition)>,
}

impl<F: ReadFormat> Source for WatchedFiles<F> {
    type Item = F::Item;
    type Position = WatchPosition;

    fn splits(&self, cx: &SourceContext) -> Result<Vec<String>> {
        look(&self.files.pattern, &cx.files)?;
        Ok((0..SHARES).map(|share| format!("share-{share:02}")).collect())
    }

    fn open(
        &self,
        split: &str,
        from: Option<WatchPosition>,
        cx: &SourceContext,
    ) -> Result<BoxedReader<F::Item, WatchPosition>> {
        let share = split.strip_prefix("share-").and_then(|number| number.parse().ok());
        let share = share.ok_or_else(|| Error::unusable(format!("`{split}` is no share of watched files")))?;
        let WatchPosition { read, reading } = from.unwrap_or_default();
        let mut reader = ShareReader {
            source: Arc::clone(&self.files),
            seen: Arc::clone(&self.seen),
            files: Arc::clone(&cx.files),
            share,
            read,
            current: None,
            waker: Arc::clone(&cx.waker),
            waits_for: None,
            asked_at: None,
            looked_at: None,
            place: String::new(),
        };
        if let Some((name, position)) = reading {
            look(&self.files.pattern, &cx.files)?;
            reader.begin(name, Some(position))?;
        }
        Ok(Box::new(reader))
    }

    fn skipped(&self) -> Option<Arc<AtomicU64>> {
        self.files.format.skipped()
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

impl<F: ParsedFormat> DeadLetters for WatchedFiles<F> {
    fn with_dead_letters(self) -> Self {
        let files = FileSource::clone(&self.files).with_dead_letters();
        WatchedFiles { files: Arc::new(files), ..self }
    }
}

/// The files that match now. A directory that is gone is not an empty one.
fn look(pattern: &str, files: &Arc<dyn Files>) -> Result<Vec<(String, u64)>> {
    let directory = fixed_directory(pattern);
    let directory = if directory.as_os_str().is_empty() { ".".into() } else { directory };
    match files.is_directory(&directory) {
        Ok(true) => matching(pattern, files),
        Ok(false) => Err(Error::failed(format!("the watched directory {} is no directory", directory.display()))),
        Err(error) => {
            Err(Error::failed(format!("the watched directory {} cannot be read: {error}", directory.display()))
                .hint("put it back: the job goes on where it was"))
        }
    }
}

/// What comes next in a share.
enum Coming {
    File(String),
    /// Nothing by now.
    Nothing,
    /// Somebody is looking, and wakes the reader.
    Unknown,
}

/// Reads the files of one share. See the head of this file.
struct ShareReader<F: ReadFormat> {
    source: Arc<FileSource<F>>,
    seen: Arc<Mutex<Seen>>,
    files: Arc<dyn Files>,
    share: u16,
    read: BTreeMap<String, Fingerprint>,
    current: Option<(String, BoxedReader<F::Item, FilePosition>)>,
    waker: Waker,
    /// The number of the look that wakes this reader.
    waits_for: Option<u64>,
    /// When this reader was asked for the first time: what somebody saw before may be older than what it was restored from.
    asked_at: Option<Time>,
    /// When this reader last made use of a look.
    looked_at: Option<Time>,
    place: String,
}

impl<F: ReadFormat> ShareReader<F> {
    fn begin(&mut self, name: String, from: Option<FilePosition>) -> Result<()> {
        let compression = self.source.compression_of(&name);
        let bytes = file_source::open(&self.source.pattern, &name, compression, from.as_ref(), &self.files)?;
        let reader = self.source.format.reader(&name, bytes, from)?;
        self.current = Some((name, reader));
        Ok(())
    }

    /// Deleted between the look and now: nobody has begun with it.
    fn is_gone(&self, name: &str) -> bool {
        let path = fixed_directory(&self.source.pattern).join(name);
        self.files.info(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Looks into the directory if it is time for it and nobody does; whoever waits is woken when it is done.
    fn begin_to_look(&self, now: Time) {
        let mut shared = lock(&self.seen);
        if shared.is_fresh(now) || !matches!(shared.look, Look::NotBegun) {
            return;
        }
        shared.look = Look::UnderWay;
        shared.number += 1;
        drop(shared);
        let (source, seen, files) = (Arc::clone(&self.source), Arc::clone(&self.seen), Arc::clone(&self.files));
        let question = move || {
            // Somebody waits for an answer, whatever becomes of the look.
            let looked = catch_unwind(AssertUnwindSafe(|| look(&source.pattern, &files)));
            let found = looked.unwrap_or_else(|_| Err(Error::failed("the look into the watched directory panicked")));
            let mut shared = lock(&seen);
            shared.look = Look::Done(now, found);
            let waiting = std::mem::take(&mut shared.waiting);
            drop(shared);
            waiting.iter().for_each(|wake| wake());
        };
        self.files.ask(&fixed_directory(&self.source.pattern), Box::new(question));
    }

    /// What is in the directory, as somebody saw it less than a second ago; `None`: somebody is looking.
    fn look(&mut self, now: Time) -> Result<Option<Arc<Listing>>> {
        let asked_at = *self.asked_at.get_or_insert(now);
        lock(&self.seen).forget_before(asked_at);
        self.begin_to_look(now);
        let mut seen = lock(&self.seen);
        match std::mem::take(&mut seen.look) {
            Look::Done(_, found) => {
                seen.files = Arc::new(found?);
                seen.at = Some(now);
            }
            Look::UnderWay if !seen.is_fresh(now) => {
                seen.look = Look::UnderWay;
                if self.waits_for.replace(seen.number) != Some(seen.number) {
                    seen.waiting.push(Arc::clone(&self.waker));
                }
                return Ok(None);
            }
            other => seen.look = other,
        }
        self.looked_at = seen.at;
        Ok(Some(Arc::clone(&seen.files)))
    }

    /// The next file of this share that was not read.
    fn next_file(&mut self, now: Time) -> Result<Coming> {
        let Some(seen) = self.look(now)? else { return Ok(Coming::Unknown) };
        let mine: Vec<&(String, u64)> =
            seen.iter().filter(|(name, _)| owner_of_name(name, SHARES) == self.share).collect();
        for (name, length) in &mine {
            match self.read.get(name) {
                Some(was) if was.length != *length => {
                    return Err(Error::invalid(format!(
                        "{name} changed after it was read: it had {} bytes and now has {length}",
                        was.length
                    ))
                    .hint("an input file must not change once it is seen: write it elsewhere and move it in when it is whole"));
                }
                _ => {}
            }
        }
        self.read.retain(|name, _| mine.iter().any(|(there, _)| there == name));
        let unread = mine.into_iter().map(|(name, _)| name).find(|name| !self.read.contains_key(*name));
        Ok(unread.map_or(Coming::Nothing, |name| Coming::File(name.clone())))
    }
}

impl<F: ReadFormat> SplitReader for ShareReader<F> {
    type Item = F::Item;
    type Position = WatchPosition;

    fn next(&mut self, now: Time) -> Result<Next<F::Item>> {
        loop {
            if let Some((name, reader)) = &mut self.current {
                match reader.next(now)? {
                    Next::End => {
                        self.read.insert(name.clone(), reader.position().fingerprint);
                        self.current = None;
                    }
                    next => {
                        self.place = reader.describe();
                        return Ok(next);
                    }
                }
            }
            match self.next_file(now)? {
                Coming::File(name) if !self.is_gone(&name) => self.begin(name, None)?,
                Coming::Unknown => return Ok(Next::Pending),
                _ => return Ok(Next::At(self.looked_at.unwrap_or(now).after(LOOK_EACH).max(Time(now.0 + 1)))),
            }
        }
    }

    fn position(&self) -> WatchPosition {
        let reading = self.current.as_ref().map(|(name, reader)| (name.clone(), reader.position()));
        WatchPosition { read: self.read.clone(), reading }
    }

    fn describe(&self) -> String {
        match &self.current {
            Some((_, reader)) => reader.describe(),
            None => self.place.clone(),
        }
    }
}
