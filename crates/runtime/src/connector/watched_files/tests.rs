//! The conformance suite up to the present, and what comes, grows and goes.

use super::*;
use crate::error::ErrorKind;
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::MemoryFiles;
use crate::testing::source_suite::check_source;

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
