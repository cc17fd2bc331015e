//! The memory source and sink, through the conformance suites of all sources and sinks.

use super::*;
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::MemoryFiles;
use crate::testing::sink_suite::{SinkCase, Visible, check_sink};
use crate::testing::source_suite::check_source;

#[test]
fn the_source_resumes_anywhere() {
    let cx = source_context(Arc::new(MemoryFiles::new()));
    let source = MemorySource::with_splits(vec![vec![1, 2, 3], vec![], vec![4]]).timestamp(|n| Timestamp(10 * n));
    let read = check_source(&source, &cx);
    let records: Vec<Vec<i64>> = read.into_iter().map(|(_, records)| records).collect();
    assert_eq!(records, [vec![1, 2, 3], vec![], vec![4]]);
}

struct Case(MemorySink<(u16, u64)>);

impl SinkCase for Case {
    type Record = (u16, u64);
    type Sink = MemorySink<(u16, u64)>;

    fn new() -> Self {
        Case(MemorySink::new())
    }
    fn sink(&self) -> Self::Sink {
        self.0.clone()
    }
    fn record(&self, subtask: u16, n: u64) -> (u16, u64) {
        (subtask, n)
    }
    fn visible(&self, _files: &MemoryFiles) -> Visible {
        let mut visible = Visible::new();
        for (subtask, n) in self.0.committed() {
            visible.entry(subtask).or_default().push(n);
        }
        visible
    }
}

#[test]
fn the_sink_shows_each_epoch_once() {
    check_sink::<Case>();
}

#[test]
fn repeated_commits_are_counted_and_change_nothing() {
    let sink = MemorySink::new();
    let cx = crate::testing::connector_contexts::sink_context(Arc::new(MemoryFiles::new()));
    let mut writer = sink.open(&cx).unwrap();
    writer.write("a".to_owned(), Time(0)).unwrap();
    let mut sealed = writer.seal(CheckpointId(1)).unwrap();
    let committer = sink.committer(&cx).unwrap();
    let tokens = committer.prepare(&mut sealed).unwrap();
    assert!(sink.committed().is_empty());
    committer.commit(&tokens[0]).unwrap();
    assert_eq!((sink.committed(), sink.repeated_commits()), (vec!["a".to_owned()], 0));
    committer.commit(&tokens[0]).unwrap();
    assert_eq!((sink.committed(), sink.repeated_commits()), (vec!["a".to_owned()], 1));
}
