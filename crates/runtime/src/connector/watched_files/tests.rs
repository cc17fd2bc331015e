//! The conformance suite up to the present, and what comes, grows and goes.

use super::*;
use crate::error::ErrorKind;
use crate::io::place_files::PlaceFiles;
use crate::io::storage::StorageServer;
use crate::io::{FileInfo, ReadFile, WriteFile};
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::MemoryFiles;
use crate::testing::source_suite::check_source;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;

fn cx(files: &MemoryFiles) -> SourceContext {
    source_context(Arc::new(files.clone()))
}

/// A source that ends where the watched one would wait: the suite is for sources that end.
struct UpToNow<S>(S);

struct EndsWhereItWaits<T, P>(BoxedReader<T, P>);

impl<S: Source> Source for UpToNow<S> {
    type Item = S::Item;
    type Position = S::Position;

    fn splits(&self, cx: &SourceContext) -> Result<Vec<String>> {
        self.0.splits(cx)
    }

    fn open(
        &self,
        split: &str,
        from: Option<S::Position>,
        cx: &SourceContext,
    ) -> Result<BoxedReader<S::Item, S::Position>> {
        Ok(Box::new(EndsWhereItWaits(self.0.open(split, from, cx)?)))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

impl<T, P> SplitReader for EndsWhereItWaits<T, P> {
    type Item = T;
    type Position = P;

    fn next(&mut self, now: Time) -> Result<Next<T>> {
        Ok(match self.0.next(now)? {
            Next::At(_) => Next::End,
            next => next,
        })
    }

    fn position(&self) -> P {
        self.0.position()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn watched() -> WatchedFiles<crate::connector::Lines> {
    FileSource::lines("in/*.log").watch()
}

/// The share that a file belongs to.
fn share_of(name: &str) -> String {
    format!("share-{:02}", owner_of_name(name, SHARES))
}

fn read_now<T, P>(reader: &mut BoxedReader<T, P>, now: Time) -> Vec<T> {
    let mut records = Vec::new();
    loop {
        match reader.next(now).expect("it can be read") {
            Next::Record(record, _) => records.push(record),
            Next::At(moment) => {
                assert!(moment > now && moment <= now.after(LOOK_EACH), "it looks again within a second");
                return records;
            }
            _ => panic!("a watched directory has no end"),
        }
    }
}

#[test]
fn all_files_that_are_there_are_read_once_and_resumed_anywhere() {
    let files = MemoryFiles::new();
    let mut expected = Vec::new();
    for n in 0..100 {
        files.put(format!("in/{n}.log"), format!("{n} a\n{n} b\n{n} c"));
        expected.extend([format!("{n} a"), format!("{n} b"), format!("{n} c")]);
    }
    let mut read: Vec<String> =
        check_source(&UpToNow(watched()), &cx(&files)).into_iter().flat_map(|(_, records)| records).collect();
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
}

#[test]
fn a_file_that_comes_later_is_read_after_a_second_at_most_and_a_deleted_one_is_forgotten() {
    let files = MemoryFiles::new();
    files.put("in/a.log", "1\n");
    let source = watched();
    let mut reader = source.open(&share_of("a.log"), None, &cx(&files)).expect("opened");
    let mut now = Time::of_millis(5_000);
    assert_eq!(read_now(&mut reader, now), ["1"]);
    assert_eq!(reader.position().read.keys().collect::<Vec<_>>(), ["a.log"]);
    files.remove(std::path::Path::new("in/a.log")).expect("removed");
    now = now.after(LOOK_EACH);
    assert_eq!(read_now(&mut reader, now), [""; 0]);
    assert_eq!(reader.position(), WatchPosition::default());
    files.put("in/a.log", "2\n");
    assert_eq!(read_now(&mut reader, now), [""; 0], "nobody looks twice in a second");
    assert_eq!(read_now(&mut reader, now.after(LOOK_EACH)), ["2"], "another file of the same name");
}

#[test]
fn a_file_that_grew_after_it_was_read_is_an_error_that_names_it() {
    let files = MemoryFiles::new();
    files.put("in/a.log", "1\n");
    let source = watched();
    let mut reader = source.open(&share_of("a.log"), None, &cx(&files)).expect("opened");
    read_now(&mut reader, Time(1));
    files.put("in/a.log", "1\n2\n");
    let error = reader.next(Time(1).after(LOOK_EACH)).expect_err("it grew");
    assert_eq!(error.kind(), ErrorKind::Invalid, "a restart would meet it again");
    assert!(error.to_string().contains("a.log changed after it was read"), "{error}");
    let resumed = source.open(&share_of("a.log"), Some(reader.position()), &cx(&files));
    assert!(resumed.expect("opened").next(Time(1).after(LOOK_EACH)).is_err(), "also after a restore");
}

#[test]
fn a_directory_that_is_gone_is_a_failure_that_heals_when_it_is_back() {
    let files = MemoryFiles::new();
    let error = watched().splits(&cx(&files)).expect_err("no directory");
    assert_eq!(error.kind(), ErrorKind::Failed, "the job is restarted");
    assert!(error.to_string().contains("the watched directory in cannot be read"), "{error}");
    files.put("in/a.log", "1\n2\n");
    let source = watched();
    let mut reader = source.open(&share_of("a.log"), None, &cx(&files)).expect("opened");
    assert_eq!(reader.next(Time(1)).expect("read"), Next::Record("1".to_owned(), None));
    let position = reader.position();
    let gone = MemoryFiles::new();
    let error = source.open(&share_of("a.log"), Some(position.clone()), &cx(&gone)).err().expect("no directory");
    assert_eq!(error.kind(), ErrorKind::Failed, "not taken for a lost file: {error}");
    let mut back = watched().open(&share_of("a.log"), Some(position), &cx(&files)).expect("it is back");
    assert_eq!(read_now(&mut back, Time(1)), ["2"]);
}

#[test]
fn a_file_that_is_deleted_before_anybody_begins_with_it_is_none() {
    let files = MemoryFiles::new();
    files.put("in/a.log", "1\n");
    let source = watched();
    let mut elsewhere = source.open(&share_of("b.log"), None, &cx(&files)).expect("opened");
    // Somebody of this process has seen it, and then it goes.
    read_now(&mut elsewhere, Time(1));
    files.remove(std::path::Path::new("in/a.log")).expect("removed");
    let mut reader = source.open(&share_of("a.log"), None, &cx(&files)).expect("opened");
    assert_eq!(read_now(&mut reader, Time(2)), [""; 0]);
}

#[test]
fn nobody_waits_for_a_look_that_takes_its_time_and_everybody_is_woken_by_it() {
    let files = MemoryFiles::new();
    files.put("in/a.log", "1\n");
    let far = Arc::new(FarFiles { files: files.clone(), asked: Mutex::default() });
    let woken = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&woken);
    let wake: Waker = Arc::new(move || _ = counter.fetch_add(1, Ordering::SeqCst));
    let context = SourceContext { waker: wake, ..source_context(Arc::clone(&far) as Arc<dyn Files>) };
    let source = watched();
    let mut reader = source.open(&share_of("a.log"), None, &context).expect("opened");
    let mut other = source.open(&share_of("b.log"), None, &context).expect("opened");
    for now in [1, 2, 3_000_000] {
        assert_eq!(reader.next(Time(now)).expect("asked"), Next::Pending);
        assert_eq!(other.next(Time(now)).expect("asked"), Next::Pending);
    }
    assert_eq!((far.answer(), woken.load(Ordering::SeqCst)), (1, 2), "one look for all, and each is woken once");
    let now = Time(3_000_001);
    assert_eq!(read_now(&mut reader, now), ["1"]);
    assert_eq!(read_now(&mut other, now), [""; 0]);
    // What is gone fails the next look, and is looked for again.
    let later = now.after(LOOK_EACH);
    far.gone(true);
    assert_eq!(reader.next(later).expect("asked"), Next::Pending);
    assert_eq!(far.answer(), 1);
    assert_eq!(reader.next(later).expect_err("no directory").kind(), ErrorKind::Failed);
    far.gone(false);
    files.put("in/b.log", "2\n");
    assert_eq!(other.next(later).expect("asked"), Next::Pending);
    assert_eq!(far.answer(), 1);
    assert_eq!(read_now(&mut other, later), ["2"]);
}

#[test]
fn a_prefix_of_a_bucket_that_was_emptied_is_watched_on() {
    let files = Arc::new(PlaceFiles::with_bucket("s3://b", StorageServer::in_memory()));
    let (to, woken) = mpsc::channel();
    let wake: Waker = Arc::new(move || _ = to.send(()));
    let context = SourceContext { waker: wake, ..source_context(Arc::clone(&files) as Arc<dyn Files>) };
    let source = FileSource::lines("s3://b/in/*.log").watch();
    assert_eq!(source.splits(&context).expect("an empty prefix").len(), usize::from(SHARES));
    let mut reader = source.open(&share_of("a.log"), None, &context).expect("opened");
    let mut now = Time(1);
    let mut read = |now| loop {
        match reader.next(now).expect("it can be read") {
            Next::Record(record, _) => return Some(record),
            Next::Pending => woken.recv().expect("somebody looks"),
            Next::At(_) => return None,
            other => panic!("{other:?}"),
        }
    };
    for text in ["1", "2"] {
        assert_eq!(read(now), None, "nothing is there");
        let mut file = files.create_new(Path::new("s3://b/in/a.log")).expect("created");
        file.write_all(text.as_bytes()).expect("written");
        file.sync().expect("uploaded");
        now = now.after(LOOK_EACH);
        assert_eq!(read(now).as_deref(), Some(text));
        assert_eq!(read(now), None);
        files.remove(Path::new("s3://b/in/a.log")).expect("removed");
        now = now.after(LOOK_EACH);
    }
}

type Question = Box<dyn FnOnce() + Send>;

/// Files that answer when they are told to.
struct FarFiles {
    files: MemoryFiles,
    asked: Mutex<(Vec<Question>, bool)>,
}

impl FarFiles {
    /// Answers everything that was asked, and says how much that was.
    fn answer(&self) -> usize {
        let asked = std::mem::take(&mut self.asked.lock().expect("sound").0);
        let count = asked.len();
        asked.into_iter().for_each(|question| question());
        count
    }

    fn gone(&self, gone: bool) {
        self.asked.lock().expect("sound").1 = gone;
    }
}

impl Files for FarFiles {
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
        self.files.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }
    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        if self.asked.lock().expect("sound").1 {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(self.info(path)?.is_dir)
        }
    }
    fn ask(&self, _: &Path, question: Question) {
        self.asked.lock().expect("sound").0.push(question);
    }
}

/// A file that another process read meanwhile would be read a second time.
#[test]
fn a_look_of_an_attempt_that_died_is_not_of_now() {
    let files = MemoryFiles::new();
    files.put("in/zzz.log", "z\n");
    // This process: it looks, and its attempt dies before anybody makes use of what was seen.
    let far = Arc::new(FarFiles { files: files.clone(), asked: Mutex::default() });
    let context = source_context(Arc::clone(&far) as Arc<dyn Files>);
    let source = watched();
    let mut dead = source.open(&share_of("other.log"), None, &context).expect("opened");
    assert_eq!(dead.next(Time(1)).expect("asked"), Next::Pending);
    assert_eq!(far.answer(), 1);
    drop(dead);
    // Another process, which had the share of a.log in that attempt: the file comes, is read, and the checkpoint says so.
    files.put("in/a.log", "1\n");
    let mut elsewhere = watched().open(&share_of("a.log"), None, &cx(&files)).expect("opened");
    assert_eq!(read_now(&mut elsewhere, Time(2_000_000)), ["1"]);
    let position = elsewhere.position();
    // A minute later the next attempt: the share is this process's now.
    let mut now = Time(60_000_000);
    let mut reader = source.open(&share_of("a.log"), Some(position), &context).expect("opened");
    let mut again = Vec::new();
    for _ in 0..3 {
        loop {
            match reader.next(now).expect("it can be read") {
                Next::Record(record, _) => again.push(record),
                Next::Pending => assert_eq!(far.answer(), 1),
                Next::At(_) => break,
                other => panic!("{other:?}"),
            }
        }
        now = now.after(LOOK_EACH);
    }
    assert_eq!(again, [""; 0], "read a second time");
}
