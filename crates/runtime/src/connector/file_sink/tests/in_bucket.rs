//! The conformance suite over a bucket in memory, and what attempts that have ended give back.

use super::*;
use crate::io::Files;
use crate::io::place_files::PlaceFiles;
use crate::io::storage::StorageServer;
use crate::sink::SinkWriter;
use crate::testing::sink_suite::{Bucket, LinesInBucket, check_part_of_sink};

struct InMemory(StorageServer);

impl Bucket for InMemory {
    fn new() -> Self {
        InMemory(StorageServer::in_memory())
    }
    fn url(&self) -> String {
        "s3://b/out".to_owned()
    }
    fn files(&self) -> PlaceFiles {
        PlaceFiles::with_bucket("s3://b", self.0.clone())
    }
}

#[test]
fn objects_are_committed_exactly_once_whatever_fails() {
    check_part_of_sink::<LinesInBucket<InMemory>>(4, 25);
}

/// What a process has open below a directory, also if it has no name any more: files and bytes.
#[cfg(target_os = "linux")]
fn open_below(directory: &std::path::Path) -> (usize, u64) {
    let links = std::fs::read_dir("/proc/self/fd").expect("Linux has it").flatten().map(|entry| entry.path());
    let ours = links.filter(|link| std::fs::read_link(link).is_ok_and(|to| to.starts_with(directory)));
    let lengths: Vec<u64> = ours.filter_map(|link| std::fs::metadata(link).ok()).map(|file| file.len()).collect();
    (lengths.len(), lengths.iter().sum())
}

#[cfg(target_os = "linux")]
#[test]
fn attempts_that_have_ended_hold_no_files_however_many_there_were() {
    let spool = tempfile::tempdir().expect("a directory");
    let files = Arc::new(PlaceFiles::spooling_in(spool.path(), "s3://b", StorageServer::in_memory()));
    let sink = FileSink::lines("s3://b/out").max_part_size(100 << 10);
    for attempt in 1..=20 {
        let context = crate::sink::SinkContext {
            attempt: AttemptId(attempt),
            ..sink_context(Arc::clone(&files) as Arc<dyn Files>)
        };
        let committer = Sink::<String>::committer(&sink, &context).expect("transactional");
        let mut writer = Sink::<String>::open(&sink, &context).expect("opened");
        let mut write = |count| (0..count).for_each(|_| writer.write("x".repeat(70 << 10), Time(1)).expect("written"));
        // One epoch is uploaded, one is sealed, of one a part is full and one is open.
        write(3);
        let mut uploaded = SinkWriter::<String>::seal(&mut writer, CheckpointId(1)).expect("something to seal");
        assert_eq!(committer.prepare(&mut uploaded).expect("uploaded").len(), 2);
        drop(uploaded);
        assert_eq!((files.held(), open_below(spool.path())), (0, (0, 0)), "attempt {attempt}");
        let mut write = |count| (0..count).for_each(|_| writer.write("x".repeat(70 << 10), Time(1)).expect("written"));
        write(3);
        let sealed = SinkWriter::<String>::seal(&mut writer, CheckpointId(2)).expect("something to seal");
        let mut write = |count| (0..count).for_each(|_| writer.write("x".repeat(70 << 10), Time(1)).expect("written"));
        write(3);
        let (open, bytes) = open_below(spool.path());
        assert!(files.held() == 4 && open >= 2 && bytes > 100 << 10, "{open} files of {bytes} bytes are open");
        drop((writer, sealed));
        assert_eq!(
            (files.held(), open_below(spool.path())),
            (0, (0, 0)),
            "attempt {attempt} holds what nobody uploads"
        );
    }
}
