//! The file sink in a bucket, as a case of the suite: some attempts begin in a fresh process, others in that of the attempt before.

use super::{SinkCase, Visible};
use crate::connector::FileSink;
use crate::connector::LineFormat;
use crate::io::place_files::PlaceFiles;
use crate::io::{Files, ReadFile};
use crate::testing::hindered_files::HinderedFiles;
use crate::testing::memory_files::MemoryFiles;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A prefix of a bucket, with nothing in it.
pub trait Bucket: 'static {
    /// A new one.
    fn new() -> Self;
    /// Its URL.
    fn url(&self) -> String;
    /// What a fresh process has.
    fn files(&self) -> PlaceFiles;
}

/// Lines in a prefix of a bucket: two parts are full in each epoch.
pub struct LinesInBucket<B> {
    bucket: B,
    number: u64,
    process: Mutex<Process>,
    reader: PlaceFiles,
}

/// The process of an attempt.
struct Process {
    attempt: u64,
    files: Arc<PlaceFiles>,
    /// What committed parts hold, as they were read in this attempt.
    read: BTreeMap<String, Vec<u8>>,
}

impl<B: Bucket> LinesInBucket<B> {
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Bucket> SinkCase for LinesInBucket<B> {
    type Record = String;
    type Sink = FileSink<LineFormat>;
    const SEVERAL_TOKENS: bool = true;

    fn new() -> Self {
        static CASES: AtomicU64 = AtomicU64::new(0);
        let bucket = B::new();
        let process = Process { attempt: 0, files: Arc::new(bucket.files()), read: BTreeMap::new() };
        let (number, reader) = (CASES.fetch_add(1, Ordering::Relaxed), bucket.files());
        LinesInBucket { bucket, number, process: Mutex::new(process), reader }
    }

    fn sink(&self) -> Self::Sink {
        FileSink::lines(self.bucket.url()).max_part_size(8)
    }

    fn record(&self, subtask: u16, n: u64) -> String {
        format!("{subtask} {n}")
    }

    fn files(&self, hook: &MemoryFiles, attempt: u64) -> Arc<dyn Files> {
        let mut process = self.process();
        if process.attempt != attempt {
            process.attempt = attempt;
            process.read.clear();
            if (self.number + attempt).is_multiple_of(2) {
                process.files = Arc::new(self.bucket.files());
            }
            assert_eq!(process.files.held(), 0, "an attempt that has ended holds files that nobody will upload");
        }
        Arc::new(HinderedFiles::new(hook, Arc::clone(&process.files) as Arc<dyn Files>))
    }

    fn visible(&self, _: &MemoryFiles) -> Visible {
        let (mut process, directory) = (self.process(), self.bucket.url());
        let names = self.reader.list(Path::new(&directory)).expect("listed");
        let mut parts: Vec<String> = names.into_iter().filter(|name| name.starts_with("part-")).collect();
        // A name holds the checkpoint, the subtask and the number, in this order.
        parts.sort_unstable();
        let mut visible = Visible::new();
        for name in parts {
            let bytes = process.read.entry(name).or_insert_with_key(|name| {
                whole(&mut *self.reader.open(&Path::new(&directory).join(name)).expect("a committed part is there"))
            });
            let text = std::str::from_utf8(bytes).expect("a committed part is never torn");
            for line in text.lines() {
                let (subtask, n) = line.split_once(' ').expect("a committed part holds whole lines");
                let (subtask, n) = (subtask.parse().expect("a number"), n.parse().expect("a number"));
                visible.entry(subtask).or_default().push(n);
            }
        }
        visible
    }
}

fn whole(file: &mut dyn ReadFile) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        match file.read_at(bytes.len() as u64, &mut piece).expect("read") {
            0 => return bytes,
            read => bytes.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
}
