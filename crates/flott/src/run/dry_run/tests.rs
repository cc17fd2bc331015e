//! A dry run meets what a start would meet, entry by entry and with the exit codes of a start, and writes not a byte.

use super::*;
use crate::prelude::*;
use crate::{Ended, ErrorKind, State};
use flott_runtime::sink::{Committer, Sink};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A sink that may not be opened, unless it may.
struct Guarded {
    sink: MemorySink<u64>,
    may_open: bool,
}

impl Sink<u64> for Guarded {
    type Writer = <MemorySink<u64> as Sink<u64>>::Writer;

    fn open(&self, cx: &SinkContext) -> Result<Self::Writer> {
        assert!(self.may_open, "a sink was opened");
        self.sink.open(cx)
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        self.sink.committer(cx)
    }

    fn is_transactional(&self) -> bool {
        true
    }
}

fn job<S: State>(
    directory: &Path,
    may_open: bool,
    state: S,
    keep: impl for<'a> Fn(S::At<'a, u64>, u64) + Send + Sync + 'static,
) -> Job {
    let job = Job::new("looked-at");
    job.workers(2).checkpoint_interval(Duration::from_millis(10)).checkpoint_dir(directory.display().to_string());
    job.source("numbers", MemorySource::new((0..20_000u64).collect()))
        .throttle(20_000)
        .process_with_list(
            "wait",
            SplitList::<u64>::named("waiting"),
            |mut waiting, n, out| {
                waiting.push(n);
                if waiting.len() > 3 {
                    waiting.take().into_iter().for_each(|n| out.emit(n));
                }
                Ok(())
            },
            |_, _| Ok(()),
        )
        .key_by(|n| n % 50)
        .process("keep", state, move |state, n, out| {
            keep(state, n);
            out.emit(n);
            Ok(())
        })
        .sink("out", Guarded { sink: MemorySink::new(), may_open });
    job
}

fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// A job that was stopped after some increments.
fn stopped(directory: &Path) {
    let kept = Map::<u64, u64>::named("kept");
    let handle = job(directory, true, kept, |mut kept, n| kept.insert(n % 4, n)).spawn().unwrap();
    while handle.status().completed_checkpoints < 4 {
        assert!(handle.wait_for(Duration::from_millis(2)).is_none(), "it ended before");
    }
    handle.stop();
    assert_eq!(handle.wait().unwrap().ended, Ended::Stopped);
}

fn look(job: &Job, workers: u16) -> Result<Option<Found>> {
    let settings = Settings { workers: Some(workers), ..Settings::default() };
    dry_run(&job.freeze()?, &settings.over(job.settings.borrow().clone()))
}

#[test]
fn every_entry_is_decoded_for_any_number_of_workers_and_nothing_is_opened_or_written() {
    let directory = tempfile::tempdir().unwrap();
    stopped(directory.path());
    let before = content(directory.path());
    for workers in [1, 2, 5] {
        let same = job(directory.path(), false, Map::<u64, u64>::named("kept"), |_, _| ());
        let found = look(&same, workers).unwrap().expect("there is a checkpoint");
        assert!(found.lines().iter().any(|line| line.contains("every entry fits")), "{:?}", found.lines());
        let other = job(directory.path(), false, Map::<u64, (u64, u64)>::named("kept"), |_, _| ());
        let error = look(&other, workers).err().expect("another type");
        assert_eq!((error.kind(), error.kind().exit_code()), (ErrorKind::Unusable, 4));
        let said = error.to_string();
        for part in ["`keep`", "keep/kept", "the entry of key", "map<u64,u64>", "map<u64,(u64,u64)>"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert!(content(directory.path()) == before, "a dry run has written something");
}
